// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// draObjects are what a scheduler with DRA knows. What the plugin does not ask for
// panics.
type draObjects struct {
	fwk.SharedDRAManager
	claims  map[string]*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	// resources are the classes that extended resources stand for.
	resources map[corev1.ResourceName]*resourcev1.DeviceClass
}

func (d *draObjects) ResourceClaims() fwk.ResourceClaimTracker { return claimsOf{objects: d} }
func (d *draObjects) DeviceClasses() fwk.DeviceClassLister     { return classesOf{objects: d} }

func (d *draObjects) DeviceClassResolver() fwk.DeviceClassResolver { return d }

func (d *draObjects) GetDeviceClass(name corev1.ResourceName) *resourcev1.DeviceClass {
	return d.resources[name]
}

type claimsOf struct {
	fwk.ResourceClaimTracker
	objects *draObjects
}

func (c claimsOf) Get(_, name string) (*resourcev1.ResourceClaim, error) {
	if claim, ok := c.objects.claims[name]; ok {
		return claim, nil
	}
	return nil, fmt.Errorf("no claim %s", name)
}

type classesOf struct {
	fwk.DeviceClassLister
	objects *draObjects
}

func (c classesOf) Get(name string) (*resourcev1.DeviceClass, error) {
	if class, ok := c.objects.classes[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("no class %s", name)
}

// draHandle is a handle of a scheduler with DRA.
type draHandle struct {
	fwk.Handle
	objects *draObjects
}

func (h draHandle) SharedDRAManager() fwk.SharedDRAManager { return h.objects }

func deviceClass(selectors ...string) *resourcev1.DeviceClass {
	class := &resourcev1.DeviceClass{}
	for _, expression := range selectors {
		class.Spec.Selectors = append(class.Spec.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	return class
}

func claimOf(class string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{
		{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: class}},
	}}}}
}

func allocatedFrom(class string, drivers ...string) *resourcev1.ResourceClaim {
	claim := claimOf(class)
	claim.Status.Allocation = &resourcev1.AllocationResult{}
	for _, driver := range drivers {
		claim.Status.Allocation.Devices.Results = append(claim.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Driver: driver})
	}
	return claim
}

func TestMayClaimDevices(t *testing.T) {
	first := claimOf("")
	first.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", FirstAvailable: []resourcev1.DeviceSubRequest{{DeviceClassName: "nic"}, {DeviceClassName: "gpu"}}}}
	objects := &draObjects{
		classes: map[string]*resourcev1.DeviceClass{
			"gpu": deviceClass("device.driver == 'gpu.nvidia.com'"),
			"mig": deviceClass(`device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "mig"`),
			"nic": deviceClass("device.driver == 'dra.net'"),
			"any": deviceClass(),
		},
		claims: map[string]*resourcev1.ResourceClaim{
			"gpu": claimOf("gpu"), "mig": claimOf("mig"), "nic": claimOf("nic"), "any": claimOf("any"), "lost": claimOf("missing"), "first": first,
			"given-gpu": allocatedFrom("any", "dra.net", "gpu.nvidia.com"), "given-nic": allocatedFrom("any", "dra.net"),
		},
	}
	_, pl := newProfile(t, gpuArgs(), schedtest.Options{})
	pl.handle = draHandle{pl.handle, objects}
	for claim, want := range map[string]bool{
		"gpu": true, "mig": true, "nic": false, "any": true, "lost": true, "first": true, "given-gpu": true, "given-nic": false, "missing": true,
	} {
		pod := claimPod("p")
		pod.Spec.ResourceClaims[0].ResourceClaimName = &claim
		if got := pl.mayClaimDevices(pod); got != want {
			t.Errorf("claim %s by name: want %t, got %t", claim, want, got)
		}
		template := "t"
		pod.Spec.ResourceClaims[0] = corev1.PodResourceClaim{Name: "device", ResourceClaimTemplateName: &template}
		pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "device", ResourceClaimName: &claim}}
		if got := pl.mayClaimDevices(pod); got != want {
			t.Errorf("claim %s from a template: want %t, got %t", claim, want, got)
		}
		pod.Status.ResourceClaimStatuses[0].ResourceClaimName = nil
		if pl.mayClaimDevices(pod) {
			t.Error("a claim that was not necessary is for devices")
		}
		pod.Status.ResourceClaimStatuses = nil
		if !pl.mayClaimDevices(pod) {
			t.Error("a claim that is not there yet cannot be for devices")
		}
	}
	if pl.mayClaimDevices(makePod("p")) {
		t.Error("a pod without a claim claims devices")
	}
	// Extended resources that DeviceClasses stand for, without a claim in the spec.
	objects.resources = map[corev1.ResourceName]*resourcev1.DeviceClass{"example.com/gpu": objects.classes["gpu"], "example.com/nic": objects.classes["nic"]}
	for name, want := range map[corev1.ResourceName]bool{
		"example.com/gpu": true, "example.com/nic": false, "example.com/other": false, "cpu": false,
		corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "gpu"): true, corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "nic"): false,
		corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix + "missing"): true,
	} {
		pod := makePod("p")
		pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse("1")}
		if got := pl.mayClaimDevices(pod); got != want {
			t.Errorf("limit %s: want %t, got %t", name, want, got)
		}
		pod.Spec.Containers[0].Resources.Limits[name] = resource.MustParse("0")
		if pl.mayClaimDevices(pod) {
			t.Errorf("a limit %s of zero claims devices", name)
		}
	}
}

// A shared node whose devices a DRA driver offers too takes no shares as long as it does.
func TestOfferedByDRA(t *testing.T) {
	profile, pl := startProfile(t, gpuArgs(), schedtest.Options{Nodes: []*corev1.Node{gpuNode("n", 1)}})
	node := "n"
	slice := func(name, driver string, devices int) *resourcev1.ResourceSlice {
		return &resourcev1.ResourceSlice{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Spec:       resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &node, Devices: make([]resourcev1.Device, devices)},
		}
	}
	expect := func(what, want string) {
		t.Helper()
		if got := refusals(t, profile, sharePod("p", 100))["p"]; got != want && want == "" || want != "" && got != want {
			t.Errorf("%s: want %q, got %q", what, want, got)
		}
	}
	never := `no node can share its devices: 1 node(s) with label berth.dev/gpu-sharing have contradictory labels, the metric berth_gpudevice_refused_nodes says how`
	expect("no slice", "")
	pl.publishedSlices.observe(nil, slice("nic", "dra.net", 1))
	expect("a slice of another driver", "")
	pl.publishedSlices.observe(nil, slice("empty", "gpu.nvidia.com", 0))
	expect("a slice without devices", "")
	a, b := slice("a", "gpu.nvidia.com", 1), slice("b", "gpu.nvidia.com", 1)
	pl.publishedSlices.observe(nil, a)
	pl.publishedSlices.observe(nil, b)
	expect("two slices", never)
	state := preFilterOrSkip(t, profile, makePod("plain"))
	if got := pl.Filter(t.Context(), &fixedState{state, &preFilterState{podRequest: podRequestOf(t, pl, sharePod("p", 100))}}, sharePod("p", 100), nodeInfo(t, profile, "n")).Message(); got != invalidTexts[device.PublishesDRADevices] {
		t.Errorf("want %q, got %q", invalidTexts[device.PublishesDRADevices], got)
	}
	expectHint(t, pl.isSchedulableAfterResourceSliceChange, sharePod("p", 100), a, nil, fwk.Queue)
	expect("one slice", never)
	expectHint(t, pl.isSchedulableAfterResourceSliceChange, makePod("p"), b, slice("b", "gpu.nvidia.com", 0), fwk.QueueSkip)
	expect("none with devices", "")
	expectHint(t, pl.isSchedulableAfterResourceSliceChange, sharePod("p", 100), slice("nic", "dra.net", 1), nil, fwk.QueueSkip)
	if !pl.publishedSlices.none() {
		t.Error("a node is still offered")
	}
}

// fixedState is a state in which PreFilter found something else.
type fixedState struct {
	fwk.CycleState
	preFilter *preFilterState
}

func (s *fixedState) Read(key fwk.StateKey) (fwk.StateData, error) {
	if key == preFilterStateKey {
		return s.preFilter, nil
	}
	return s.CycleState.Read(key)
}
