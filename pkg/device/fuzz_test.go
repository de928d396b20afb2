// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// The fuzz tests of this package have each been run over 1,000,000 values without
// a finding, with
//
//	go test -run '^$' -fuzz '^FuzzParsePod$' -fuzztime 1000000x ./pkg/device
//
// testdata/fuzz keeps a few dozen of the inputs that this came upon: those that
// reach what the seeds here do not, and one for every other path through the
// parser. Every go test runs them.

// FuzzParseRecords: what is accepted is the one way to write what was understood,
// and within bounds.
func FuzzParseRecords(f *testing.F) {
	f.Add("trainer=0,1:1000m:81920Mi;loader-2=15:1m:1Mi")
	f.Add("a=0:500m:1Mi;a=1:500m:1Mi")
	f.Add("a=00:0500m:01Mi")
	f.Add("a=0,1:500m:1Mi")
	f.Add("a=1,0:1000m:1Mi;")
	f.Add("=:m:Mi")
	f.Fuzz(func(t *testing.T, text string) {
		records, err := ParseRecords(text)
		if err != nil {
			if err.Error() == "" {
				t.Error("an error without text")
			}
			return
		}
		if again := FormatRecords(records); again != text {
			t.Errorf("accepted %q, which is written %q", text, again)
		}
		if len(records) == 0 || len(records) > MaxContainers {
			t.Errorf("%d records", len(records))
		}
		for _, r := range records {
			if r.Devices == 0 || r.Share.Milli < 1 || r.Share.Milli > MilliPerDevice || r.Share.MemoryMiB < 1 || r.Share.MemoryMiB > MaxMemoryMiB {
				t.Errorf("accepted %+v", r)
			}
		}
	})
}

// FuzzParseAssignment: what is accepted agrees with the request and with what the
// containers read.
func FuzzParseAssignment(f *testing.F) {
	f.Add("a=0:500m:8192Mi", "0", uint16(500), uint32(0))
	f.Add("a=0,1:1000m:16384Mi", "GPU-a,GPU-b", uint16(2000), uint32(16384))
	f.Add("a=3:62m:1024Mi", "all", uint16(0), uint32(1024))
	f.Fuzz(func(t *testing.T, record, reads string, milli uint16, mebibytes uint32) {
		container := ContainerRequest{Container: "a", Devices: max(1, int(milli)/MilliPerDevice), Milli: min(int64(milli), MilliPerDevice), MemoryMiB: int64(mebibytes)}
		r := &Request{Kind: RequestShares, Containers: []ContainerRequest{container}}
		a, err := ParseAssignment(map[string]string{
			names.GPUAssignedAnnotation:            record,
			names.GPUDevicesAnnotationPrefix + "a": reads,
		}, r)
		if err != nil {
			return
		}
		if a.Devices[0].Len() != container.Devices || strings.Count(reads, ",")+1 != container.Devices {
			t.Errorf("accepted %d devices and %q for %d", a.Devices[0].Len(), reads, container.Devices)
		}
		if container.Milli != 0 && a.Shares[0].Milli != container.Milli || container.MemoryMiB != 0 && a.Shares[0].MemoryMiB != container.MemoryMiB {
			t.Errorf("accepted %+v for %+v", a.Shares[0], container)
		}
		s := NewUsage(MaxDevices, MaxMemoryMiB, 0)
		holding := a.PodUsage(r.Containers)
		s.Add(&holding)
		if s.Overcommitted() != 0 {
			t.Errorf("one pod holds more than a device: %q", record)
		}
	})
}

// FuzzParsePod puts any quantity, resource name and annotation on a pod: there is
// a request that fits an empty node or not, or an error that names its reason.
func FuzzParsePod(f *testing.F) {
	f.Add("500", "1Gi", "0", names.GPUMilliResource, "NVIDIA-A100*", "40Gi", uint8(0))
	f.Add("1500", "-1", "1", names.Domain+"/gpu-mili", "", "1e30", uint8(1))
	f.Add("1e30", "1e-9", "500m", "cpu", ",", "0", uint8(2))
	f.Add("", "0.1", "9223372036854775807", plugin, "*", "-0", uint8(3))
	f.Fuzz(func(t *testing.T, milliText, memoryText, pluginText, other, model, minMemory string, shape uint8) {
		c := corev1.Container{Name: "a", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{}, Requests: corev1.ResourceList{}}}
		for name, text := range map[string]string{names.GPUMilliResource: milliText, names.GPUMemoryResource: memoryText, plugin: pluginText, other: "1"} {
			if exponent := strings.TrimLeft(text, "+-.0123456789"); len(text) > 100 || len(exponent) > 4 {
				return // parsing it is the API server's trouble, and can take hours
			}
			if q, err := resource.ParseQuantity(text); err == nil {
				c.Resources.Limits[corev1.ResourceName(name)] = q
				if shape&4 != 0 {
					c.Resources.Requests[corev1.ResourceName(name)] = q
				}
			}
		}
		pod := &corev1.Pod{}
		if shape&8 != 0 {
			pod.Annotations = map[string]string{names.GPUModelAnnotation: model}
		}
		if shape&16 != 0 {
			pod.Annotations = map[string]string{names.GPUMinMemoryAnnotation: minMemory}
		}
		switch shape & 3 {
		case 0:
			pod.Spec.Containers = []corev1.Container{c}
		case 1:
			pod.Spec.InitContainers = []corev1.Container{c, sidecar(c)}
		case 2:
			pod.Spec.InitContainers = []corev1.Container{sidecar(c)}
			pod.Spec.Containers = []corev1.Container{c, c}
		case 3:
			for range 20 {
				pod.Spec.Containers = append(pod.Spec.Containers, c)
			}
		}
		checkParsedPod(t, pod)
	})
}

// checkParsedPod parses a pod and places it on an empty node.
func checkParsedPod(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	r, err := ParsePod(pod, podKeys)
	if err != nil {
		var refused *InvalidError
		if !errors.As(err, &refused) || refused.Reason == "" || refused.Field == "" || refused.Detail == "" {
			t.Errorf("error %v does not say what is wrong where", err)
		}
		return
	}
	if (r.Kind == RequestNone) != (len(r.Containers) == 0) || len(r.Containers) > MaxContainers {
		t.Fatalf("form %d with %d asks", r.Kind, len(r.Containers))
	}
	for _, a := range r.Containers {
		if a.Devices < 1 || a.Milli < 0 || a.Milli > MilliPerDevice || a.MemoryMiB < 0 || a.MemoryMiB > MaxMemoryMiB ||
			a.Milli == 0 && a.MemoryMiB == 0 || a.Devices > 1 && a.Milli != MilliPerDevice {
			t.Errorf("accepted %+v", a)
		}
	}
	if r.Kind != RequestShares {
		return
	}
	// All containers ask for the same, so each ask must be exactly that.
	limits := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)[0].Resources.Limits
	milli, hasMilli := limits[names.GPUMilliResource]
	memory, hasMemory := limits[names.GPUMemoryResource]
	for _, a := range r.Containers {
		if hasMilli != (a.Milli != 0) || hasMilli && milli.CmpInt64(int64(a.Devices)*a.Milli) != 0 {
			t.Errorf("%s %s became %+v", names.GPUMilliResource, milli.String(), a)
		}
		if hasMemory != (a.MemoryMiB != 0) || hasMemory && (memory.CmpInt64(a.MemoryMiB*bytesPerMiB) > 0 || memory.CmpInt64((a.MemoryMiB-1)*bytesPerMiB) <= 0) {
			t.Errorf("%s %s became %+v", names.GPUMemoryResource, memory.String(), a)
		}
	}
	n := &Node{Kind: NodeShared, Devices: 4, MemoryMiB: 81920, Model: "nvidia-a100"}
	s := usageOf(n)
	fits := s.Fits(r)
	a, ok := Assign(FragmentationGradient{}, CandidateNode{Usage: &s}, PodRequest{Request: r})
	if ok != fits {
		t.Errorf("assigned %t, fits %t", ok, fits)
	}
	if problem := checkAssignment(n, &s, r, &a); ok && problem != "" {
		t.Error(problem)
	}
}

// FuzzParseNode puts any labels and annotations on a shared node: it is refused
// with a reason, or what it offers is within bounds.
func FuzzParseNode(f *testing.F) {
	f.Add("true", "8", "81920", "NVIDIA-A100", "1", "3,5", "", "")
	f.Add("true", "2", "16384", "Tesla-T4", "2", "", "GPU-a,GPU-b", "")
	f.Add("True", "-1", "1e3", "X-MIG-1g.5gb", "", "0-3", "all,none", "nvidia.com/mig-1g.5gb.count")
	f.Fuzz(func(t *testing.T, sharing, count, mebibytes, product, replicas, cordoned, uuids, label string) {
		node := &corev1.Node{}
		keys := DefaultNodeKeys()
		node.Labels = map[string]string{
			label: "1", names.GPUSharingLabel: sharing, keys.Count: count, keys.Memory: mebibytes, keys.Product: product, keys.Replicas: replicas,
		}
		node.Annotations = map[string]string{names.GPUCordonedAnnotation: cordoned, names.GPUUUIDsAnnotation: uuids}
		n := ParseNode(node, &keys)
		switch n.Kind {
		case NodeInOtherPool: // label may be the one of the pool
		case NodeInvalid:
			if n.Invalid.Reason == "" || n.Invalid.Field == "" || n.Invalid.Detail == "" {
				t.Errorf("refused without saying why: %+v", n.Invalid)
			}
		case NodeShared:
			if sharing != "true" || n.Devices < 1 || n.Devices > MaxDevices || n.MemoryMiB < 1 || n.MemoryMiB > MaxMemoryMiB {
				t.Errorf("accepted %+v", n)
			}
			if strconv.Itoa(n.Devices) != count || strconv.FormatInt(n.MemoryMiB, 10) != mebibytes {
				t.Errorf("%q devices of %q MiB became %+v", count, mebibytes, n)
			}
			if n.Cordoned >= 1<<n.Devices {
				t.Errorf("cordoned %b of %d devices", n.Cordoned, n.Devices)
			}
			if n.UUIDs != nil && len(n.UUIDs) != n.Devices {
				t.Errorf("%d UUIDs for %d devices", len(n.UUIDs), n.Devices)
			}
			s := usageOf(n)
			if s.IdleMilli() != int64(n.Devices-n.Cordoned.Len())*MilliPerDevice {
				t.Errorf("idle %d", s.IdleMilli())
			}
		case NodeDevicePlugin:
			t.Error("nothing is advertised")
		case NodeWithoutDevices:
			if sharing == "true" {
				t.Error("a shared node was overlooked")
			}
		}
	})
}
