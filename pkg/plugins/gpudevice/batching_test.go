// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestBatchingInvariants: what SignPod promises. Pods with one signature, whatever else tells
// them apart, have one score on each node, also where PreScore is given some of the nodes; and
// what NormalizeScore makes of scores depends on these alone.
func TestBatchingInvariants(t *testing.T) {
	for _, strategy := range []config.GPUDeviceStrategy{config.GPUDeviceFragmentationGradient, config.GPUDeviceBestFit, config.GPUDeviceLeastAllocated} {
		t.Run(string(strategy), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 5))
			var nodes []*corev1.Node
			var pods []*corev1.Pod
			for i := range 40 {
				name := fmt.Sprintf("n%d", i)
				nodes = append(nodes, gpuNode(name, 4))
				for d := range random.IntN(4) {
					pods = append(pods, boundPod(fmt.Sprintf("%s-%d", name, d), 100*(1+random.IntN(9)), name, strconv.Itoa(d)))
				}
			}
			profile, pl := startProfile(t, gpuArgs(withStrategy(strategy)), schedtest.Options{Nodes: nodes, Pods: pods})
			infos := profile.Nodes(t)
			// raw returns the scores of some nodes for a pod, of which PreScore is told.
			raw := func(pod *corev1.Pod, some []fwk.NodeInfo) (fwk.CycleState, fwk.NodeScoreList) {
				state := preFilterOrSkip(t, profile, pod)
				succeed(t, profile.RunPreScorePlugins(t.Context(), state, pod, some))
				var scores fwk.NodeScoreList
				for _, node := range some {
					score, status := pl.Score(t.Context(), state, pod, node)
					if !status.IsSuccess() {
						t.Fatal(status)
					}
					scores = append(scores, fwk.NodeScore{Name: node.Node().Name, Score: score})
				}
				return state, scores
			}
			first := sharePod("first", 300)
			second := sharePod("second", 300)
			second.UID, second.Namespace, second.Labels = types.UID("other"), "elsewhere", map[string]string{"app": "other"}
			second.OwnerReferences = makeOwner("apps/v1", "ReplicaSet")
			raw(first, infos) // which teaches the workload
			raw(second, infos)
			_, all := raw(first, infos)
			for range 20 {
				random.Shuffle(len(infos), func(i, j int) { infos[i], infos[j] = infos[j], infos[i] })
				some := infos[:1+random.IntN(len(infos))]
				state, got := raw(second, some)
				for _, score := range got {
					if !slices.Contains(all, score) {
						t.Fatalf("%s scores %d for another pod of the signature, and is in %v for the first", score.Name, score.Score, all)
					}
				}
				once, again := slices.Clone(got), slices.Clone(got)
				slices.Reverse(again)
				for _, scores := range []fwk.NodeScoreList{once, again} {
					succeed(t, pl.NormalizeScore(t.Context(), state, second, scores))
				}
				slices.Reverse(again)
				if diff := cmp.Diff(once, again); diff != "" {
					t.Fatalf("normalised in another order (-once,+again):\n%s", diff)
				}
			}
		})
	}
}
