// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// publishedCluster is a node with GPUs, and what their driver publishes, as "kubectl get
// -o yaml" prints several kinds: in one list, with UIDs.
func publishedCluster(t *testing.T, layout draslices.Layout, gpus int) string {
	t.Helper()
	capacity := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110")}
	objects := []any{&corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "n1"},
		Status: corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}}
	for _, class := range layout.Classes() {
		class.UID = "class"
		objects = append(objects, class)
	}
	for _, slice := range layout.Slices("n1", gpus, draslices.T4()) {
		slice.UID = "slice"
		objects = append(objects, slice)
	}
	text, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// claimManifest is a template, and a Deployment whose pods get a claim of it each.
func claimManifest(replicas int, class, more string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %s%s}}]}}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: c, image: i, resources: {claims: [{name: gpu}]}}]
      resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
`, class, more, replicas)
}

// TestSimulateClaims asks whether pods with claims fit into what kubectl printed.
func TestSimulateClaims(t *testing.T) {
	whole, hami := file(t, "whole.yaml", publishedCluster(t, draslices.Whole, 2)), file(t, "hami.yaml", publishedCluster(t, draslices.HAMi, 1))
	runCases(t, []commandCase{
		{name: "that fit", args: []string{"-f", whole}, stdin: claimManifest(2, draslices.NVIDIADriver, ""), wantStdout: []string{
			"All 2 pods fit.", "default/web-0   n1     gpu.nvidia.com/n1/gpu-0   -\n", "default/web-1   n1     gpu.nvidia.com/n1/gpu-1   -\n",
		}},
		{name: "of which one fits not", args: []string{"-f", whole}, stdin: claimManifest(3, draslices.NVIDIADriver, ""), wantCode: exitNotPlaced, wantStdout: []string{
			"Only 2 of 3 pods fit.", "0/1 nodes are available: 1 cannot allocate all claims.",
		}},
		{name: "for parts of a device", args: []string{"-f", hami}, stdin: claimManifest(2, draslices.HAMiDriver, `, capacity: {requests: {cores: "40", memory: 5Gi}}`), wantStdout: []string{
			"All 2 pods fit.", "hami-core-gpu.project-hami.io/n1/hami-gpu-0 (cores=40 memory=5Gi)",
		}},
		{name: "of a class that is not there", args: []string{"-f", whole}, stdin: claimManifest(1, "none", ""), wantCode: exitNotPlaced, wantStdout: []string{
			"The pod does not fit.", `device class none does not exist`,
		}},
		{name: "of a template that is not there", args: []string{"-f", whole}, stdin: strings.Replace(claimManifest(1, draslices.NVIDIADriver, ""), "{name: gpu}", "{name: other}", 1), wantCode: exitNotPlaced, wantStdout: []string{
			`spec.resourceClaims[0].resourceClaimTemplateName: ResourceClaimTemplate "gpu" does not exist in namespace "default"`,
		}},
		{name: "without the slices", args: []string{"-f", file(t, "cluster.yaml", served)}, stdin: claimManifest(1, draslices.NVIDIADriver, "") + "---\napiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata: {name: c}\n", wantCode: exitFailed, wantStderr: []string{
			"plugin DynamicResources needs resourceslices, because pod default/web-0 has spec.resourceClaims", `add the output of "kubectl get resourceslices -A -o yaml"`,
		}},
		{name: "with a field that is none", args: []string{"-f", whole}, stdin: claimManifest(1, draslices.NVIDIADriver, ", amount: 2"), wantCode: exitFailed, wantStderr: []string{
			`-:2: ResourceClaimTemplate default/gpu: unknown field "spec.spec.devices.requests[0].exactly.amount"`,
		}},
		{name: "with a selector that does not compile", args: []string{"-f", whole}, stdin: claimManifest(1, draslices.NVIDIADriver, ", selectors: [{cel: {expression: 'device.memory'}}]"), wantCode: exitFailed, wantStderr: []string{
			"-:2: ResourceClaimTemplate default/gpu: spec.spec.devices.requests[0].exactly.selectors[0].cel.expression: Invalid value: \"device.memory\": compilation failed",
		}},
	}, "simulate", "-f", "-", "--config", gpuProfile)
}

// TestClaimsPage places the two manifests of the page about shares and claims, each on the
// kind of node that it is for.
func TestClaimsPage(t *testing.T) {
	const shared = `---
apiVersion: v1
kind: Node
metadata: {name: shared, uid: shared, labels: {berth.dev/gpu-sharing: "true", nvidia.com/gpu.count: "1", nvidia.com/gpu.memory: "15360", nvidia.com/gpu.product: Tesla-T4}}
status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
`
	both := file(t, "cluster.yaml", publishedCluster(t, draslices.HAMi, 1)+shared)
	var manifests []string
	for _, block := range strings.Split(read(t, "../../manifests/CLAIMS.md"), "```yaml\n")[1:] {
		manifest, _, _ := strings.Cut(block, "```")
		manifests = append(manifests, manifest)
	}
	if len(manifests) != 2 {
		t.Fatalf("the page has %d manifests, want one of shares and one of claims", len(manifests))
	}
	runCases(t, []commandCase{
		{name: "shares", stdin: manifests[0], wantStdout: []string{"All 2 pods fit.", "default/inference-0   shared   main=0:500m:6144Mi", "default/inference-1   shared   main=0:500m:6144Mi"}},
		{name: "claims", stdin: manifests[1], wantStdout: []string{"All 2 pods fit.", "default/inference-0   n1     hami-core-gpu.project-hami.io/n1/hami-gpu-0 (cores=50 memory=6Gi)", "default/inference-1   n1     hami-core-gpu.project-hami.io/n1/hami-gpu-0 (cores=50 memory=6Gi)"}},
	}, "simulate", "-f", both, "-f", "-", "--config", gpuProfile)
}

// TestSimulateClaimsForPrograms: the devices of claims are in JSON and YAML.
func TestSimulateClaimsForPrograms(t *testing.T) {
	reported := forPrograms[report.Report](t, claimManifest(1, draslices.HAMiDriver, `, capacity: {requests: {cores: "40", memory: 5Gi}}`), exitOK,
		"simulate", "-f", file(t, "hami.yaml", publishedCluster(t, draslices.HAMi, 1)), "-f", "-", "--config", gpuProfile)
	got := reported.Profiles[0].Placements[0].Claimed
	if len(got) != 1 || !strings.HasPrefix(got[0].Claim, "web-0-gpu-") {
		t.Fatalf("claimed %+v", got)
	}
	got[0].Claim = ""
	want := cluster.ClaimDevice{Request: "gpu", Driver: draslices.HAMiDriver, Pool: "n1", Device: "hami-gpu-0", Consumed: map[string]string{"cores": "40", "memory": "5Gi"}}
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("claimed (-want,+got):\n%s", diff)
	}
}
