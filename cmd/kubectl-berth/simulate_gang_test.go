// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// gangSample is a gang of eight pods with half a device each.
const gangSample = "../../manifests/samples/gang.yaml"

// sharedNodes are so many nodes of two devices that are shared, as kubectl prints them, with an
// API that has PodGroups.
func sharedNodes(t *testing.T, nodes int) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("apiVersion: v1\nkind: List\nitems:\n")
	for i := range nodes {
		fmt.Fprintf(&text, `- apiVersion: v1
  kind: Node
  metadata:
    name: gpu-%[1]d
    uid: n%[1]d
    labels: {berth.dev/gpu-sharing: "true", nvidia.com/gpu.count: "2", nvidia.com/gpu.memory: "16384", nvidia.com/gpu.product: Tesla-T4}
  spec: {taints: [{key: berth.dev/gpu-sharing, value: "true", effect: NoSchedule}]}
  status: {allocatable: {cpu: "8", memory: 32Gi, pods: "110"}}
`, i)
	}
	return file(t, fmt.Sprintf("nodes-%d.yaml", nodes), text.String())
}

// TestSimulateGang asks whether the sample of a gang fits: as a whole, or not at all.
func TestSimulateGang(t *testing.T) {
	if len(engine.GangGates()) == 0 {
		t.Skip("the PodGroups of this release cannot be simulated")
	}
	runCases(t, []commandCase{
		{name: "fits", args: []string{"-f", sharedNodes(t, 2), "-f", gangSample}, wantStdout: []string{
			"All 8 pods fit; 1 of 1 PodGroup placed whole.\n\nPODGROUP       MINCOUNT   PLACED   WHY\ndefault/gang   8          8 of 8   -\n\nPOD ",
		}},
		{name: "does not fit", args: []string{"-f", sharedNodes(t, 1), "-f", gangSample}, wantCode: exitNotPlaced, wantStdout: []string{
			"None of the 8 pods fits; 0 of 1 PodGroup placed whole.\n\n", "default/gang   8          0 of 8 (4 found room)   minCount (8) cannot be satisfied: 4 scheduled, 3 remaining",
			"default/gang-0   (none)   -         ", "would fit on gpu-0\n", "default/gang-4   (none)   -         0/1 nodes are available: 1 node(s) didn't have enough free device share.",
		}},
		{name: "without its PodGroup", args: []string{"-f", sharedNodes(t, 2), "-f", "-"}, stdin: strings.SplitN(read(t, gangSample), "\n---\n", 2)[1], wantCode: exitFailed, wantStderr: []string{
			`plugin GangScheduling needs podgroups, because pod default/gang-0 has spec.schedulingGroup; the input has none`,
		}},
		{name: "with a PodGroup without policy", args: []string{"-f", sharedNodes(t, 2), "-f", "-"}, stdin: "apiVersion: scheduling.k8s.io/v1beta1\nkind: PodGroup\nmetadata: {name: gang}\nspec: {schedulingPolicy: {}}\n", wantCode: exitFailed, wantStderr: []string{
			"spec.schedulingPolicy: Required value: one of gang and basic",
		}},
	}, "simulate", "--config", gpuProfile)
}

// TestSimulateGangForPrograms: a gang that does not fit leaves its devices to the one behind it.
func TestSimulateGangForPrograms(t *testing.T) {
	if len(engine.GangGates()) == 0 {
		t.Skip("the PodGroups of this release cannot be simulated")
	}
	sample := read(t, gangSample)
	small := strings.NewReplacer("name: gang", "name: small", "podGroupName: gang", "podGroupName: small", "minCount: 8", "minCount: 2", "completions: 8", "completions: 3", "parallelism: 8", "parallelism: 3").Replace(sample)
	code, stdout, stderr := execute(t, sample+"\n---\n"+small, "simulate", "-f", sharedNodes(t, 1), "-f", "-", "--config", gpuProfile, "-o", "json")
	if code != exitNotPlaced {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	var r report.Report
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	for i := range r.Profiles[0].PodGroups {
		r.Profiles[0].PodGroups[i].Message, _, _ = strings.Cut(r.Profiles[0].PodGroups[i].Message, ",")
	}
	if diff := cmp.Diff([]report.PodGroup{
		{PodGroup: "default/gang", MinCount: 8, Members: 8, Proposed: 4, Message: "minCount (8) cannot be satisfied: 4 scheduled"},
		{PodGroup: "default/small", MinCount: 2, Members: 3, Placed: 3},
	}, r.Profiles[0].PodGroups); diff != "" {
		t.Errorf("PodGroups (-want,+got):\n%s", diff)
	}
	want := &report.Answer{Pods: 11, Placed: 3, PodGroups: 2, Whole: 1, Text: "only 3 of 11 pods fit; 1 of 2 PodGroups placed whole"}
	if diff := cmp.Diff(want, r.Profiles[0].Answer); diff != "" {
		t.Errorf("answer (-want,+got):\n%s", diff)
	}
}
