// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	// clockVariable names the file from which a scheduler of buildShifted reads, twenty
	// times a second, by how many seconds its clock is wrong.
	clockVariable = "BERTH_TEST_CLOCK"
	// readsClock calls the clock in package time, and shiftsClock what takes its place.
	readsClock, shiftsClock = "sec, nsec, mono := runtimeNow()", "sec, nsec, mono := shiftedNow()"
	// shiftedClock is a file more of package time. The monotonic clock stays as it is, as
	// when NTP or an administrator sets the other one.
	shiftedClock = `package time

import "syscall"

var shift int64

func shiftedNow() (sec int64, nsec int32, mono int64) {
	sec, nsec, mono = runtimeNow()
	return sec + shift, nsec, mono
}

func init() {
	path, ok := syscall.Getenv("` + clockVariable + `")
	if !ok {
		return
	}
	go func() {
		for {
			if content, err := readFile(path); err == nil {
				if seconds, err := atoi(content); err == nil {
					shift = int64(seconds)
				}
			}
			Sleep(50 * Millisecond)
		}
	}()
}
`
)

// buildShifted builds berth-scheduler from the current tree with another package time:
// binaries of Go ask the kernel, so that no library that is loaded before them can lie to
// them. It compiles everything anew once, which takes minutes.
func buildShifted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	original := filepath.Join(runtime.GOROOT(), "src", "time", "time.go") //nolint:staticcheck // of the toolchain that builds this test too
	content, err := os.ReadFile(original)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(content, []byte(readsClock), []byte(shiftsClock), 1)
	if bytes.Equal(changed, content) {
		t.Fatalf("%s does not have %q: adapt the patch to this release of Go", original, readsClock)
	}
	replaced := map[string]string{}
	for name, content := range map[string][]byte{"time.go": changed, "shifted.go": []byte(shiftedClock)} {
		replaced[filepath.Join(filepath.Dir(original), name)] = write(t, filepath.Join(dir, name), content)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "make", "--silent", "build-binary", "BINARY="+framework.BerthScheduler, "BIN="+dir)
	build.Dir = framework.Root()
	build.Env = append(os.Environ(), "K8S="+compat.Release, "GOFLAGS=-overlay="+write(t, filepath.Join(dir, "overlay.json"), overlay))
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a scheduler whose clock can be set: %v\n%s", err, output)
	}
	return filepath.Join(dir, framework.BerthScheduler)
}

// clockJumps sets the clock of the schedulers ten minutes forward, and then as much back
// from where it began.
func clockJumps(s *scene) time.Time {
	for _, shift := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		write(s.t, s.clock, []byte(strconv.Itoa(int(shift.Seconds()))))
		s.await("the leader to renew its lease by the wrong clock", func() (bool, error) {
			held, err := s.c.Client.CoordinationV1().Leases(names.Namespace).Get(s.t.Context(), names.Scheduler, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			renewed, _ := lease.Term(held)
			return (time.Until(renewed) - shift).Abs() < time.Minute, fmt.Errorf("it was at %v", renewed)
		})
		s.letPodsCome(20)
	}
	over := time.Now()
	write(s.t, s.clock, []byte("0"))
	return over
}

func write(t *testing.T, path string, content []byte) string {
	t.Helper()
	// In one step: who reads it sees all of it.
	if err := os.WriteFile(path+".new", content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}
