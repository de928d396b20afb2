// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"os/exec"
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
	return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "gpus", Labels: map[string]string{
		"berth.dev/gpu-sharing": "true", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.memory": "1000", "nvidia.com/gpu.product": "T4",
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

// bound is a pod whose container main asks for milli and was given devices.
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

func TestCheck(t *testing.T) {
	half := bound("half", "500", "0", "main=0:500m:500Mi")
	full := bound("full", "2000", "0,1", "main=0,1:1000m:1000Mi")
	tests := []struct {
		name string
		node func(*corev1.Node)
		pods []corev1.Pod
		want []string
		// allocated is of the model t4.
		allocated int64
	}{
		{name: "nothing"},
		{name: "two halves of one device", pods: []corev1.Pod{half, bound("other", "500", "0", "main=0:500m:500Mi")}, allocated: 1000},
		{name: "two whole devices", pods: []corev1.Pod{full}, allocated: 2000},
		{
			name:      "compute of a device given away twice",
			pods:      []corev1.Pod{half, bound("other", "501", "0", "main=0:501m:501Mi")},
			want:      []string{"Overcommitted gpus/0 ns/half ns/other"},
			allocated: 1001,
		},
		{
			name: "memory of a device given away twice",
			pods: []corev1.Pod{half, with(bound("other", "100", "0", "main=0:100m:600Mi"), func(p *corev1.Pod) {
				p.Spec.Containers[0] = container("main", "100", "600Mi")
			})},
			want:      []string{"Overcommitted gpus/0 ns/half ns/other"},
			allocated: 600,
		},
		{
			name:      "a whole device and a share of it",
			pods:      []corev1.Pod{full, bound("one", "1", "1", "main=1:1m:1Mi")},
			want:      []string{"Overcommitted gpus/1 ns/full ns/one"},
			allocated: 2001,
		},
		{
			name: "a terminated pod holds nothing",
			pods: []corev1.Pod{full, with(half, func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })}, allocated: 2000,
		},
		{
			name: "a pod that is being deleted holds what it has",
			pods: []corev1.Pod{full, with(half, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) })},
			want: []string{"Overcommitted gpus/0 ns/full ns/half"}, allocated: 2500,
		},
		{
			name: "an init container and a main one take turns, a sidecar stays",
			pods: []corev1.Pod{with(bound("turns", "300", "0", "sidecar=0:200m:200Mi;init=0:700m:700Mi;main=0:300m:300Mi"), func(p *corev1.Pod) {
				sidecar := container("sidecar", "200", "")
				sidecar.RestartPolicy = ptr.To(corev1.ContainerRestartPolicyAlways)
				p.Spec.InitContainers = []corev1.Container{sidecar, container("init", "700", "")}
				p.Annotations["gpu.berth.dev/sidecar"], p.Annotations["gpu.berth.dev/init"] = "0", "0"
			}), bound("beside", "200", "0", "main=0:200m:200Mi")},
			want:      []string{"Overcommitted gpus/0 ns/beside ns/turns"},
			allocated: 1100,
		},
		{
			name: "no record",
			pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Annotations = nil })},
			want: []string{"Torn ns/half", "Unrecorded ns/half"},
		},
		{
			name: "a record that nobody can read",
			pods: []corev1.Pod{bound("half", "500", "0", "main=0:500:500")},
			want: []string{"Unrecorded ns/half"},
		},
		{
			name: "what the container reads is another device",
			pods: []corev1.Pod{bound("half", "500", "1", "main=0:500m:500Mi")},
			want: []string{"Unrecorded ns/half"},
		},
		{
			name: "what the container reads is missing",
			pods: []corev1.Pod{with(bound("half", "500", "0", "main=0:500m:500Mi"), func(p *corev1.Pod) { delete(p.Annotations, "gpu.berth.dev/main") })},
			want: []string{"Torn ns/half", "Unrecorded ns/half"},
		},
		{
			name: "less than was asked for",
			pods: []corev1.Pod{bound("half", "500", "0", "main=0:400m:500Mi")},
			want: []string{"WrongRecord ns/half"},
		},
		{
			name: "memory that was not derived in proportion",
			pods: []corev1.Pod{bound("half", "500", "0", "main=0:500m:1Mi")},
			want: []string{"WrongRecord ns/half"},
		},
		{
			name: "a device that the node has not got",
			pods: []corev1.Pod{bound("half", "500", "2", "main=2:500m:500Mi")},
			want: []string{"WrongRecord ns/half"},
		},
		{
			name: "one device twice",
			pods: []corev1.Pod{bound("full", "2000", "0,0", "main=0,0:1000m:1000Mi")},
			want: []string{"WrongRecord ns/full"},
		},
		{
			name: "one device for a container that asks for two",
			pods: []corev1.Pod{bound("full", "2000", "0", "main=0:1000m:1000Mi")},
			want: []string{"WrongRecord ns/full"},
		},
		{
			name: "a node that shares nothing",
			node: func(n *corev1.Node) { delete(n.Labels, "berth.dev/gpu-sharing") },
			pods: []corev1.Pod{half},
			want: []string{"WrongNode ns/half"},
		},
		{
			name: "devices without a node",
			pods: []corev1.Pod{full, with(waiting("early", "500"), func(p *corev1.Pod) { p.Annotations = half.Annotations })},
			want: []string{"Torn ns/early"}, allocated: 2000,
		},
		{
			name: "a pod waits, and somebody says why",
			pods: []corev1.Pod{full, waiting("late", "1")}, allocated: 2000,
		},
		{
			name: "a pod waits in silence",
			pods: []corev1.Pod{full, with(waiting("late", "1"), func(p *corev1.Pod) { p.Status.Conditions = nil })},
			want: []string{"Silent ns/late"}, allocated: 2000,
		},
		{
			name: "a pod waits although there is room",
			pods: []corev1.Pod{half, waiting("late", "1000")},
			want: []string{"Stranded ns/late"}, allocated: 500,
		},
		{
			name: "a pod waits for two devices where one is free",
			pods: []corev1.Pod{half, waiting("late", "2000")}, allocated: 500,
		},
		{
			name: "a node with an unknown pod has no room",
			pods: []corev1.Pod{with(half, func(p *corev1.Pod) { p.Annotations = nil }), waiting("late", "100")},
			want: []string{"Torn ns/half", "Unrecorded ns/half"},
		},
		{
			name: "a cordoned device has no room",
			node: func(n *corev1.Node) { n.Annotations = map[string]string{"berth.dev/gpu-cordoned": "1"} },
			pods: []corev1.Pod{half, waiting("late", "600")}, allocated: 500,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			node := gpus()
			if tt.node != nil {
				tt.node(&node)
			}
			r := Check([]corev1.Node{node}, tt.pods)
			var got []string
			for _, p := range r.Problems {
				got = append(got, strings.Join(append([]string{string(p.Kind), p.Object}, p.Pods...), " "))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected problems (-want,+got):\n%s\n%s", diff, r.Problems)
			}
			if r.Allocated["t4"] != tt.allocated {
				t.Errorf("%dm are allocated, want %dm", r.Allocated["t4"], tt.allocated)
			}
		})
	}
}

func TestCheckLost(t *testing.T) {
	created := map[string]string{"ns/there": "there", "ns/gone": "gone", "ns/replaced": "first"}
	pods := []corev1.Pod{bound("there", "1", "0", ""), with(bound("replaced", "1", "0", ""), func(p *corev1.Pod) { p.UID = "second" })}
	var got []string
	for _, p := range CheckLost(created, pods) {
		got = append(got, string(p.Kind)+" "+p.Object)
	}
	if diff := cmp.Diff([]string{"Lost ns/gone", "Lost ns/replaced"}, got); diff != "" {
		t.Errorf("Unexpected problems (-want,+got):\n%s", diff)
	}
}

func TestCheckView(t *testing.T) {
	page := func(milli, blocked, reservations int) string {
		return fmt.Sprintf(`# TYPE berth_gpudevice_allocated_milli gauge
berth_gpudevice_allocated_milli{model="t4",profile="other"} 7
berth_gpudevice_allocated_milli{model="t4",profile="berth-scheduler"} %d
berth_gpudevice_blocked_nodes{profile="berth-scheduler"} %d
berth_gpudevice_reservations{profile="berth-scheduler"} %d
`, milli, blocked, reservations)
	}
	tests := []struct {
		name, page string
		want       int
	}{
		{"as the API says", page(500, 0, 0), 0},
		{"less than is held", page(499, 0, 0), 1},
		{"more than is held", page(1500, 0, 0), 1},
		{"a node blocked for nothing", page(500, 1, 0), 1},
		{"a promise that was not kept", page(500, 0, 1), 1},
		{"no metrics at all", "", 3},
		{"large numbers are written with an exponent", strings.Replace(page(0, 0, 0), " 0\n", " 5e+02\n", 1), 0},
	}
	r := Check([]corev1.Node{gpus()}, []corev1.Pod{bound("half", "500", "0", "main=0:500m:500Mi")})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if problems := CheckView(tt.page, "berth-scheduler", r); len(problems) != tt.want {
				t.Errorf("want %d problems, got %s", tt.want, problems)
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
				h.Saw(&tt.versions[i])
			}
			problems, versions, bindings := h.Problems()
			var got []Kind
			for _, p := range problems {
				got = append(got, p.Kind)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Unexpected problems (-want,+got):\n%s\n%s", diff, problems)
			}
			if versions != len(tt.versions) || bindings != 1 {
				t.Errorf("%d versions and %d bindings, want %d and 1", versions, bindings, len(tt.versions))
			}
		})
	}
}

// TestIndependence: what judges the plugin shares no code with it.
func TestIndependence(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for imported := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(imported, "github.com/berth-scheduler/") || strings.HasPrefix(imported, "k8s.io/kubernetes") || strings.HasPrefix(imported, "k8s.io/kube-scheduler") {
			got = append(got, imported)
		}
	}
	want := []string{
		"github.com/berth-scheduler/berth/pkg/apis/names", // keys alone
		"github.com/berth-scheduler/berth/test/integration/gpuchaos/checker",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected imports (-want,+got):\n%s", diff)
	}
}
