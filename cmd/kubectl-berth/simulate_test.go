// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/simulator/report"
)

// served is what kubectl prints of a cluster: a node with 8 CPU, a Deployment's pod that
// runs there and one that is pending.
//
//go:embed testdata/served.yaml
var served string

// pendingLonger is a pod that leaves too little for one of 2 CPU, and that is older.
const pendingLonger = `
apiVersion: v1
kind: Pod
metadata: {name: early, uid: p2, namespace: default, creationTimestamp: "2026-01-01T00:00:00Z"}
spec: {schedulerName: berth-scheduler, containers: [{name: c, resources: {requests: {cpu: "6"}}}]}
`

const priorityClass = `
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 1000
---`

// webManifest is a Deployment whose pods ask for so many CPUs.
func webManifest(replicas int, cpu, more string) string {
	return fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: %d
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}%s}
    spec:
      schedulerName: berth-scheduler
      containers: [{name: c, image: i, resources: {limits: {cpu: %q}}}]
`, replicas, more, cpu)
}

// TestSimulateManifest asks whether a manifest fits into what kubectl printed: the exit
// code is about its pods alone.
func TestSimulateManifest(t *testing.T) {
	snapshot := file(t, "cluster.yaml", served)
	there := []string{"note: -: Deployment default/web is in the cluster already with 1 pod(s): those of the file come beside them"}
	runCases(t, []commandCase{
		{name: "that fits", stdin: webManifest(3, "2", ""), wantStdout: []string{
			"All 3 pods fit; of 1 pod pending beside, 0 found a node.\n\nPOD ", "default/web-0   node-0   -         -\n",
			"default/waits   (none)   -         pending beside; 0/1 nodes are available: 1 Insufficient cpu.",
		}, wantStderr: there},
		{name: "of which some fit", stdin: webManifest(4, "2", ""), wantCode: exitNotPlaced, wantStdout: []string{"Only 3 of 4 pods fit;"}, wantStderr: there},
		{name: "that does not fit", stdin: webManifest(2, "9", ""), wantCode: exitNotPlaced, wantStdout: []string{"None of the 2 pods fits;"}, wantStderr: there},
		{name: "with a key that nothing reads", stdin: webManifest(2, "1", `, annotations: {berth.dev/gpu-modell: a}`), wantStdout: []string{
			"Note: Deployment default/web: metadata: no plugin reads berth.dev/gpu-modell; did you mean berth.dev/gpu-model?\n",
		}, wantStderr: there},
		{name: "with a key that this profile does not read", stdin: webManifest(1, "1", `, annotations: {berth.dev/colocate-with: db}`), wantStdout: []string{
			`Note: Deployment default/web: metadata: berth.dev/colocate-with has no effect: the scheduler's profile "berth-scheduler" does not run Colocation`,
		}, wantStderr: there},
		{
			name: "behind what is pending longer", args: []string{"-f", file(t, "pending.yaml", pendingLonger)},
			stdin: webManifest(1, "2", ""), wantCode: exitNotPlaced, wantStdout: []string{"The pod does not fit; of 2 pods pending beside, 1 found a node."}, wantStderr: there,
		},
		{
			name: "before what is pending longer, by its PriorityClass", args: []string{"-f", file(t, "early.yaml", pendingLonger)},
			stdin: priorityClass + webManifest(1, "2", "") + "      priorityClassName: urgent\n", wantStdout: []string{"The pod fits; of 2 pods pending beside, 0 found a node."}, wantStderr: there,
		},
		{
			name: "of a PriorityClass that is not there", stdin: webManifest(2, "1", "") + "      priorityClassName: urgent\n", wantStdout: []string{"All 2 pods fit;"}, wantStderr: []string{
				there[0], `note: -: Deployment default/web: spec.priorityClassName: there is no PriorityClass "urgent": create it, or name another (it is placed with priority 0)`,
			},
		},
		{name: "with a misspelled field", stdin: strings.Replace(webManifest(1, "1", ""), "replicas", "replica", 1), wantCode: exitFailed, wantStderr: []string{
			`-:2: Deployment default/web: unknown field "spec.replica"`,
		}},
		{name: "of another namespace", args: []string{"-n", "team"}, stdin: webManifest(1, "1", ""), wantStdout: []string{"The pod fits;", "team/web-0"}},
		{name: "that is there already", stdin: "apiVersion: v1\nkind: Pod\nmetadata: {name: waits}\nspec: {containers: [{name: c}]}\n", wantCode: exitNotPlaced, wantStdout: []string{"The pod does not fit."}, wantStderr: []string{
			`note: -: 1 object(s) are in the cluster already and are taken as they are there, for example pods "default/waits"`,
		}},
	}, "simulate", "-f", snapshot, "-f", "-", "--config", gpuProfile)
}

// TestSimulateRunningProfile: without --config the profile is that of the scheduler that
// serves the pods, as the ConfigMap among the files has it.
func TestSimulateRunningProfile(t *testing.T) {
	const running = `---
apiVersion: v1
kind: ConfigMap
metadata: {name: profile, namespace: berth-system, uid: c0}
data:
  other.yaml: "kind: Other"
  profile.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {resourceNamespace: berth-system, resourceName: SCHEDULER}
    profiles:
    - schedulerName: SCHEDULER
      plugins: {filter: {disabled: [{name: NodeResourcesFit}]}}
`
	snapshot := func(name string) string {
		return file(t, "cluster.yaml", served+strings.ReplaceAll(running, "SCHEDULER", name))
	}
	const note = "note: without --config, the profile is that of the running scheduler: ConfigMap berth-system/profile, profile.yaml"
	runCases(t, []commandCase{
		// Nothing but the running profile lets a pod of 9 CPU on a node of 8.
		{name: "that of the pods' scheduler", args: []string{"-f", snapshot("berth-scheduler")}, stdin: webManifest(1, "9", ""), wantStdout: []string{"The pod fits;", "Profile:  running is ConfigMap berth-system/profile, profile.yaml"}, wantStderr: []string{
			note, "note: -: Deployment default/web is in the cluster already",
		}},
		{name: "of pods of several schedulers", args: []string{"-f", snapshot("berth-scheduler")}, stdin: strings.Replace(webManifest(1, "1", ""), "berth-scheduler", "default-scheduler", 1) + "---" + strings.ReplaceAll(webManifest(1, "9", ""), "web", "wide"), wantCode: exitNotPlaced, wantStdout: []string{
			"Only 1 of 2 pods fits;", "default/wide-0   node-0", `spec.schedulerName: "default-scheduler" is not a profile of ConfigMap berth-system/profile, profile.yaml: berth-scheduler`,
		}, wantStderr: []string{note, "note: -: Deployment default/web is in the cluster already", "spec.schedulerName is not one of berth-scheduler, so these pods are not placed: Deployment default/web has"}},
		{name: "that of another scheduler", args: []string{"-f", snapshot("another")}, stdin: webManifest(1, "1", ""), wantCode: exitUsage, wantStderr: []string{`--config: required: no scheduler was seen that serves "berth-scheduler"`}},
		{name: "a file of ours", args: []string{"-f", snapshot("berth-scheduler"), "--config", gpuProfile}, stdin: webManifest(1, "9", ""), wantCode: exitNotPlaced, wantStdout: []string{"The pod does not fit;"}, wantStderr: []string{
			"note: -: Deployment default/web is in the cluster already", "1 object(s) of kind ConfigMap (v1) were left out",
		}},
	}, "simulate", "-f", "-")
}

// TestSimulateInREADME: the page shows what is printed.
func TestSimulateInREADME(t *testing.T) {
	code, stdout, stderr := execute(t, "", "simulate", "-f", "testdata/simulate", "--config", gpuProfile)
	answer, _, _ := strings.Cut(stdout, "\n\nCluster:")
	if code != exitNotPlaced || !strings.Contains(read(t, "README.md"), "```text\n"+answer+"\n```\n") {
		t.Errorf("exit code %d; README.md does not show\n%s\n%s", code, answer, stderr)
	}
}

// TestSimulateForPrograms: JSON and YAML say the same, and begin with the answer.
func TestSimulateForPrograms(t *testing.T) {
	reported := forPrograms[report.Report](t, webManifest(4, "2", ""), exitNotPlaced, "simulate", "-f", file(t, "cluster.yaml", served), "-f", "-", "--config", gpuProfile)
	want := &report.Answer{Pods: 4, Placed: 3, Text: "only 3 of 4 pods fit; of 1 pod pending beside, 0 found a node"}
	if diff := cmp.Diff(want, reported.Profiles[0].Answer); diff != "" {
		t.Errorf("answer (-want,+got):\n%s", diff)
	}
	for _, p := range reported.Profiles[0].Placements {
		if wantOf := map[bool]string{true: "", false: "Deployment default/web"}[p.Beside]; p.Of != wantOf || p.Beside != (p.Pod == "default/waits") {
			t.Errorf("placement %+v", p)
		}
	}
}
