// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/manifests"
)

// now is the time of the clusters below.
var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// deployed is a Deployment of berth-scheduler as a cluster shows it, with its profile; args
// are those beside --config.
func deployed(t *testing.T, name, profile string, replicas int, args ...string) string {
	t.Helper()
	content, err := os.ReadFile("../../../config/berth-scheduler/" + profile)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, namespace: berth-system, uid: u-%[1]s}
spec:
  replicas: %[2]d
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      serviceAccountName: berth-scheduler
      containers:
      - name: berth-scheduler
        image: localhost/berth-scheduler:v1
        args: ["--config=/etc/berth/profile.yaml"%[3]s]
        volumeMounts: [{name: config, mountPath: /etc/berth}]
      volumes: [{name: config, configMap: {name: %[1]s}}]
status: {availableReplicas: %[2]d}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s, namespace: berth-system}
data:
  profile.yaml: |
    %[4]s
---
`, name, replicas, quoted(args), strings.ReplaceAll(string(content), "\n", "\n    "))
}

func quoted(args []string) string {
	var b strings.Builder
	for _, arg := range args {
		fmt.Fprintf(&b, ", %q", arg)
	}
	return b.String()
}

const (
	uuid        = "0b8c1c3e-6f0e-4d5c-9a9e-2f9f1f1d8a11"
	stockHolder = "cp_" + uuid
)

// held is a lease that was renewed some time ago.
func held(name, holder string, ago time.Duration) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf(`apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s, namespace: %s}
spec: {holderIdentity: %q, leaseDurationSeconds: 15, acquireTime: "2026-01-01T00:00:00.000000Z", renewTime: %q, leaseTransitions: 1}
---
`, name, namespace, holder, now.Add(-ago).Format("2006-01-02T15:04:05.000000Z07:00"))
}

// berthHeld is the lease of a Deployment's replica that serves the names.
func berthHeld(names string) string {
	return held("berth-system/berth-scheduler", "berth-scheduler-7d4b8c9f5d-x2k4z_"+uuid+"_"+names, 3*time.Second)
}

// policiesOf are the admission policies of components, as the overlays have them.
func policiesOf(t *testing.T, components ...string) string {
	t.Helper()
	var b strings.Builder
	for _, component := range components {
		files, err := fs.Glob(manifests.Policies, "components/"+component+"/*.yaml")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %v, %v", component, files, err)
		}
		for _, file := range files {
			content, err := manifests.Policies.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			text := string(content)
			if component == "gpu" {
				text = strings.ReplaceAll(text, "- name: profiles\n    expression: \"[]\"", "- name: profiles\n    expression: \"['berth-scheduler']\"")
			}
			// No role is among the objects.
			parts := slices.DeleteFunc(strings.Split(text, "\n---\n"), func(part string) bool { return strings.Contains(part, "\nkind: ClusterRole\n") })
			text = strings.Join(parts, "\n---\n")
			b.WriteString(text + "\n---\n")
		}
	}
	return b.String()
}

const namespaces = `apiVersion: v1
kind: Namespace
metadata: {name: berth-system, labels: {kubernetes.io/metadata.name: berth-system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: kube-system, labels: {kubernetes.io/metadata.name: kube-system}}
---
apiVersion: v1
kind: Namespace
metadata: {name: default, labels: {kubernetes.io/metadata.name: default}}
---
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {kubernetes.io/metadata.name: blue, berth.dev/tenant: blue}}
---
`

// node is one with labels and taints, each as KEY=VALUE, and KEY=VALUE:EFFECT.
func node(name string, labels []string, taints ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  labels: {kubernetes.io/hostname: %s", name, name)
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		fmt.Fprintf(&b, ", %s: %q", key, value)
	}
	b.WriteString("}\nspec: {taints: [")
	for _, taint := range taints {
		taint, effect, _ := strings.Cut(taint, ":")
		key, value, _ := strings.Cut(taint, "=")
		fmt.Fprintf(&b, "{key: %s, value: %q, effect: %s},", key, value, effect)
	}
	b.WriteString("]}\nstatus: {capacity: {nvidia.com/gpu: \"0\", pods: \"110\", cpu: \"4\"}, allocatable: {nvidia.com/gpu: \"0\", pods: \"110\", cpu: \"4\"}}\n---\n")
	return b.String()
}

const tenantLabel = "berth.dev.node-restriction.kubernetes.io/tenant=blue"

var sharedLabels = []string{"berth.dev/gpu-sharing=true", "nvidia.com/gpu.count=2", "nvidia.com/gpu.memory=16384"}

// pod is one with a spec beside its containers, and what else it has.
func pod(name, spec, rest string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s, uid: u-%s}\nspec: {%s, containers: [{name: c, image: i}]}\n%s---\n", name, namespace, name, spec, rest)
}

// share is a pod that asks for half of a device.
func share(name, spec, metadata, rest string) string {
	namespace, name, _ := strings.Cut(name, "/")
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: %s%s}\nspec: {%s, containers: [{name: c, image: i, resources: {limits: {berth.dev/gpu-milli: \"500\"}}}]}\n%s---\n", name, namespace, metadata, spec, rest)
}

const (
	tried = "status: {conditions: [{type: PodScheduled, status: \"False\", reason: Unschedulable}]}\n"
	runs  = "status: {phase: Running, conditions: [{type: PodScheduled, status: \"True\"}]}\n"
)

// event is one that was seen some time ago; if a plugin of Berth reports it, its profile is
// berth-scheduler.
func event(kind, name, reason, message string, ago time.Duration) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Event\nmetadata: {name: e-%s-%s, namespace: default}\ninvolvedObject: {kind: %s, namespace: default, name: %s}\nreason: %s\nmessage: %q\nlastTimestamp: %q\nreportingComponent: berth-scheduler\n---\n",
		strings.ToLower(reason), name, kind, name, reason, message, now.Add(-ago).Format(time.RFC3339))
}

// checked checks the objects.
func checked(t *testing.T, objects ...string) *Report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "objects.yaml")
	if err := os.WriteFile(file, []byte(strings.Join(objects, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	files := NewFiles("default")
	if err := files.Read(file, nil); err != nil {
		t.Fatal(err)
	}
	report, err := Cluster(klog.NewContext(t.Context(), logr.Discard()), Options{Files: files, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestRightSetUps: nothing is found in what is right.
func TestRightSetUps(t *testing.T) {
	stock := held("kube-system/kube-scheduler", stockHolder, time.Second)
	base := func(profile, names string) string {
		return deployed(t, "berth-scheduler", profile, 1) + berthHeld(names) + stock + namespaces
	}
	record := `, annotations: {berth.dev/gpu-assigned: "c=0:500m:8192Mi", gpu.berth.dev/c: "0"}`
	gpu := base("gpu.yaml", "berth-scheduler") + policiesOf(t, "gpu") + node("g", sharedLabels, "berth.dev/gpu-sharing=true:NoSchedule")
	for name, objects := range map[string]string{
		"all plugins":                    base("all-plugins.yaml", "berth-scheduler") + policiesOf(t, "colocation"),
		"gpu":                            gpu,
		"labelpresence":                  base("labelpresence.yaml", "berth-scheduler"),
		"colocation":                     base("colocation.yaml", "berth-scheduler") + policiesOf(t, "colocation"),
		"tenancy":                        base("tenancy.yaml", "berth-tenancy") + policiesOf(t, "tenancy") + node("b", []string{tenantLabel}, "berth.dev/tenant=blue:NoSchedule") + pod("blue/p", "schedulerName: berth-tenancy, nodeName: b", runs),
		"tenancy, two taints":            base("tenancy.yaml", "berth-tenancy") + policiesOf(t, "tenancy") + node("b", []string{tenantLabel}, "berth.dev/tenant=blue:NoSchedule", "berth.dev/tenant=blue:NoExecute"),
		"high availability with tenancy": deployed(t, "berth-scheduler", "tenancy.yaml", 3) + berthHeld("berth-tenancy") + stock + namespaces + policiesOf(t, "tenancy"),
		"in the place of the cluster's own scheduler": deployed(t, "berth-scheduler", "default-scheduler.yaml", 1) + held("kube-system/kube-scheduler", "berth-scheduler-7d4b8c9f5d-x2k4z_"+uuid+"_default-scheduler", time.Second) + namespaces + pod("default/p", "schedulerName: default-scheduler", tried),
		"two schedulers, each with its names and lease": base("labelpresence.yaml", "berth-scheduler") +
			strings.NewReplacer("schedulerName: berth-scheduler", "schedulerName: second", "resourceName: berth-scheduler", "resourceName: second").Replace(deployed(t, "second", "gpu.yaml", 2)) +
			held("berth-system/second", "second-7d4b8c9f5d-x2k4z_"+uuid+"_second", time.Second),
		"the lease by flag, without election of one replica": deployed(t, "berth-scheduler", "labelpresence.yaml", 1, "--leader-elect=false", "--v=2") + stock + namespaces,
		"a scheduler that is a process, with shares bound": held("berth-system/berth-scheduler", "workstation_"+uuid+"_berth-scheduler", time.Second) + stock + namespaces +
			node("g", sharedLabels, "berth.dev/gpu-sharing=true:NoSchedule") +
			share("default/bound", "schedulerName: berth-scheduler, nodeName: g", record, runs) + share("default/waiting", "schedulerName: berth-scheduler", "", tried),
		"a process beside a Deployment without shares": strings.ReplaceAll(deployed(t, "plain", "labelpresence.yaml", 1), ": berth-scheduler\n", ": plain\n") + held("berth-system/plain", "plain-7d4b8c9f5d-x2k4z_"+uuid+"_plain", time.Second) +
			held("berth-system/berth-scheduler", "workstation_"+uuid+"_berth-scheduler", time.Second) + stock + namespaces +
			share("default/bound", "schedulerName: berth-scheduler, nodeName: elsewhere", record, runs) + share("default/waiting", "schedulerName: berth-scheduler", "", tried),
		"another scheduler without a lease":                 base("labelpresence.yaml", "berth-scheduler") + pod("kube-system/my-scheduler-5d9f7c8b66-abcde", "nodeName: w", runs) + pod("default/p", "schedulerName: my-scheduler", tried),
		"no lease of the cluster's own scheduler":           deployed(t, "berth-scheduler", "labelpresence.yaml", 1) + berthHeld("berth-scheduler") + namespaces + pod("default/p", "schedulerName: default-scheduler", tried),
		"the arguments in two words, and a renamed program": strings.Replace(base("labelpresence.yaml", "berth-scheduler"), `args: ["--config=/etc/berth/profile.yaml"]`, `command: [/bin/berth, --config, /etc/berth/profile.yaml]`, 1),
		"a pod that has ended, and one that is being deleted": base("labelpresence.yaml", "berth-scheduler") + pod("default/p", "schedulerName: gone", "status: {phase: Failed}\n") +
			strings.Replace(pod("default/q", "schedulerName: gone", ""), "uid: u-q", "uid: u-q, deletionTimestamp: \"2026-01-01T00:00:00Z\", deletionGracePeriodSeconds: 0, finalizers: [a/b]", 1),
		"a stock scheduler of another release, which elects": deployed(t, "berth-scheduler", "default-scheduler.yaml", 1) + held("kube-system/kube-scheduler", "berth-scheduler-7d4b8c9f5d-x2k4z_"+uuid+"_default-scheduler", time.Second) + namespaces + stockPod("--leader-elect=true", "--no-such-flag=1"),
		"events that no scheduler of Berth has written": gpu + pod("default/p", "schedulerName: default-scheduler, nodeName: g", runs) +
			strings.ReplaceAll(event("Pod", "p", "GPUDeviceConflict", "a text of my own", time.Minute)+event("Pod", "p", "TenancyViolation", "another", time.Minute), "reportingComponent: berth-scheduler", "reportingComponent: me"),
		"an event that is over": gpu + event("Pod", "gone", "GPUPodNotFenced", "too large", time.Minute) + event("DaemonSet", "d", "FailedCreate", "exceeded quota", time.Minute) +
			event("DaemonSet", "d", "FailedCreate", "ValidatingAdmissionPolicy 'berth-gpu-devices' with binding 'berth-gpu-devices' denied request: x", time.Hour),
	} {
		t.Run(name, func(t *testing.T) {
			report := checked(t, objects)
			for _, f := range report.Findings {
				t.Errorf("found %+v", f)
			}
			if len(report.Schedulers) == 0 && !strings.Contains(name, "a process, with") {
				t.Error("no scheduler was looked at")
			}
		})
	}
}

// TestPlanted finds what is wrong.
func TestPlanted(t *testing.T) {
	stock := held("kube-system/kube-scheduler", stockHolder, time.Second)
	labelPresence := deployed(t, "berth-scheduler", "labelpresence.yaml", 1) + berthHeld("berth-scheduler") + stock + namespaces
	tenancy := deployed(t, "berth-scheduler", "tenancy.yaml", 1) + berthHeld("berth-tenancy") + stock + namespaces + policiesOf(t, "tenancy")
	gpu := deployed(t, "berth-scheduler", "gpu.yaml", 1) + berthHeld("berth-scheduler") + stock + namespaces + policiesOf(t, "gpu")
	replace := func(text, old, by string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("no %q in\n%s", old, text)
		}
		return strings.Replace(text, old, by, 1)
	}
	ofTenancy := func(event string) string {
		return replace(event, "reportingComponent: berth-scheduler", "reportingComponent: berth-tenancy")
	}
	stockPlace := deployed(t, "berth-scheduler", "default-scheduler.yaml", 1) + held("kube-system/kube-scheduler", "berth-scheduler-7d4b8c9f5d-x2k4z_"+uuid+"_default-scheduler", time.Second) + namespaces
	exempt := `values: ["kube-system","berth-system"]`
	const denied = "pods \"x\" is forbidden: ValidatingAdmissionPolicy 'berth-gpu-devices' with binding 'berth-gpu-devices' denied request: no"
	for _, tt := range []struct {
		name, objects string
		want          Finding
	}{
		{"K1 PreferNoSchedule of a tenant", tenancy + node("b", []string{tenantLabel}, "berth.dev/tenant=blue:PreferNoSchedule"), Finding{Severity: Warning, Object: "Node b", Field: "spec.taints", Message: "has the effect PreferNoSchedule, and not NoSchedule: other schedulers place pods there"}},
		{"K1 NoExecute of a tenant", tenancy + node("b", []string{tenantLabel}, "berth.dev/tenant=blue:NoExecute"), Finding{Severity: Warning, Object: "Node b", Field: "spec.taints", Message: "has the effect NoExecute, and not NoSchedule: pods that run there without a toleration are evicted", WayOut: "kubectl taint node b berth.dev/tenant=blue:NoSchedule berth.dev/tenant:NoExecute-"}},
		{"K1 a shared node without a taint", gpu + node("g", sharedLabels), Finding{Severity: Warning, Object: "Node g", Field: "spec.taints", Message: "the taint berth.dev/gpu-sharing is missing"}},
		{"K1 a shared node with NoExecute", gpu + node("g", sharedLabels, "berth.dev/gpu-sharing=true:NoExecute"), Finding{Severity: Warning, Object: "Node g", Field: "spec.taints", Message: "has the effect NoExecute, and not NoSchedule: pods that run there without a toleration are evicted"}},
		{"K2 no election by flag", deployed(t, "berth-scheduler", "labelpresence.yaml", 2, "--leader-elect=false") + namespaces, Finding{Severity: Error, Object: "profile.yaml with --leader-elect=false", Field: "leaderElection.leaderElect", Message: "has 2 replicas: each of them places the same pods"}},
		{"K2 no election by file", replace(deployed(t, "berth-scheduler", "labelpresence.yaml", 2), "leaderElect: true", "leaderElect: false") + namespaces, Finding{Severity: Error, Object: "profile.yaml", Field: "leaderElection.leaderElect", Message: "has 2 replicas"}},
		{"K2 an unknown flag", deployed(t, "berth-scheduler", "labelpresence.yaml", 1, "--leader-election=false"), Finding{Severity: Error, Object: "Deployment berth-system/berth-scheduler", Field: argsField, Message: "unknown flag: --leader-election, so its pods do not start"}},
		{"K2 a lease that the binary refuses", deployed(t, "berth-scheduler", "labelpresence.yaml", 1, "--leader-elect-resource-name=kube-scheduler", "--leader-elect-resource-namespace=kube-system"), Finding{Severity: Error, Object: "profile.yaml with", Field: "leaderElection.resourceName", Message: "the lease of the cluster's own scheduler"}},
		{"K2 tenancy without election", deployed(t, "berth-scheduler", "tenancy.yaml", 1, "--leader-elect=false"), Finding{Severity: Error, Object: "profile.yaml with", Field: "leaderElection.leaderElect", Message: "without leader election"}},
		{"K2 no profile", replace(deployed(t, "berth-scheduler", "labelpresence.yaml", 1), "--config=/etc/berth/profile.yaml", "--v=2"), Finding{Severity: Error, Object: "Deployment berth-system/berth-scheduler", Field: argsField, Message: "--config: required"}},
		{"K3 one name, two leases", labelPresence + deployed(t, "second", "gpu.yaml", 1, "--leader-elect-resource-name=second"), Finding{Severity: Error, Object: "ConfigMap berth-system/second", Field: "leaderElection.resourceName", Message: `serves "berth-scheduler" with the lease berth-system/second, and so does Deployment berth-system/berth-scheduler`}},
		{"K3 one name, and one without election", labelPresence + deployed(t, "second", "gpu.yaml", 1, "--leader-elect=false"), Finding{Severity: Error, Object: "ConfigMap berth-system/second", Field: "leaderElection.resourceName", Message: `serves "berth-scheduler" without leader election`}},
		{"K3 one name, and a process with another lease", labelPresence + held("other/lease", "host_"+uuid+"_berth-scheduler", time.Second), Finding{Severity: Error, Object: "ConfigMap berth-system/berth-scheduler", Field: "leaderElection.resourceName", Message: "which holds the lease other/lease: both place the same pods"}},
		{"K3 a stock scheduler of another release without election", stockPlace + stockPod("--leader-elect=false", "--no-such-flag=1"), Finding{Severity: Error, Object: "Pod kube-system/kube-scheduler-cp", Field: "spec.containers[0].command", Message: "--leader-elect=false lets it place the pods of default-scheduler"}},
		{"K3 a stock scheduler without election", stockPlace + stockPod("--leader-elect=false"), Finding{Severity: Error, Object: "Pod kube-system/kube-scheduler-cp", Field: "spec.containers[0].command", Message: "--leader-elect=false lets it place the pods of default-scheduler"}},
		{"K4 failurePolicy", replace(tenancy, "failurePolicy: Fail", "failurePolicy: Ignore"), Finding{Severity: Error, Object: "ValidatingAdmissionPolicy berth-tenancy-", Field: "spec.failurePolicy", Message: "is Ignore"}},
		{"K4 a selector that matches no namespace", replace(tenancy, exempt, exempt+"\n      - {key: x, operator: Exists}"), Finding{Severity: Error, Object: "ValidatingAdmissionPolicyBinding of berth-tenancy-", Field: "spec.matchResources.namespaceSelector", Message: "leaves out a-new-namespace"}},
		{"K4 a namespace that a selector leaves out", replace(tenancy, exempt, `values: ["kube-system","berth-system","default"]`), Finding{Severity: Error, Object: "ValidatingAdmissionPolicyBinding of berth-tenancy-", Field: "spec.matchResources.namespaceSelector", Message: "leaves out default"}},
		{"K4 objects that a selector leaves out", replace(gpu, "  policyName: berth-gpu-devices\n", "  policyName: berth-gpu-devices\n  matchResources: {objectSelector: {matchLabels: {x: z}}}\n") + node("g", sharedLabels, "berth.dev/gpu-sharing=true:NoSchedule"), Finding{Severity: Warning, Object: "Binding of berth-gpu-devices", Field: "spec.matchResources.objectSelector", Message: "leaves out objects by their labels"}},
		{"K4 resources that a binding leaves out", replace(gpu, "  policyName: berth-gpu-devices\n", "  policyName: berth-gpu-devices\n  matchResources: {excludeResourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [\"*\"], resources: [pods/ephemeralcontainers]}]}\n") + node("g", sharedLabels, "berth.dev/gpu-sharing=true:NoSchedule"), Finding{Severity: Warning, Object: "Binding of berth-gpu-devices", Field: "spec.matchResources.resourceRules", Message: "leave out UPDATE of pods/ephemeralcontainers"}},
		{"K4 operations that a policy leaves out", replace(tenancy, `operations: ["CREATE", "UPDATE"]`, `operations: ["CREATE"]`), Finding{Severity: Error, Object: "ValidatingAdmissionPolicy berth-tenancy-", Field: "spec.matchConstraints.resourceRules", Message: "leave out UPDATE of"}},
		{"K4 a condition of its own", replace(tenancy, "  matchConditions:\n", "  matchConditions:\n  - {name: never, expression: \"false\"}\n"), Finding{Severity: Error, Object: "ValidatingAdmissionPolicy berth-tenancy-", Field: "spec.matchConditions", Message: `"never" is not a condition`}},
		{"K5 after an uninstall", stock + namespaces + held("berth-system/berth-scheduler", "", time.Hour) + pod("default/p", "schedulerName: berth-scheduler", tried), Finding{Severity: Warning, Object: "Pod default/p", Field: "spec.schedulerName", Message: `the scheduler that served "berth-scheduler" is gone`}},
		{"K5 an expired lease", stock + namespaces + held("berth-system/x", "host_"+uuid+"_berth-scheduler", time.Hour) + pod("default/p", "schedulerName: berth-scheduler", ""), Finding{Severity: Warning, Object: "Pod default/p", Field: "spec.schedulerName", Message: `no known scheduler serves "berth-scheduler"`}},
		{"K5 after a change of overlays", tenancy + pod("default/p", "schedulerName: berth-scheduler", tried) + berthPod, Finding{Severity: Warning, Object: "Pod default/p", Field: "spec.schedulerName", Message: `the scheduler that served "berth-scheduler" is gone`}},
		{"K5 the cluster's own scheduler", deployed(t, "berth-scheduler", "labelpresence.yaml", 1) + berthHeld("berth-scheduler") + held("kube-system/kube-scheduler", stockHolder, time.Hour) + namespaces + pod("default/p", "schedulerName: default-scheduler", tried), Finding{Severity: Warning, Object: "Pod default/p", Field: "spec.schedulerName", Message: "is gone"}},
		{"K7 a pod on another tenant's node", tenancy + node("b", []string{tenantLabel}, "berth.dev/tenant=blue:NoSchedule") + pod("default/p", "schedulerName: x, nodeName: b", runs), Finding{Severity: Error, Object: "Pod default/p", Field: "spec.nodeName", Message: `Node "b" belongs to a tenant`}},
		{"K7 TenancyViolation of nodes that are not seen", tenancy + pod("default/p", "nodeName: b", runs) + ofTenancy(event("Pod", "p", "TenancyViolation", "Node x belongs to a tenant.", time.Minute)), Finding{Severity: Error, Object: "Pod default/p", Message: "event TenancyViolation, 1m0s ago: Node x belongs to a tenant"}},
		{"K7 TenancyViolation after the label was corrected", tenancy + node("b", nil) + pod("default/p", "nodeName: b", runs) + ofTenancy(event("Pod", "p", "TenancyViolation", "Node b belongs to a tenant.", time.Minute)), Finding{Severity: Warning, Object: "Pod default/p", Message: "event TenancyViolation, 1m0s ago", WayOut: "the problem is resolved"}},
		{"K7 GPUDeviceConflict of nodes that are not seen", gpu + pod("default/p", "nodeName: b", runs) + event("Pod", "p", "GPUDeviceConflict", "given twice", time.Minute), Finding{Severity: Error, Object: "Pod default/p", Message: "event GPUDeviceConflict, 1m0s ago: given twice"}},
		{"K7 GPUDeviceConflict after the other pod was deleted", gpu + node("b", nil) + pod("default/p", "nodeName: b", runs) + event("Pod", "p", "GPUDeviceConflict", "given twice", time.Minute), Finding{Severity: Warning, Object: "Pod default/p", Message: "event GPUDeviceConflict, 1m0s ago: given twice", WayOut: "the problem is resolved"}},
		{"K7 GPUDeviceConflict of a pod that is gone", gpu + event("Pod", "p", "GPUDeviceConflict", "given twice", time.Minute), Finding{Severity: Warning, Object: "Pod default/p", Message: "event GPUDeviceConflict, 1m0s ago"}},
		{"K7 a pod that cannot be fenced", gpu + pod("default/p", "schedulerName: berth-scheduler", "") + event("Pod", "p", "GPUPodNotFenced", "too large", time.Minute), Finding{Severity: Error, Object: "Pod default/p", Message: "event GPUPodNotFenced, 1m0s ago: too large"}},
		{"K7 a DaemonSet whose pods are refused", gpu + daemonSet(0) + event("DaemonSet", "d", "FailedCreate", "Error creating: "+denied, time.Minute), Finding{Severity: Error, Object: "DaemonSet default/d", Message: "event FailedCreate, 1m0s ago: Error creating"}},
		{"an extender that binds shares", replace(gpu, "    profiles:\n", "    extenders: [{urlPrefix: \"http://127.0.0.1:1\", bindVerb: b, weight: 1}]\n    profiles:\n"), Finding{Severity: Error, Object: "profile.yaml", Field: "extenders[0].managedResources", Message: "binds all pods"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			report := checked(t, tt.objects)
			if !slices.ContainsFunc(report.Findings, func(f Finding) bool {
				return f.Severity == tt.want.Severity && strings.Contains(f.Object, tt.want.Object) && strings.Contains(f.Field, tt.want.Field) && strings.Contains(f.Message, tt.want.Message) && f.WayOut != "" && strings.Contains(f.WayOut, tt.want.WayOut)
			}) {
				t.Errorf("no finding %+v among", tt.want)
				for _, f := range report.Findings {
					t.Errorf("  %+v", f)
				}
			}
		})
	}
}

// stockPod is the pod of the cluster's own scheduler.
func stockPod(args ...string) string {
	return strings.Replace(pod("kube-system/kube-scheduler-cp", "nodeName: cp", runs), "image: i", `image: i, command: ["kube-scheduler"`+quoted(args)+"]", 1)
}

// berthPod is the pod of a Deployment of Berth, whose name begins as the former profile's.
const berthPod = `apiVersion: v1
kind: Pod
metadata: {name: berth-scheduler-7d4b8c9f5d-x2k4z, namespace: berth-system}
spec: {nodeName: w, schedulerName: default-scheduler, containers: [{name: berth-scheduler, image: localhost/berth-scheduler:v1}]}
status: {phase: Running}
---
`

// daemonSet is one for three nodes, of which some have a pod.
func daemonSet(current int) string {
	return fmt.Sprintf("apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {name: d, namespace: default, uid: u}\nspec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}}\nstatus: {desiredNumberScheduled: 3, currentNumberScheduled: %d, numberMisscheduled: 0, numberReady: 0}\n---\n", current)
}

// TestOtherPeoplesObjects: what is wrong with one object does not keep the others from being
// checked.
func TestOtherPeoplesObjects(t *testing.T) {
	stock := held("kube-system/kube-scheduler", stockHolder, time.Second)
	gpu := deployed(t, "berth-scheduler", "gpu.yaml", 1) + berthHeld("berth-scheduler") + stock + namespaces + policiesOf(t, "gpu")
	found := gpu + node("g", sharedLabels) + pod("default/orphan", "schedulerName: nobody", "")
	for name, object := range map[string]string{
		"a profile that cannot be read": strings.Replace(deployed(t, "a-second", "labelpresence.yaml", 1), "kind: KubeSchedulerConfiguration", "kind: [", 1),
		"a Deployment without its file": deployed(t, "a-second", "labelpresence.yaml", 1, "--config=/nowhere"),
		"a node that cannot be parsed":  node("a", []string{"berth.dev/gpu-sharing=true", "nvidia.com/gpu.count=many", "nvidia.com/gpu.memory=-1"}),
		"a pod that cannot be parsed":   share("default/a", "schedulerName: berth-scheduler, nodeName: g", `, annotations: {berth.dev/gpu-assigned: "{{{"}`, runs),
		"a pod of 1.5 MiB":              strings.Replace(pod("default/a", "schedulerName: berth-scheduler", tried), "image: i", "image: i, args: ["+strings.Repeat("x", 3<<19)+"]", 1),
		"a pod that is being deleted":   strings.Replace(pod("default/a", "schedulerName: nobody", ""), "uid: u-a", "uid: u-a, deletionTimestamp: \"2020-01-01T00:00:00Z\", deletionGracePeriodSeconds: 0, finalizers: [a/b]", 1),
		"an event about nothing":        "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: default}\ninvolvedObject: {}\nreason: GPUDeviceConflict\n---\n",
		"a lease that says nothing":     "apiVersion: coordination.k8s.io/v1\nkind: Lease\nmetadata: {name: a, namespace: default}\nspec: {}\n---\n",
		"a policy that matches nothing": "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: a}\nspec: {validations: [{expression: \"true\"}]}\n---\n",
		"a binding of no policy":        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: a}\nspec: {policyName: a, validationActions: [Deny]}\n---\n",
	} {
		t.Run(name, func(t *testing.T) {
			report := checked(t, object, found)
			for _, want := range []string{"Node g", "Pod default/orphan"} {
				if !slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Object == want }) {
					t.Errorf("nothing about %s among %+v", want, report.Findings)
				}
			}
		})
	}
}
