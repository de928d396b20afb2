// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
)

// makeTemplate is a template of claims for one device of a class; edit changes the request.
func makeTemplate(name, class string, edit func(*resourcev1.ExactDeviceRequest)) *resourcev1.ResourceClaimTemplate {
	request := &resourcev1.ExactDeviceRequest{DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1}
	if edit != nil {
		edit(request)
	}
	return &resourcev1.ResourceClaimTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("template/" + name)},
		Spec: resourcev1.ResourceClaimTemplateSpec{Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{
			Requests: []resourcev1.DeviceRequest{{Name: "gpu", Exactly: request}},
		}}},
	}
}

// makeClaim is a claim that pods name, as a template would make it.
func makeClaim(name, class string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("claim/" + name)}, Spec: makeTemplate(name, class, nil).Spec.Spec,
	}
}

// claiming makes the pod ask for a claim of a template.
func claiming(pod *corev1.Pod, template string) *corev1.Pod {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: &template}}
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	return pod
}

// using makes the pod ask for a claim that is there.
func using(pod *corev1.Pod, claim string) *corev1.Pod {
	pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: &claim}}
	return pod
}

// makeClaimCluster has one node with GPUs in the layout.
func makeClaimCluster(tb testing.TB, layout draslices.Layout, gpus int, objects ...runtime.Object) *cluster.Cluster {
	tb.Helper()
	objects = append(objects, makeNode("n1", 64))
	for _, class := range layout.Classes() {
		objects = append(objects, class)
	}
	for _, slice := range layout.Slices("n1", gpus, draslices.A100()) {
		objects = append(objects, slice)
	}
	return makeCluster(tb, objects...)
}

// held are the devices of a pod, with what it has of them.
func held(e *Engine, pod *corev1.Pod) string {
	var parts []string
	for _, claim := range e.Claims(pod) {
		for _, device := range cluster.DevicesOf(claim) {
			parts = append(parts, strings.TrimSpace(device.Device+" "+device.Share()))
		}
	}
	return strings.Join(parts, ", ")
}

func profileOf(profile string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf("device.attributes['gpu.nvidia.com'].profile == '%s'", profile)}}}
	}
}

func capacityOf(cores, memory string) func(*resourcev1.ExactDeviceRequest) {
	return func(r *resourcev1.ExactDeviceRequest) {
		r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{"cores": resource.MustParse(cores), "memory": resource.MustParse(memory)}}
	}
}

// TestClaimsOfTemplates fills a node with pods whose claims are made from templates, in each
// layout, with stock's plugin in Berth's profile and in the default one, and with DeviceClaims.
// A pod that goes leaves room for one more.
func TestClaimsOfTemplates(t *testing.T) {
	tests := []struct {
		layout   draslices.Layout
		template *resourcev1.ResourceClaimTemplate
		want     []string
	}{
		{draslices.Whole, makeTemplate("t", draslices.NVIDIADriver, nil), []string{"gpu-0", "gpu-1"}},
		{draslices.DynamicMIG, makeTemplate("t", draslices.MIGClass, profileOf("3g.40gb")), []string{
			"gpu-0-mig-3g40gb-9-0", "gpu-0-mig-3g40gb-9-4", "gpu-1-mig-3g40gb-9-0", "gpu-1-mig-3g40gb-9-4",
		}},
		{draslices.HAMi, makeTemplate("t", draslices.HAMiDriver, capacityOf("60", "30Gi")), []string{
			"hami-gpu-0 cores=60 memory=30Gi", "hami-gpu-1 cores=60 memory=30Gi",
		}},
		{draslices.HAMi, makeTemplate("t", draslices.HAMiDriver, nil), []string{"hami-gpu-0 cores=100 memory=80Gi", "hami-gpu-1 cores=100 memory=80Gi"}},
	}
	for _, tt := range tests {
		for _, profile := range []string{gpuProfile, stockProfile, claimsProfile} {
			e := newEngine(t, Options{Config: loadProfile(t, profile), SchedulerName: loadProfile(t, profile).Profiles[0].SchedulerName}, makeClaimCluster(t, tt.layout, 2, tt.template))
			var got []string
			var last Result
			for i := range len(tt.want) + 1 {
				last = schedule(t, e, claiming(makePod(fmt.Sprintf("p%d", i)), "t"))
				if last.Node != "" {
					got = append(got, held(e, last.Pod))
				}
			}
			first := got[0]
			if profile == claimsProfile {
				slices.Sort(got) // it does not take the first that fits
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("%s, %s: devices (-want,+got):\n%s", tt.layout, profile, diff)
			}
			if want := "0/1 nodes are available: 1 cannot allocate all claims"; last.Node != "" || !strings.HasPrefix(last.Message, want) {
				t.Errorf("%s, %s: the last pod is on %q: %q, want %q", tt.layout, profile, last.Node, last.Message, want)
			}
			if err := e.Delete(t.Context(), "default", "p0"); err != nil {
				t.Fatal(err)
			}
			if last = schedule(t, e, last.Pod); held(e, last.Pod) != first {
				t.Errorf("%s, %s: with the first pod gone the last has %q, want %q: %s", tt.layout, profile, held(e, last.Pod), first, last.Message)
			}
		}
	}
}

// TestClaimWrites compares the claim of a pod with what DynamicResources and
// kube-controller-manager would write.
func TestClaimWrites(t *testing.T) {
	template := makeTemplate("t", draslices.NVIDIADriver, nil)
	template.Spec.Labels = map[string]string{"a": "b"}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeClaimCluster(t, draslices.Whole, 1, template))
	pod := schedule(t, e, claiming(makePod("p"), "t")).Pod
	claims := e.Claims(pod)
	if len(claims) != 1 {
		t.Fatalf("the pod has %d claims: %+v", len(claims), pod.Status)
	}
	claim := claims[0]
	if !strings.HasPrefix(claim.Name, "p-gpu-") || len(claim.Name) != len("p-gpu-")+5 || !metav1.IsControlledBy(claim, pod) || claim.Labels["a"] != "b" || claim.Annotations[resourcev1.PodResourceClaimAnnotation] != "gpu" {
		t.Errorf("claim %+v", claim.ObjectMeta)
	}
	want := []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: pod.UID}}
	if diff := cmp.Diff(want, claim.Status.ReservedFor); diff != "" {
		t.Errorf("status.reservedFor (-want,+got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{resourcev1.Finalizer}, claim.Finalizers); diff != "" {
		t.Errorf("metadata.finalizers (-want,+got):\n%s", diff)
	}
	if err := e.Delete(t.Context(), "default", "p"); err != nil {
		t.Fatal(err)
	}
	if e.claims.get("default", claim.Name) != nil {
		t.Error("the claim of a pod that is gone is still there")
	}
}

// TestSharedClaim: pods that name one claim share its devices, and the last one to go
// releases them.
func TestSharedClaim(t *testing.T) {
	c := makeClaimCluster(t, draslices.Whole, 1, makeClaim("shared", draslices.NVIDIADriver), makeClaim("other", draslices.NVIDIADriver))
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, c)
	for _, name := range []string{"a", "b"} {
		if r := schedule(t, e, using(makePod(name), "shared")); r.Node != "n1" {
			t.Fatalf("pod %s: %s", name, r.Message)
		}
	}
	other := using(makePod("c"), "other")
	for i, tt := range []struct{ gone, node string }{{"a", ""}, {"b", "n1"}} {
		if err := e.Delete(t.Context(), "default", tt.gone); err != nil {
			t.Fatal(err)
		}
		if got := len(e.claims.get("default", "shared").Status.ReservedFor); got != 1-i {
			t.Errorf("with pod %s gone the claim has %d consumers", tt.gone, got)
		}
		if r := schedule(t, e, other); r.Node != tt.node {
			t.Errorf("with pod %s gone pod c is on %q: %s", tt.gone, r.Node, r.Message)
		}
	}
	for _, obj := range c.Others() {
		if claim, ok := obj.(*resourcev1.ResourceClaim); ok && claim.Status.Allocation != nil {
			t.Errorf("the input has changed: %+v", claim)
		}
	}
}

// TestUnusedAllocation: an allocation that nothing uses and that does not suit the pod is
// taken back, and the pod is tried again, as the event would have it.
func TestUnusedAllocation(t *testing.T) {
	claim := makeClaim("stale", draslices.NVIDIADriver)
	claim.ResourceVersion, claim.Finalizers = "1000", []string{resourcev1.Finalizer}
	claim.Status.Allocation = &resourcev1.AllocationResult{
		Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "gpu", Driver: draslices.NVIDIADriver, Pool: "gone", Device: "gpu-0"}}},
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"},
		}}}}},
	}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeClaimCluster(t, draslices.Whole, 1, claim))
	if r := schedule(t, e, using(makePod("p"), "stale")); r.Node != "n1" || held(e, r.Pod) != "gpu-0" {
		t.Errorf("the pod is on %q with %q: %s", r.Node, held(e, r.Pod), r.Message)
	}
}

// TestExtendedResource: a claim stands for an extended resource that a class gives out.
func TestExtendedResource(t *testing.T) {
	c := makeClaimCluster(t, draslices.Whole, 1)
	for _, obj := range c.Others() {
		if class, ok := obj.(*resourcev1.DeviceClass); ok {
			name := "example.com/gpu"
			class.Spec.ExtendedResourceName = &name
		}
	}
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, c)
	first, second := schedule(t, e, makePod("p0", "example.com/gpu", "1")), schedule(t, e, makePod("p1", "example.com/gpu", "1"))
	if first.Node != "n1" || held(e, first.Pod) != "gpu-0" || second.Node != "" {
		t.Errorf("the first pod is on %q with %q (%s), the second on %q", first.Node, held(e, first.Pod), first.Message, second.Node)
	}
	if err := e.Delete(t.Context(), "default", "p0"); err != nil {
		t.Fatal(err)
	}
	if second = schedule(t, e, second.Pod); held(e, second.Pod) != "gpu-0" {
		t.Errorf("with the first gone the second pod has %q: %s", held(e, second.Pod), second.Message)
	}
}

// TestClaimProblems: what is missing is named.
func TestClaimProblems(t *testing.T) {
	template := makeTemplate("t", draslices.NVIDIADriver, nil)
	e := newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeClaimCluster(t, draslices.Whole, 1, template))
	r := schedule(t, e, claiming(makePod("p"), "typo"))
	if want := `spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate "typo" does not exist in namespace "default"`; !strings.HasSuffix(r.Message, want) {
		t.Errorf("message %q, want %q", r.Message, want)
	}
	e = newEngine(t, Options{Config: loadProfile(t, gpuProfile)}, makeClaimCluster(t, draslices.Whole, 1))
	if _, err := e.Schedule(t.Context(), claiming(makePod("p"), "t")); err == nil || !strings.Contains(err.Error(), "needs resourceclaimtemplates, because pod default/p has spec.resourceClaims") {
		t.Errorf("without templates: %v", err)
	}
	if _, err := e.Schedule(t.Context(), using(makePod("p"), "c")); err == nil || !strings.Contains(err.Error(), "needs resourceclaims, because pod default/p has spec.resourceClaims") {
		t.Errorf("without claims: %v", err)
	}
}
