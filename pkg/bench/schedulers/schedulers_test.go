// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/yaml"
)

// page is a page of a scheduler's metrics, with what a Sample does not count.
const page = `# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 12.5
# TYPE process_resident_memory_bytes gauge
process_resident_memory_bytes 1.048576e+06
# TYPE rest_client_requests_total counter
rest_client_requests_total{code="200",host="h",method="GET"} 100
rest_client_requests_total{code="201",host="h",method="POST"} 20
rest_client_requests_total{code="409",host="h",method="POST"} 1
rest_client_requests_total{code="200",host="h",method="PATCH"} 4
rest_client_requests_total{code="200",host="h",method="PUT"} 3
rest_client_requests_total{code="200",host="h",method="DELETE"} 2
# TYPE rest_client_rate_limiter_duration_seconds histogram
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="POST",le="0.005"} 15
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="POST",le="0.025"} 18
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="POST",le="0.1"} 21
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="POST",le="+Inf"} 21
rest_client_rate_limiter_duration_seconds_sum{host="h",verb="POST"} 1
rest_client_rate_limiter_duration_seconds_count{host="h",verb="POST"} 21
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="GET",le="0.005"} 99
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="GET",le="0.025"} 99
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="GET",le="0.1"} 99
rest_client_rate_limiter_duration_seconds_bucket{host="h",verb="GET",le="+Inf"} 100
rest_client_rate_limiter_duration_seconds_sum{host="h",verb="GET"} 9
rest_client_rate_limiter_duration_seconds_count{host="h",verb="GET"} 100
`

func TestParseSample(t *testing.T) {
	got, err := parseSample(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	want := &Sample{Writes: 30, Requests: 121, Delayed: 4, CPUSeconds: 12.5, MemoryBytes: 1 << 20}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	for _, metric := range []string{requestsMetric, waitsMetric, cpuMetric, memoryMetric} {
		if _, err := parseSample(strings.NewReader(strings.ReplaceAll(page, metric, "renamed"))); err == nil || !strings.Contains(err.Error(), metric) {
			t.Errorf("a page without %s: error %v", metric, err)
		}
	}
	if _, err := parseSample(strings.NewReader("<html>")); err == nil {
		t.Error("a page that is none passes")
	}
}

func TestPeakMemory(t *testing.T) {
	got, known := peakMemory(os.Getpid())
	if !known {
		t.Skip("this system does not tell the memory of a process")
	}
	if got < 1<<20 || got > 1<<40 {
		t.Errorf("this process has used %v bytes", got)
	}
	if _, known := peakMemory(-1); known {
		t.Error("a process that cannot be has used memory")
	}
}

func TestRBACErrors(t *testing.T) {
	log := "I1 started\nE1 pods is Forbidden: User x\nE2 cannot list resource\nE3 forbidden\nE4 forbidden\n"
	want := []string{"E1 pods is Forbidden: User x", "E2 cannot list resource", "E3 forbidden"}
	if diff := cmp.Diff(want, rbacErrorsIn([]byte(log))); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if got := rbacErrorsIn([]byte("I1 started\n")); len(got) > 0 {
		t.Errorf("rbacErrors of a quiet log: %q", got)
	}
}

// write writes a file and returns its path.
func write(t *testing.T, name, content string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	header = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nclientConnection: {qps: 7, acceptContentTypes: application/json}\nleaderElection: {resourceNamespace: berth-system, resourceName: mine}\n"
	one    = header + "profiles: [{schedulerName: own}]\n"
	two    = header + "profiles: [{schedulerName: own}, {schedulerName: other}]\n"
)

func TestFind(t *testing.T) {
	binaries := filepath.Dir(write(t, berthBinary, "#!/bin/sh\necho version of berth\n", 0o700))
	gpu := "../../../config/berth-scheduler/gpu.yaml"
	tests := []struct {
		name, scheduler, profile, want string
		profileError                   bool
	}{
		{name: "the only profile, under another name", scheduler: "mine", profile: write(t, "one.yaml", one, 0o600)},
		{name: "one of two, by its name", scheduler: "other", profile: write(t, "two.yaml", two, 0o600)},
		{name: "none of two", scheduler: "mine", profile: write(t, "two.yaml", two, 0o600), want: "keep one of own, other,", profileError: true},
		{name: "no profile", scheduler: "mine", want: "it needs one: use --config mine=PROFILE.yaml", profileError: true},
		{name: "no file", scheduler: "mine", profile: "none.yaml", want: "none.yaml: no such file", profileError: true},
		{name: "a field that is unknown", scheduler: "mine", profile: write(t, "x.yaml", one+"colour: red\n", 0o600), want: "colour", profileError: true},
		{name: "a profile for who takes none", scheduler: "random-scheduler", profile: gpu, want: "this scheduler takes no profile", profileError: true},
		{name: "a profile for no scheduler", scheduler: BareBinderName, profile: gpu, want: "this scheduler takes no profile", profileError: true},
		{name: "no binary", scheduler: "random-scheduler", want: "no random-scheduler in "},
		{name: "a name that is none", scheduler: "A", want: `"A" is not a valid scheduler name`},
		{name: "the bare binder", scheduler: BareBinderName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec, err := Find(t.Context(), tt.scheduler, FindOptions{BinDir: binaries, Profiles: map[string]string{tt.scheduler: tt.profile}})
			switch {
			case tt.want == "" && err != nil:
				t.Fatal(err)
			case tt.want != "":
				if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, ErrProfile) != tt.profileError {
					t.Errorf("error %v, want one with %q; of the profile: %v", err, tt.want, tt.profileError)
				}
				return
			}
			if !spec.Bare() && spec.Version != "version of berth" {
				t.Errorf("version %q", spec.Version)
			}
		})
	}
	for profile, want := range map[string]bool{gpu: true, "../../../config/berth-scheduler/labelpresence.yaml": false} {
		spec, err := Find(t.Context(), "mine", FindOptions{BinDir: binaries, Profiles: map[string]string{"mine": profile}})
		if err != nil {
			t.Fatal(err)
		}
		if spec.Shares != want || len(spec.Notes) != 1 {
			t.Errorf("%s: knows shares: %v, want %v; notes %q", profile, spec.Shares, want, spec.Notes)
		}
	}
}

// TestGiven: what somebody else runs has a limit that nobody here knows, and the bare
// binder has ours.
func TestGiven(t *testing.T) {
	spec := ExistingSpec("own", true)
	if !spec.Shares || spec.Binary != "" || len(spec.Notes) != 1 || !strings.Contains(spec.Notes[0], "rate limit of its client is unknown") {
		t.Errorf("own: %+v", spec)
	}
	for _, note := range ExistingSpec(BareBinderName, false).Notes {
		if strings.Contains(note, "rate limit of its client is unknown") {
			t.Errorf("%s: %s", BareBinderName, note)
		}
	}
}

// TestConfiguration: of the file, the connection and the name are replaced and nothing
// else.
func TestConfiguration(t *testing.T) {
	binaries := filepath.Dir(write(t, berthBinary, "#!/bin/sh\n", 0o700))
	spec, err := Find(t.Context(), "mine", FindOptions{BinDir: binaries, Profiles: map[string]string{"mine": write(t, "one.yaml", one, 0o600)}})
	if err != nil {
		t.Fatal(err)
	}
	content, err := spec.configuration("/k", Limit{QPS: 12.5, Burst: 30})
	if err != nil {
		t.Fatal(err)
	}
	var got, want map[string]any
	if err := yaml.Unmarshal(content, &got); err != nil {
		t.Fatal(err)
	}
	expected := strings.NewReplacer("qps: 7", "qps: 12.5, burst: 30, kubeconfig: /k", "own", "mine").Replace(one)
	if err := yaml.Unmarshal([]byte(expected), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
	if namespace, name, elected := spec.lease(); namespace != "berth-system" || name != "mine" || !elected {
		t.Errorf("lease %s/%s, elected: %v", namespace, name, elected)
	}
}

// TestProcess: a scheduler that ends by itself is a failure with the end of its log,
// and one that is stopped is none.
func TestProcess(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	dies := write(t, "dies", "#!/bin/sh\necho why\nexit 3\n", 0o700)
	p, err := startProcess(dies, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-p.Failed(); !strings.Contains(err.Error(), "dies ended unexpectedly (exit status 3); the end of its log "+log+":\nwhy") {
		t.Errorf("error %v", err)
	}
	stays := write(t, "stays", "#!/bin/sh\necho pods is forbidden\nexec sleep 1000\n", 0o700)
	if p, err = startProcess(stays, nil, log); err != nil {
		t.Fatal(err)
	}
	for content := []byte(nil); len(content) == 0; {
		if content, err = os.ReadFile(log); err != nil {
			t.Fatal(err)
		}
	}
	rbacErrors, err := p.Stop()
	if err != nil || len(rbacErrors) != 1 {
		t.Errorf("rbacErrors %q, error %v", rbacErrors, err)
	}
	select {
	case err := <-p.Failed():
		t.Errorf("stopped, and told as a failure: %v", err)
	default:
	}
}

func TestLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wait := func(l *Limiter, requests int) {
			for range requests {
				if err := l.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		}
		l := NewLimiter(Limit{QPS: 10, Burst: 2})
		wait(l, 4)
		// The first two find a token; each of the others waits a tenth of a second.
		if requests, delayed := l.Counts(); requests != 4 || delayed != 2 {
			t.Errorf("%d of %d requests were held up, want 2 of 4", delayed, requests)
		}
		// A wait that is shorter than the threshold does not count.
		prompt := NewLimiter(Limit{QPS: 100, Burst: 1})
		wait(prompt, 5)
		if requests, delayed := prompt.Counts(); requests != 5 || delayed != 0 {
			t.Errorf("%d of %d requests were held up, want 0 of 5", delayed, requests)
		}
		for _, limit := range []time.Duration{0, time.Nanosecond} {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			if err := l.Wait(ctx); err == nil {
				t.Errorf("a request with %v left passes", limit)
			}
			cancel()
		}
	})
}

// slow is a rate limit that has tokens, on a machine that does not get to it.
type slow struct{ flowcontrol.RateLimiter }

func (s slow) TryAccept() bool {
	time.Sleep(2 * DelayThreshold) //nolint:forbidigo // the time is what is tested
	return s.RateLimiter.TryAccept()
}

// TestLimiterOnBusyMachine: who waits for the machine and not for a token is not held
// up by the limit.
func TestLimiterOnBusyMachine(t *testing.T) {
	l := NewLimiter(Limit{QPS: 1000, Burst: 1000})
	l.RateLimiter = slow{l.RateLimiter}
	if err := l.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if requests, delayed := l.Counts(); requests != 1 || delayed != 0 {
		t.Errorf("%d of %d requests were held up, want 0 of 1", delayed, requests)
	}
}

// TestRights: everything that the manifests grant decodes, and something does.
func TestRights(t *testing.T) {
	objects, err := rights()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, object := range objects {
		kinds[object.GetKind()]++
	}
	want := map[string]int{"Namespace": 1, "ServiceAccount": 2, "ClusterRole": 2, "ClusterRoleBinding": 2, "Role": 1, "RoleBinding": 2}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("(-want,+got):\n%s", diff)
	}
}
