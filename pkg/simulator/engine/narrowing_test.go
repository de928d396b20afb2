// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// What NodeCandidates does for Colocation, with the profiles as they are installed and all of
// stock's plugins: here the nodes are sampled as in kube-scheduler, and no clock runs.

const (
	colocationProfile = "config/berth-scheduler/colocation.yaml"
	zones             = 10
)

// shop is a cluster with a Service backend, whose pods are on some of its nodes.
type shop struct {
	nodes, peers int
	// peerEvery is that each peerEvery-th node has peers: the peers are there in turn.
	peerEvery int
	// full reports whether other pods fill the node of this number.
	full func(i int) bool
	// change changes node i before it is added.
	change func(i int, node *corev1.Node)
}

func shopNode(i int) string { return fmt.Sprintf("node-%d", i) }

func (s shop) objects() []runtime.Object {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}},
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "backend"},
			Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}},
		},
	}
	for i := range s.nodes {
		node := makeNode(shopNode(i), 16)
		node.Labels[corev1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%zones)
		node.Status.Allocatable[corev1.ResourcePods] = *resource.NewQuantity(1000, resource.DecimalSI)
		if s.change != nil {
			s.change(i, node)
		}
		objects = append(objects, node)
		if s.full != nil && s.full(i) {
			objects = append(objects, on(makePod("full-"+node.Name, "cpu", "15500m"), node.Name))
		}
	}
	for i := range s.peers {
		pod := makePod(fmt.Sprintf("backend-%d", i))
		pod.Labels["app"] = "backend"
		objects = append(objects, on(pod, shopNode(i*s.peerEvery%s.nodes)))
	}
	return objects
}

// frontend is a pod that wants to be near the backend.
func frontend(name, cpu string) *corev1.Pod {
	pod := makePod(name, "cpu", cpu)
	pod.Labels["app"] = "frontend"
	pod.Annotations = map[string]string{names.ColocateWithAnnotation: "backend"}
	return pod
}

// changed returns the configuration with one profile changed.
func changed(config *schedconfig.KubeSchedulerConfiguration, change func(*schedconfig.KubeSchedulerProfile)) *schedconfig.KubeSchedulerConfiguration {
	config = config.DeepCopy()
	change(&config.Profiles[0])
	return config
}

// seeingAll is a profile that looks at all nodes, and at no other ones first.
func seeingAll(profile *schedconfig.KubeSchedulerProfile) {
	profile.PercentageOfNodesToScore = new(int32(100))
}

// setWeights sets the weights of plugins that multiPoint enables, by name.
func setWeights(profile *schedconfig.KubeSchedulerProfile, weights map[string]int32) {
	for i := range profile.Plugins.MultiPoint.Enabled {
		if plugin := &profile.Plugins.MultiPoint.Enabled[i]; weights[plugin.Name] > 0 {
			plugin.Weight = weights[plugin.Name]
		}
	}
}

// TestPeersAreFound counts how many pods come to a node of a peer in a large cluster of
// which the scheduler looks at a tenth, where one peer's node in ten has room.
func TestPeersAreFound(t *testing.T) {
	const nodes, peerEvery, pods = 5000, 4, 300
	for _, peers := range []int{5000, 50_000} {
		t.Run(fmt.Sprintf("peers=%d", peers), func(t *testing.T) {
			s := shop{nodes: nodes, peers: peers, peerEvery: peerEvery, full: func(i int) bool { return i%peerEvery == 0 && i%(10*peerEvery) != 0 }}
			e := newEngine(t, Options{Config: loadProfile(t, colocationProfile)}, makeCluster(t, s.objects()...))
			beside, evaluated := 0, 0
			for i := range pods {
				r := schedule(t, e, frontend(fmt.Sprintf("frontend-%d", i), "1"))
				var number int
				if _, err := fmt.Sscanf(r.Node, "node-%d", &number); err != nil {
					t.Fatalf("%s: %v", r.Node, err)
				}
				evaluated += r.Evaluated
				if number%peerEvery == 0 {
					beside++
				}
			}
			if beside < pods*99/100 {
				t.Errorf("%d of %d pods are on a node of a peer, and there is room for all", beside, pods)
			}
			if evaluated > pods*nodes/10 {
				t.Errorf("%d nodes are looked at for a pod, where a sample has %d", evaluated/pods, nodes/10)
			}
		})
	}
}

// TestNarrowedIsLikeAll places pods, which ask different things of stock's plugins, by the
// profile as it is and by one that looks at all nodes, and holds the chosen nodes to the
// same score.
func TestNarrowedIsLikeAll(t *testing.T) {
	spread := func(key string, unsatisfiable corev1.UnsatisfiableConstraintAction) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: unsatisfiable,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "frontend"}},
			}}
		}
	}
	near := func(key, value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[key] = value }
	}
	pods := map[string]func(*corev1.Pod){
		"plain":                    func(*corev1.Pod) {},
		"large":                    func(p *corev1.Pod) { *p = *frontend(p.Name, "12") },
		"too large for any":        func(p *corev1.Pod) { *p = *frontend(p.Name, "17") },
		"host port":                func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} },
		"node selector":            func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-3"} },
		"spread over zones":        spread(corev1.LabelTopologyZone, corev1.DoNotSchedule),
		"spread over nodes":        spread(corev1.LabelHostname, corev1.DoNotSchedule),
		"spread over zones softly": spread(corev1.LabelTopologyZone, corev1.ScheduleAnyway),
		"away from the backend": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "backend"}}, TopologyKey: corev1.LabelHostname,
			}}}}
		},
		"one node by name": func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{shopNode(150)},
				}}}},
			}}}
		},
		"zone only":                near(names.ColocateTopologyKeysAnnotation, corev1.LabelTopologyZone),
		"required on the node":     near(names.ColocateRequiredTopologyKeyAnnotation, corev1.LabelHostname),
		"required in the zone":     near(names.ColocateRequiredTopologyKeyAnnotation, corev1.LabelTopologyZone),
		"no Service":               func(p *corev1.Pod) { p.Annotations = nil },
		"a Service without a peer": near(names.ColocateWithAnnotation, "nobody"),
	}
	weights := map[string]int32{"decides": 2000, "gives way": 1}
	for what, weight := range weights {
		profile := changed(loadProfile(t, colocationProfile), func(p *schedconfig.KubeSchedulerProfile) {
			setWeights(p, map[string]int32{"Colocation": weight})
		})
		for _, nodes := range []int{90, 300} {
			// Peers are in zones 3 and 8 on every fourth node there, half of which are full or
			// tainted; some nodes have pods of the frontend already.
			s := shop{
				nodes: nodes, peers: nodes / 10, peerEvery: 5,
				full: func(i int) bool { return i%15 == 0 },
				change: func(i int, node *corev1.Node) {
					if i%3 == 0 {
						node.Spec.Taints = []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}}
					}
				},
			}
			objects := s.objects()
			for i := 0; i < nodes; i += 7 {
				objects = append(objects, on(frontend(fmt.Sprintf("placed-%d", i), "2"), shopNode(i)))
			}
			for name, change := range pods {
				t.Run(fmt.Sprintf("%s/nodes=%d/%s", strings.ReplaceAll(what, " ", "-"), nodes, name), func(t *testing.T) {
					pod := frontend("pending", "1")
					change(pod)
					narrowed := newEngine(t, Options{Config: profile, Seed: 1}, makeCluster(t, objects...))
					all := newEngine(t, Options{Config: changed(profile, seeingAll), Seed: 2}, makeCluster(t, objects...))
					got, want := schedule(t, narrowed, pod), schedule(t, all, pod)
					if (got.Node == "") != (want.Node == "") {
						t.Fatalf("placed on %q (%s); all nodes searched, on %q (%s)", got.Node, got.Message, want.Node, want.Message)
					}
					if want.Node == "" || nodes > 100 && pod.Annotations[names.ColocateWithAnnotation] != "backend" {
						return // sampled, as every pod that asks for nothing
					}
					if scores := totals(want); len(scores) > 0 && scores[got.Node] != slices.Max(slices.Collect(maps.Values(scores))) {
						t.Errorf("placed on %s, which scores %d; all nodes searched, on %s, which scores %d", got.Node, scores[got.Node], want.Node, scores[want.Node])
					}
				})
			}
		}
	}
}

// TestCycleAllocations: what a cycle allocates does not grow with the cluster, nor with the
// number of nodes that are equally near.
func TestCycleAllocations(t *testing.T) {
	for name, peerNodes := range map[string]func(nodes int) int{
		"50 nodes have peers":           func(int) int { return 50 },
		"one node in five has one peer": func(nodes int) int { return nodes / 5 },
	} {
		t.Run(name, func(t *testing.T) {
			allocations := map[int]float64{}
			for _, nodes := range []int{1000, 15_000} {
				with := peerNodes(nodes)
				e := newEngine(t, Options{Config: loadProfile(t, colocationProfile)}, makeCluster(t, shop{nodes: nodes, peers: max(500, with), peerEvery: nodes / with}.objects()...))
				pod := frontend("pending", "1")
				allocations[nodes] = testing.AllocsPerRun(50, func() {
					if r := schedule(t, e, pod); r.Node == "" {
						t.Fatal(r.Message)
					}
					if err := e.Delete(t.Context(), pod.Namespace, pod.Name); err != nil {
						t.Fatal(err)
					}
				})
			}
			if allocations[15_000] > 1.5*allocations[1000] {
				t.Errorf("a cycle allocates %.0f times in a cluster of 15,000 nodes, and %.0f in one of 1,000", allocations[15_000], allocations[1000])
			}
			t.Logf("allocations of a cycle: %v", allocations)
		})
	}
}

// One operation is a pod that is placed beside the backend, whose pods are on 250 nodes. near
// asks for that by Colocation; changing is the same where a peer came or went since the
// last pod; affinity asks stock for the same as inter-pod affinity, and plain for nothing.
func BenchmarkColocation(b *testing.B) {
	affine := func(p *corev1.Pod) {
		p.Spec.SchedulerName, p.Annotations = corev1.DefaultSchedulerName, nil
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		for key, weight := range map[string]int32{corev1.LabelHostname: 100, corev1.LabelTopologyZone: 50} {
			p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution,
				corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
					TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "backend"}},
				}})
		}
	}
	for _, nodes := range []int{1000, 5000, 15_000} {
		for _, peers := range []int{5000, 50_000} {
			objects := shop{nodes: nodes, peers: peers, peerEvery: nodes / 250}.objects()
			for _, tt := range []struct {
				name, profile string
				change        func(*corev1.Pod)
				changing      bool
			}{
				{"near", colocationProfile, func(*corev1.Pod) {}, false},
				{"changing", colocationProfile, func(*corev1.Pod) {}, true},
				{"plain", colocationProfile, func(p *corev1.Pod) { p.Annotations = nil }, false},
				{"affinity", stockProfile, affine, false},
			} {
				b.Run(fmt.Sprintf("nodes=%d/peers=%d/%s", nodes, peers, tt.name), func(b *testing.B) {
					e := newEngine(b, Options{Config: loadProfile(b, tt.profile)}, makeCluster(b, objects...))
					pod := frontend("pending", "100m")
					tt.change(pod)
					peer := makePod("another")
					peer.Labels["app"] = "backend"
					b.ReportAllocs()
					for i := 0; b.Loop(); i++ {
						if r := schedule(b, e, pod); r.Node == "" {
							b.Fatal(r.Message)
						}
						b.StopTimer()
						if err := e.Delete(b.Context(), pod.Namespace, pod.Name); err != nil {
							b.Fatal(err)
						}
						var err error
						switch {
						case tt.changing && i%2 == 0:
							err = e.Set(b.Context(), on(peer, shopNode(0)))
						case tt.changing:
							err = e.Delete(b.Context(), peer.Namespace, peer.Name)
						}
						if err != nil {
							b.Fatal(err)
						}
						b.StartTimer()
					}
				})
			}
		}
	}
}
