// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// restored is a cluster at two times. At the later one the versions of all objects are
// higher, and what each of our caches keeps of them is something else.
func restored(later bool) (objects []runtime.Object) {
	first := 10
	pick := func(before, _ string) string { return before }
	if later {
		first, pick = 1000, func(_, after string) string { return after }
	}
	meta := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name), ResourceVersion: strconv.Itoa(first + len(objects))}
	}
	add := func(object runtime.Object) { objects = append(objects, object) }

	const exempt = metav1.NamespaceSystem                   // from tenancy
	tenant := &corev1.Namespace{ObjectMeta: meta("", "ns")} // LabelPresence
	tenant.Labels = map[string]string{names.TenantLabel: pick("red", "blue")}
	add(tenant)
	add(&corev1.Namespace{ObjectMeta: meta("", exempt)})
	for i, owner := range []string{"red", "red", "blue", "blue"} {
		name := fmt.Sprintf("n%d", i)
		node := st.MakeNode().Name(name).Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourcePods: "10"}).Obj()
		node.ObjectMeta = meta("", name)
		node.Labels = map[string]string{
			corev1.LabelHostname: name, corev1.LabelTopologyZone: pick("z"+name, "z"), names.TenantNodeLabel: owner,
			names.GPUSharingLabel: "true", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": pick("16384", "8192"), "nvidia.com/gpu.product": pick("A100", "H100"),
		}
		add(node)
	}
	selecting := &corev1.Service{ObjectMeta: meta(exempt, "selecting"), Spec: corev1.ServiceSpec{Selector: map[string]string{"app": pick("a", "b")}}} // Colocation
	selecting.Annotations = map[string]string{}
	add(selecting)
	add(&corev1.Service{ObjectMeta: meta(exempt, "listing")})
	slice := &discoveryv1.EndpointSlice{ObjectMeta: meta(exempt, "listing"), AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{NodeName: new(pick("n0", "n3"))}}}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: "listing"}
	add(slice)
	for i, app := range []string{"a", "a", "b"} {
		name := fmt.Sprintf("peer-%d", i)
		peer := st.MakePod().Name(name).Node(fmt.Sprintf("n%d", i+1)).Obj()
		peer.ObjectMeta = meta(exempt, name)
		peer.Labels = map[string]string{"app": pick(app, "c")}
		add(peer)
	}
	published := &resourcev1.ResourceSlice{ObjectMeta: meta("", "n1"), Spec: resourcev1.ResourceSliceSpec{ // GPUDevice
		Driver: pick("other.example.com", "gpu.nvidia.com"), NodeName: new("n1"), Pool: resourcev1.ResourcePool{Name: "n1", ResourceSliceCount: 1},
		Devices: []resourcev1.Device{{Name: "d"}},
	}}
	add(published)
	share := st.MakePod().Name("share").SchedulerName(names.Scheduler).Container("image").Obj()
	share.ObjectMeta = meta(exempt, "share")
	share.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("600")}
	share.Spec.NodeName = "n0"
	share.Annotations = map[string]string{names.GPUAssignedAnnotation: share.Spec.Containers[0].Name + "=0:600m:4915Mi"}
	if later {
		add(share)
	}
	return objects
}

// verdicts asks all plugins for the nodes that some pods may have, and for the scores.
func verdicts(ctx context.Context, t *testing.T, w *watchedScheduler) map[string]string {
	t.Helper()
	fw := w.Profiles[names.Scheduler]
	snapshot, ok := fw.SnapshotSharedLister().(*cache.Snapshot)
	if !ok {
		t.Fatalf("the snapshot is a %T", fw.SnapshotSharedLister())
	}
	if err := w.Cache.UpdateSnapshot(klog.FromContext(ctx), snapshot); err != nil {
		t.Fatal(err)
	}
	nodes, err := snapshot.List()
	if err != nil {
		t.Fatal(err)
	}
	limits := func(name corev1.ResourceName, quantity string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{name: resource.MustParse(quantity)}
		}
	}
	near := func(service, key string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{names.ColocateWithAnnotation: service, names.ColocateRequiredTopologyKeyAnnotation: key}
		}
	}
	said := map[string]string{}
	for name, arm := range map[string]func(*corev1.Pod){
		"tenant": func(*corev1.Pod) {}, "share": limits(names.GPUMilliResource, "600"), "memory": limits(names.GPUMemoryResource, "12Gi"),
		"model": func(pod *corev1.Pod) {
			limits(names.GPUMilliResource, "100")(pod)
			pod.Annotations = map[string]string{names.GPUModelAnnotation: "A100"}
		},
		"selecting": near("selecting", corev1.LabelHostname), "listing": near("listing", corev1.LabelHostname), "zone": near("selecting", corev1.LabelTopologyZone),
	} {
		pod := st.MakePod().Namespace(metav1.NamespaceSystem).Name(name).UID(name).SchedulerName(names.Scheduler).Container("image").Obj()
		if name == "tenant" {
			pod.Namespace = "ns"
		}
		arm(pod)
		state := framework.NewCycleState()
		_, status, _ := fw.RunPreFilterPlugins(ctx, state, pod)
		said[name] = status.Message()
		if !status.IsSuccess() {
			continue
		}
		for _, node := range nodes {
			said[name+" on "+node.Node().Name] = fw.RunFilterPlugins(ctx, state, pod, node).Message()
		}
	}
	return said
}

// TestRestores: after etcd was restored from a snapshot, the versions of objects are lower
// than those that the scheduler has seen. All plugins answer as after a start.
func TestRestores(t *testing.T) {
	ctx := klog.NewContext(t.Context(), klog.Logger{})
	profile := demoProfile(t, config.TenantsConfined, nil)
	before := verdicts(ctx, t, buildWatched(ctx, t, profile, restored(false)))
	after := verdicts(ctx, t, buildWatched(ctx, t, profile, restored(true)))
	differ := map[string]bool{}
	for name := range before {
		kind, _, _ := strings.Cut(name, " ")
		differ[kind] = differ[kind] || before[name] != after[name]
	}
	for kind, differs := range differ {
		if !differs {
			t.Errorf("the answers for pod %s are the same in both clusters, so it tests nothing:\n%q", kind, before)
		}
	}
	w := buildWatched(ctx, t, profile, restored(true))
	for _, object := range restored(false) {
		update(t, w, object)
	}
	if err := w.client.Tracker().Delete(corev1.SchemeGroupVersion.WithResource("pods"), metav1.NamespaceSystem, "share"); err != nil {
		t.Fatal(err)
	}
	var diff string
	err := wait.PollUntilContextTimeout(ctx, time.Millisecond, schedtest.Patience/3, true, func(ctx context.Context) (bool, error) {
		diff = cmp.Diff(before, verdicts(ctx, t, w))
		return diff == "", nil
	})
	if err != nil {
		t.Errorf("after a restore (-as after a start,+now):\n%s", diff)
	}
}

// update gives an object to the informers as it is.
func update(t *testing.T, w *watchedScheduler, object runtime.Object) {
	t.Helper()
	var resource schema.GroupVersionResource
	switch object.(type) {
	case *corev1.Namespace:
		resource = corev1.SchemeGroupVersion.WithResource("namespaces")
	case *corev1.Node:
		resource = corev1.SchemeGroupVersion.WithResource("nodes")
	case *corev1.Service:
		resource = corev1.SchemeGroupVersion.WithResource("services")
	case *corev1.Pod:
		resource = corev1.SchemeGroupVersion.WithResource("pods")
	case *discoveryv1.EndpointSlice:
		resource = discoveryv1.SchemeGroupVersion.WithResource("endpointslices")
	case *resourcev1.ResourceSlice:
		resource = resourcev1.SchemeGroupVersion.WithResource("resourceslices")
	default:
		t.Fatalf("no resource for a %T", object)
	}
	accessor, ok := object.(metav1.Object)
	if !ok {
		t.Fatalf("a %T has no name", object)
	}
	if err := w.client.Tracker().Update(resource, object, accessor.GetNamespace()); err != nil {
		t.Fatal(err)
	}
}
