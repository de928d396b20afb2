// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package contest

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// Time in the scheduler's code is the scheduler's, time elsewhere is not.
func TestAttributed(t *testing.T) {
	pod := st.MakePod().Name("p").Req(map[corev1.ResourceName]string{"cpu": "1"}).Obj()
	scheduler := func() {
		if info, err := framework.NewPodInfo(pod); err != nil || info == nil {
			t.Fatal(err)
		}
	}
	other := func() { _ = strings.Repeat("x", 4096) }
	sample := func(work func()) (attributed, all time.Duration) {
		profile := cpuProfile{file: filepath.Join(t.TempDir(), "runs", "cpu.pprof")}
		if err := profile.start(); err != nil {
			t.Fatal(err)
		}
		from, err := processCPU()
		if err != nil {
			t.Fatal(err)
		}
		// A second of CPU time, however long that takes: 100 samples.
		for all < time.Second {
			for range 1000 {
				work()
			}
			now, err := processCPU()
			if err != nil {
				t.Fatal(err)
			}
			all = now - from
		}
		profile.stop()
		attributed, err = profile.attributed()
		if err != nil {
			t.Fatal(err)
		}
		return attributed, all
	}
	if attributed, all := sample(scheduler); attributed < all/10 || attributed > 2*all {
		t.Errorf("%v of %v in the scheduler's code were attributed", attributed, all)
	}
	if attributed, all := sample(other); attributed != 0 {
		t.Errorf("%v of %v outside the scheduler's code were attributed", attributed, all)
	}
}

func TestOneProfile(t *testing.T) {
	var first, second cpuProfile
	if err := first.start(); err != nil {
		t.Fatal(err)
	}
	defer first.stop()
	if err := second.start(); err == nil || !strings.Contains(err.Error(), "-cpuprofile") {
		t.Errorf("got %v from a second profile", err)
	}
	if _, err := second.attributed(); err == nil {
		t.Error("nothing was sampled, and no error")
	}
}
