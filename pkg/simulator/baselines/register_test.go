// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package baselines

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func argsOf(strategy string) *config.GPUDeviceArgs {
	return &config.GPUDeviceArgs{
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceStrategy(strategy)},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
}

func gpuNode(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		names.GPUSharingLabel: "true", "nvidia.com/gpu.count": "1", "nvidia.com/gpu.memory": "40960",
	}}}
}

// TestNew: a yardstick takes the place of a strategy, an expected workload with it where
// it reads one, and GPUDevice itself knows none.
func TestNew(t *testing.T) {
	for strategy, want := range map[string]string{
		"Random": "", "DotProduct": "", "FragmentationGradientPublished": "", "BestFit": "", "FragmentationGradient": "",
		"Fair": `Unsupported value: "Fair"`,
	} {
		args := argsOf(strategy)
		if ExpectsWorkload(args.ScoringStrategy.Type) {
			args.ExpectedWorkload = []config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 500}}
		}
		_, err := schedtest.NewProfile(t.Context(), t, gpudevice.Name, New, args, schedtest.Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want %q, got %v", strategy, want, err)
		}
		_, yardstick := StandIn(args)
		if _, err := schedtest.NewProfile(t.Context(), t, gpudevice.Name, gpudevice.New, args, schedtest.Options{}); yardstick != nil && err == nil {
			t.Errorf("GPUDevice takes %s", strategy)
		}
	}
}

// TestRandomScores gives one node all and the others nothing, and each its turn.
func TestRandomScores(t *testing.T) {
	profile, err := schedtest.NewProfile(t.Context(), t, gpudevice.Name, New, argsOf("Random"), schedtest.Options{Nodes: []*corev1.Node{gpuNode("a"), gpuNode("b"), gpuNode("c")}})
	if err != nil {
		t.Fatal(err)
	}
	profile.Start(t.Context(), t)
	if plugin, ok := profile.Plugin.(interface {
		Prepare(ctx context.Context) error
	}); !ok {
		t.Fatalf("%T does not prepare", profile.Plugin)
	} else if err := plugin.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{names.GPUMilliResource: resource.MustParse("100")},
		}}}},
	}
	drawn := map[string]int{}
	for range 30 {
		sum := int64(0)
		for node, score := range profile.Scores(t.Context(), t, pod) {
			sum += score
			if score == fwk.MaxScore {
				drawn[node]++
			}
		}
		if sum != fwk.MaxScore {
			t.Fatalf("the scores sum to %d", sum)
		}
	}
	if len(drawn) != 3 {
		t.Errorf("of three nodes only %v were drawn", drawn)
	}
}
