// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"os"
	"testing"
	"time"

	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

func TestMain(m *testing.M) {
	metrics.Register() // the cache counts without asking whether they are
	klog.SetLogger(klog.Logger{})
	os.Exit(m.Run())
}

func TestScratch(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			r := explore(t, s, budget())
			t.Log(r)
			if r.wrong != "" {
				t.Errorf("%s\n%s", r.history(), r.testCase(s))
			}
			t.Log(r.coverage)
		})
	}
}

func budget() time.Duration {
	d, err := time.ParseDuration(os.Getenv("B"))
	if err != nil {
		return 10 * time.Second
	}
	return d
}
