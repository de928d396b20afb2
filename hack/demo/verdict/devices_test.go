// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// sharing is by which names the scene with devices speaks of them.
func sharing() *GPU {
	return &GPU{
		MilliResource:    "example.com/milli",
		MemoryResource:   "example.com/memory",
		ModelAnnotation:  "example.com/model",
		RecordAnnotation: "example.com/record",
		DevicesPrefix:    "read.example.com/",
		SharingLabel:     "example.com/sharing",
		CountLabel:       "example.com/count",
		MemoryLabel:      "example.com/size",
		ModelLabel:       "example.com/product",
		Unknown:          []string{"example.com/cordoned"},
	}
}

// deviceScene has a node with two small devices, one with four large ones and one
// without any; pods with whole devices, halves, memory and two containers, each
// with what it asks for; and a pod that is too large for the only model it accepts.
func deviceScene() (*Cluster, *Declaration) {
	labels := func(count, size, product string) map[string]string {
		return map[string]string{"example.com/sharing": "true", "example.com/count": count, "example.com/size": size, "example.com/product": product}
	}
	cluster := &Cluster{
		Nodes: []corev1.Node{
			node("large", labels("4", "40000", "Model-L40")),
			node("small", labels("2", "10001", "Model-S10")),
			node("without", nil),
		},
		Pods: []corev1.Pod{
			holding("whole", "large", "main=0,3:1000m:40000Mi", container("main", "2000", "")),
			holding("half-a", "small", "main=0:500m:5000Mi", container("main", "500", "")),
			holding("half-b", "small", "main=0:500m:5000Mi", container("main", "500", "")),
			holding("memory", "small", "main=1:333m:3333Mi", container("main", "", "3333Mi")),
			holding("pair", "large", "left=1:250m:1Mi;right=2:250m:39999Mi", container("left", "250", "1000Ki"), container("none", "", ""), container("right", "250", "39999Mi")),
			pending("stuck", "sharer", nil, "no device has so much example.com/memory"),
		},
		Events: []eventsv1.Event{event("stuck", "FailedScheduling", "sharer", "no device has so much example.com/memory")},
	}
	cluster.Pods[0].Annotations["example.com/model"] = "none, model-L*"
	stuck := &cluster.Pods[5]
	stuck.Annotations = map[string]string{"example.com/model": "Model-S10"}
	stuck.Spec.Containers = []corev1.Container{container("main", "", "20000Mi")}
	for _, pod := range cluster.Pods[:5] {
		cluster.Events = append(cluster.Events, event(pod.Name, "Scheduled", "sharer", ""))
	}
	return cluster, &Declaration{
		Namespaces: []string{"shop"},
		Schedulers: []Scheduler{{Name: "sharer"}},
		Pending:    []Pending{{Namespace: "shop", Name: "stuck", Cause: "example.com/memory"}},
		GPU:        sharing(),
	}
}

// container asks for the amounts that are not empty.
func container(name, milli, memory string) corev1.Container {
	c := corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}}
	for resourceName, amount := range map[corev1.ResourceName]string{"example.com/milli": milli, "example.com/memory": memory} {
		if amount != "" {
			c.Resources.Limits[resourceName] = resource.MustParse(amount)
			c.Resources.Requests[resourceName] = resource.MustParse(amount)
		}
	}
	return c
}

// holding is a bound pod with a record, whose containers read what it says.
func holding(name, nodeName, text string, containers ...corev1.Container) corev1.Pod {
	p := pod(name, "sharer", nodeName, nil)
	p.Annotations = map[string]string{"example.com/record": text}
	records, err := parseRecords(text)
	if err != nil {
		panic(err)
	}
	for i := range records {
		p.Annotations["read.example.com/"+records[i].container] = records[i].indexes()
	}
	p.Spec.Containers = containers
	return p
}

// The good scene gives the devices with their holders, and no violation.
func TestJudgeDevices(t *testing.T) {
	cluster, declared := deviceScene()
	result := Judge(cluster, declared)
	if diff := cmp.Diff(map[string][]string(nil), violations(result)); diff != "" {
		t.Errorf("unexpected violations (-want,+got):\n%s", diff)
	}
	holder := func(pod, container string, milli, memory int64) Holder {
		return Holder{Namespace: "shop", Pod: pod, Container: container, Milli: milli, MemoryMiB: memory}
	}
	want := []Device{
		{Node: "large", Model: "Model-L40", Index: 0, MemoryMiB: 40000, Holders: []Holder{holder("whole", "main", 1000, 40000)}},
		{Node: "large", Model: "Model-L40", Index: 1, MemoryMiB: 40000, Holders: []Holder{holder("pair", "left", 250, 1)}},
		{Node: "large", Model: "Model-L40", Index: 2, MemoryMiB: 40000, Holders: []Holder{holder("pair", "right", 250, 39999)}},
		{Node: "large", Model: "Model-L40", Index: 3, MemoryMiB: 40000, Holders: []Holder{holder("whole", "main", 1000, 40000)}},
		{Node: "small", Model: "Model-S10", Index: 0, MemoryMiB: 10001, Holders: []Holder{holder("half-a", "main", 500, 5000), holder("half-b", "main", 500, 5000)}},
		{Node: "small", Model: "Model-S10", Index: 1, MemoryMiB: 10001, Holders: []Holder{holder("memory", "main", 333, 3333)}},
	}
	if diff := cmp.Diff(want, result.Devices); diff != "" {
		t.Errorf("unexpected devices (-want,+got):\n%s", diff)
	}
	if milli, memory := result.Devices[4].FreeMilli(), result.Devices[4].FreeMiB(); milli != 0 || memory != 1 {
		t.Errorf("%dm and %dMi are free of a device with two halves, want 0m and 1Mi", milli, memory)
	}
}

// Each case breaks one thing in the good scene, and that thing must be said, of
// the right pod, and nothing else.
func TestJudgeDeviceViolations(t *testing.T) {
	// The pods of the scene, by their index.
	const (
		whole = iota
		halfA
		halfB
		memory
		pair
		stuck
	)
	record := func(p *corev1.Pod, text, reads string) {
		p.Annotations["example.com/record"] = text
		p.Annotations["read.example.com/main"] = reads
	}
	tests := []struct {
		name   string
		change func(*Cluster, *Declaration)
		// want is violations by pod name; those of no single pod stand under "".
		want map[string][]string
	}{
		{
			name:   "another device with room",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfB], "main=1:500m:5000Mi", "1") },
		},
		{
			name: "more thousandths held than there are, by one",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[halfB].Spec.Containers[0] = container("main", "501", "5000Mi")
				record(&c.Pods[halfB], "main=0:501m:5000Mi", "0")
			},
			want: map[string][]string{"": {`device 0 of node "small": 1001m and 10000Mi are held of 1000m and 10001Mi, by shop/half-a main (500m 5000Mi), shop/half-b main (501m 5000Mi)`}},
		},
		{
			name: "more memory held than there is, by one MiB",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[halfB].Spec.Containers[0] = container("main", "500", "5002Mi")
				record(&c.Pods[halfB], "main=0:500m:5002Mi", "0")
			},
			want: map[string][]string{"": {`device 0 of node "small": 1000m and 10002Mi are held of 1000m and 10001Mi, by shop/half-a main (500m 5000Mi), shop/half-b main (500m 5002Mi)`}},
		},
		{
			name: "a whole device beside a share",
			change: func(c *Cluster, _ *Declaration) {
				record(&c.Pods[whole], "main=0,1:1000m:40000Mi", "0,1")
			},
			want: map[string][]string{"": {`device 1 of node "large": 1250m and 40001Mi are held of 1000m and 40000Mi, by shop/pair left (250m 1Mi), shop/whole main (1000m 40000Mi)`}},
		},
		{
			name: "a device shared with a pod that is not judged",
			change: func(c *Cluster, _ *Declaration) {
				other := holding("other", "small", "main=1:700m:1Mi", container("main", "700", "1Mi"))
				other.Namespace = "elsewhere"
				c.Nodes[1].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("4")
				c.Pods = append(c.Pods, other)
			},
			want: map[string][]string{"": {`device 1 of node "small": 1033m and 3334Mi are held of 1000m and 10001Mi, by elsewhere/other main (700m 1Mi), shop/memory main (333m 3333Mi)`}},
		},
		{
			name: "a device that was freed by a pod that has ended",
			change: func(c *Cluster, _ *Declaration) {
				other := holding("other", "small", "main=1:700m:1Mi", container("main", "700", "1Mi"))
				other.Namespace, other.Status.Phase = "elsewhere", corev1.PodFailed
				c.Pods = append(c.Pods, other)
			},
		},
		{
			name:   "no record",
			change: func(c *Cluster, _ *Declaration) { c.Pods[halfA].Annotations = nil },
			want:   map[string][]string{"half-a": {"asks for devices, and has no annotation example.com/record that says which"}},
		},
		{
			name: "no record of a pod that is not judged",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[halfA].Annotations, c.Pods[halfA].Namespace = nil, "elsewhere"
			},
			want: map[string][]string{"": {"pod elsewhere/half-a: asks for devices, and has no annotation example.com/record that says which"}},
		},
		{
			name:   "record that cannot be read",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfA], "main=0:500m", "0") },
			want:   map[string][]string{"half-a": {`annotation example.com/record: "main=0:500m" is not container=devices:thousandths:memory`}},
		},
		{
			name:   "record with a number that overflows",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfA], "main=0:9999999999m:5000Mi", "0") },
			want:   map[string][]string{"half-a": {`annotation example.com/record: "main=0:9999999999m:5000Mi" holds a number that no device has`}},
		},
		{
			name: "record without one of the containers",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[pair].Annotations["example.com/record"] = "left=1:250m:1Mi"
			},
			want: map[string][]string{"pair": {`container "right" asks for devices, and annotation example.com/record says nothing of it`}},
		},
		{
			name: "record of a container that asks for nothing",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[pair].Annotations["example.com/record"] += ";none=2:1m:1Mi"
			},
			want: map[string][]string{"pair": {`container "none" was given devices, and asks for none`}},
		},
		{
			name: "record of a pod that asks for nothing",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[memory].Spec.Containers[0] = container("main", "", "")
			},
			want: map[string][]string{"memory": {`container "main" was given devices, and asks for none`}},
		},
		{
			name:   "device that the node does not have",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfA], "main=2:500m:5000Mi", "2") },
			want:   map[string][]string{"half-a": {`container "main" was given device 2 of node "small", which shares 2`}},
		},
		{
			name:   "one device too few",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[whole], "main=0:1000m:40000Mi", "0") },
			want:   map[string][]string{"whole": {`container "main" asks for 2 devices, and was given 0`}},
		},
		{
			name: "the same device twice",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[whole].Spec.Containers[0] = container("main", "2000", "")
				record(&c.Pods[whole], "main=3,3:1000m:40000Mi", "3,3")
			},
			want: map[string][]string{
				"":      {`device 3 of node "large": 2000m and 80000Mi are held of 1000m and 40000Mi, by shop/whole main (1000m 40000Mi), shop/whole main (1000m 40000Mi)`},
				"whole": {`container "main" asks for 2 devices, and was given 3,3`},
			},
		},
		{
			name: "a share of the same device twice",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[memory].Spec.Containers[0] = container("main", "10", "10Mi")
				record(&c.Pods[memory], "main=1,1:10m:10Mi", "1,1")
			},
			want: map[string][]string{"memory": {`container "main" asks for 1 devices, and was given 1,1`}},
		},
		{
			name:   "less than was asked for",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfA], "main=0:499m:5000Mi", "0") },
			want:   map[string][]string{"half-a": {`container "main" asks for 500m and 5000Mi of each device, and was given 499m and 5000Mi`}},
		},
		{
			name:   "memory out of proportion",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[halfA], "main=0:500m:1Mi", "0") },
			want:   map[string][]string{"half-a": {`container "main" asks for 500m and 5000Mi of each device, and was given 500m and 1Mi`}},
		},
		{
			name:   "thousandths out of proportion",
			change: func(c *Cluster, _ *Declaration) { record(&c.Pods[memory], "main=1:1m:3333Mi", "1") },
			want:   map[string][]string{"memory": {`container "main" asks for 333m and 3333Mi of each device, and was given 1m and 3333Mi`}},
		},
		{
			name:   "container that reads other devices",
			change: func(c *Cluster, _ *Declaration) { c.Pods[halfA].Annotations["read.example.com/main"] = "1" },
			want:   map[string][]string{"half-a": {`container "main" was given devices 0, and reads "1" (annotation read.example.com/main)`}},
		},
		{
			name:   "container that reads nothing",
			change: func(c *Cluster, _ *Declaration) { delete(c.Pods[halfA].Annotations, "read.example.com/main") },
			want:   map[string][]string{"half-a": {`container "main" was given devices 0, and reads "" (annotation read.example.com/main)`}},
		},
		{
			name: "node that shares no devices",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[1].Labels["example.com/sharing"] = "false"
				c.Pods = append(c.Pods[:halfB], c.Pods[pair:]...)
			},
			want: map[string][]string{"half-a": {
				`node "small" does not share devices (label example.com/sharing=true), and the pod asks for a share`,
				`container "main" was given device 0 of node "small", which shares 0`,
			}},
		},
		{
			name:   "model that the pod does not accept",
			change: func(c *Cluster, _ *Declaration) { c.Pods[whole].Annotations["example.com/model"] = "L*, Model.L40" },
			want:   map[string][]string{"whole": {`node "large" has devices of model "Model-L40", and the pod wants "L*, Model.L40"`}},
		},
		{
			name:   "share above a device",
			change: func(c *Cluster, _ *Declaration) { c.Pods[halfA].Spec.Containers[0] = container("main", "1500", "") },
			want:   map[string][]string{"half-a": {`container "main" asks for 1500 example.com/milli, which is neither a share nor whole devices`}},
		},
		{
			name:   "share of nothing",
			change: func(c *Cluster, _ *Declaration) { c.Pods[memory].Spec.Containers[0] = container("main", "1", "0") },
			want:   map[string][]string{"memory": {`container "main" asks for 0 example.com/memory, which is nothing`}},
		},
		{
			name: "init container with a share",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[memory].Spec.InitContainers = []corev1.Container{container("early", "1", "")}
				c.Pods[halfA].Spec.InitContainers = []corev1.Container{container("idle", "", ""), container("early", "", "1Mi")}
			},
			want: map[string][]string{
				"memory": {"spec.initContainers[0] asks for example.com/milli, which this verdict cannot check"},
				"half-a": {"spec.initContainers[1] asks for example.com/memory, which this verdict cannot check"},
			},
		},
		{
			name: "annotations that are not checked",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[0].Annotations = map[string]string{"example.com/cordoned": "1"}
				c.Pods[halfA].Annotations["example.com/cordoned"] = "1"
			},
			want: map[string][]string{
				"":       {`node "large": annotation example.com/cordoned changes what is allowed in a way that this verdict cannot check`},
				"half-a": {"annotation example.com/cordoned changes what is allowed in a way that this verdict cannot check"},
			},
		},
		{
			name: "node that does not say what it has",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes = append(c.Nodes, node("vague", map[string]string{"example.com/sharing": "true", "example.com/count": "0", "example.com/size": "lots"}))
			},
			want: map[string][]string{"": {
				`node "vague" shares devices, and its label example.com/count="0" is no positive number` + "\n" +
					`node "vague" shares devices, and its label example.com/size="lots" is no positive number`,
			}},
		},
		{
			name:   "pending although a device would do",
			change: func(c *Cluster, _ *Declaration) { c.Pods[stuck].Annotations["example.com/model"] = "*" },
			want:   map[string][]string{"stuck": {`has no node, although node "large" satisfies every rule`}},
		},
		{
			name: "pending with more devices than any node has",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[stuck].Annotations = nil
				c.Pods[stuck].Spec.Containers[0] = container("main", "5000", "")
			},
		},
		{
			name: "pending with as many devices as a node has",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[stuck].Annotations = nil
				c.Pods[stuck].Spec.Containers[0] = container("main", "4000", "")
			},
			want: map[string][]string{"stuck": {`has no node, although node "large" satisfies every rule`}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, declared := deviceScene()
			tt.change(cluster, declared)
			if diff := cmp.Diff(tt.want, violations(Judge(cluster, declared))); diff != "" {
				t.Errorf("unexpected violations (-want,+got):\n%s", diff)
			}
		})
	}
}

// Without a declaration, shares are resources that no node has.
func TestJudgeDevicesUndeclared(t *testing.T) {
	cluster, declared := deviceScene()
	declared.GPU = nil
	result := Judge(cluster, declared)
	if len(result.Devices) > 0 {
		t.Errorf("got the devices %v, want none", result.Devices)
	}
	want := []string{`the pods on node "small" request 1k example.com/milli of 0`}
	if diff := cmp.Diff(want, violations(result)["half-a"]); diff != "" {
		t.Errorf("unexpected violations (-want,+got):\n%s", diff)
	}
}

// Records are read as they are written, and nothing else is.
func TestParseRecords(t *testing.T) {
	got, err := parseRecords("main=0,12:1000m:40960Mi;side-car=3:1m:1Mi")
	if err != nil {
		t.Fatal(err)
	}
	want := []record{{"main", []int{0, 12}, 1000, 40960}, {"side-car", []int{3}, 1, 1}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(record{})); diff != "" {
		t.Errorf("unexpected records (-want,+got):\n%s", diff)
	}
	for _, text := range []string{
		"", ";", "main", "main=0", "main=:1m:1Mi", "main=0,:1m:1Mi", "main=,0:1m:1Mi", "=0:1m:1Mi", "main=0:1:1Mi", "main=0:1m:1",
		"main=-1:1m:1Mi", "main=0:-1m:1Mi", "main=0:1m:1Mi;", "main=0:1m:1Mi main=1:1m:1Mi", "Main=0:1m:1Mi", "main=99999999999:1m:1Mi",
	} {
		if records, err := parseRecords(text); err == nil {
			t.Errorf("%q: got %v, want an error", text, records)
		}
	}
}
