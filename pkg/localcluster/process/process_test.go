// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// parentEnv makes the test binary a parent that starts a child, prints the child's
// process id and waits to be killed.
const parentEnv = "BERTH_TEST_PARENT"

func TestMain(m *testing.M) {
	if mode := os.Getenv(parentEnv); mode != "" {
		p, err := Start(Options{LogFile: os.DevNull, Detached: mode == "detached"}, "sleep", "3600")
		if err != nil {
			panic(err)
		}
		fmt.Println(p.PID())
		<-p.Done()
	}
	os.Exit(m.Run())
}

// start starts a shell script and returns when it has written "started".
func start(t *testing.T, text string, onFailure func(error)) *Process {
	t.Helper()
	p, err := Start(Options{LogFile: filepath.Join(t.TempDir(), "log"), OnFailure: onFailure}, "sh", "-c", text+"\n")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	err = wait.PollUntilContextTimeout(t.Context(), PollInterval, time.Minute, true, func(context.Context) (bool, error) {
		return strings.Contains(Tail(p.LogFile, 1), "started"), nil
	})
	if err != nil {
		t.Fatalf("the script wrote %q", Tail(p.LogFile, 1))
	}
	return p
}

func TestEnd(t *testing.T) {
	for _, tt := range []struct {
		name, text  string
		end         func(p *Process) error
		wantErr     string
		wantProblem string
		wantCode    int
	}{
		{
			name: "by itself", text: "echo started; exit 3",
			end:         func(p *Process) error { <-p.Done(); return nil },
			wantProblem: "ended unexpectedly (exit status 3)", wantCode: 3,
		},
		{
			name: "when asked", text: "trap 'exit 0' TERM; echo started; while :; do sleep 0.05; done",
			end: func(p *Process) error { return p.Stop(time.Minute) },
		},
		{
			name: "when killed because it ignores SIGTERM", text: "trap '' TERM; echo started; while :; do sleep 0.05; done",
			end:     func(p *Process) error { return p.Stop(50 * time.Millisecond) },
			wantErr: "sh did not stop within 50ms and was killed", wantCode: -1,
		},
		{
			name: "by a signal that is none of ours", text: "echo started; exec sleep 3600",
			end: func(p *Process) error {
				p.Signal(syscall.SIGKILL)
				<-p.Done()
				return nil
			},
			wantProblem: "ended unexpectedly (signal: killed)", wantCode: -1,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			failed := make(chan error, 1)
			p := start(t, tt.text, func(err error) { failed <- err })
			if got := tt.end(p); fmt.Sprint(got) != tt.wantErr && (got != nil || tt.wantErr != "") {
				t.Errorf("error: want %q, got %v", tt.wantErr, got)
			}
			if p.Running() || p.ExitCode() != tt.wantCode {
				t.Errorf("running: %v, exit code: want %d, got %d", p.Running(), tt.wantCode, p.ExitCode())
			}
			failure, isError := errors.AsType[*Error](p.Err())
			if isError != (tt.wantProblem != "") || isError && (failure.Problem != tt.wantProblem || failure.Tail != "started" || failure.Name != "sh") {
				t.Errorf("want the problem %q and the log's end, got %v", tt.wantProblem, p.Err())
			}
			if isError != (len(failed) == 1) {
				t.Errorf("OnFailure was called %d times, and the error is %v", len(failed), p.Err())
			}
		})
	}
	if _, err := Start(Options{LogFile: os.DevNull}, "/nonexistent"); err == nil {
		t.Error("a binary that does not exist: want an error, got none")
	}
}

// TestParentKilled: a child dies with its parent, unless it is to outlive it.
func TestParentKilled(t *testing.T) {
	for _, mode := range []string{"attached", "detached"} {
		t.Run(mode, func(t *testing.T) {
			parent := exec.CommandContext(t.Context(), os.Args[0]) //nolint:gosec // the test's own binary
			parent.Env = append(os.Environ(), parentEnv+"="+mode)
			out, err := parent.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := parent.Start(); err != nil {
				t.Fatal(err)
			}
			buffer := make([]byte, 32)
			n, err := out.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			pid, err := strconv.Atoi(strings.TrimSpace(string(buffer[:n])))
			if err != nil {
				t.Fatal(err)
			}
			_, started := stat(pid)
			if started == "" {
				t.Skip("this system does not tell when a process started")
			}
			child := Record{PID: pid, Started: started}
			t.Cleanup(func() { _ = child.Stop(context.WithoutCancel(t.Context()), time.Minute) })
			if err := parent.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = parent.Wait() // it was killed
			if mode == "detached" {
				if !child.Running() {
					t.Error("the detached child is gone")
				}
				return
			}
			if err := wait.PollUntilContextTimeout(t.Context(), PollInterval, time.Minute, true, func(context.Context) (bool, error) {
				return !child.Running(), nil
			}); err != nil {
				t.Error("the child outlived its parent")
			}
		})
	}
}

// TestRecord: a record stops the process that it was made of, and no other that has
// its process id.
func TestRecord(t *testing.T) {
	p := start(t, "echo started; exec sleep 3600", nil)
	record := p.Record()
	if record.Started == "" {
		t.Skip("this system does not tell when a process started")
	}
	other := record
	other.Started = "1"
	if err := other.Stop(t.Context(), time.Minute); err != nil || other.Running() || !p.Running() {
		t.Errorf("another process was stopped: error %v", err)
	}
	if !record.Running() {
		t.Error("the process runs, and its record says no")
	}
	if err := record.Stop(t.Context(), time.Minute); err != nil || record.Running() {
		t.Errorf("stopping: error %v", err)
	}
	<-p.Done() // it has really ended
}

func TestWaitFor(t *testing.T) {
	never := func(context.Context) (bool, error) { return false, nil }
	p := start(t, "echo started; exec sleep 3600", nil)
	if err := p.WaitFor(t.Context(), time.Minute, "is not ready", func(context.Context) (bool, error) { return true, nil }); err != nil {
		t.Errorf("a condition that is true: %v", err)
	}
	if err := p.WaitFor(t.Context(), time.Millisecond, "is not ready", never); err == nil || !strings.HasPrefix(err.Error(), "sh is not ready after 1ms; the end of its log") {
		t.Errorf("after the timeout: got error %v", err)
	}
	reason := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(reason)
	if err := p.WaitFor(ctx, time.Hour, "is not ready", never); !errors.Is(err, reason) {
		t.Errorf("after the end of the context: got error %v", err)
	}
	dies := start(t, "echo started; exit 3", nil)
	if err := dies.WaitFor(t.Context(), time.Hour, "is not ready", never); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("when the process ends: got error %v", err)
	}
}

func TestReady(t *testing.T) {
	code := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
	ready := Ready(server.Client(), server.URL)
	if ok, err := ready(t.Context()); ok || err != nil {
		t.Errorf("while it says 503: %v, %v", ok, err)
	}
	code = http.StatusOK
	if ok, err := ready(t.Context()); !ok || err != nil {
		t.Errorf("while it says 200: %v, %v", ok, err)
	}
	server.Close()
	if ok, err := ready(t.Context()); ok || err != nil {
		t.Errorf("when nothing listens: %v, %v", ok, err)
	}
}

func TestOutput(t *testing.T) {
	if got, err := Output(exec.CommandContext(t.Context(), "sh", "-c", "echo one")); got != "one\n" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := Output(exec.CommandContext(t.Context(), "sh", "-c", "echo why >&2; exit 3"))
	if want := "sh -c echo why >&2; exit 3: exit status 3: why"; err == nil || err.Error() != want {
		t.Errorf("want the error %q, got %v", want, err)
	}
}

func TestTail(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 1023)+"\n", 100)
	for _, tt := range []struct{ name, content, want string }{
		{name: "empty", content: "", want: "(empty)"},
		{name: "short", content: "a\nb\n", want: "a\nb"},
		{name: "cut to lines", content: "a\nb\nc\nd", want: "b\nc\nd"},
		{name: "longer than the window", content: long + "a\nb\nc\n", want: "a\nb\nc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log")
			if err := os.WriteFile(path, []byte(tt.content), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := Tail(path, 3); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
	if got := Tail(filepath.Join(t.TempDir(), "missing"), 3); !strings.Contains(got, "no such file") {
		t.Errorf("a missing file: want the reason, got %q", got)
	}
}
