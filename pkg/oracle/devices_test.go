// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// gpus is a shared node with 2 devices of 1000 MiB.
func gpus() corev1.Node {
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpus", Annotations: map[string]string{}, Labels: map[string]string{
		"berth.dev/gpu-sharing": "true", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "1000", "nvidia.com/gpu.product": "Tesla-T4",
	}}}
}

func container(name, milli, memory string) corev1.Container {
	limits := corev1.ResourceList{}
	if milli != "" {
		limits["berth.dev/gpu-milli"] = resource.MustParse(milli)
	}
	if memory != "" {
		limits["berth.dev/gpu-memory"] = resource.MustParse(memory)
	}
	return corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: limits}}
}

// bound is a pod whose container main requests milli and was given devices.
func bound(name, milli, devices, record string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Annotations: map[string]string{
			"gpu.berth.dev/main": devices, "berth.dev/gpu-assigned": record,
		}},
		Spec: corev1.PodSpec{NodeName: "gpus", Containers: []corev1.Container{container("main", milli, "")}},
	}
}

// waiting is a pod without a node of which a scheduler has said why.
func waiting(name, milli string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{container("main", milli, "")}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "no room"},
		}},
	}
}

func with(pod corev1.Pod, change func(*corev1.Pod)) corev1.Pod {
	change(&pod)
	return pod
}

// requesting makes the pod request other amounts.
func requesting(pod corev1.Pod, milli, memory string) corev1.Pod {
	pod.Spec.Containers = []corev1.Container{container("main", milli, memory)}
	return pod
}

func TestCheckDevices(t *testing.T) {
	half := bound("half", "500", "0", "main=0:500m:500Mi")
	full := bound("full", "2000", "0,1", "main=0,1:1000m:1000Mi")
	silent := with(waiting("late", "1"), func(p *corev1.Pod) { p.Status.Conditions = nil })
	plugin := with(waiting("plugin", ""), func(p *corev1.Pod) {
		p.Spec.NodeName = "gpus"
		p.Spec.Containers[0].Resources.Limits["nvidia.com/gpu"] = resource.MustParse("1")
	})
	annotated := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[key] = value }
	}
	wants := func(pod corev1.Pod, key, value string) corev1.Pod {
		return with(pod, func(p *corev1.Pod) {
			p.Annotations = map[string]string{key: value, "berth.dev/gpu-assigned": half.Annotations["berth.dev/gpu-assigned"], "gpu.berth.dev/main": "0"}
		})
	}
	tests := []struct {
		name string
		node func(*corev1.Node)
		pods []corev1.Pod
		want []string
		// allocated is of the model tesla-t4.
		allocated int64
		// full: the node has no room for 500 more.
		full bool
	}{
		{name: "nothing"},
		{name: "two halves of one device", pods: []corev1.Pod{half, bound("other", "500", "0", "main=0:500m:500Mi")}, allocated: 1000},
		{name: "two whole devices", pods: []corev1.Pod{full}, allocated: 2000, full: true},
		{name: "compute overcommitted by one", pods: []corev1.Pod{half, bound("other", "501", "0", "main=0:501m:501Mi")}, want: []string{"Overcommitted gpus/0 ns/half ns/other"}, allocated: 1001},
		{name: "memory overcommitted", pods: []corev1.Pod{half, requesting(bound("other", "", "0", "main=0:100m:501Mi"), "100", "501Mi")}, want: []string{"OvercommittedMemory gpus/0 ns/half ns/other"}, allocated: 600},
		{name: "a whole device and a share of it", pods: []corev1.Pod{full, bound("one", "1", "1", "main=1:1m:1Mi")}, want: []string{"Overcommitted gpus/1 ns/full ns/one"}, allocated: 2001, full: true},
		{name: "a terminated pod uses nothing", pods: []corev1.Pod{full, with(half, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, allocated: 2000, full: true},
		{name: "a pod that is being deleted uses what it has", pods: []corev1.Pod{full, with(half, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })}, want: []string{"Overcommitted gpus/0 ns/full ns/half"}, allocated: 2500, full: true},
		{
			name: "an init container and a main one take turns, a sidecar stays",
			pods: []corev1.Pod{with(bound("turns", "300", "0", "sidecar=0:200m:200Mi;init=0:700m:700Mi;main=0:300m:300Mi"), func(p *corev1.Pod) {
				sidecar := container("sidecar", "200", "")
				sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				p.Spec.InitContainers = []corev1.Container{sidecar, container("init", "700", "")}
				p.Annotations["gpu.berth.dev/sidecar"], p.Annotations["gpu.berth.dev/init"] = "0", "0"
			}), bound("beside", "200", "0", "main=0:200m:200Mi")},
			want: []string{"Overcommitted gpus/0 ns/beside ns/turns"}, allocated: 1100,
		},
		{name: "no record", pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Annotations = nil })}, want: []string{"Torn ns/half", "Unrecorded ns/half"}},
		{name: "what the container reads is another device", pods: []corev1.Pod{bound("half", "500", "1", "main=0:500m:500Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "what the container reads is missing", pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Annotations = map[string]string{"berth.dev/gpu-assigned": "main=0:500m:500Mi"} })}, want: []string{"Torn ns/half", "WrongRecord ns/half"}},
		{name: "less than was requested", pods: []corev1.Pod{bound("half", "500", "0", "main=0:400m:500Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "memory out of proportion", pods: []corev1.Pod{bound("half", "500", "0", "main=0:500m:1Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "compute out of proportion", pods: []corev1.Pod{requesting(bound("half", "", "0", "main=0:1m:333Mi"), "", "333Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "compute in proportion", pods: []corev1.Pod{requesting(bound("half", "", "0", "main=0:333m:333Mi"), "", "333Mi")}, allocated: 333},
		{name: "a device that the node does not have", pods: []corev1.Pod{bound("half", "500", "2", "main=2:500m:500Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "one device twice", pods: []corev1.Pod{bound("full", "2000", "0,0", "main=0,0:1000m:1000Mi")}, want: []string{"Overcommitted gpus/0 ns/full", "WrongRecord ns/full"}},
		{name: "one device for a container that requests two", pods: []corev1.Pod{bound("full", "2000", "0", "main=0:1000m:1000Mi")}, want: []string{"WrongRecord ns/full"}},
		{name: "no entry for a container", pods: []corev1.Pod{with(half, func(p *corev1.Pod) {
			p.Spec.Containers = append(p.Spec.Containers, container("side", "100", ""))
		})}, want: []string{"Torn ns/half", "WrongRecord ns/half"}},
		{name: "an entry for a container that requests nothing", pods: []corev1.Pod{bound("half", "500", "0", "main=0:500m:500Mi;side=1:1m:1Mi")}, want: []string{"WrongRecord ns/half"}},
		{name: "a record of a pod that requests nothing", pods: []corev1.Pod{requesting(half, "", "")}, want: []string{"WrongRecord ns/half"}},
		{name: "a request of nothing", pods: []corev1.Pod{with(waiting("zero", "0"), func(p *corev1.Pod) { p.Spec.NodeName = "gpus" })}},
		{name: "a share above a device", pods: []corev1.Pod{bound("half", "1500", "0", "main=0:500m:500Mi")}, want: []string{"InvalidRequest ns/half"}},
		{name: "a node that shares nothing", node: func(n *corev1.Node) { delete(n.Labels, "berth.dev/gpu-sharing") }, pods: []corev1.Pod{half}, want: []string{"WrongNode ns/half"}},
		{name: "a node whose device plugin hands out the same devices", node: func(n *corev1.Node) {
			n.Status.Capacity = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("2")}
		}, pods: []corev1.Pod{half}, want: []string{"WrongNode ns/half"}},
		{name: "a node that does not exist", pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Spec.NodeName = "gone" })}, want: []string{"WrongNode ns/half"}},
		{name: "an accepted model", pods: []corev1.Pod{wants(half, "berth.dev/gpu-model", "L4, tesla-*")}, allocated: 500},
		{name: "another model", pods: []corev1.Pod{wants(half, "berth.dev/gpu-model", "L*, Tesla.T4")}, want: []string{"WrongNode ns/half"}, allocated: 500},
		{name: "enough memory", pods: []corev1.Pod{wants(half, "berth.dev/gpu-min-memory", "1000Mi")}, allocated: 500},
		{name: "too little memory", pods: []corev1.Pod{wants(half, "berth.dev/gpu-min-memory", "1001Mi")}, want: []string{"WrongNode ns/half"}, allocated: 500},
		{name: "devices without a node", pods: []corev1.Pod{full, with(waiting("early", "500"), func(p *corev1.Pod) { p.Annotations = half.Annotations })}, want: []string{"Torn ns/early"}, allocated: 2000, full: true},
		{name: "a pod waits, and somebody says why", pods: []corev1.Pod{full, waiting("late", "1")}, allocated: 2000, full: true},
		{name: "a pod waits in silence", pods: []corev1.Pod{full, silent}, want: []string{"Silent ns/late"}, allocated: 2000, full: true},
		{name: "a pod waits although there is room", pods: []corev1.Pod{half, waiting("late", "1000")}, want: []string{"Stranded ns/late"}, allocated: 500},
		{name: "a pod waits for two devices where one is free", pods: []corev1.Pod{half, waiting("late", "2000")}, allocated: 500},
		{name: "a pod waits for another model", pods: []corev1.Pod{with(waiting("late", "1"), func(p *corev1.Pod) { p.Annotations = map[string]string{"berth.dev/gpu-model": "L4"} })}},
		{name: "a node with an unknown pod has no room", pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Annotations = nil }), waiting("late", "100")}, want: []string{"Torn ns/half", "Unrecorded ns/half"}},
		{name: "a cordoned device has no room", node: annotated("berth.dev/gpu-cordoned", "1"), pods: []corev1.Pod{half, waiting("late", "600")}, allocated: 500},
		{name: "a pod of a device plugin closes the node", pods: []corev1.Pod{plugin, waiting("late", "1")}, full: true},
		{name: "one that has ended does not", pods: []corev1.Pod{with(plugin, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}},
		{name: "two devices by UUID", node: annotated("berth.dev/gpu-uuids", "GPU-a,GPU-b"), pods: []corev1.Pod{
			bound("a", "600", "GPU-a", "main=0:600m:600Mi"), bound("b", "600", "GPU-b", "main=1:600m:600Mi"),
		}, allocated: 1200, full: true},
		{name: "one device twice by UUID, listed in another order since", node: annotated("berth.dev/gpu-uuids", "GPU-b,GPU-a"), pods: []corev1.Pod{
			bound("a", "600", "GPU-a", "main=0:600m:600Mi"), bound("b", "600", "GPU-a", "main=1:600m:600Mi"),
		}, want: []string{"Overcommitted gpus/GPU-a ns/a ns/b"}, allocated: 1200},
		{name: "one device by index and UUID", node: annotated("berth.dev/gpu-uuids", "GPU-b,GPU-a"), pods: []corev1.Pod{
			bound("a", "600", "1", "main=1:600m:600Mi"), bound("b", "600", "GPU-a", "main=0:600m:600Mi"),
		}, want: []string{"Overcommitted gpus/GPU-a ns/a ns/b"}, allocated: 1200},
		{name: "a device that is gone", node: annotated("berth.dev/gpu-uuids", "GPU-b,GPU-c"), pods: []corev1.Pod{
			bound("a", "600", "GPU-a", "main=0:600m:600Mi"), bound("b", "600", "GPU-b", "main=0:600m:600Mi"),
		}, allocated: 1200},
		{name: "UUIDs where none are listed any more", pods: []corev1.Pod{bound("a", "600", "GPU-a", "main=0:600m:600Mi"), waiting("late", "1")}, allocated: 600, full: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := gpus()
			if tt.node != nil {
				tt.node(&node)
			}
			d := CheckDevices([]corev1.Node{node}, tt.pods)
			var got []string
			for _, v := range d.Violations {
				got = append(got, strings.Join(append([]string{string(v.Kind), v.Object}, v.Pods...), " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected violations (-want,+got):\n%s\n%s", diff, d.Violations)
			}
			if d.Allocated["tesla-t4"] != tt.allocated {
				t.Errorf("%dm are allocated, want %dm", d.Allocated["tesla-t4"], tt.allocated)
			}
			if _, shares := readNode(&node); shares && d.HasCompute("gpus", 500) == tt.full {
				t.Errorf("want the node to be full: %t, got %t", tt.full, !tt.full)
			}
		})
	}
}

// TestDevices: who has what of each device, and in which words too much is told.
func TestDevices(t *testing.T) {
	d := CheckDevices([]corev1.Node{gpus()}, []corev1.Pod{
		bound("b", "600", "1", "main=1:600m:600Mi"), bound("a", "600", "1", "main=1:600m:600Mi"),
	})
	want := []Device{
		{Node: "gpus", Model: "Tesla-T4", Index: 0, MemoryMiB: 1000, FreeMilli: 1000, FreeMiB: 1000},
		{Node: "gpus", Model: "Tesla-T4", Index: 1, MemoryMiB: 1000, FreeMilli: -200, FreeMiB: -200, Allocations: []Allocation{{"ns/a", "main", 600, 600}, {"ns/b", "main", 600, 600}}},
	}
	if diff := cmp.Diff(want, d.All); diff != "" {
		t.Errorf("Unexpected devices (-want,+got):\n%s", diff)
	}
	const text = "1 violations\n\t" +
		`Overcommitted gpus/1: 1200m of 1000m and 1200Mi of 1000Mi of device 1 of node "gpus" are allocated, to ns/a main (600m 600Mi), ns/b main (600m 600Mi)`
	if diff := cmp.Diff(text, d.Violations.String()); diff != "" {
		t.Errorf("Unexpected text (-want,+got):\n%s", diff)
	}
}

// Records are read as they are written, and nothing else is.
func TestReadRecord(t *testing.T) {
	read := func(text string) (map[string]recorded, error) {
		return readRecord(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"berth.dev/gpu-assigned": text}}})
	}
	got, err := read("main=0,12:1000m:40960Mi;side-car=3:1m:1Mi")
	want := map[string]recorded{"main": {[]int{0, 12}, nil, amount{1000, 40960}}, "side-car": {[]int{3}, nil, amount{1, 1}}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(recorded{}, amount{})); diff != "" || err != nil {
		t.Errorf("error %v, unexpected records (-want,+got):\n%s", err, diff)
	}
	for _, text := range []string{
		"", ";", "main", "main=0", "main=:1m:1Mi", "main=0,:1m:1Mi", "main=,0:1m:1Mi", "=0:1m:1Mi", "main=0:1:1Mi", "main=0:1m:1",
		"main=-1:1m:1Mi", "main=0:-1m:1Mi", "main=0:1m:1Mi;", "main=0:1m:1Mi main=1:1m:1Mi", "Main=0:1m:1Mi", "main=99999999999:1m:1Mi", "main=0:1m:1Mi;main=1:1m:1Mi",
	} {
		if record, err := read(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, record)
		}
	}
}

// TestRivals: a node on which a rival gave a share is closed to the other, and to nobody else.
func TestRivals(t *testing.T) {
	by := func(scheduler string, pod corev1.Pod) corev1.Pod {
		return with(pod, func(p *corev1.Pod) { p.Spec.SchedulerName = scheduler })
	}
	pods := []corev1.Pod{by("one", bound("b", "600", "1", "main=1:600m:600Mi")), by("two", waiting("a", "500"))}
	page := "berth_gpudevice_allocated_milli{model=\"tesla-t4\",profile=\"two\"} 600\n" +
		"berth_gpudevice_blocked_nodes{profile=\"two\"} 1\nberth_gpudevice_reservations{profile=\"two\"} 0\n"
	for _, tt := range []struct {
		rivals []string
		closed bool
	}{
		{nil, false}, {[]string{"one"}, false}, {[]string{"two", "three"}, false}, {[]string{"two", "two"}, false}, {[]string{"one", "two"}, true},
	} {
		d := CheckDevices([]corev1.Node{gpus()}, pods, tt.rivals...)
		if stranded := len(d.Violations.Of(Stranded)) > 0; stranded == tt.closed || len(d.ClosedTo("one")) > 0 || (d.ClosedTo("two").Len() == 1) != tt.closed {
			t.Errorf("%q: closed to two %q and to one %q, %s", tt.rivals, d.ClosedTo("two"), d.ClosedTo("one"), d.Violations)
		}
		if wrong := CheckMetrics(page, "two", d); len(wrong) == 0 != tt.closed {
			t.Errorf("%q: a blocked node: %s", tt.rivals, wrong)
		}
	}
}

func TestCheckLost(t *testing.T) {
	created := map[string]string{"ns/there": "there", "ns/gone": "gone", "ns/replaced": "first"}
	pods := []corev1.Pod{bound("there", "1", "0", ""), with(bound("replaced", "1", "0", ""), func(p *corev1.Pod) { p.UID = "second" })}
	if got := CheckLost(created, pods); len(got) != 2 || len(got.On("ns/gone")) != 1 || len(got.On("ns/replaced")) != 1 || len(got.Of(Lost)) != 2 {
		t.Errorf("got %v", got)
	}
}

func TestCheckMetrics(t *testing.T) {
	page := func(milli, blocked, reservations int) string {
		return fmt.Sprintf(`# TYPE berth_gpudevice_allocated_milli gauge
berth_gpudevice_allocated_milli{model="tesla-t4",profile="other"} 7
berth_gpudevice_allocated_milli{model="tesla-t4",profile="berth-scheduler"} %d
berth_gpudevice_blocked_nodes{profile="berth-scheduler"} %d
berth_gpudevice_reservations{profile="berth-scheduler"} %d
`, milli, blocked, reservations)
	}
	tests := []struct {
		name, page string
		want       int
	}{
		{"as the API says", page(500, 0, 0), 0},
		{"less than is allocated", page(499, 0, 0), 1},
		{"more than is allocated", page(1500, 0, 0), 1},
		{"a node blocked for nothing", page(500, 1, 0), 1},
		{"a reservation that was not bound", page(500, 0, 1), 1},
		{"no metrics at all", "", 3},
		{"large numbers are written with an exponent", strings.Replace(page(0, 0, 0), " 0\n", " 5e+02\n", 1), 0},
	}
	d := CheckDevices([]corev1.Node{gpus()}, []corev1.Pod{bound("half", "500", "0", "main=0:500m:500Mi")})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := CheckMetrics(tt.page, "berth-scheduler", d); len(got) != tt.want {
				t.Errorf("want %d violations, got %s", tt.want, got)
			}
		})
	}
}

func TestHistory(t *testing.T) {
	half := bound("half", "500", "0", "main=0:500m:500Mi")
	unbound := with(waiting("half", "500"), func(p *corev1.Pod) { p.UID = half.UID })
	moved := bound("half", "500", "1", "main=1:500m:500Mi")
	bare := with(half, func(p *corev1.Pod) { p.Annotations = nil })
	tests := []struct {
		name     string
		versions []corev1.Pod
		want     []Kind
	}{
		{"node and devices at once", []corev1.Pod{unbound, half, half}, nil},
		{"the node first", []corev1.Pod{unbound, bare, half}, []Kind{Moved, Torn}},
		{"the devices first", []corev1.Pod{with(unbound, func(p *corev1.Pod) { p.Annotations = half.Annotations }), half}, []Kind{Torn}},
		{"another device later", []corev1.Pod{unbound, half, moved}, []Kind{Moved}},
		{"another node later", []corev1.Pod{half, with(half, func(p *corev1.Pod) { p.Spec.NodeName = "other" })}, []Kind{Moved}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			for i := range tt.versions {
				h.Observe(&tt.versions[i])
			}
			violations, versions, bindings := h.Violations()
			var got []Kind
			for _, v := range violations {
				got = append(got, v.Kind)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected violations (-want,+got):\n%s\n%s", diff, violations)
			}
			if versions != len(tt.versions) || bindings != 1 {
				t.Errorf("%d versions and %d bindings, want %d and 1", versions, bindings, len(tt.versions))
			}
		})
	}
}

// TestGivenTwice: a device is given twice where versions overlap, whatever was seen first.
func TestGivenTwice(t *testing.T) {
	at := func(version, name, milli, device string) *corev1.Pod {
		pod := bound(name, milli, device, "main="+device+":"+milli+"m:500Mi")
		pod.ResourceVersion = version
		return &pod
	}
	ended := func(pod *corev1.Pod) *corev1.Pod {
		pod.Status.Phase = corev1.PodSucceeded
		return pod
	}
	observe := func(pods ...*corev1.Pod) func(*History) {
		return func(h *History) {
			for _, pod := range pods {
				h.Observe(pod)
			}
		}
	}
	tests := []struct {
		name  string
		watch func(*History)
		want  []string
	}{
		{"side by side", observe(at("10", "a", "500", "0"), at("11", "b", "500", "0"), at("12", "c", "600", "1")), nil},
		{"too much", observe(at("10", "a", "500", "0"), at("11", "b", "600", "0")), []string{"a b"}},
		{"seen in another order", observe(at("12", "b", "600", "0"), at("10", "a", "500", "0")), []string{"a b"}},
		{"one after the other", func(h *History) {
			h.Observe(at("10", "a", "500", "0"))
			h.Gone(at("15", "a", "500", "0"))
			h.Observe(at("16", "b", "600", "0"))
		}, nil},
		{"deleted too late", func(h *History) {
			h.Observe(at("10", "a", "500", "0"))
			h.Observe(at("12", "b", "600", "0"))
			h.Gone(at("15", "a", "500", "0"))
		}, []string{"a b"}},
		{"both gone since", func(h *History) {
			h.Observe(at("10", "a", "500", "0"))
			h.Observe(at("12", "b", "600", "0"))
			h.Gone(at("15", "a", "500", "0"))
			h.Gone(at("16", "b", "600", "0"))
		}, []string{"a b"}},
		{"the deletion was missed, and told after the next one", func(h *History) {
			h.Observe(at("10", "a", "500", "0"))
			h.Observe(at("30", "b", "600", "0"))
			h.Gone(at("10", "a", "500", "0"))
		}, nil},
		{"ended before", observe(at("10", "a", "500", "0"), ended(at("15", "a", "500", "0")), at("16", "b", "600", "0")), nil},
		{"ended too late", observe(at("10", "a", "500", "0"), at("12", "b", "600", "0"), ended(at("15", "a", "500", "0"))), []string{"a b"}},
		{"the same UUID", func(h *History) {
			for i, pod := range []*corev1.Pod{at("10", "a", "500", "0"), at("11", "b", "600", "1")} {
				pod.Annotations["gpu.berth.dev/main"] = "GPU-1"
				pod.Name += strconv.Itoa(i)
				h.Observe(pod)
			}
		}, []string{"a0 b1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := NewHistory()
			tt.watch(h)
			violations, _, _ := h.Violations()
			var got []string
			for _, v := range violations {
				if v.Kind != Overcommitted {
					t.Errorf("Unexpected violation: %v", v)
				}
				got = append(got, strings.ReplaceAll(strings.Join(v.Pods, " "), "ns/", ""))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected pods on one device (-want,+got):\n%s\n%s", diff, violations)
			}
		})
	}
}
