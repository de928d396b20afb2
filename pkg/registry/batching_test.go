// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestBatchedPods: kube-scheduler batches only pods that all plugins of a profile sign. As
// shipped that is none, because of the default spreading. Without it, it is not those for which the
// cycle is narrowed.
func TestBatchedPods(t *testing.T) {
	plain := st.MakePod().Namespace("ns").Name("plain").UID("plain").Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "1"}).Obj()
	share := plain.DeepCopy()
	share.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500")}
	whole := plain.DeepCopy()
	whole.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	withoutSpreading := func(profile *schedconfig.KubeSchedulerProfile) {
		for _, plugin := range profile.PluginConfig {
			switch args := plugin.Args.(type) {
			case *schedconfig.PodTopologySpreadArgs:
				args.DefaultingType = schedconfig.ListDefaulting
			case *schedconfig.InterPodAffinityArgs:
				args.IgnorePreferredTermsOfExistingPods = true
			}
		}
	}
	tests := []struct {
		name   string
		change func(*schedconfig.KubeSchedulerProfile)
		// plain and devices are whether pods without and with devices are signed.
		plain, devices bool
	}{
		{name: "as shipped", change: func(*schedconfig.KubeSchedulerProfile) {}},
		{name: "without default spreading", change: withoutSpreading, plain: true},
		{name: "all nodes are looked at", change: func(p *schedconfig.KubeSchedulerProfile) {
			withoutSpreading(p)
			p.PercentageOfNodesToScore = new(int32(100))
		}, plain: true, devices: true},
	}
	for _, file := range []string{"gpu.yaml", "all-plugins.yaml"} {
		for _, tt := range tests {
			t.Run(file+"/"+tt.name, func(t *testing.T) {
				logger, ctx := ktesting.NewTestContext(t)
				config, err := options.LoadConfigFromFile(logger, profilesDir+"/"+file)
				if err != nil {
					t.Fatal(err)
				}
				tt.change(&config.Profiles[0])
				profile := newScheduler(t, config).Profiles[names.Scheduler]
				for _, pod := range []struct {
					name string
					pod  *corev1.Pod
					want bool
				}{{"plain", plain, tt.plain}, {"share", share, tt.devices}, {"whole", whole, tt.devices}} {
					if signed := profile.SignPod(ctx, pod.pod) != nil; signed != pod.want {
						t.Errorf("pod %s is signed: %t, want %t", pod.name, signed, pod.want)
					}
				}
			})
		}
	}
}
