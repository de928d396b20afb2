// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/diagnose/check"
)

func TestCheck(t *testing.T) {
	const wrong = "../berth-scheduler/testdata/wrong/tenancy-differs.yaml"
	gangs := checkedGangs()
	tests := []commandCase{
		{name: "help", args: []string{"--help"}, wantStdout: []string{"kubectl berth check [--config PROFILE.yaml]", "5 something was found"}},
		{name: "a good profile", args: []string{"--config", gpuProfile}, wantStdout: []string{"Nothing was found. Schedulers: " + gpuProfile + ": berth-scheduler"}},
		{name: "a profile of gangs", args: []string{"--config", gangProfile, "--severity", "error"}, wantCode: gangs.code, wantStdout: []string{gangs.says}},
		{name: "a wrong profile", args: []string{"--config", wrong}, wantCode: exitFound, wantStdout: []string{"SEVERITY", "profiles[1].pluginConfig[LabelPresence].args.tenancy.tenants"}},
		{name: "fields that are not there, or twice", args: []string{"--config", file(t, "f.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 1\nparallelism: 2\nprofiles:\n- schedulerNam: a\n")}, wantCode: exitFound, wantStdout: []string{
			"parallelism                is set twice in one object, the second time at line 4: remove one of the two", "profiles[0].schedulerNam   there is no such field: correct the spelling, or remove it",
		}},
		{name: "an argument that is not there", args: []string{"--config", file(t, "a.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerName: a\n  pluginConfig:\n  - {name: GPUDevice, args: {strategy: x}}\n")}, wantCode: exitFound, wantStdout: []string{
			"profiles[0].pluginConfig[GPUDevice].args.strategy   there is no such field",
		}},
		{name: "a value of another type", args: []string{"--config", file(t, "t.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: many\n")}, wantCode: exitFound, wantStdout: []string{"parallelism   is a string, and must be a number: write"}},
		{name: "as YAML", args: []string{"--config", wrong, "-o", "yaml"}, wantCode: exitFound, wantStdout: []string{"formatVersion: 1", "wayOut: "}},
		{name: "a file that is not there", args: []string{"--config", "testdata/none.yaml"}, wantCode: exitFailed, wantStderr: []string{"--config: open testdata/none.yaml: no such file"}},
		{name: "no cluster", args: []string{"--kubeconfig", "testdata/none"}, wantCode: exitFailed, wantStderr: []string{"--kubeconfig testdata/none: "}},
		{name: "an output that is none", args: []string{"--config", gpuProfile, "-o", "wide"}, wantCode: exitUsage, wantStderr: []string{`-o: invalid value "wide": must be one of table, json, yaml`}},
		{name: "a severity that is none", args: []string{"--config", gpuProfile, "--severity", "info"}, wantCode: exitUsage, wantStderr: []string{`--severity: invalid value "info": must be one of warning, error`}},
		{name: "flags", args: []string{"--config", "../../config/berth-scheduler/tenancy.yaml", "--", "--leader-elect=false"}, wantCode: exitFound, wantStdout: []string{"tenancy.yaml with --leader-elect=false", "leaderElection.leaderElect", "without leader election"}},
		{name: "flags that there are not", args: []string{"--config", gpuProfile, "--", "--leader-election"}, wantCode: exitUsage, wantStderr: []string{"unknown flag: --leader-election"}},
		{name: "flags without a profile", args: []string{"--", "--leader-elect=false"}, wantCode: exitUsage, wantStderr: []string{`unexpected argument "--leader-elect=false"`}},
		{name: "an argument", args: []string{"profile.yaml"}, wantCode: exitUsage, wantStderr: []string{`unexpected argument "profile.yaml"`}},
	}
	runCases(t, tests, "check")
}

// TestCheckAuditLog: what logs show, pkg/diagnose/check tests; here are the flags, what is printed
// and the exit codes.
func TestCheckAuditLog(t *testing.T) {
	event := func(subresource, body, response string) string {
		return `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","stage":"ResponseComplete","verb":"create","user":{"username":"somebody"},"userAgent":"kubectl/v1",` +
			`"objectRef":{"resource":"pods","namespace":"ns","name":"p","subresource":"` + subresource + `"},"responseStatus":{"code":201},` +
			`"requestReceivedTimestamp":"2026-11-23T00:00:01.000000Z","stageTimestamp":"2026-11-23T00:00:02.000000Z","requestObject":` + body + `,"responseObject":` + response + "}\n"
	}
	created := event("", "{}", `{"kind":"Pod","metadata":{"namespace":"ns","name":"p","uid":"1"},"spec":{"containers":[{"name":"main","resources":{"limits":{"berth.dev/gpu-milli":"500"}}}]}}`)
	bound := event("binding", `{"kind":"Binding","target":{"kind":"Node","name":"n"}}`, "{}")
	begun := strings.NewReplacer(`"resource":"pods","namespace":"ns","name":"p"`, `"resource":"namespaces","name":"kube-system"`).Replace(event("", "{}", "{}"))
	log := []string{"--audit-log", "-"}
	runCases(t, []commandCase{
		{name: "clean", stdin: begun + created, args: log, wantStdout: []string{"Nothing was found: 1 write to pods, 1 version of pods with shares, 0 Bindings"}},
		{name: "pods from before unknown", stdin: created, args: log, wantCode: exitFailed, wantStdout: []string{"The log is not sufficient"}, wantStderr: []string{"the pods that existed before the log began are not known: give them with -f"}},
		{name: "not sufficient", args: log, wantCode: exitFailed, wantStdout: []string{"The log is not sufficient"}, wantStderr: []string{"not in the log: no write to a pod is in the log", "the log is not sufficient: see above"}},
		{name: "violation", stdin: created + bound, args: log, wantCode: exitFound, wantStdout: []string{"KIND   OBJECT", "Torn   ns/p     2026-11-23T00:00:02.000000Z", "somebody kubectl/v1", "is on node \"n\" with the annotations map[]"}, wantStderr: []string{"no write to pods/status is in the log"}},
		{name: "as JSON", stdin: created + bound, args: append(log, "-o", "json"), wantCode: exitFound, wantStdout: []string{`"verdict": "Violation"`, `"user": "somebody"`, `"gaps": [`}, wantStderr: []string{"no write to pods/status is in the log"}},
		{name: "as YAML", stdin: begun + created, args: append(log, "-o", "yaml"), wantStdout: []string{"verdict: Clean", "violations: []"}},
		{name: "no file", args: []string{"--audit-log", "testdata/none"}, wantCode: exitFailed, wantStderr: []string{"--audit-log: stat testdata/none: no such file"}},
		{name: "twice", args: append(log, log...), wantCode: exitUsage, wantStderr: []string{"--audit-log: - is given more than once"}},
		{name: "standard input twice", args: append(log, "-f", "-"), wantCode: exitUsage, wantStderr: []string{"only one of them can read standard input"}},
		{name: "with a cluster", args: append(log, "--context", "c"), wantCode: exitUsage, wantStderr: []string{"--audit-log: no profile and no cluster is checked with it"}},
	}, "check")
}

// TestCheckFiles checks manifests as they would be applied.
func TestCheckFiles(t *testing.T) {
	manifest := read(t, "testdata/check/installed.yaml")
	changed := func(old, by string) string {
		if !strings.Contains(manifest, old) {
			t.Fatalf("no %q in the manifest", old)
		}
		return strings.Replace(manifest, old, by, 1)
	}
	unseen := []string{"not seen: the permissions of system:serviceaccount:berth-system:berth-scheduler: ", "not seen: Lease berth-system/berth-scheduler: not among the files", "not seen: leases, so other schedulers of these schedulerNames are unknown: not among the files"}
	roles := "---\n" + read(t, "../../manifests/base/rbac.yaml")
	runCases(t, []commandCase{
		{name: "as they should be", stdin: manifest, wantStdout: []string{"Nothing was found. Schedulers: Deployment berth-system/berth-scheduler: berth-scheduler"}, wantStderr: unseen},
		{name: "with their roles", stdin: manifest + roles, wantStdout: []string{"Nothing was found."}, wantStderr: unseen[1:]},
		{name: "with a role that lacks a right", stdin: manifest + without(t, roles, `resources: ["pods/binding"]`), wantCode: exitFound, wantStderr: unseen[1:], wantStdout: []string{
			"Error      User system:serviceaccount:berth-system:berth-scheduler   -       Deployment berth-system/berth-scheduler runs as this user, which has no permission to create pods/binding: a placement is written as a Binding: grant the permission, for example with manifests/base/rbac.yaml",
		}},
		{name: "with roles for another", stdin: manifest + strings.ReplaceAll(roles, "kind: ServiceAccount\n  name: berth-scheduler", "kind: ServiceAccount\n  name: berth"), wantCode: exitFound, wantStderr: unseen[1:], wantStdout: []string{
			"which has none of the ", "such as list pods: no role binding names it: bind the roles of manifests/base/rbac.yaml to it",
		}},
		{name: "with a role that is given another by its labels", stdin: manifest + aggregated(t, roles), wantStdout: []string{"Nothing was found."}, wantStderr: unseen[1:]},
		{name: "of the chart, with a role that lacks a right", stdin: changed("metadata: {name: berth-scheduler, ", "metadata: {name: berth-scheduler, labels: {app.kubernetes.io/managed-by: Helm, app.kubernetes.io/instance: east}, ") + without(t, roles, `resources: ["pods/binding"]`), wantCode: exitFound, wantStderr: unseen[1:], wantStdout: []string{
			"a placement is written as a Binding: run helm -n berth-system upgrade east, which brings back what the chart has\n",
		}},
		{name: "a key that the profile does not read", stdin: changed("berth.dev/gpu-model: ", "berth.dev/colocate-with: "), wantCode: exitFound, wantStderr: unseen, wantStdout: []string{
			"Deployment default/web (its pods)", `berth.dev/colocate-with has no effect: the scheduler's profile "berth-scheduler" does not run Colocation`,
		}},
		{name: "shares under another scheduler", stdin: changed("schedulerName: berth-scheduler # the workload's", "schedulerName: default-scheduler"), wantCode: exitFound, wantStderr: unseen, wantStdout: []string{`spec.schedulerName   "default-scheduler" does not run GPUDevice`}},
		{name: "a file that is not in the ConfigMap", stdin: changed("key: gpu.yaml", "key: cpu.yaml"), wantCode: exitFound, wantStdout: []string{"data[cpu.yaml]", "is missing, and Deployment berth-system/berth-scheduler is started with it"}, wantStderr: []string{"not seen"}},
		{name: "a file of nowhere", stdin: changed("path: profile.yaml", "path: other.yaml"), wantCode: exitFound, wantStdout: []string{"the profile --config=/etc/berth/profile.yaml is not in a ConfigMap"}, wantStderr: []string{"not seen"}},
		{name: "a gate that is not there", stdin: changed("DRAExtendedResource=true", "DRAExtended=true"), wantCode: exitFound, wantStderr: unseen, wantStdout: []string{
			"Deployment berth-system/berth-scheduler   spec.template.spec.containers[].args   ", "unrecognized feature gate: DRAExtended, so its pods do not start",
		}},
		{name: "no election by flag", stdin: changed("--feature-gates=", "--leader-elect=false, --feature-gates="), wantCode: exitOK, wantStdout: []string{"Nothing was found."}, wantStderr: unseen[:1]},
		{name: "no election of two replicas by flag", stdin: strings.Replace(changed("--feature-gates=", "--leader-elect=false, --feature-gates="), "replicas: 1", "replicas: 2", 1), wantCode: exitFound, wantStderr: unseen[:1], wantStdout: []string{
			"gpu.yaml with --leader-elect=false   leaderElection.leaderElect   is false, and Deployment berth-system/berth-scheduler has 2 replicas",
		}},
		{name: "switched off", stdin: changed("replicas: 1", "replicas: 0"), wantCode: exitFound, wantStderr: unseen, wantStdout: []string{
			"Warning", "spec.replicas   is 0: the scheduler is switched off, and none of its pods is scheduled: start it with kubectl -n berth-system scale deployment berth-scheduler --replicas=1, or delete it",
		}},
		{name: "a profile for the workloads of a file", args: []string{"--config", gpuProfile}, stdin: changed("berth.dev/gpu-model: ", "berth.dev/gpu-modell: "), wantCode: exitFound, wantStdout: []string{"no plugin reads berth.dev/gpu-modell; did you mean berth.dev/gpu-model?"}, wantStderr: []string{"not seen"}},
		{name: "a misspelled field", stdin: changed("containers:", "container:"), wantCode: exitFailed, wantStderr: []string{`-f: -:`, `unknown field "spec.template.spec.container"`}},
		{name: "a workload alone", stdin: "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {schedulerName: somebody, containers: [{name: c, image: i, resources: {limits: {berth.dev/gpu-milli: \"500\"}}}]}\n", wantStdout: []string{"Nothing was found. Schedulers: none"}, wantStderr: []string{
			"not seen: Deployments, and so which schedulers there are (name a profile with --config): not among the files",
		}},
	}, "check", "-f", "-")
}

// without leaves a line out.
func without(t *testing.T, text, line string) string {
	t.Helper()
	if !strings.Contains(text, line) {
		t.Fatalf("no %q in\n%s", line, text)
	}
	return strings.Replace(text, line, "resources: []", 1)
}

// aggregated moves the rules of the first role to another, which the first one takes them
// from by its label.
func aggregated(t *testing.T, roles string) string {
	t.Helper()
	first, rest, ok := strings.Cut(roles, "\n---\n")
	head, rules, found := strings.Cut(first, "\nrules:\n")
	if !ok || !found {
		t.Fatalf("no role in\n%s", roles)
	}
	return head + "\naggregationRule: {clusterRoleSelectors: [{matchLabels: {berth: more}}]}\n---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: more, labels: {berth: more}}\nrules:\n" + rules + "\n---\n" + rest
}

// gangsChecked is the exit code and a text of the check of the profile of gangs.
type gangsChecked struct {
	code int
	says string
}

// checkedGangs is what the check of the profile of gangs finds: only Kubernetes 1.36 runs it.
func checkedGangs() gangsChecked {
	if compat.Release == "1.36" {
		return gangsChecked{exitOK, "Nothing was found."}
	}
	return gangsChecked{exitFound, "Coscheduling is in Berth's build for Kubernetes 1.36 alone"}
}

// TestCheckProfiles: of the shipped profiles there is nothing to find, and of each that a
// start refuses there is, with a way out.
func TestCheckProfiles(t *testing.T) {
	for pattern, wantCode := range map[string]int{
		"../../config/berth-scheduler/[^k]*.yaml":  exitOK, // no kustomization
		"../berth-scheduler/testdata/wrong/*.yaml": exitFound,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", pattern, files, err)
		}
		for _, file := range files {
			wantCode := wantCode
			if file == gangProfile {
				wantCode = checkedGangs().code
			}
			code, stdout, stderr := execute(t, "", "check", "--config", file, "-o", "json")
			var report check.Report
			if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != wantCode {
				t.Errorf("%s: exit code %d, want %d (%v):\n%s\n%s", file, code, wantCode, err, stdout, stderr)
			}
			for _, f := range report.Findings {
				if f.Message == "" || f.WayOut == "" || f.Object != file || f.Severity != check.Error {
					t.Errorf("%s: finding %+v", file, f)
				}
			}
		}
	}
}
