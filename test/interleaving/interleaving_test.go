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
	r := explore(t, handover, 20*time.Second)
	t.Log(r)
	if r.wrong != "" {
		t.Errorf("%s\n%s", r.history(), r.testCase(handover))
	}
	t.Log(r.coverage)
}
