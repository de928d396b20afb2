// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

func killScheduler(s *scene) time.Time {
	killed := time.Now()
	s.Leader().Kill()
	return killed
}

// killComponent kills a process of the control plane and starts it again.
func killComponent(component localcluster.Component) func(*scene) time.Time {
	return func(s *scene) time.Time { return away(s, component, 0) }
}

// away kills a process of the control plane and starts it again after a while.
func away(s *scene, component localcluster.Component, while time.Duration) time.Time {
	if err := s.c.KillComponent(component); err != nil {
		s.t.Fatal(err)
	}
	<-time.After(while) // the fault, not a wait for something
	if err := s.c.RestartComponent(s.t.Context(), component); err != nil {
		s.t.Fatal(err)
	}
	return time.Now()
}

func apiServerAway(s *scene) time.Time { return away(s, localcluster.APIServer, 30*time.Second) }

// leaderLostWhileBinding kills the leader while Bindings of its are on their way. They
// arrive when the next one leads, and must be refused.
func leaderLostWhileBinding(s *scene) time.Time {
	const least = 3
	var mu sync.Mutex
	var onTheirWay []*faultproxy.Binding
	s.hooks.Store(&faultproxy.Hooks{Binding: func(b *faultproxy.Binding) *faultproxy.Answer {
		mu.Lock()
		defer mu.Unlock()
		onTheirWay = append(onTheirWay, b)
		return nil
	}})
	s.await("Bindings to be on their way", func() (bool, error) {
		mu.Lock()
		defer mu.Unlock()
		return len(onTheirWay) >= least, fmt.Errorf("%d are", len(onTheirWay))
	})
	killed := killScheduler(s)
	s.hooks.Store(nil)
	// The next one has bound a pod of its own: its first write has made the others stale.
	s.recovered("after-kill", killed)
	mu.Lock()
	defer mu.Unlock()
	for _, b := range onTheirWay {
		if answer := faultproxy.PassOn(b); answer == nil || answer.Code != http.StatusConflict && answer.Code != http.StatusNotFound {
			s.t.Errorf("the Binding of pod %s by the former leader was answered %+v, want it refused", b.Pod, answer)
		}
	}
	return killed
}

// memoryLimit takes away the leader's right to more memory than it has, and has it need
// some: pods of another scheduler with much in their annotations. It ends; the standby,
// whose memory is not limited, goes on.
func memoryLimit(s *scene) time.Time {
	const pods, bytes = 500, 200 << 10
	s.MayEnd = func(r *framework.Scheduler) bool { return says(r, "out of memory", "cannot allocate memory") }
	leader := s.Leader()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", leader.PID()))
	if err != nil {
		s.t.Skip(err)
	}
	var has int // KiB
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); fields[0] == "VmData:" {
			if has, err = strconv.Atoi(fields[1]); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	limit := exec.CommandContext(s.t.Context(), "prlimit", "--pid", strconv.Itoa(leader.PID()), fmt.Sprintf("--data=%d", has<<10))
	if output, err := limit.CombinedOutput(); err != nil {
		s.t.Fatalf("%v: %s", err, output)
	}
	large := strings.Repeat("x", bytes)
	for i := range pods {
		if !leader.Running() {
			break
		}
		pod := framework.Pod(gpuchurn.Namespace, fmt.Sprintf("large-%d", i), "nobody")
		pod.Labels["part"] = "large"
		pod.Annotations["example.com/large"] = large
		if _, err := s.c.Client.CoreV1().Pods(pod.Namespace).Create(s.t.Context(), pod, metav1.CreateOptions{}); err != nil {
			s.t.Fatal(err)
		}
	}
	framework.WaitForCondition(s.t, patience, "the leader to run out of memory", func() (bool, error) { return !leader.Running(), nil })
	ended := time.Now()
	s.deletePods("large")
	return ended
}

// readOnlyDisk replaces both schedulers by some that can write to no file.
func readOnlyDisk(s *scene) time.Time {
	wrapper := filepath.Join(s.t.TempDir(), "read-only")
	script := `#!/bin/sh
exec unshare ` + map[bool]string{true: "-m", false: "-rm"}[os.Getuid() == 0] + ` sh -c 'mount -o remount,ro,bind / && ! touch /written 2>/dev/null && exec "$0" "$@"' ` + s.Binary + ` "$@"
`
	if err := os.WriteFile(wrapper, []byte(script), 0o700); err != nil {
		s.t.Fatal(err)
	}
	if output, err := exec.CommandContext(s.t.Context(), wrapper, "--help").CombinedOutput(); err != nil {
		s.t.Skipf("a mount namespace cannot be had here: %v: %s", err, output)
	}
	s.Binary = wrapper
	replaced := time.Now()
	for _, r := range s.Running() {
		r.Kill()
	}
	return replaced
}

// pausedLeader stops the leader for longer than its lease lasts, as a hypervisor does or a
// machine that swaps, and has it go on where it was beside the next one.
func pausedLeader(s *scene) time.Time {
	former := s.Leader()
	paused := time.Now()
	former.Signal(syscall.SIGSTOP)
	s.recovery = s.recovered("after-pause", paused)
	s.letPodsCome(alive)
	former.Signal(syscall.SIGCONT)
	s.await("the former leader to end", func() (bool, error) { return !former.Running(), nil })
	return time.Now()
}
