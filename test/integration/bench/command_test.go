// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/report"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	// program is the binary.
	program = "kubectl-berth"
	// timeout is how long a benchmark may take on a busy machine; alone it needs a
	// tenth.
	timeout = 4 * time.Minute

	exitOK, exitFailed, exitUsage, exitNoRoundCounts, exitInterrupted = 0, 1, 2, 4, 130
)

// startCommand starts kubectl-berth bench with a temporary folder of its own.
func startCommand(t *testing.T, args ...string) (command *framework.Process, temporary string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane: skipped under -short")
	}
	temporary = t.TempDir()
	t.Setenv("TMPDIR", temporary)
	return framework.StartProcess(t, filepath.Join(binDir(t), program), append([]string{"bench"}, args...)...), temporary
}

// runCommand runs it to its end and returns what it printed.
func runCommand(t *testing.T, wantCode int, args ...string) string {
	t.Helper()
	command, temporary := startCommand(t, args...)
	if code := command.Wait(t, timeout); code != wantCode {
		t.Errorf("exit code %d, want %d:\n%s", code, wantCode, command.Output())
	}
	framework.CheckGone(t, temporary)
	return command.Output()
}

// measure runs a benchmark whose rounds must count. It skips the rest of the test if
// they do not because the machine is too busy.
func measure(t *testing.T, args ...string) string {
	t.Helper()
	command, temporary := startCommand(t, args...)
	code := command.Wait(t, timeout)
	framework.CheckGone(t, temporary)
	output := command.Output()
	if code == exitNoRoundCounts && strings.Contains(output, "cannot keep up") {
		t.Skipf("the machine is too busy to measure anything:\n%s", output)
	}
	if code != exitOK {
		t.Errorf("exit code %d, want %d:\n%s", code, exitOK, output)
	}
	return output
}

// checkClean fails the test if anything of a benchmark is left in a cluster.
func checkClean(t *testing.T, c *framework.Cluster) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context()) // it may be called as a cleanup
	nodes, err := c.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes.Items {
		if name := nodes.Items[i].Name; strings.HasPrefix(name, names.BenchPrefix) {
			t.Errorf("node %s is left", name)
		}
	}
	namespaces, err := c.Client.CoreV1().Namespaces().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range namespaces.Items {
		if name := namespaces.Items[i].Name; strings.HasPrefix(name, names.BenchPrefix) {
			t.Errorf("namespace %s is left", name)
		}
	}
}

// readReport reads the report of --out.
func readReport(t *testing.T, dir string) *report.Report {
	t.Helper()
	page, err := os.Stat(filepath.Join(dir, "report.html"))
	if err != nil || page.Size() == 0 {
		t.Errorf("report.html: %v", err)
	}
	file, err := os.Open(filepath.Join(dir, "report.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := report.ReadJSON(file)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// want fails the test where a text is not in the output.
func want(t *testing.T, output string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(output, text) {
			t.Errorf("no %q in the output:\n%s", text, output)
		}
	}
}

// TestRefuses: what cannot work is refused before anything is started, with the
// exit code and the way out.
func TestRefuses(t *testing.T) {
	invalid := filepath.Join(t.TempDir(), "invalid.yaml")
	content, err := os.ReadFile("testdata/churn.yaml")
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.Replace(content, []byte("count: 24"), []byte("count: -1"), 1)
	if err := os.WriteFile(invalid, content, 0o600); err != nil {
		t.Fatal(err)
	}
	notADir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(notADir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	churn, err := filepath.Abs("testdata/churn.yaml")
	if err != nil {
		t.Fatal(err)
	}
	unreachable := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(unreachable, []byte(`{"apiVersion":"v1","kind":"Config","current-context":"c",
"clusters":[{"name":"c","cluster":{"server":"https://127.0.0.1:1"}}],"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],"users":[{"name":"u","user":{}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name     string
		args     []string
		wantCode int
		want     []string
	}{
		{"an invalid workload", []string{"-f", invalid, "--schedulers", "random-scheduler"}, exitUsage, []string{invalid, "spec.pods[0].count", "-1"}},
		{"a workload that is not there", []string{"-f", "none.yaml", "--schedulers", "random-scheduler"}, exitUsage, []string{"none.yaml", "no such file"}},
		{"a scheduler without profile", []string{"-f", churn, "--schedulers", "mine"}, exitUsage, []string{"mine: the profile cannot be used: it needs one: use --config mine=PROFILE.yaml"}},
		{"a name twice", []string{"-f", churn, "--schedulers", "random-scheduler,random-scheduler"}, exitUsage, []string{"--schedulers: random-scheduler is given more than once"}},
		{"no rounds", []string{"-f", churn, "--schedulers", "random-scheduler", "--rounds", "0"}, exitUsage, []string{"--rounds: 0 must be from 1 to 100"}},
		{"a flag for another place", []string{"-f", churn, "--schedulers", "random-scheduler", "--shares", "random-scheduler"}, exitUsage, []string{"--shares: only with --kubeconfig"}},
		{"a binary that is missing", []string{"-f", churn, "--schedulers", "random-scheduler", "--bin-dir", t.TempDir()}, exitFailed, []string{"random-scheduler: no random-scheduler in ", "--bin-dir"}},
		{"a folder that is a file", []string{"-f", churn, "--schedulers", "random-scheduler", "--out", notADir}, exitFailed, []string{"--out: ", notADir}},
		{"a cluster that cannot be reached", []string{"-f", churn, "--schedulers", "random-scheduler", "--kubeconfig", unreachable}, exitFailed, []string{"https://127.0.0.1:1", "connection refused"}},
		{"a kubeconfig that is not there", []string{"-f", churn, "--schedulers", "random-scheduler", "--kubeconfig", "none"}, exitFailed, []string{"--kubeconfig none: "}},
		{"a run to clean that is none", []string{"clean", "--run", "x"}, exitUsage, []string{"--run: "}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want(t, runCommand(t, tt.wantCode, tt.args...), tt.want...)
		})
	}
}

// TestFullDisk: a disk without room for the report is found before anything starts.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("mounting a tmpfs needs rights that this process does not have: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmounting %s: %v", dir, err)
		}
	})
	out := filepath.Join(dir, "report")
	output := runCommand(t, exitFailed, "-f", "config/bench/smoke.yaml", "--schedulers", "default-scheduler", "--out", out)
	want(t, output, "--out: ", out, "no space left on device")
	if strings.Contains(output, "starting a control plane") {
		t.Errorf("a control plane was started:\n%s", output)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) > 0 {
		t.Errorf("%s is left", entries[0].Name())
	}
}

// TestCommand runs schedulers on a control plane of the command's own. What they come
// to is TestMeasures' subject.
func TestCommand(t *testing.T) {
	out := filepath.Join(t.TempDir(), "new", "report")
	output := measure(t, "-f", "test/integration/bench/testdata/small.yaml", "--schedulers", "berth-scheduler,bare-binder", "--out", out)
	want(t, output, "berth-scheduler", "bare-binder", "Steady")
	r := readReport(t, out)
	if r.Environment.Cluster != "local" || r.Environment.ClientQPS != 5000 || r.Environment.Kubernetes == "" {
		t.Errorf("the environment is %+v", r.Environment)
	}
	for i := range r.Schedulers {
		s := &r.Schedulers[i]
		if len(s.Rounds) != 2 || s.Rounds[0].Phase != report.PhaseAsPlanned || s.Rounds[1].Phase != report.PhaseSteady {
			t.Errorf("%s has the rounds %+v, want one as planned and a steady one", s.Name, s.Rounds)
			continue
		}
		planned, steady := &s.Rounds[0], &s.Rounds[1]
		if got, want := steady.TargetRate, 0.8*planned.Metrics[report.Throughput]; got != want {
			t.Errorf("%s: the steady rate is %v, want %v", s.Name, got, want)
		}
		if steady.StartSeconds <= planned.StartSeconds {
			t.Errorf("%s: the steady round begins at %v s, the one as planned at %v s", s.Name, steady.StartSeconds, planned.StartSeconds)
		}
	}
	if berth := &r.Schedulers[0]; berth.ProfileSHA256 == "" || !strings.Contains(berth.Version, "berth-scheduler") {
		t.Errorf("%s: profile %q, version %q", berth.Name, berth.ProfileSHA256, berth.Version)
	}
}

// TestInterrupted: Ctrl-C stops the schedulers and the control plane, and the complete
// rounds are in the report.
func TestInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name, at string
		full     bool
	}{
		{"while the control plane starts", "starting a control plane", false},
		{"in a later round", "round 3 of 9, bare-binder: starting", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "report")
			command, temporary := startCommand(t, "-f", "test/integration/bench/testdata/churn.yaml", "--schedulers", "bare-binder", "--rounds", "9", "--out", out)
			interrupt(t, command, tt.at)
			framework.CheckGone(t, temporary)
			if !tt.full {
				wantNoFolder(t, out)
				return
			}
			r := readReport(t, out)
			if got := len(r.Schedulers[0].Rounds); got != 2 {
				t.Errorf("the report has %d rounds, want the 2 that were complete", got)
			}
			want(t, strings.Join(r.Schedulers[0].Notes, "\n"), "is incomplete: 2 of 9 rounds finished")
		})
	}
}

// interrupt sends Ctrl-C to a benchmark that has got so far, and waits for its end.
func interrupt(t *testing.T, command *framework.Process, at string) {
	t.Helper()
	command.WaitForOutput(t, timeout, at)
	command.Signal(syscall.SIGINT)
	if code := command.Wait(t, timeout); code != exitInterrupted {
		t.Errorf("exit code %d, want %d:\n%s", code, exitInterrupted, command.Output())
	}
}

func wantNoFolder(t *testing.T, out string) {
	t.Helper()
	if _, err := os.Stat(out); err == nil {
		t.Error("a folder is left, and nothing was measured")
	}
}

// TestSchedulerDies: the end of its log is told, and what was measured is written.
func TestSchedulerDies(t *testing.T) {
	out := filepath.Join(t.TempDir(), "report")
	command, temporary := startCommand(t, "-f", "test/integration/bench/testdata/churn.yaml", "--schedulers", "random-scheduler", "--rounds", "3", "--out", out)
	command.WaitForOutput(t, timeout, "round 2 of 3, random-scheduler\n")
	killed := 0
	for pid, commandLine := range framework.Processes(t) {
		if strings.Contains(commandLine, temporary) && strings.Contains(commandLine, "/random-scheduler\x00") {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	if killed != 1 {
		t.Errorf("%d schedulers were killed, want 1", killed)
	}
	if code := command.Wait(t, timeout); code != exitFailed {
		t.Errorf("exit code %d, want %d:\n%s", code, exitFailed, command.Output())
	}
	want(t, command.Output(), "round 2 of 3, random-scheduler: random-scheduler ended unexpectedly (signal: killed); the end of its log ")
	framework.CheckGone(t, temporary)
	if r := readReport(t, out); len(r.Schedulers) != 2 || len(r.Schedulers[0].Rounds) != 1 {
		t.Errorf("the report has %+v, want one round of each", r.Schedulers)
	}
}

// TestExistingCluster runs on a cluster with schedulers that run already.
func TestExistingCluster(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 2})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	t.Run("measured", func(t *testing.T) {
		out := t.TempDir()
		t.Cleanup(func() { checkClean(t, c) })
		measure(t, "-f", "test/integration/bench/testdata/small.yaml", "--kubeconfig", c.Kubeconfig, "--schedulers", corev1.DefaultSchedulerName+",bare-binder", "--steady-rounds", "0", "--out", out)
		r := readReport(t, out)
		if r.Environment.Cluster != c.Server() {
			t.Errorf("the cluster is %q, want %q", r.Environment.Cluster, c.Server())
		}
		metrics := r.Schedulers[0].Rounds[0].Metrics
		if metrics[report.GPUHeld] != 100 || metrics[report.Unplaced] != 2 {
			t.Errorf("metrics %v, want 100 %% of the devices held and 2 pods without", metrics)
		}
		for _, key := range []string{report.WritesPerPod, report.CPUMillisPerPod, report.MemoryMiB} {
			if value, known := metrics[key]; known {
				t.Errorf("%s is %v, and cannot be seen", key, value)
			}
		}
	})
	t.Run("interrupted in the first round", func(t *testing.T) {
		out := filepath.Join(t.TempDir(), "report")
		command, temporary := startCommand(t, "-f", "config/bench/smoke.yaml", "--kubeconfig", c.Kubeconfig, "--schedulers", corev1.DefaultSchedulerName, "--rounds", "9", "--out", out)
		interrupt(t, command, "round 1 of 9, default-scheduler: starting")
		framework.CheckGone(t, temporary)
		wantNoFolder(t, out)
		checkClean(t, c)
	})
	t.Run("nobody reads on", func(t *testing.T) {
		out := t.TempDir()
		read, write, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer read.Close()
		command := exec.CommandContext(t.Context(), filepath.Join(binDir(t), program), "bench", "-f", "test/integration/bench/testdata/churn.yaml",
			"--kubeconfig", c.Kubeconfig, "--schedulers", corev1.DefaultSchedulerName, "--rounds", "1", "--steady-rounds", "0", "--out", out)
		command.Dir, command.Stdout, command.Stderr = framework.Root(), write, write
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		write.Close()
		lines := bufio.NewScanner(read)
		for lines.Scan() {
			if strings.Contains(lines.Text(), "round 1 of 1") {
				break
			}
		}
		read.Close() // as head does
		_ = command.Wait()
		if code := command.ProcessState.ExitCode(); code != exitFailed {
			t.Errorf("exit code %d, want %d: the report could not be printed", code, exitFailed)
		}
		checkClean(t, c)
		readReport(t, out)
	})
	t.Run("interrupted twice without API server", func(t *testing.T) { interruptedTwice(t, c) })
}

// interruptedTwice stops a benchmark that is being prepared, and then the wait for an
// API server that has gone: the command that is printed removes what is left.
func interruptedTwice(t *testing.T, c *framework.Cluster) {
	kubeconfig := filepath.Join(t.TempDir(), "my cluster")
	content, err := os.ReadFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(kubeconfig, content, 0o600); err != nil {
		t.Fatal(err)
	}
	// It waits for kwok, and then it has a namespace and a node.
	if err := c.KillComponent(localcluster.Kwok); err != nil {
		t.Fatal(err)
	}
	command, _ := startCommand(t, "-f", "config/bench/smoke.yaml", "--kubeconfig", kubeconfig, "--schedulers", corev1.DefaultSchedulerName)
	var node string
	framework.WaitForCondition(t, framework.WaitTimeout, "the fake node", func() (bool, error) {
		nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: names.BenchLabel})
		if err != nil || len(nodes.Items) == 0 {
			return false, err
		}
		node = nodes.Items[0].Name
		return true, nil
	})
	if err := c.KillComponent(localcluster.APIServer); err != nil {
		t.Fatal(err)
	}
	command.Signal(syscall.SIGINT)
	command.WaitForOutput(t, timeout, "stopping and cleaning up")
	command.Signal(syscall.SIGINT)
	if code := command.Wait(t, timeout); code != exitFailed {
		t.Errorf("exit code %d, want %d: something is left", code, exitFailed)
	}
	run, _, _ := strings.Cut(strings.TrimPrefix(node, names.BenchPrefix), "-")
	want(t, command.Output(), "interrupted: run "+run+" left objects in the cluster at", "kubectl berth bench clean --run "+run+" --kubeconfig '"+kubeconfig+"'\n")
	if got := strings.Count(command.Output(), "bench clean"); got != 1 {
		t.Errorf("%d commands are printed, want one:\n%s", got, command.Output())
	}
	for _, component := range []localcluster.Component{localcluster.APIServer, localcluster.Kwok} {
		if err := c.RestartComponent(t.Context(), component); err != nil {
			t.Fatal(err)
		}
	}
	runCommand(t, exitOK, "clean", "--run", run, "--kubeconfig", kubeconfig)
	checkClean(t, c)
}
