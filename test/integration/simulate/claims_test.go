// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulate

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// claimPod is a template and a pod with a claim of it, for the node with the layout.
func claimPod(name string, layout draslices.Layout, class, request string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: %[1]s}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %[3]s%[4]s}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s}
spec:
  schedulerName: berth-scheduler
  nodeSelector: {kubernetes.io/hostname: %[2]s}
  tolerations: [{operator: Exists}]
  containers: [{name: main, image: registry.example.com/app, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: %[1]s}]
---
`, name, layout, class, request)
}

// TestSimulateClaims publishes the three layouts on a real API server, which accepts every
// object, and asks for devices of each: first the simulator, of what kubectl prints, then
// the scheduler with kube-controller-manager. Both give each pod the same devices, with stock's
// DynamicResources and with DeviceClaims.
func TestSimulateClaims(t *testing.T) {
	for _, profile := range []string{gpuProfile, "config/berth-scheduler/gpu-claims.yaml"} {
		t.Run(filepath.Base(profile), func(t *testing.T) { requireClaimsAsSimulated(t, profile) })
	}
}

func requireClaimsAsSimulated(t *testing.T, profile string) {
	t.Helper()
	layouts := []draslices.Layout{draslices.Whole, draslices.DynamicMIG, draslices.HAMi}
	var nodes []corev1.Node
	for i, layout := range layouts {
		node := localcluster.FakeNodes(i + 1)[i]
		node.Name = string(layout)
		node.Labels[corev1.LabelHostname] = string(layout)
		nodes = append(nodes, node)
	}
	c := framework.Start(t, framework.Options{Nodes: nodes})
	// Nine GPUs have their counters in two slices.
	const gpus = 9
	created := map[string]bool{}
	for _, layout := range layouts {
		for _, class := range layout.Classes() {
			if created[class.Name] {
				continue
			}
			created[class.Name] = true
			if _, err := c.Client.ResourceV1().DeviceClasses().Create(t.Context(), class, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
				t.Fatal(err)
			}
		}
		for _, slice := range layout.Slices(string(layout), gpus, draslices.A100()) {
			got, err := c.Client.ResourceV1().ResourceSlices().Create(t.Context(), slice, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(slice.Spec, got.Spec); diff != "" {
				t.Errorf("slice %s was changed by the API server (-sent,+stored):\n%s", slice.Name, diff)
			}
		}
	}
	var manifests strings.Builder
	for i := range 3 {
		mig := []string{"1g.10gb", "3g.40gb", "3g.40gb"}[i]
		manifests.WriteString(claimPod(fmt.Sprintf("whole-%d", i), draslices.Whole, draslices.NVIDIADriver, ""))
		manifests.WriteString(claimPod(fmt.Sprintf("mig-%d", i), draslices.DynamicMIG, draslices.MIGClass, fmt.Sprintf(`, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].profile == '%s'"}}]`, mig)))
		manifests.WriteString(claimPod(fmt.Sprintf("hami-%d", i), draslices.HAMi, draslices.HAMiDriver, ", capacity: {requests: {cores: 40, memory: 20Gi}}"))
	}
	manifests.WriteString(claimPod("too-much", draslices.HAMi, draslices.HAMiDriver, ", capacity: {requests: {memory: 200Gi}}"))

	printed := c.Kubectl(t, "get", "nodes,deviceclasses,resourceslices", "-o", "yaml")
	simulated, code := simulateIn(t, c.Kubeconfig, printed+"---"+manifests.String(), "-f", "-", "--config", profile)
	if want := "only 9 of 10 pods fit"; code != exitNotPlaced || simulated.Profiles[0].Answer.Text != want {
		t.Errorf("exit code %d, answer %q; want %d, %q", code, simulated.Profiles[0].Answer.Text, exitNotPlaced, want)
	}
	want := map[string]string{}
	for _, placement := range simulated.Profiles[0].Placements {
		for i := range placement.Claimed {
			want[placement.Pod] += placement.Claimed[i].String()
		}
	}

	c.ApplyManifests(t, "manifests/base")
	c.StartBerthScheduler(t, profile, framework.SchedulerOptions{})
	got := map[string]string{}
	for text := range strings.SplitSeq(strings.TrimSuffix(strings.TrimSpace(manifests.String()), "---"), "---") {
		c.Apply(t, text)
		_, name, isPod := strings.Cut(text, "kind: Pod\nmetadata: {name: ")
		if !isPod {
			continue
		}
		if name, _, _ = strings.Cut(name, "}"); name == "too-much" {
			c.WaitForPodUnschedulable(t, corev1.NamespaceDefault, name)
			continue
		}
		pod := c.WaitForPodScheduled(t, corev1.NamespaceDefault, name)
		for _, claimName := range cluster.ClaimsOf(pod) {
			claim, err := c.Client.ResourceV1().ResourceClaims(pod.Namespace).Get(t.Context(), claimName, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for _, device := range cluster.DevicesOf(claim) {
				got["default/"+name] += device.String()
			}
		}
	}
	if diff := cmp.Diff(got, want); len(got) != 9 || diff != "" {
		t.Errorf("%d pods of the scheduler; devices (-scheduler,+simulator):\n%s", len(got), diff)
	}
}
