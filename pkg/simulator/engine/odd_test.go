// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestOddProfiles runs pods through profiles that use NodeCandidates in odd ways, two in one
// scheduler, while nodes and peers come and go: every pod that fits somewhere is placed.
func TestOddProfiles(t *testing.T) {
	all := "config/berth-scheduler/all-plugins.yaml"
	multiPoint := func(p *schedconfig.KubeSchedulerProfile, change func([]schedconfig.Plugin) []schedconfig.Plugin) {
		p.Plugins.MultiPoint.Enabled = change(p.Plugins.MultiPoint.Enabled)
	}
	without := func(names ...string) func(*schedconfig.KubeSchedulerProfile) {
		return func(p *schedconfig.KubeSchedulerProfile) {
			multiPoint(p, func(list []schedconfig.Plugin) []schedconfig.Plugin {
				return slices.DeleteFunc(list, func(p schedconfig.Plugin) bool { return slices.Contains(names, p.Name) })
			})
			for _, set := range []*schedconfig.PluginSet{&p.Plugins.Bind, &p.Plugins.PostFilter, &p.Plugins.Filter} {
				set.Enabled = slices.DeleteFunc(set.Enabled, func(p schedconfig.Plugin) bool { return slices.Contains(names, p.Name) })
			}
			p.PluginConfig = slices.DeleteFunc(p.PluginConfig, func(c schedconfig.PluginConfig) bool { return slices.Contains(names, c.Name) })
			for _, c := range p.PluginConfig {
				if args, ok := c.Args.(*schedconfig.NodeResourcesFitArgs); ok && slices.Contains(names, "GPUDevice") {
					args.IgnoredResourceGroups = nil // or pods with shares would be bound without devices
				}
			}
		}
	}
	profiles := map[string]func(*schedconfig.KubeSchedulerProfile){
		"as it is":        func(*schedconfig.KubeSchedulerProfile) {},
		"without rankers": without("GPUDevice", "Colocation"),
		"without it":      without("NodeCandidates"),
		"one per cent":    func(p *schedconfig.KubeSchedulerProfile) { p.PercentageOfNodesToScore = new(int32(1)) },
		"least weights": func(p *schedconfig.KubeSchedulerProfile) {
			setWeights(p, map[string]int32{"GPUDevice": 1, "Colocation": 1})
		},
		"no other scores": func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.Score.Disabled = []schedconfig.Plugin{{Name: "*"}}
			p.Plugins.Score.Enabled = []schedconfig.Plugin{{Name: "GPUDevice", Weight: 1}, {Name: "Colocation", Weight: 1}, {Name: "LabelPresence", Weight: 1}}
		},
		"no preemption": func(p *schedconfig.KubeSchedulerProfile) {
			p.Plugins.PostFilter.Disabled = []schedconfig.Plugin{{Name: "DefaultPreemption"}}
		},
	}
	for name, change := range profiles {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 2))
			s := shop{nodes: 150, peers: 30, peerEvery: 5, change: func(i int, node *corev1.Node) {
				if i%3 == 0 && name != "without rankers" {
					node.Labels[names.GPUSharingLabel] = "true"
					node.Labels["nvidia.com/gpu.count"], node.Labels["nvidia.com/gpu.memory"], node.Labels["nvidia.com/gpu.product"] = "2", "16384", "A100"
				}
			}}
			config := changed(loadProfile(t, all), change)
			// A second profile shares the index of peers and devices with the first.
			second := config.Profiles[0].DeepCopy()
			second.SchedulerName = "second"
			config.Profiles = append(config.Profiles, *second)
			e := newEngine(t, Options{Config: config, Preemption: name != "no preemption"}, makeCluster(t, s.objects()...))
			var placed []*corev1.Pod
			number := 150
			for i := range 400 {
				// Nodes and peers come and go.
				switch rng.IntN(8) {
				case 0:
					node := makeNode(shopNode(number), 16)
					node.Labels[corev1.LabelTopologyZone] = "zone-1"
					if err := e.Set(t.Context(), node); err != nil {
						t.Fatal(err)
					}
					number++
				case 1:
					peer := makePod(fmt.Sprintf("peer-%d", i))
					peer.Labels["app"] = "backend"
					if err := e.Set(t.Context(), on(peer, shopNode(rng.IntN(150)))); err != nil {
						t.Fatal(err)
					}
				case 2:
					if len(placed) > 0 {
						pod := placed[0]
						placed = placed[1:]
						if err := e.Delete(t.Context(), pod.Namespace, pod.Name); err != nil {
							t.Fatal(err)
						}
					}
				}
				pod := frontend(fmt.Sprintf("frontend-%d", i), "500m")
				if i%2 == 0 && name != "without rankers" {
					pod.Spec.Containers[0].Resources.Limits[names.GPUMilliResource] = resource.MustParse([]string{"250", "500", "1000"}[rng.IntN(3)])
					pod.Spec.Containers[0].Resources.Requests[names.GPUMilliResource] = pod.Spec.Containers[0].Resources.Limits[names.GPUMilliResource]
				}
				if i%3 == 0 {
					pod.Spec.SchedulerName = second.SchedulerName
				}
				if i%5 == 0 {
					pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation] = []string{corev1.LabelHostname, corev1.LabelTopologyZone}[i/5%2]
				}
				if name == "without rankers" {
					pod.Annotations = nil
				}
				r := schedule(t, e, pod)
				if r.Node == "" {
					d, err := e.Diagnose(t.Context(), pod)
					if err != nil {
						t.Fatal(err)
					}
					for _, node := range d.Nodes {
						if len(d.Refusals) == 0 && len(node.Verdicts) == 0 {
							t.Fatalf("pod %d fits on %s and is not placed: %s", i, node.Node.Node().Name, r.Message)
						}
					}
					if err := e.Delete(t.Context(), pod.Namespace, pod.Name); err != nil {
						t.Fatal(err)
					}
					continue
				}
				placed = append(placed, r.Pod)
			}
			if len(placed) < 100 {
				t.Errorf("only %d pods are placed", len(placed))
			}
		})
	}
}
