// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/controlplane/spawn"
)

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
			if got := tail(path, 3); got != tt.want {
				t.Errorf("want %q, got %q", tt.want, got)
			}
		})
	}
	if got := tail(filepath.Join(t.TempDir(), "missing"), 3); !strings.Contains(got, "no such file") {
		t.Errorf("a missing file: want the reason, got %q", got)
	}
}

// script is an executable that stands in for berth-local and runs a shell script,
// whatever component it is asked for.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProcessEnds(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		end        func(p *process) error
		wantErr    string
		wantState  string
		wantAsked  bool
	}{
		{
			name:      "by itself",
			text:      "echo the reason; exit 3",
			end:       func(p *process) error { <-p.done; return nil },
			wantState: "exit status 3",
		},
		{
			name:      "when asked",
			text:      "trap 'exit 0' TERM; echo the reason; while :; do sleep 0.05; done",
			end:       func(p *process) error { return p.stop(time.Minute) },
			wantState: "exit status 0",
			wantAsked: true,
		},
		{
			name:      "when killed after it did not listen",
			text:      "trap '' TERM; echo the reason; while :; do sleep 0.05; done",
			end:       func(p *process) error { return p.stop(50 * time.Millisecond) },
			wantErr:   "etcd did not stop within 50ms and was killed",
			wantState: "signal: killed",
			wantAsked: true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			spawner := spawn.New()
			defer spawner.Close()
			logFile := filepath.Join(t.TempDir(), "log")
			ended := make(chan bool, 1)
			p, err := launch(spawner, script(t, tt.text), Etcd, nil, t.TempDir(), logFile, func(p *process) { ended <- p.asked.Load() })
			if err != nil {
				t.Fatal(err)
			}
			// The script has set its trap by the time that it writes.
			for deadline := time.Now().Add(time.Minute); tail(logFile, 1) != "the reason"; {
				if time.Now().After(deadline) {
					t.Fatalf("the script wrote %q", tail(logFile, 1))
				}
			}
			err = tt.end(p)
			if got := errorText(err); got != tt.wantErr {
				t.Errorf("error: want %q, got %q", tt.wantErr, got)
			}
			if asked := <-ended; asked != tt.wantAsked {
				t.Errorf("asked to end: want %v, got %v", tt.wantAsked, asked)
			}
			if p.running() {
				t.Error("it runs still")
			}
			failure := p.failure()
			if failure.State != tt.wantState || failure.Tail != "the reason" || failure.Component != Etcd {
				t.Errorf("want %s and the log's end, got %v", tt.wantState, failure)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestNoSpaceIsTheCause: etcd says so above a stack that is all that is quoted.
func TestNoSpaceIsTheCause(t *testing.T) {
	stack := strings.Repeat("goroutine 1 [running]:\n", 2*tailLines)
	for _, tt := range []struct{ name, log, want string }{
		{name: "no space", log: `{"msg":"failed to create WAL","error":"no space left on device"}` + "\n" + stack, want: "no space left on device in "},
		{name: "something else", log: `{"msg":"failed to create WAL","error":"permission denied"}` + "\n" + stack},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			log := filepath.Join(root, "logs", "etcd.log")
			if err := os.MkdirAll(filepath.Dir(log), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(log, []byte(tt.log), 0o600); err != nil {
				t.Fatal(err)
			}
			failed := &ComponentError{Component: Etcd, State: "exit status 2", LogFile: log, Tail: tail(log, tailLines), Cause: noSpace(log)}
			first, _, _ := strings.Cut(failed.Error(), "\n")
			if got := strings.Contains(first, "no space left on device"); got != (tt.want != "") {
				t.Errorf("first line of the error: %q", first)
			}
			if tt.want != "" && !strings.Contains(first, tt.want+root) {
				t.Errorf("the first line does not name the folder %s: %q", root, first)
			}
		})
	}
}
