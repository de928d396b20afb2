// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/device"
)

// randomWorlds is how many worlds each test of parity builds.
func randomWorlds() uint64 {
	if os.Getenv("BERTH_LONG") != "" {
		return 10_000
	}
	return 150
}

// TestParity compares the plugin with DynamicResources over random clusters, pod by pod.
func TestParity(t *testing.T) {
	// Without a strategy every answer is DynamicResources', its devices, scores and reasons included.
	t.Run("without a strategy", func(t *testing.T) {
		var asked, placed int
		inWorlds(t, nil, func(t *testing.T, r *rand.Rand, w *world, pod *corev1.Pod) {
			want, _ := w.ask(quiet(t), w.stock, pod)
			got, allocated := w.ask(quiet(t), w.ours, pod)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("pod %s: not what DynamicResources says (-want,+got):\n%s", pod.Name, diff)
			}
			asked += len(got)
			if names := slices.Sorted(maps.Keys(allocated)); len(names) > 0 {
				w.commit(t, allocated[names[r.IntN(len(names))]])
				placed++
			}
		})
		t.Logf("%d answers, %d pods placed", asked, placed)
		if placed < asked/20 {
			t.Errorf("%d of %d answers led to a placement: the worlds show too little", placed, asked)
		}
	})
	// With a strategy the plugin may choose other devices, but nowhere says yes or no differently.
	t.Run("with a strategy", func(t *testing.T) {
		var asked, different int
		inWorlds(t, device.FragmentationGradient{}, func(t *testing.T, _ *rand.Rand, w *world, pod *corev1.Pod) {
			want, _ := w.ask(quiet(t), w.stock, pod)
			got, allocated := w.ask(quiet(t), w.ours, pod)
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(answer{}, "Score", "Devices")); diff != "" {
				t.Fatalf("pod %s: feasible elsewhere than DynamicResources says (-want,+got):\n%s", pod.Name, diff)
			}
			asked += len(got)
			var best string
			for _, name := range slices.Sorted(maps.Keys(allocated)) {
				if !slices.Equal(got[name].Devices, want[name].Devices) {
					different++
				}
				if best == "" || got[name].Score > got[best].Score {
					best = name
				}
			}
			w.commit(t, allocated[best])
		})
		t.Logf("%d answers, other devices in %d", asked, different)
		if different < asked/1000 {
			t.Errorf("other devices than first fit in %d of %d answers: the strategy is not at work", different, asked)
		}
	})
}

// inWorlds builds random worlds, and calls try for each pod of them. In the end no device of a
// world is given twice.
func inWorlds(t *testing.T, strategy device.Strategy, try func(*testing.T, *rand.Rand, *world, *corev1.Pod)) {
	t.Helper()
	for seed := range randomWorlds() {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 27)) //nolint:gosec // a test
			w, pods := randomWorld(t, r, strategy)
			for _, pod := range pods {
				try(t, r, w, pod)
			}
			w.requireWithin(t)
		})
	}
}

const (
	networkDriver = "net.example.com"
	fabricDriver  = "fabric.example.com"
)

// randomWorld has nodes with GPUs in all layouts, network devices of a node, devices that several nodes
// reach, tainted devices and pools that are incomplete; and pods with claims of all kinds.
func randomWorld(tb testing.TB, r *rand.Rand, strategy device.Strategy) (*world, []*corev1.Pod) {
	tb.Helper()
	// What most nodes and most claims are about.
	common := []string{draslices.NVIDIADriver, draslices.MIGClass, draslices.HAMiDriver}[r.IntN(3)]
	var nodes []*corev1.Node
	var list []*resourcev1.ResourceSlice
	for i := range 1 + r.IntN(4) {
		node := newNode(fmt.Sprintf("n%d", i))
		nodes = append(nodes, node)
		own := randomSlices(r, node.Name, common)
		if len(own) > 1 && r.IntN(12) == 0 {
			own = slices.Delete(own, 0, 1) // incomplete
		}
		list = append(list, own...)
		if r.IntN(3) == 0 {
			list = append(list, plainSlice(networkDriver, node.Name, 1+r.IntN(2), func(s *resourcev1.ResourceSliceSpec) { s.NodeName = &node.Name }))
		}
	}
	if r.IntN(3) == 0 {
		list = append(list, plainSlice(fabricDriver, "fabric", 1+r.IntN(3), func(s *resourcev1.ResourceSliceSpec) {
			if r.IntN(2) == 0 {
				s.AllNodes = ptr.To(true)
				return
			}
			s.NodeSelector = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n0", "n1"}},
			}}}}
		}))
	}
	objects := []runtime.Object{plainClass(networkDriver), plainClass(fabricDriver)}
	for _, layout := range []draslices.Layout{draslices.DynamicMIG, draslices.HAMi} {
		for _, class := range layout.Classes() {
			objects = append(objects, class)
		}
	}
	var pods []*corev1.Pod
	for i := range 14 {
		var claims []string
		for j := range 1 + r.IntN(6)/5 {
			claim := randomClaim(r, fmt.Sprintf("p%d-%d", i, j), common)
			objects = append(objects, claim)
			claims = append(claims, claim.Name)
		}
		if r.IntN(10) == 0 && i > 0 {
			claims = append(claims, "p0-0") // shared with another pod
		}
		pods = append(pods, newPod(fmt.Sprintf("p%d", i), claims...))
	}
	return newWorld(tb, strategy, nodes, list, objects...), pods
}

func randomSlices(r *rand.Rand, node, common string) []*resourcev1.ResourceSlice {
	model := draslices.T4()
	if r.IntN(2) == 0 {
		model = draslices.A100()
	}
	if r.IntN(8) == 0 {
		return nil
	}
	layout := map[string]draslices.Layout{
		draslices.NVIDIADriver: draslices.Whole, draslices.MIGClass: draslices.DynamicMIG, draslices.HAMiDriver: draslices.HAMi,
	}[common]
	if r.IntN(5) == 0 {
		layout = []draslices.Layout{draslices.Whole, draslices.DynamicMIG, draslices.HAMi}[r.IntN(3)]
	}
	gpus := 1 + r.IntN(6)
	if layout == draslices.DynamicMIG {
		gpus = 1 + r.IntN(2)
	}
	list := layout.Slices(node, gpus, model)
	for _, slice := range list {
		for i := range slice.Spec.Devices {
			if r.IntN(10) == 0 {
				slice.Spec.Devices[i].Taints = []resourcev1.DeviceTaint{{Key: "unhealthy", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
			}
		}
	}
	return list
}

func plainSlice(driver, pool string, devices int, where func(*resourcev1.ResourceSliceSpec)) *resourcev1.ResourceSlice {
	slice := &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: pool + "-" + driver},
		Spec:       resourcev1.ResourceSliceSpec{Driver: driver, Pool: resourcev1.ResourcePool{Name: pool, Generation: 1, ResourceSliceCount: 1}},
	}
	for i := range devices {
		slice.Spec.Devices = append(slice.Spec.Devices, resourcev1.Device{
			Name:       fmt.Sprintf("d%d", i),
			Attributes: map[resourcev1.QualifiedName]resourcev1.DeviceAttribute{"resource.kubernetes.io/pcieRoot": {StringValue: ptr.To(fmt.Sprintf("pci0000:%02x", i))}},
		})
	}
	where(&slice.Spec)
	return slice
}

func plainClass(driver string) *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: driver},
		Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{
			Expression: fmt.Sprintf("device.driver == %q", driver),
		}}}},
	}
}

func randomClaim(r *rand.Rand, name, common string) *resourcev1.ResourceClaim {
	claim := newClaim(name)
	if r.IntN(10) == 0 {
		wholeOrPart := func(name string, e *resourcev1.ExactDeviceRequest) resourcev1.DeviceSubRequest {
			return resourcev1.DeviceSubRequest{
				Name: name, DeviceClassName: e.DeviceClassName, AllocationMode: e.AllocationMode, Count: e.Count,
				Selectors: e.Selectors, Tolerations: e.Tolerations, Capacity: e.Capacity,
			}
		}
		claim.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r0", FirstAvailable: []resourcev1.DeviceSubRequest{
			wholeOrPart("a", randomRequest(r, common)), wholeOrPart("b", randomRequest(r, common)),
		}}}
		return claim
	}
	for i := range 1 + r.IntN(5)/4 {
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, resourcev1.DeviceRequest{Name: fmt.Sprintf("r%d", i), Exactly: randomRequest(r, common)})
	}
	if r.IntN(8) == 0 {
		claim.Spec.Devices.Constraints = []resourcev1.DeviceConstraint{{MatchAttribute: ptr.To(resourcev1.FullyQualifiedName("resource.kubernetes.io/pcieRoot"))}}
	}
	return claim
}

func randomRequest(r *rand.Rand, common string) *resourcev1.ExactDeviceRequest {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: draslices.NVIDIADriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	selector := func(expression string) {
		request.Selectors = append(request.Selectors, resourcev1.DeviceSelector{CEL: &resourcev1.CELDeviceSelector{Expression: expression}})
	}
	class := []string{draslices.NVIDIADriver, draslices.MIGClass, draslices.HAMiDriver, networkDriver, fabricDriver, "missing"}[r.IntN(6)]
	if r.IntN(5) > 0 {
		class = common
	}
	request.DeviceClassName = class
	switch class {
	case draslices.MIGClass:
		selector(fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == %q", []string{"1g.10gb", "2g.20gb", "3g.40gb"}[r.IntN(3)]))
	case draslices.HAMiDriver:
		amounts := map[resourcev1.QualifiedName]resource.Quantity{}
		if r.IntN(8) > 0 {
			amounts["cores"] = *resource.NewQuantity(1+r.Int64N(60), resource.DecimalSI)
		}
		if r.IntN(8) > 0 {
			amounts["memory"] = *resource.NewQuantity((1+r.Int64N(9))<<30, resource.BinarySI)
		}
		request.Capacity = &resourcev1.CapacityRequirements{Requests: amounts}
		request.Count = 1 + r.Int64N(9)/8
	case draslices.NVIDIADriver:
		request.Count = 1 + r.Int64N(4)
		switch r.IntN(6) {
		case 0:
			selector("device.attributes['gpu.nvidia.com'].productName.lowerAscii().contains('a100')")
		case 1:
			selector("device.capacity['gpu.nvidia.com'].memory.compareTo(quantity('20Gi')) < 0")
		case 2:
			selector("device.attributes['gpu.nvidia.com'].minor > 1")
		case 3:
			request.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"memory": resource.MustParse("10Gi")}}
		}
	}
	switch r.IntN(20) {
	case 0:
		request.AllocationMode, request.Count = resourcev1.DeviceAllocationModeAll, 0
	case 1:
		request.AdminAccess = ptr.To(true)
	case 2:
		request.Tolerations = []resourcev1.DeviceToleration{{Operator: resourcev1.DeviceTolerationOpExists}}
	}
	return request
}
