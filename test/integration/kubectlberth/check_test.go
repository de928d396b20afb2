// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectlberth

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/diagnose/check"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

const (
	exitNothing = 0
	exitFound   = 5
)

// checkCluster runs the command.
func checkCluster(t *testing.T, kubeconfig string, args ...string) (check.Report, framework.PluginResult) {
	t.Helper()
	got := framework.Plugin(t, kubeconfig, "", append([]string{"berth", "check", "-o", "json"}, args...)...)
	var report check.Report
	if got.Code == exitNothing || got.Code == exitFound {
		if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil {
			t.Fatalf("%v in\n%s", err, got.Stdout)
		}
	}
	if (got.Code == exitFound) != (len(report.Findings) > 0) {
		t.Errorf("exit code %d with %d findings:\n%s", got.Code, len(report.Findings), got.Stderr)
	}
	return report, got
}

// installed applies an overlay and runs a scheduler as its Deployment says. It returns
// when both are ready.
func installed(t *testing.T, c *framework.Cluster, overlay string) *framework.Scheduler {
	t.Helper()
	install.Apply(t, c, "overlays/"+overlay)
	scheduler := install.Start(t, c)
	scheduler.WaitReady(t)
	framework.WaitForCondition(t, framework.WaitTimeout, "a replica of the Deployment to be available", func() (bool, error) {
		deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		return err == nil && deployment.Status.AvailableReplicas > 0, err
	})
	return scheduler
}

// uninstalled takes away all that the next overlay would leave behind.
func uninstalled(t *testing.T, c *framework.Cluster, scheduler *framework.Scheduler) {
	t.Helper()
	scheduler.Stop(t)
	c.Kubectl(t, "delete", "validatingadmissionpolicybindings,validatingadmissionpolicies,mutatingadmissionpolicybindings,mutatingadmissionpolicies", "--all", "--wait=false")
	c.Kubectl(t, "-n", names.Namespace, "delete", "lease", names.Scheduler, "--ignore-not-found")
}

// TestCheck finds nothing in what the overlays install, and each of the mistakes that are
// then made. The last overlay is the one with tenancy.
func TestCheck(t *testing.T) {
	c := framework.Start(t, framework.Options{NodeCount: 2})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	overlays, err := os.ReadDir(filepath.Join(framework.Root(), "manifests", "overlays"))
	if err != nil || len(overlays) == 0 || overlays[len(overlays)-1].Name() != "tenancy" {
		t.Fatalf("overlays: %v, %v", overlays, err)
	}
	var scheduler *framework.Scheduler
	for _, overlay := range overlays {
		if overlay.Name() == "gpu-gang" && compat.Release != "1.36" {
			continue // the build has no Coscheduling
		}
		if scheduler != nil {
			uninstalled(t, c, scheduler)
		}
		scheduler = installed(t, c, overlay.Name())
		report, got := checkCluster(t, c.Kubeconfig)
		if got.Code != exitNothing || got.Stderr != "" || len(report.Schedulers) != 1 {
			t.Errorf("%s: exit code %d, schedulers %q, findings:\n%s\nerrors:\n%s", overlay.Name(), got.Code, report.Schedulers, got.Stdout, got.Stderr)
		}
		if overlay.Name() == "ha" {
			findUnguardedNode(t, c)
		}
	}
	findPlanted(t, c)
	findWithoutDeployment(t, c)
}

// findUnguardedNode labels a node as shared where the policies for shares are not
// installed, and takes the label back.
func findUnguardedNode(t *testing.T, c *framework.Cluster) {
	t.Helper()
	c.Kubectl(t, "label", "nodes", "--all", names.GPUSharingLabel+"=true")
	report, got := checkCluster(t, c.Kubeconfig)
	wantFound(t, &report, got, one(check.Warning, "berth-gpu-devices", "", "is not installed"))
	c.Kubectl(t, "label", "nodes", "--all", names.GPUSharingLabel+"-")
}

// planted is a mistake, and a part of each finding that it has to lead to.
type planted struct {
	name string
	// do makes the mistake, and undo takes it back.
	do, undo func(t *testing.T, c *framework.Cluster)
	want     []check.Finding
}

// apply and remove objects.
func applied(manifest string) (do, undo func(t *testing.T, c *framework.Cluster)) {
	do = func(t *testing.T, c *framework.Cluster) { t.Helper(); c.Apply(t, manifest) }
	undo = func(t *testing.T, c *framework.Cluster) {
		t.Helper()
		if _, err := c.KubectlAs(t, c.Kubeconfig, manifest, "delete", "--wait=false", "--grace-period=0", "--force", "-f", "-"); err != nil {
			t.Fatal(err)
		}
	}
	return do, undo
}

// ran runs kubectl.
func ran(args ...string) func(t *testing.T, c *framework.Cluster) {
	return func(t *testing.T, c *framework.Cluster) { t.Helper(); c.Kubectl(t, args...) }
}

// withProfile changes the profile that the Deployment mounts, and back.
func withProfile(change func(profile string) string) (do, undo func(t *testing.T, c *framework.Cluster)) {
	const key = "tenancy.yaml"
	var before string
	set := func(t *testing.T, c *framework.Cluster, change func(string) string) {
		t.Helper()
		deployment, err := c.Client.AppsV1().Deployments(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		maps := c.Client.CoreV1().ConfigMaps(names.Namespace)
		m, err := maps.Get(t.Context(), configMapOf(t, deployment), metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		before = m.Data[key]
		if m.Data[key] = change(before); m.Data[key] == before {
			t.Fatalf("the change changes nothing of\n%s", before)
		}
		if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	do = func(t *testing.T, c *framework.Cluster) { t.Helper(); set(t, c, change) }
	undo = func(t *testing.T, c *framework.Cluster) {
		t.Helper()
		was := before
		set(t, c, func(string) string { return was })
	}
	return do, undo
}

func configMapOf(t *testing.T, deployment *appsv1.Deployment) string {
	t.Helper()
	for i := range deployment.Spec.Template.Spec.Volumes {
		if source := deployment.Spec.Template.Spec.Volumes[i].ConfigMap; source != nil {
			return source.Name
		}
	}
	t.Fatal("the Deployment mounts no ConfigMap")
	return ""
}

func replaced(old, by string) func(string) string {
	return func(profile string) string { return strings.Replace(profile, old, by, 1) }
}

// one is a finding of which parts are known.
func one(severity check.Severity, object, field, message string) check.Finding {
	return check.Finding{Severity: severity, Object: object, Field: field, Message: message}
}

// configArgument gives the Deployment another file of its ConfigMap, as an overlay does,
// as soon as the API server's admission has seen that nothing is against it any more.
func configArgument(file string) func(t *testing.T, c *framework.Cluster) {
	return func(t *testing.T, c *framework.Cluster) {
		t.Helper()
		patch := `-p=[{"op": "replace", "path": "/spec/template/spec/containers/0/args/0", "value": "--config=/etc/berth-scheduler/` + file + `"}]`
		framework.WaitForCondition(t, framework.WaitTimeout, "the Deployment to take "+file, func() (bool, error) {
			_, err := c.KubectlAs(t, c.Kubeconfig, "", "-n", names.Namespace, "patch", "deployment", names.Scheduler, "--type=json", patch)
			return err == nil, err
		})
	}
}

// repositoryFile returns the content of a file of the repository.
func repositoryFile(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(install.Path(path))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// findPlanted makes one mistake after the other on an installation with tenancy.
func findPlanted(t *testing.T, c *framework.Cluster) {
	t.Helper()
	nodes, err := c.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	node := nodes.Items[1].Name
	for _, mistake := range slices.Concat(tenancyMistakes(t, node), schedulerMistakes(t), objectMistakes(node)) {
		t.Run(mistake.name, func(t *testing.T) {
			mistake.do(t, c)
			defer mistake.undo(t, c)
			report, got := checkCluster(t, c.Kubeconfig)
			wantFound(t, &report, got, mistake.want...)
		})
	}
	if report, got := checkCluster(t, c.Kubeconfig); got.Code != exitNothing {
		t.Errorf("after all was taken back, it still finds %+v", report.Findings)
	}
}

// wantFound expects findings of which parts are known, each with a way out.
func wantFound(t *testing.T, report *check.Report, got framework.PluginResult, findings ...check.Finding) {
	t.Helper()
	for _, want := range findings {
		if !slices.ContainsFunc(report.Findings, func(f check.Finding) bool {
			return f.Severity == want.Severity && strings.Contains(f.Object, want.Object) && strings.Contains(f.Field, want.Field) &&
				strings.Contains(f.Message, want.Message) && f.WayOut != ""
		}) {
			t.Errorf("no finding %+v in\n%s\n%s", want, got.Stdout, got.Stderr)
		}
	}
}

// findWithoutDeployment checks with other credentials, and for another profile.
func findWithoutDeployment(t *testing.T, c *framework.Cluster) {
	t.Helper()
	nobody := c.UserKubeconfig(t, "nobody")
	t.Run("who may see nothing of it", func(t *testing.T) {
		_, got := checkCluster(t, nobody)
		for _, want := range []string{"nodes were left out", "Deployments, and so which schedulers there are"} {
			if got.Code != exitNothing || !strings.Contains(got.Stderr, want) {
				t.Errorf("exit code %d, want %d, and %q in:\n%s", got.Code, exitNothing, want, got.Stderr)
			}
		}
	})
	t.Run("a scheduler that is no Deployment", func(t *testing.T) {
		profile := "config/berth-scheduler/gpu.yaml"
		want := []check.Finding{one(check.Error, "User this credential", "", "which has none of the")}
		if compat.Release == "1.36" {
			c.Kubectl(t, "delete", "customresourcedefinition", "podgroups.scheduling.x-k8s.io")
			profile = "config/berth-scheduler/gpu-gang.yaml"
			want = append(want, one(check.Error, "CustomResourceDefinition podgroups.scheduling.x-k8s.io", "", "is not served"))
		}
		report, got := checkCluster(t, c.Kubeconfig, "--config", profile, "--kubeconfig", nobody)
		wantFound(t, &report, got, want...)
	})
}

// tenancyMistakes are those of defects T1, T2, T5 and T6.
func tenancyMistakes(t *testing.T, node string) []planted {
	t.Helper()
	const policy = "ValidatingAdmissionPolicy berth-tenancy-"
	const tenancyArgs = "profiles[0].pluginConfig[LabelPresence].args.tenancy"
	assignments := ran("apply", "-f", install.Path("manifests/components/tenancy/policy-assignments.yaml"))
	unrestricted, restricted := withProfile(replaced("berth.dev.node-restriction.kubernetes.io/tenant", "kubernetes.io/hostname"))
	unelected, elected := withProfile(replaced("leaderElect: true", "leaderElect: false"))
	second, single := withProfile(func(profile string) string { return profile + "\n- schedulerName: berth-scheduler\n" })
	different, same := withProfile(func(profile string) string {
		_, first, _ := strings.Cut(profile, "- schedulerName: berth-tenancy")
		return profile + "\n- schedulerName: other-tenancy" + strings.Replace(first, "tenants: Confined", "tenants: Free", 1)
	})
	renamed, named := withProfile(func(profile string) string {
		return strings.ReplaceAll(profile, "nodeTaintKey: berth.dev/tenant", "nodeTaintKey: example.com/tenant")
	})
	return []planted{
		{
			name: "T1: another overlay over the one with tenancy, past the policy that refuses it",
			do: func(t *testing.T, c *framework.Cluster) {
				t.Helper()
				c.Kubectl(t, "delete", "validatingadmissionpolicybinding", "berth-tenancy-deployment")
				configArgument("all-plugins.yaml")(t, c)
			},
			undo: func(t *testing.T, c *framework.Cluster) {
				t.Helper()
				configArgument("tenancy.yaml")(t, c)
				c.Kubectl(t, "apply", "-f", install.Path("manifests/components/tenancy/policy-deployment.yaml"))
			},
			want: []check.Finding{one(check.Error, policy+"pods", "", "is bound, but no scheduler here uses tenancy")},
		},
		{
			name: "T1: the policies trust another profile's name",
			do: func(t *testing.T, c *framework.Cluster) {
				t.Helper()
				c.Kubectl(t, "patch", "validatingadmissionpolicy", "berth-tenancy-pods", "--type=json",
					`-p=[{"op": "replace", "path": "/spec/variables/0/expression", "value": "['another-tenancy']"}]`)
			},
			undo: ran("apply", "-f", install.Path("manifests/components/tenancy/policy-pods.yaml")),
			want: []check.Finding{one(check.Error, policy+"pods", "spec", `does not mention "berth-tenancy"`)},
		},
		{
			name: "T2: the taint without the label",
			do:   ran("taint", "node", node, names.TenantLabel+"=a:NoSchedule"), undo: ran("taint", "node", node, names.TenantLabel+"-"),
			want: []check.Finding{one(check.Error, "Node "+node, names.TenantNodeLabel, "is missing although the node has the taint")},
		},
		{
			name: "T2: the label without the taint",
			do:   ran("label", "node", node, names.TenantNodeLabel+"=a"), undo: ran("label", "node", node, names.TenantNodeLabel+"-"),
			want: []check.Finding{one(check.Warning, "Node "+node, "spec.taints", "other schedulers place pods there")},
		},
		{
			name: "T5: a label that a kubelet may set", do: unrestricted, undo: restricted,
			want: []check.Finding{one(check.Error, "tenancy.yaml", tenancyArgs+".nodeLabelKey", "a kubelet may set this label")},
		},
		{
			name: "T5: no leader election", do: unelected, undo: elected,
			want: []check.Finding{one(check.Error, "tenancy.yaml", "leaderElection.leaderElect", "without leader election")},
		},
		{
			name: "T5: a second profile without tenancy", do: second, undo: single,
			want: []check.Finding{one(check.Error, "tenancy.yaml", "profiles[1]", "would place pods on the nodes of any tenant")},
		},
		{
			name: "T5: a second profile with another tenancy", do: different, undo: same,
			want: []check.Finding{one(check.Error, "tenancy.yaml", "profiles[1].pluginConfig[LabelPresence].args.tenancy.tenants", "must be as in profiles[0]")},
		},
		{
			name: "policies of another taint", do: renamed, undo: named,
			want: []check.Finding{one(check.Error, policy+"nodes", "spec", `does not mention "example.com/tenant"`)},
		},
		{
			name: "T6: no policy on the label of namespaces",
			do:   ran("delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "berth-tenancy-namespaces"), undo: assignments,
			want: []check.Finding{one(check.Error, policy+"namespaces", "", "is not installed")},
		},
		{
			name: "T6: a policy that is not bound",
			do:   ran("delete", "validatingadmissionpolicybinding", "berth-tenancy-namespaces"), undo: assignments,
			want: []check.Finding{one(check.Error, policy+"namespaces", "", "is not bound")},
		},
		{
			name: "T6: a policy that only warns",
			do:   ran("patch", "validatingadmissionpolicybinding", "berth-tenancy-namespaces", "--type=merge", `-p={"spec": {"validationActions": ["Warn"]}}`), undo: assignments,
			want: []check.Finding{one(check.Error, "ValidatingAdmissionPolicyBinding of berth-tenancy-namespaces", "spec.validationActions", "without Deny")},
		},
	}
}

// secondScheduler is another Berth that was given the lease of the first.
const secondScheduler = `
apiVersion: v1
kind: ConfigMap
metadata: {name: second, namespace: berth-system}
data:
  profile.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    leaderElection: {leaderElect: true, resourceNamespace: berth-system, resourceName: berth-scheduler}
    profiles: [{schedulerName: second}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: second, namespace: berth-system}
spec:
  selector: {matchLabels: {app: second}}
  template:
    metadata: {labels: {app: second}}
    spec:
      schedulerName: default-scheduler
      serviceAccountName: berth-scheduler
      securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}}
      containers:
      - name: berth-scheduler
        image: registry.example.com:5000/berth-scheduler@sha256:0000000000000000000000000000000000000000000000000000000000000000
        args: [--config, /etc/second/profile.yaml, --feature-gates=GenericWorkload=true]
        securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
        volumeMounts: [{name: config, mountPath: /etc/second}]
      volumes: [{name: config, configMap: {name: second}}]
`

// offScheduler is one that is scaled to nothing, and whose profile has a mistake.
const offScheduler = `
apiVersion: v1
kind: ConfigMap
metadata: {name: "off", namespace: berth-system}
data:
  kept.yaml: |
    apiVersion: kubescheduler.config.k8s.io/v1
    kind: KubeSchedulerConfiguration
    profiles: [{schedulerNam: off}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: "off", namespace: berth-system}
spec:
  replicas: 0
  selector: {matchLabels: {app: "off"}}
  template:
    metadata: {labels: {app: "off"}}
    spec:
      containers:
      - name: scheduler
        image: registry.example.com:5000/berth-scheduler:v1
        args: [--config, /etc/off.yaml]
        volumeMounts: [{name: config, mountPath: /etc/off.yaml, subPath: deep/off.yaml}]
      volumes: [{name: config, configMap: {name: "off", items: [{key: kept.yaml, path: deep/off.yaml}]}}]
`

// stockWithoutElection is the cluster's own scheduler as a static pod would show.
const stockWithoutElection = `
apiVersion: v1
kind: Pod
metadata: {name: kube-scheduler-cp, namespace: kube-system}
spec: {containers: [{name: kube-scheduler, image: registry.k8s.io/kube-scheduler:v1.36.3, command: [kube-scheduler, --leader-elect=false]}]}
`

// schedulerMistakes are those of defects T4 and U7, and rights.
func schedulerMistakes(t *testing.T) []planted {
	t.Helper()
	defaultProfile := repositoryFile(t, "config/berth-scheduler/default-scheduler.yaml")
	serving, back := withProfile(func(string) string { return defaultProfile })
	stock, noStock := applied(stockWithoutElection)
	second, noSecond := applied(secondScheduler)
	off, noOff := applied(offScheduler)
	return []planted{
		{
			name: "T4: default-scheduler beside one that never held the lease",
			do:   func(t *testing.T, c *framework.Cluster) { t.Helper(); serving(t, c); stock(t, c) },
			undo: func(t *testing.T, c *framework.Cluster) { t.Helper(); noStock(t, c); back(t, c) },
			want: []check.Finding{
				one(check.Error, "tenancy.yaml", "leaderElection.resourceName", "no scheduler has ever held the lease"),
				one(check.Error, "Pod kube-system/kube-scheduler-cp", "spec.containers[0].command", "--leader-elect=false"),
			},
		},
		{
			name: "U7: a second scheduler on one lease", do: second, undo: noSecond,
			want: []check.Finding{
				one(check.Error, "ConfigMap berth-system/second", "leaderElection.resourceName", "is also used by Deployment berth-system/berth-scheduler, which serves berth-tenancy"),
				one(check.Error, "Deployment berth-system/second", "spec.template.spec.containers[].args", "GenericWorkload=true needs PodGroups of "+compat.PodGroups+", which the API server does not serve"),
			},
		},
		{
			name: "a scheduler that is switched off, with its profile by subPath and items", do: off, undo: noOff,
			want: []check.Finding{
				one(check.Warning, "Deployment berth-system/off", "spec.replicas", "is 0: the scheduler is switched off"),
				one(check.Error, "ConfigMap berth-system/off, kept.yaml", "profiles[0].schedulerNam", "there is no such field"),
			},
		},
		{
			name: "a right that is missing",
			do:   ran("delete", "clusterrolebinding", "berth:gpu-pool"),
			undo: ran("apply", "-f", install.Path("manifests/base/rbac.yaml")),
			want: []check.Finding{one(check.Error, "User system:serviceaccount:berth-system:berth-scheduler", "", "create pods/binding")},
		},
	}
}

// podMistakes are pods of the first of which nobody serves the schedulerName; of the
// others it is the keys, and the limits.
const podMistakes = `
apiVersion: v1
kind: Pod
metadata: {name: typo, namespace: default}
spec: {schedulerName: berth-tenacny, containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: near, namespace: default, annotations: {berth.dev/colocate-with: backend}}
spec: {schedulerName: berth-tenancy, schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: member, namespace: default, labels: {scheduling.x-k8s.io/pod-group: g, berth.dev/gpu-model: T4}}
spec: {schedulerName: berth-tenancy, schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: elsewhere, namespace: default, annotations: {berth.io/gpu-model: T4, Berth.dev/colocate-with: b}}
spec: {schedulerName: berth-tenancy, schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata: {name: share, namespace: default}
spec: {schedulerName: berth-tenancy, schedulingGates: [{name: example.com/wait}], containers: [{name: c, image: i, resources: {limits: {berth.dev/gpu-milli: "500"}}}]}
`

// objectMistakes are those of defects U3 and U5, unknown names, and devices.
func objectMistakes(node string) []planted {
	pods, noPods := applied(podMistakes)
	labels := func(labels ...string) func(t *testing.T, c *framework.Cluster) {
		return ran(append([]string{"label", "node", node}, labels...)...)
	}
	shared := []string{names.GPUSharingLabel + "=true", "nvidia.com/gpu.count=2", "nvidia.com/gpu.memory=1000"}
	unshared := labels(names.GPUSharingLabel+"-", "nvidia.com/gpu.count-", "nvidia.com/gpu.memory-")
	held, released := applied(`{apiVersion: v1, kind: Pod, metadata: {name: foreign, namespace: kube-system},
spec: {nodeName: ` + node + `, containers: [{name: c, image: i, resources: {limits: {berth.dev/gpu-milli: "500"}}}]}}`)
	return []planted{
		{
			name: "U3: keys and limits of a plugin that the profile does not run, and a schedulerName with a typo", do: pods, undo: noPods,
			want: []check.Finding{
				one(check.Warning, "Pod default/typo", "spec.schedulerName", `no known scheduler serves "berth-tenacny"`),
				one(check.Warning, "Pod default/near", "metadata", "berth.dev/colocate-with has no effect"),
				one(check.Warning, "Pod default/member", "metadata", "scheduling.x-k8s.io/pod-group has no effect"),
				one(check.Warning, "Pod default/member", "metadata", "berth.dev/gpu-model is read as an annotation"),
				one(check.Warning, "Pod default/elsewhere", "metadata", "unknown key berth.io/gpu-model"),
				one(check.Warning, "Pod default/elsewhere", "metadata", "unknown key Berth.dev/colocate-with"),
				one(check.Error, "Pod default/share", "spec.schedulerName", `"berth-tenancy" does not run GPUDevice`),
			},
		},
		{
			name: "U5: a label that is nearly right", do: labels(names.GPUSharingLabel + "=True"), undo: labels(names.GPUSharingLabel + "-"),
			want: []check.Finding{one(check.Error, "Node "+node, "metadata.labels["+names.GPUSharingLabel+"]", `"True" is neither "true" nor "false"`)},
		},
		{
			name: "U5: a cordoned device that is not there",
			do: func(t *testing.T, c *framework.Cluster) {
				t.Helper()
				labels(shared...)(t, c)
				c.Kubectl(t, "annotate", "node", node, names.GPUCordonedAnnotation+"=9")
			},
			undo: func(t *testing.T, c *framework.Cluster) {
				t.Helper()
				c.Kubectl(t, "annotate", "node", node, names.GPUCordonedAnnotation+"-")
				unshared(t, c)
			},
			want: []check.Finding{one(check.Error, "Node "+node, "metadata.annotations["+names.GPUCordonedAnnotation+"]", `"9" is not a list of devices`)},
		},
		{
			name: "a label in the place of an annotation", do: labels(names.GPUCordonedAnnotation + "=1"), undo: labels(names.GPUCordonedAnnotation + "-"),
			want: []check.Finding{one(check.Warning, "Node "+node, "metadata.labels["+names.GPUCordonedAnnotation+"]", "has no effect: it must be an annotation")},
		},
		{
			name: "a device that is used without a record",
			do:   func(t *testing.T, c *framework.Cluster) { t.Helper(); labels(shared...)(t, c); held(t, c) },
			undo: func(t *testing.T, c *framework.Cluster) { t.Helper(); released(t, c); unshared(t, c) },
			want: []check.Finding{one(check.Error, "Pod kube-system/foreign", "metadata.annotations", "asks for device shares and was bound without any")},
		},
	}
}
