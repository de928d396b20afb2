// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// What pods without devices have to do with the plugin follows the nodes that have
// some, as they come and go.
func TestDeviceNodes(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{makeNode("n", nil)}})
	events := pl.allocations.nodeHandler(klog.Logger{})
	scored := func() bool {
		t.Helper()
		state, pod := framework.NewCycleState(), makePod("p")
		if _, status, _ := profile.RunPreFilterPlugins(t.Context(), state, pod); !status.IsSuccess() {
			t.Fatal(status)
		}
		succeed(t, profile.RunPreScorePlugins(t.Context(), state, pod, profile.Nodes(t)))
		_, err := getPreScoreState(state)
		return err == nil
	}
	expect := func(what string, want bool) {
		t.Helper()
		if got := scored(); got != want || pl.deviceNodes.none() == want {
			t.Errorf("%s: a pod without devices is scored: %t, want %t", what, got, want)
		}
	}
	expect("no node has devices", false)
	events.OnAdd(gpuNode("shared", 2), false)
	expect("one has", true)
	events.OnUpdate(gpuNode("shared", 2), makeNode("shared", nil))
	expect("it has lost its label", false)
	events.OnUpdate(makeNode("shared", nil), labeled(gpuNode("shared", 2), "nvidia.com/gpu.count", "none"))
	expect("it contradicts itself", true)
	events.OnAdd(pluginNode("plugin", a100, 1), false)
	events.OnDelete(cache.DeletedFinalStateUnknown{Key: "shared", Obj: gpuNode("shared", 2)})
	expect("one of a device plugin is left", true)
	events.OnDelete(pluginNode("plugin", a100, 1))
	expect("none is left", false)
}

// A profile that joins later learns of the nodes that the handler has told of before.
func TestDeviceNodesOfLateProfile(t *testing.T) {
	_, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 2), makeNode("plain", nil)}})
	late := &GPUDevice{nodeKeys: pl.nodeKeys}
	must(t, pl.allocations.join(late))
	if known := late.deviceNodes.all(); len(known) != 1 || known[0].object.Name != "n" || known[0].node.Devices != 2 {
		t.Errorf("the late profile knows %+v", known)
	}
}
