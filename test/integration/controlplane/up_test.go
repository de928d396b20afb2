// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// startTimeout is how long "berth-local up" may take on a busy machine.
const startTimeout = 2 * time.Minute

// readyLine is the one line that "up" prints on standard output.
var readyLine = regexp.MustCompile(`^berth-local ready: server (\S+), kubeconfig (\S+), data (\S+), nodes (\d+)\n$`)

// local is a running "berth-local up".
type local struct {
	*framework.Process
	// server, kubeconfig, dataDir and nodes are what the ready line says.
	server, kubeconfig, dataDir, nodes string
	// stderr is the file with its standard error.
	stderr string
}

// launch starts "berth-local up" with a kubeconfig of the test and returns at
// once. Its output is standard output alone.
func launch(t *testing.T, args ...string) *local {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane: skipped under -short")
	}
	dir := t.TempDir()
	l := &local{kubeconfig: filepath.Join(dir, "kubeconfig"), stderr: filepath.Join(dir, "stderr")}
	args = append([]string{
		"-c", `exec "$0" "$@" 2>"` + l.stderr + `"`,
		framework.Binary(t, framework.BerthLocal), "up", "--kubeconfig=" + l.kubeconfig,
	}, args...)
	l.Process = framework.StartProcess(t, "/bin/sh", args...)
	return l
}

// up starts "berth-local up" and waits for its ready line.
func up(t *testing.T, args ...string) *local {
	t.Helper()
	l := launch(t, args...)
	framework.WaitForCondition(t, startTimeout, "the ready line", func() (bool, error) {
		if !l.Running() {
			t.Fatalf("berth-local ended before it was ready:\n%s", l.errors(t))
		}
		return strings.HasSuffix(l.Output(), "\n"), nil
	})
	fields := readyLine.FindStringSubmatch(l.Output())
	if fields == nil {
		t.Fatalf("standard output is not one ready line:\n%s", l.Output())
	}
	if fields[2] != l.kubeconfig {
		t.Errorf("kubeconfig in the ready line: want %s, got %s", l.kubeconfig, fields[2])
	}
	l.server, l.dataDir, l.nodes = fields[1], fields[3], fields[4]
	return l
}

// errors returns what the process has written to standard error.
func (l *local) errors(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(l.stderr)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// components returns the process ids of the components that run in a folder, as
// the kernel sees them: by the folder's name on their command line.
func components(t *testing.T, dataDir string) map[string]int {
	t.Helper()
	found := map[string]int{}
	for pid, commandLine := range framework.Processes(t) {
		args := strings.Split(commandLine, "\x00")
		if len(args) >= 4 && args[1] == "component" && strings.Contains(strings.Join(args[3:], " "), dataDir) {
			found[args[2]] = pid
		}
	}
	return found
}

func wantNoComponents(t *testing.T, dataDir string) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "every component to be gone", func() (bool, error) {
		left := components(t, dataDir)
		return len(left) == 0, fmt.Errorf("still there: %v", left)
	})
}

func wantAbsent(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s: want it to be gone, got %v", path, err)
	}
}

// TestUpStopsCleanly sends SIGTERM again and again, as timeout sends it to a process and to
// its group.
func TestUpStopsCleanly(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	l := up(t, "--nodes=2", "--feature-gates=GenericWorkload=true", "--runtime-config="+compat.PodGroups+"=true")
	if want := "2"; l.nodes != want {
		t.Errorf("nodes in the ready line: want %s, got %s", want, l.nodes)
	}
	running := components(t, l.dataDir)
	for _, name := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kwok"} {
		if running[name] == 0 {
			t.Errorf("no process for %s: %v", name, running)
		}
	}
	served := framework.StartProcess(t, framework.KubectlBinary, "--kubeconfig="+l.kubeconfig, "get", "podgroups", "--all-namespaces")
	served.WaitForOutput(t, framework.WaitTimeout, "No resources found")
	// An open watch must not hold up the API server.
	watch := framework.StartProcess(t, framework.KubectlBinary, "--kubeconfig="+l.kubeconfig, "get", "nodes", "--watch")
	watch.WaitForOutput(t, framework.WaitTimeout, "node-1")
	l.Signal(syscall.SIGTERM)
	framework.WaitForCondition(t, framework.WaitTimeout, "the stop to begin", func() (bool, error) {
		return strings.Contains(l.errors(t), "stopping"), nil
	})
	for l.Running() {
		l.Signal(syscall.SIGTERM)
	}
	if code := l.Wait(t, framework.WaitTimeout); code != 0 {
		t.Errorf("exit code after SIGTERM: want 0, got %d:\n%s", code, l.errors(t))
	}
	if left := components(t, l.dataDir); len(left) != 0 {
		t.Errorf("components left: %v", left)
	}
	wantAbsent(t, l.dataDir)
	wantAbsent(t, l.kubeconfig)
	empty(t, temporary)
	if !readyLine.MatchString(l.Output()) {
		t.Errorf("standard output is not one ready line:\n%s", l.Output())
	}
}

func TestUpStoppedWhileStarting(t *testing.T) {
	for signal, kept := range map[syscall.Signal]bool{syscall.SIGTERM: false, syscall.SIGINT: true} {
		t.Run(fmt.Sprintf("%v, kept folder=%v", signal, kept), func(t *testing.T) {
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			// The component's command lines name the folder, or the one that it is in.
			dir, args := temporary, []string{"--nodes=2"}
			if kept {
				dir = filepath.Join(t.TempDir(), "data")
				args = append(args, "--data-dir="+dir)
			}
			l := launch(t, args...)
			framework.WaitForCondition(t, startTimeout, "the API server's process", func() (bool, error) {
				return components(t, dir)["kube-apiserver"] != 0, nil
			})
			l.Signal(signal)
			if code := l.Wait(t, framework.WaitTimeout); code != 0 {
				t.Errorf("exit code: want 0, got %d:\n%s", code, l.errors(t))
			}
			if want := "stopped before the control plane was ready"; !strings.Contains(l.errors(t), want) {
				t.Errorf("standard error: want it to contain %q, got:\n%s", want, l.errors(t))
			}
			if left := components(t, dir); len(left) != 0 {
				t.Errorf("components left: %v", left)
			}
			if l.Output() != "" {
				t.Errorf("standard output: want no ready line, got %q", l.Output())
			}
			empty(t, temporary)
			wantAbsent(t, l.kubeconfig)
			if kept {
				if _, err := os.Stat(filepath.Join(dir, "logs", "etcd.log")); err != nil {
					t.Errorf("a kept folder stays: %v", err)
				}
			}
		})
	}
}

func TestComponentThatDiesIsReported(t *testing.T) {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		t.Run(name, func(t *testing.T) {
			l := up(t, "--data-dir="+filepath.Join(t.TempDir(), "data"))
			if err := syscall.Kill(components(t, l.dataDir)[name], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if code := l.Wait(t, framework.WaitTimeout); code != 1 {
				t.Errorf("exit code: want 1, got %d", code)
			}
			message := l.errors(t)
			for _, want := range []string{name + " ended unexpectedly (signal: killed)", filepath.Join(l.dataDir, "logs", name+".log")} {
				if !strings.Contains(message, want) {
					t.Errorf("standard error: want it to contain %q, got:\n%s", want, message)
				}
			}
			if left := components(t, l.dataDir); len(left) != 0 {
				t.Errorf("components left: %v", left)
			}
		})
	}
}

// lines returns the sorted lines of kubectl's output.
func lines(output string) []string {
	all := strings.Fields(output)
	slices.Sort(all)
	return all
}
