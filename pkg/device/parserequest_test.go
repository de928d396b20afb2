// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	milli  = names.GPUMilliResource
	memory = names.GPUMemoryResource
	plugin = "nvidia.com/gpu"
	mig    = "nvidia.com/mig-1g.5gb"
)

// podKeys are those that the tests run with.
var podKeys = &NodeKeys{PluginResources: []corev1.ResourceName{plugin, "amd.com/gpu"}, MIGPrefix: "nvidia.com/mig-"}

// container builds a container with limits given as name, quantity, name, ...
func container(name string, limits ...string) corev1.Container {
	c := corev1.Container{Name: name}
	for i := 0; i < len(limits); i += 2 {
		if c.Resources.Limits == nil {
			c.Resources.Limits = corev1.ResourceList{}
		}
		c.Resources.Limits[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
	}
	return c
}

// sidecar makes a container an init container that keeps running.
func sidecar(c corev1.Container) corev1.Container {
	always := corev1.ContainerRestartPolicyAlways
	c.RestartPolicy = &always
	return c
}

// podOf builds a pod of main containers.
func podOf(containers ...corev1.Container) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: containers}}
}

// annotated adds annotations given as key, value, ...
func annotated(pod *corev1.Pod, annotations ...string) *corev1.Pod {
	pod.Annotations = map[string]string{}
	for i := 0; i < len(annotations); i += 2 {
		pod.Annotations[annotations[i]] = annotations[i+1]
	}
	return pod
}

// described is all of a request in one line.
func described(r *Request) string {
	kinds := [...]string{"none", "shares", "device plugin", "partitions"}
	var b strings.Builder
	b.WriteString(kinds[r.Kind])
	for _, c := range r.Containers {
		fmt.Fprintf(&b, " %s%s=%dx%dm,%dMi", [...]string{"", "init ", "sidecar "}[c.Kind], c.Container, c.Devices, c.Milli, c.MemoryMiB)
	}
	if r.Constrained() {
		fmt.Fprintf(&b, " models=%s memory>=%dMi", r.Models, r.MinMemoryMiB)
	}
	return b.String()
}

func TestParsePod(t *testing.T) {
	never := corev1.ContainerRestartPolicyNever
	onceInit := container("once", milli, "1000")
	onceInit.RestartPolicy = &never

	tests := []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{name: "no devices", pod: podOf(container("main", "cpu", "2", "memory", "1Gi", "ephemeral-storage", "1Gi")), want: "none"},
		{name: "no containers", pod: podOf(), want: "none"},
		{name: "the smallest and the largest share", pod: podOf(container("a", milli, "1"), container("b", milli, "999")), want: "shares a=1x1m,0Mi b=1x999m,0Mi"},
		{name: "whole devices", pod: podOf(container("a", milli, "1000"), container("b", milli, "16k")), want: "shares a=1x1000m,0Mi b=16x1000m,0Mi"},
		{
			name: "memory alone, rounded up to MiB",
			pod:  podOf(container("a", memory, "10Gi"), container("b", memory, "1G"), container("c", memory, "1Mi")),
			want: "shares a=1x0m,10240Mi b=1x0m,954Mi c=1x0m,1Mi",
		},
		{
			name: "memory beside compute",
			pod:  podOf(container("a", milli, "250", memory, "10Gi"), container("b", milli, "2000", memory, "40Gi")),
			want: "shares a=1x250m,10240Mi b=2x1000m,40960Mi",
		},
		{
			name: "init containers, sidecars and containers without devices",
			pod: &corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{
					container("warm", milli, "1000"), container("quiet", "cpu", "1"),
					sidecar(container("watch", milli, "50")), onceInit,
				},
				Containers: []corev1.Container{container("proxy"), container("main", milli, "500")},
			}},
			want: "shares init warm=1x1000m,0Mi sidecar watch=1x50m,0Mi init once=1x1000m,0Mi main=1x500m,0Mi",
		},
		{
			name: "equal requests and limits, as the API server defaults them",
			pod: func() *corev1.Pod {
				c := container("a", milli, "500")
				c.Resources.Requests = corev1.ResourceList{milli: resource.MustParse("500")}
				return podOf(c)
			}(),
			want: "shares a=1x500m,0Mi",
		},
		{
			name: "a device plugin's devices of several containers and vendors",
			pod:  podOf(container("a", plugin, "2"), container("b", "amd.com/gpu", "1"), container("c", plugin, "0")),
			want: "device plugin =3x1000m,0Mi",
		},
		{
			name: "a device plugin's devices at the peak of the pod's life",
			pod: &corev1.Pod{Spec: corev1.PodSpec{
				InitContainers: []corev1.Container{
					container("before", plugin, "4"), sidecar(container("watch", plugin, "1")), container("after", plugin, "4"),
				},
				Containers: []corev1.Container{container("main", plugin, "2")},
			}},
			want: "device plugin =5x1000m,0Mi",
		},
		{
			name: "zero asks for nothing",
			pod: func() *corev1.Pod {
				pod := podOf(container("a", milli, "0"), container("b", memory, "0", plugin, "0", mig, "0"))
				pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{milli: resource.MustParse("0"), memory: resource.MustParse("0")}
				pod.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{milli: resource.MustParse("0")}}
				return pod
			}(),
			want: "none",
		},
		{
			name: "zero beside a share",
			pod:  podOf(container("a", milli, "500", memory, "0"), container("b", milli, "0", memory, "1Gi"), container("c", milli, "0")),
			want: "shares a=1x500m,0Mi b=1x0m,1024Mi",
		},
		{
			name: "parts of a device plugin's devices",
			pod:  annotated(podOf(container("a", mig, "1"), container("b", plugin+".shared", "1")), names.GPUModelAnnotation, "A100*"),
			want: "partitions models=a100* memory>=0Mi",
		},
		{name: "parts beside whole devices", pod: podOf(container("a", mig, "1"), container("b", plugin, "1")), want: "device plugin =1x1000m,0Mi"},
		{name: "another resource of the vendor", pod: podOf(container("a", "nvidia.com/nic", "1", "rdma/nic.shared", "1")), want: "none"},
		{name: "none of a device plugin's devices", pod: podOf(container("a", plugin, "0"), container("b", milli, "500")), want: "shares b=1x500m,0Mi"},
		{
			name: "constraints",
			pod: annotated(podOf(container("a", milli, "500")),
				names.GPUModelAnnotation, "NVIDIA-A100*, Tesla-T4", names.GPUMinMemoryAnnotation, "40Gi"),
			want: "shares a=1x500m,0Mi models=nvidia-a100*,tesla-t4 memory>=40960Mi",
		},
		{
			name: "constraints on a device plugin's devices",
			pod:  annotated(podOf(container("a", plugin, "1")), names.GPUMinMemoryAnnotation, "1Mi"),
			want: "device plugin =1x1000m,0Mi models= memory>=1Mi",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePod(tt.pod, podKeys)
			must(t, err)
			if described(got) != tt.want {
				t.Errorf("got  %s\nwant %s", described(got), tt.want)
			}
		})
	}
}

func TestParsePodRefuses(t *testing.T) {
	manyContainers := podOf()
	for i := range MaxContainers + 1 {
		manyContainers.Spec.Containers = append(manyContainers.Spec.Containers, container(fmt.Sprintf("c%d", i), milli, "1"))
	}
	differs := podOf(container("a", milli, "500"))
	differs.Spec.Containers[0].Resources.Requests = corev1.ResourceList{milli: resource.MustParse("200")}
	withoutLimit := podOf(container("a"))
	withoutLimit.Spec.Containers[0].Resources.Requests = corev1.ResourceList{memory: resource.MustParse("1Gi")}
	podLevel := podOf(container("a"))
	podLevel.Spec.Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{milli: resource.MustParse("500")}}
	ephemeral := podOf(container("a", milli, "500"))
	ephemeral.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		Name: "debug", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{milli: resource.MustParse("500")}},
	}}}

	share := func() *corev1.Pod { return podOf(container("a", milli, "500")) }
	tests := []struct {
		name   string
		pod    *corev1.Pod
		reason InvalidReason
		want   string
	}{
		{
			name: "1500 milli", pod: podOf(container("main"), container("a", milli, "1500")), reason: InvalidMilli,
			want: `container "a": spec.containers[1].resources.limits[berth.dev/gpu-milli]: "1500" is neither a share nor whole devices: ask for 1 to 999 thousandths of one device, or a multiple of 1000 up to 16000`,
		},
		{name: "negative milli", pod: podOf(container("a", milli, "-1000")), reason: InvalidMilli},
		{name: "half a milli", pod: podOf(container("a", milli, "500m")), reason: InvalidMilli},
		{name: "more devices than any node", pod: podOf(container("a", milli, "17000")), reason: InvalidMilli},
		{name: "milli beyond int64", pod: podOf(container("a", milli, "1e30")), reason: InvalidMilli},
		{
			name: "memory without a unit", pod: podOf(container("a", memory, "10")), reason: InvalidMemory,
			want: `container "a": spec.containers[0].resources.limits[berth.dev/gpu-memory]: "10" is 10 bytes: the unit is bytes, write 10Gi if that is meant`,
		},
		{
			name: "memory as labels of nodes have it", pod: podOf(container("a", memory, "40960")), reason: InvalidMemory,
			want: `container "a": spec.containers[0].resources.limits[berth.dev/gpu-memory]: "40960" is 40960 bytes: the unit is bytes, write 40960Mi if that is meant`,
		},
		{name: "nearly one MiB", pod: podOf(container("a", memory, "1048575")), reason: InvalidMemory},
		{name: "least memory without a unit", pod: annotated(share(), names.GPUMinMemoryAnnotation, "40"), reason: InvalidMinMemory},
		{name: "negative memory", pod: podOf(container("a", memory, "-1Gi")), reason: InvalidMemory},
		{name: "memory beyond any device", pod: podOf(container("a", memory, "2Pi")), reason: InvalidMemory},
		{name: "memory beyond int64", pod: podOf(container("a", memory, "1e30")), reason: InvalidMemory},
		{
			name: "in an init container",
			pod:  &corev1.Pod{Spec: corev1.PodSpec{InitContainers: []corev1.Container{container("warm", milli, "1001")}}}, reason: InvalidMilli,
			want: `container "warm": spec.initContainers[0].resources.limits[berth.dev/gpu-milli]: "1001" is neither a share nor whole devices: ask for 1 to 999 thousandths of one device, or a multiple of 1000 up to 16000`,
		},
		{
			name: "both forms in one pod", pod: podOf(container("a", plugin, "1"), container("b", memory, "1Gi")), reason: BothForms,
			want: `container "b": spec.containers[1].resources.limits[berth.dev/gpu-memory]: asks for a share while spec.containers[0].resources.limits[nvidia.com/gpu] asks for whole devices of a device plugin, and no node offers both: use one of them, berth.dev/gpu-milli: "1000" is a whole device too`,
		},
		{name: "a share and a MIG device", pod: podOf(container("a", mig, "1", milli, "500")), reason: BothForms},
		{name: "both forms in one container", pod: podOf(container("a", plugin, "1", milli, "500")), reason: BothForms},
		{name: "half of a device plugin's device", pod: podOf(container("a", plugin, "500m")), reason: InvalidDeviceCount},
		{name: "minus one of a device plugin's devices", pod: podOf(container("a", plugin, "-1")), reason: InvalidDeviceCount},
		{
			name: "a misspelled resource", pod: podOf(container("a", names.Domain+"/gpu-mili", "500")), reason: UnknownResource,
			want: `container "a": spec.containers[0].resources: "berth.dev/gpu-mili" is not a resource that Berth supports: use berth.dev/gpu-milli or berth.dev/gpu-memory`,
		},
		{
			name: "request and limit differ", pod: differs, reason: RequestDiffers,
			want: `container "a": spec.containers[0].resources.requests[berth.dev/gpu-milli]: "200" differs from the limit: set the limit and leave the request out`,
		},
		{name: "a request without a limit", pod: withoutLimit, reason: RequestDiffers},
		{
			name: "resources of the pod", pod: podLevel, reason: MisplacedResource,
			want: `spec.resources: "berth.dev/gpu-milli" is given to containers and init containers alone: move it to the limits of the one that uses the device`,
		},
		{name: "an ephemeral container", pod: ephemeral, reason: MisplacedResource},
		{name: "too many containers", pod: manyContainers, reason: TooManyContainers},
		{
			name: "an empty model list", pod: annotated(share(), names.GPUModelAnnotation, " "), reason: InvalidModel,
			want: `metadata.annotations[berth.dev/gpu-model]: " " is empty: list model patterns separated by commas, or remove it`,
		},
		{name: "a model that cannot be", pod: annotated(share(), names.GPUModelAnnotation, "A100 or H100"), reason: InvalidModel},
		{name: "a spare comma", pod: annotated(share(), names.GPUModelAnnotation, "A100,"), reason: InvalidModel},
		{
			name: "no quantity", pod: annotated(share(), names.GPUMinMemoryAnnotation, "40 GB"), reason: InvalidMinMemory,
			want: `metadata.annotations[berth.dev/gpu-min-memory]: "40 GB" is not a quantity of bytes: write it like 40Gi`,
		},
		{name: "an exponent that takes hours", pod: annotated(share(), names.GPUMinMemoryAnnotation, "1001000e0000110000000100000000"), reason: InvalidMinMemory},
		{name: "no number", pod: annotated(share(), names.GPUMinMemoryAnnotation, "Gi"), reason: InvalidMinMemory},
		{name: "two points", pod: annotated(share(), names.GPUMinMemoryAnnotation, "1..5Gi"), reason: InvalidMinMemory},
		{name: "endless digits", pod: annotated(share(), names.GPUMinMemoryAnnotation, strings.Repeat("9", 1000)), reason: InvalidMinMemory},
		{name: "no least memory", pod: annotated(share(), names.GPUMinMemoryAnnotation, "0"), reason: InvalidMinMemory},
		{
			name: "a constraint on nothing", pod: annotated(podOf(container("a", "nvidia.com/gpus", "1")), names.GPUModelAnnotation, "A100"), reason: ConstraintWithoutDevice,
			want: `metadata.annotations[berth.dev/gpu-model]: "A100" constrains devices, but no container has a limit of [berth.dev/gpu-milli berth.dev/gpu-memory nvidia.com/gpu amd.com/gpu]: add one, or remove the annotation`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParsePod(tt.pod, podKeys)
			var refused *InvalidError
			if !errors.As(err, &refused) {
				t.Fatalf("got request %+v and error %v, want a RequestError", got, err)
			}
			if refused.Reason != tt.reason {
				t.Errorf("reason %s, want %s: %v", refused.Reason, tt.reason, err)
			}
			if tt.want != "" && err.Error() != tt.want {
				t.Errorf("unexpected text (-want,+got):\n%s", cmp.Diff(tt.want, err.Error()))
			}
		})
	}
}

func TestAskOn(t *testing.T) {
	tests := []struct {
		name      string
		container ContainerRequest
		memory    int64
		want      Share
		wantOK    bool
	}{
		{name: "memory from compute", container: ContainerRequest{Milli: 250}, memory: 81920, want: Share{250, 20480}, wantOK: true},
		{name: "compute from memory", container: ContainerRequest{MemoryMiB: 20480}, memory: 81920, want: Share{250, 20480}, wantOK: true},
		{name: "a whole device has all memory", container: ContainerRequest{Milli: 1000}, memory: 15109, want: Share{1000, 15109}, wantOK: true},
		{name: "all memory is a whole device", container: ContainerRequest{MemoryMiB: 15109}, memory: 15109, want: Share{1000, 15109}, wantOK: true},
		{name: "rounded down", container: ContainerRequest{Milli: 333}, memory: 1001, want: Share{333, 333}, wantOK: true},
		{name: "compute rounded down", container: ContainerRequest{MemoryMiB: 5036}, memory: 15109, want: Share{333, 5036}, wantOK: true},
		{name: "at least one MiB", container: ContainerRequest{Milli: 1}, memory: 100, want: Share{1, 1}, wantOK: true},
		{name: "at least one thousandth", container: ContainerRequest{MemoryMiB: 1}, memory: 81920, want: Share{1, 1}, wantOK: true},
		{name: "both as asked", container: ContainerRequest{Milli: 100, MemoryMiB: 40960}, memory: 81920, want: Share{100, 40960}, wantOK: true},
		{name: "more memory than the device has", container: ContainerRequest{MemoryMiB: 81921}, memory: 81920},
		{name: "the same beside compute", container: ContainerRequest{Milli: 1, MemoryMiB: 81921}, memory: 81920},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := tt.container.On(tt.memory)
			if got != tt.want || ok != tt.wantOK {
				t.Errorf("got %+v %t, want %+v %t", got, ok, tt.want, tt.wantOK)
			}
		})
	}
}
