// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build k8s136

package gpugang

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	// gangGates are the feature gates with which Kubernetes places gangs, and lets one make
	// room for itself as a whole.
	gangGates = "GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true"
	// singleGates are those with which each member of a gang makes room for itself; empty
	// where there is no such thing.
	singleGates = "GenericWorkload=true,GangScheduling=true"
	// groupVersion is the API's.
	groupVersion = "v1alpha2"
	// nativeSample is the sample for it.
	nativeSample = "manifests/components/gangscheduling-1.36/sample.yaml"
)

// asAWhole is the disruptionMode of a PodGroup that is evicted as a whole.
var asAWhole any = "PodGroup"

// newSimulatedNodes returns none.
func newSimulatedNodes() []corev1.Node { return nil }

func testSimulatedGangs(t *testing.T, _ *framework.Cluster) {
	t.Helper()
	t.Skip("the PodGroups of this release cannot be simulated")
}
