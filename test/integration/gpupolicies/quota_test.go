// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	milli  = names.GPUMilliResource
	memory = names.GPUMemoryResource
	mig    = "nvidia.com/mig-1g.5gb"
)

// testQuota asks for devices in every unit in namespaces whose quotas count some.
func testQuota(t *testing.T, c *framework.Cluster) {
	type pod struct {
		name string
		// containers are what each asks for: a resource, its amount, and so on.
		containers [][]string
		// want is part of the refusal; empty: let in.
		want []string
	}
	tests := []struct {
		namespace string
		// quotas are what each of the namespace's quotas counts, as above.
		quotas [][]string
		pods   []pod
	}{
		{
			namespace: "no-quota",
			pods: []pod{
				{"thousandths", [][]string{{milli, "500"}}, nil},
				{"memory", [][]string{{memory, "1Gi"}}, nil},
				{"device plugin", [][]string{{pluginResource, "1"}}, nil},
			},
		},
		{
			namespace: "counts-other-things",
			quotas:    [][]string{{"pods", "10", "requests.example.com/licence", "1"}},
			pods: []pod{
				{"thousandths", [][]string{{milli, "500"}}, nil},
				{"memory", [][]string{{memory, "1Gi"}}, nil},
			},
		},
		{
			namespace: "counts-milli",
			quotas:    [][]string{{"requests." + milli, "1000"}},
			pods: []pod{
				{"no device", [][]string{nil}, nil},
				{"no device of the plugin", [][]string{{pluginResource, "0"}}, nil},
				{"no memory", [][]string{{memory, "0"}}, nil},
				{"thousandths, and no memory", [][]string{{milli, "1000", memory, "0"}}, nil},
				{"memory, and no thousandths", [][]string{{milli, "0", memory, "1Gi"}}, []string{"[berth.dev/gpu-memory]"}},
				{"thousandths", [][]string{{milli, "1000"}}, nil},
				{"too many thousandths", [][]string{{milli, "600"}, {milli, "600"}}, []string{exceeded + "quota-0"}},
				{"memory", [][]string{{memory, "1Gi"}}, []string{
					"berth-gpu-quota", "resources.limits [berth.dev/gpu-memory]", `ResourceQuota "quota-0"`, "add requests.berth.dev/gpu-memory",
				}},
				{"memory beside thousandths of another container", [][]string{{milli, "1"}, {memory, "1Gi"}}, []string{"[berth.dev/gpu-memory]"}},
				{"all of the memory and one thousandth", [][]string{{milli, "1", memory, "40Gi"}}, []string{"[berth.dev/gpu-memory]"}},
				{"device plugin", [][]string{{pluginResource, "8"}}, []string{"[nvidia.com/gpu]"}},
				{"slices of time", [][]string{{pluginResource + ".shared", "8"}}, []string{"[nvidia.com/gpu.shared]", "add requests.nvidia.com/gpu.shared to it"}},
				{"MIG devices", [][]string{{mig, "8"}, {mig, "8"}}, []string{"[nvidia.com/mig-1g.5gb]"}},
				{"what is no device", [][]string{{"nvidia.com/rdma_shared_device_a", "8"}}, nil},
			},
		},
		{
			namespace: "counts-memory",
			quotas:    [][]string{{"requests." + memory, "10Gi"}},
			pods: []pod{
				{"memory", [][]string{{memory, "10Gi"}}, nil},
				{"too much memory", [][]string{{memory, "11Gi"}}, []string{exceeded + "quota-0"}},
				{"thousandths", [][]string{{milli, "500"}}, []string{"[berth.dev/gpu-milli]"}},
				{"whole devices", [][]string{{milli, "8000"}}, []string{"[berth.dev/gpu-milli]"}},
				{"device plugin", [][]string{{pluginResource, "8"}}, []string{"[nvidia.com/gpu]"}},
			},
		},
		{
			namespace: "counts-plugin",
			quotas:    [][]string{{"requests." + pluginResource, "1"}},
			pods: []pod{
				{"device plugin", [][]string{{pluginResource, "1"}}, nil},
				{"too many of the device plugin", [][]string{{pluginResource, "2"}}, []string{exceeded + "quota-0"}},
				{"whole devices", [][]string{{milli, "8000"}}, []string{"[berth.dev/gpu-milli]", "[nvidia.com/gpu]"}},
				{"memory", [][]string{{memory, "1Gi"}}, []string{"[berth.dev/gpu-memory]"}},
			},
		},
		{
			namespace: "counts-both",
			quotas:    [][]string{{"requests." + milli, "1000", "requests." + memory, "10Gi"}},
			pods: []pod{
				{"both", [][]string{{milli, "500", memory, "1Gi"}}, nil},
				{"thousandths, of which memory would be derived", [][]string{{milli, "500"}}, []string{"[berth.dev/gpu-memory]", "every container"}},
				{"memory, of which thousandths would be derived", [][]string{{memory, "1Gi"}}, []string{"[berth.dev/gpu-milli]", "every container"}},
				{"thousandths, and memory in name only", [][]string{{milli, "500", memory, "0"}}, []string{"[berth.dev/gpu-memory]", "every container"}},
				{"memory, and thousandths in name only", [][]string{{milli, "0", memory, "1Gi"}}, []string{"[berth.dev/gpu-milli]", "every container"}},
				{"none of both", [][]string{{milli, "0", memory, "0"}, {milli, "0"}}, nil},
				{"each in another container", [][]string{{memory, "1Gi"}, {milli, "1"}}, []string{"every container"}},
				{"both, and too much memory", [][]string{{milli, "1", memory, "11Gi"}}, []string{exceeded + "quota-0"}},
			},
		},
		{
			namespace: "counts-all-in-two",
			quotas: [][]string{
				{"requests." + milli, "1000", "requests." + pluginResource, "1000000"},
				{"requests." + milli, "1000000", "requests." + pluginResource, "1"},
			},
			pods: []pod{
				{"thousandths", [][]string{{milli, "500"}}, nil},
				{"device plugin", [][]string{{pluginResource, "1"}}, nil},
				{"too many thousandths", [][]string{{milli, "2000"}}, []string{exceeded + "quota-0"}},
				{"too many of the device plugin", [][]string{{pluginResource, "2"}}, []string{exceeded + "quota-1"}},
				{"memory", [][]string{{memory, "1Gi"}}, []string{"[berth.dev/gpu-memory]"}},
			},
		},
		{
			// The API server takes these names, and counts nothing by them.
			namespace: "counts-in-name-only",
			quotas:    [][]string{{"limits." + milli, "1000", pluginResource, "1"}},
			pods: []pod{
				{"no device", [][]string{nil}, nil},
				{"thousandths", [][]string{{milli, "8000"}}, []string{
					"[berth.dev/gpu-milli]", "lists device resources in a form that Kubernetes does not enforce", "ignores limits.berth.dev/gpu-milli, nvidia.com/gpu", "add requests.berth.dev/gpu-milli",
				}},
				{"device plugin", [][]string{{pluginResource, "8"}}, []string{"[nvidia.com/gpu]", "add requests.nvidia.com/gpu"}},
			},
		},
		{
			namespace: "counts-limits-as-well",
			quotas:    [][]string{{"limits." + milli, "1000", "requests." + milli, "1000"}},
			pods: []pod{
				{"thousandths", [][]string{{milli, "1000"}}, nil},
				{"too many thousandths", [][]string{{milli, "2000"}}, []string{exceeded + "quota-0"}},
				{"memory", [][]string{{memory, "1Gi"}}, []string{"[berth.dev/gpu-memory]"}},
			},
		},
		{
			namespace: "counts-mig",
			quotas:    [][]string{{"requests." + mig, "2"}},
			pods: []pod{
				{"MIG devices", [][]string{{mig, "2"}}, nil},
				{"too many MIG devices", [][]string{{mig, "3"}}, []string{exceeded + "quota-0"}},
				{"MIG devices of another size", [][]string{{"nvidia.com/mig-7g.80gb", "1"}}, []string{"[nvidia.com/mig-7g.80gb]", "counts devices in [nvidia.com/mig-1g.5gb]"}},
				{"thousandths", [][]string{{milli, "8000"}}, []string{"[berth.dev/gpu-milli]"}},
				{"no MIG devices of another size", [][]string{{"nvidia.com/mig-7g.80gb", "0"}}, nil},
			},
		},
		{
			// Each is looked at by itself: this is refused, and said in the README.
			namespace: "counts-one-each",
			quotas:    [][]string{{"requests." + milli, "1000"}, {"requests." + memory, "10Gi"}},
			pods: []pod{
				{"both", [][]string{{milli, "500", memory, "1Gi"}}, []string{"a large value means no limit"}},
			},
		},
	}
	for _, tt := range tests {
		c.CreateNamespace(t, tt.namespace, nil)
		for i, counted := range tt.quotas {
			addQuota(t, c, tt.namespace, i, limits(counted...).Limits)
		}
	}
	for _, tt := range tests {
		t.Run(tt.namespace, func(t *testing.T) {
			waitForQuotas(t, c, tt.namespace, len(tt.quotas))
			for _, p := range tt.pods {
				t.Run(p.name, func(t *testing.T) {
					pod := newPod(tt.namespace, "p")
					pod.Spec.Containers = nil
					for i, pairs := range p.containers {
						pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
							Name: string(rune('a' + i)), Image: "x", Resources: limits(pairs...),
						})
					}
					tryQuota(t, c, pod, p.want)

					// An init container's share counts as much.
					if len(pod.Spec.Containers) > 1 {
						pod.Spec.InitContainers, pod.Spec.Containers = pod.Spec.Containers[1:], pod.Spec.Containers[:1]
						if strings.HasPrefix(p.name, "too many") {
							return // not their sum, but the larger
						}
						tryQuota(t, c, pod, p.want)
					}
				})
			}
		})
	}
}

// exceeded is what the API server itself says of a pod that asks for too much.
const exceeded = "exceeded quota: "

// tryQuota creates the pod, without storing it.
func tryQuota(t *testing.T, c *framework.Cluster, pod *corev1.Pod, want []string) {
	t.Helper()
	create := func() error {
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(t.Context(), pod, dryRun)
		return err
	}
	if len(want) > 0 && strings.HasPrefix(want[0], exceeded) {
		// The API server counts by a cache of its own, which may be behind.
		framework.WaitForCondition(t, framework.WaitTimeout, "the quota to be kept", func() (bool, error) {
			err := create()
			return err != nil && strings.Contains(err.Error(), want[0]), err
		})
		return
	}
	framework.CheckDenied(t, create(), want)
}

func addQuota(t *testing.T, c *framework.Cluster, namespace string, index int, hard corev1.ResourceList) {
	t.Helper()
	_, err := c.Client.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "quota-" + string(rune('0'+index))},
		Spec:       corev1.ResourceQuotaSpec{Hard: hard},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// waitForQuotas waits until the quotas of the namespace are kept: the controller
// has counted, and the policy has heard of them.
func waitForQuotas(t *testing.T, c *framework.Cluster, namespace string, count int) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, "the quotas of "+namespace, func() (bool, error) {
		list, err := c.Client.CoreV1().ResourceQuotas(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		counts := false
		for i := range list.Items {
			if len(list.Items[i].Status.Hard) != len(list.Items[i].Spec.Hard) {
				return false, nil
			}
			for name := range list.Items[i].Spec.Hard {
				counts = counts || slices.ContainsFunc([]string{milli, memory, pluginResource, mig}, func(unit string) bool { return strings.Contains(string(name), unit) })
			}
		}
		if len(list.Items) != count {
			return false, nil
		}
		if !counts {
			return true, nil
		}
		// A pod that no quota on devices lets in, in no combination of them.
		pod := newPod(namespace, "probe")
		pod.Spec.Containers[0].Resources = limits(milli, "999999999000", memory, "1Pi", pluginResource, "999999999")
		_, err = c.Client.CoreV1().Pods(namespace).Create(t.Context(), pod, dryRun)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "berth-gpu-quota"), err
	})
}
