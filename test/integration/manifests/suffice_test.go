// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	_ "embed"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// workload makes the scheduler use its rights: a plain pod, one with a volume that
// is there, one with a volume that has yet to be made, one with a device that it
// claims, and one with a device that it asks for as a resource.
//
//go:embed testdata/workload.yaml
var workload string

const victim = `
apiVersion: v1
kind: Pod
metadata: {name: victim, namespace: default}
spec:
  schedulerName: berth-scheduler
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/hostname: small}
  containers: [{name: c, image: x, resources: {requests: {cpu: 600m}}}]
`

const preemptor = `
apiVersion: v1
kind: Pod
metadata: {name: preemptor, namespace: default}
spec:
  schedulerName: berth-scheduler
  priorityClassName: important
  nodeSelector: {kubernetes.io/hostname: small}
  containers: [{name: c, image: x, resources: {requests: {cpu: 600m}}}]
`

// features makes the schedulers use what their other roles grant: a share of a device, a
// pod near a Service, a gang, and for the random scheduler one pod that fits and one that
// does not.
var features = `
apiVersion: v1
kind: Service
metadata: {name: backend, namespace: default}
spec:
  ports: [{port: 80}]
---
apiVersion: v1
kind: Pod
metadata:
  name: with-share
  namespace: default
  annotations: {` + names.ColocateWithAnnotation + `: backend}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x, resources: {limits: {` + names.GPUMilliResource + `: "500"}}}]
---
apiVersion: ` + compat.PodGroups + `
kind: PodGroup
metadata: {name: gang, namespace: default}
spec:
  schedulingPolicy: {gang: {minCount: 1}}
---
apiVersion: v1
kind: Pod
metadata: {name: member, namespace: default}
spec:
  schedulerName: berth-scheduler
  schedulingGroup: {podGroupName: gang}
  containers: [{name: c, image: x}]
---
apiVersion: v1
kind: Pod
metadata: {name: random, namespace: default}
spec:
  schedulerName: random-scheduler
  containers: [{name: c, image: x}]
---
apiVersion: v1
kind: Pod
metadata: {name: nowhere, namespace: default}
spec:
  schedulerName: random-scheduler
  nodeSelector: {no: node}
  containers: [{name: c, image: x}]
`

// account is a ServiceAccount, the roles that are bound to it, and what they grant that
// this test need not see in use, each with when it is. The key is String of the right.
type account struct {
	name   string
	roles  []string
	unused map[string]string
}

var accounts = []account{
	{
		name: names.Scheduler, roles: []string{names.Scheduler, names.Scheduler + "-gangscheduling"},
		unused: map[string]string{
			"patch events.events.k8s.io":                    "an event that recurs within minutes becomes a series",
			"patch events":                                  "the same for leader election",
			"get resourceclaims.resource.k8s.io":            "a claim that somebody else changed at the same time is read again",
			"delete resourceclaims.resource.k8s.io":         "the claim of an extended resource, when the pod could not be bound after all",
			"patch resourceclaims.resource.k8s.io/status":   "a reservation is taken back, or devices are bound by conditions",
			"update resourceclaims.resource.k8s.io/binding": "asked for by the API server itself with every update of status.allocation",
			"patch resourceclaims.resource.k8s.io/binding":  "the same with every patch",
			"update pods/finalizers":                        "asked for by the admission plugin OwnerReferencesPermissionEnforcement",
		},
	},
	{
		name: names.RandomScheduler, roles: []string{names.RandomScheduler},
		unused: map[string]string{"patch events.events.k8s.io": "an event that recurs within minutes becomes a series"},
	},
}

// everything is the kustomization of base and random-scheduler with Kubernetes' own gangs:
// all roles that manifests/ and the chart grant a scheduler (a test of the chart compares
// its roles with these), but that of Coscheduling, which test/integration/gpugang runs with.
func everything(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	manifests, err := filepath.Rel(dir, install.Path("manifests"))
	if err != nil {
		t.Fatal(err)
	}
	components := []string{manifests + "/components/gangscheduling"}
	if compat.Release == "1.36" {
		components = append(components, manifests+"/components/gangscheduling-1.36")
	}
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization",
		"resources": []string{manifests + "/base"}, "components": components,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestRolesSuffice runs the schedulers with their own credentials and every feature on,
// and lets them do all that they do. The audit log says what they asked for: nothing was
// forbidden, and there is no right in the roles that they never use.
func TestRolesSuffice(t *testing.T) {
	dir := everything(t)
	built := install.Build(t, dir)
	args := install.Find[appsv1.Deployment](t, built, "Deployment", names.Scheduler).Spec.Template.Spec.Containers[0].Args
	gates := slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return !strings.HasPrefix(arg, "--feature-gates=") })
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{node("big", "16"), node("small", "1"), framework.GPUNode("gpu", "NVIDIA-A100-SXM4-40GB", 1, 40960)},
		Audit: true,
		APIServerArgs: append([]string{
			"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement", "--runtime-config=" + compat.PodGroups + "=true",
		}, gates...),
		ControllerManagerArgs: gates,
	})
	c.Kubectl(t, "apply", "--validate=strict", "-k", dir)
	install.Apply(t, c, "random-scheduler")
	scheduler := install.Start(t, c)
	random := install.StartDeployment(t, c, names.Namespace, names.RandomScheduler)
	scheduler.WaitReady(t)
	random.WaitReady(t)
	checkProbes(t, scheduler)

	c.Apply(t, workload)
	c.Apply(t, victim)
	c.Apply(t, features)
	for _, name := range []string{"plain", "with-volume", "with-claim", "with-extended-resource", "victim", "with-share", "member", "random"} {
		c.WaitForPodScheduled(t, "default", name)
	}
	c.WaitForPodUnschedulable(t, "default", "nowhere")
	// Nobody makes that volume, but the scheduler tells whom it asks which node it is for.
	framework.WaitForCondition(t, framework.WaitTimeout, "the node for the volume to be made", func() (bool, error) {
		claim, err := c.Client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "provisioned", metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] != "", err
	})
	c.Apply(t, preemptor)
	c.WaitForPodScheduled(t, "default", "preemptor")
	checkMetrics(t, c, scheduler)
	if page := random.Page(t, "/metrics"); !strings.Contains(page, "berth_random_scheduler_schedule_attempts_total") {
		t.Errorf("random-scheduler's /metrics has no attempts:\n%s", page)
	}
	c.WaitForEvent(t, "default", "preemptor", "Scheduled", "")
	c.WaitForEvent(t, "default", "random", "Scheduled", "")

	roles := append(built.Resources(), install.Build(t, install.Path("manifests/random-scheduler")).Resources()...)
	for i, running := range []*framework.Scheduler{scheduler, random} {
		if code := running.Stop(t); code != 0 {
			t.Errorf("after SIGTERM %s ended with code %d", accounts[i].name, code)
		}
		if strings.Contains(running.Output(), "forbidden") {
			t.Errorf("%s was forbidden something:\n%s", accounts[i].name, running.Output())
		}
		checkRights(t, c, roles, accounts[i])
	}
}

// checkRights compares the rights in the roles of an account with what it asked for.
func checkRights(t *testing.T, c *framework.Cluster, roles []*resource.Resource, a account) {
	t.Helper()
	user := "system:serviceaccount:" + names.Namespace + ":" + a.name
	used := sets.New[string]()
	for _, event := range c.AuditEvents(t, func(event *auditv1.Event) bool { return event.User.Username == user }) {
		if event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		if event.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("%s: forbidden: %s %s", a.name, event.Verb, event.RequestURI)
		}
		used.Insert(preflight.Right{
			Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
		}.String())
	}
	granted := rightsInRoles(t, roles, a.roles)
	if compat.Release == "1.36" {
		// Only asked for from Kubernetes 1.37 on, and the roles are the same for both.
		granted = slices.DeleteFunc(granted, func(right string) bool { return strings.HasSuffix(right, " devicetaintrules.resource.k8s.io") })
	}
	for _, right := range granted {
		// A reflector streams its first list through watch, and lists where an API
		// server does not offer that.
		if used.Has(right) || used.Has(strings.Replace(right, "list ", "watch ", 1)) {
			continue
		}
		// The other way round proves nothing: some of these are used by chance.
		if _, known := a.unused[right]; !known {
			t.Errorf("the roles of %s grant %q, and it never used it", a.name, right)
		}
	}
	for right := range a.unused {
		if !slices.Contains(granted, right) {
			t.Errorf("no role of %s grants %q any more", a.name, right)
		}
	}
	t.Logf("%s: %d rights granted, %d in use, %d of those not granted by its own roles", a.name, len(granted),
		used.Len(), used.Difference(sets.New(granted...)).Len())
}

// checkProbes asks what the kubelet will ask, and like the kubelet without saying
// who it is.
func checkProbes(t *testing.T, scheduler *framework.Scheduler) {
	t.Helper()
	container := install.Find[appsv1.Deployment](t, install.Build(t, install.Path("manifests/base")), "Deployment", names.Scheduler).Spec.Template.Spec.Containers[0]
	for _, probe := range []*corev1.Probe{container.StartupProbe, container.LivenessProbe, container.ReadinessProbe} {
		code, body, err := scheduler.Get(t.Context(), probe.HTTPGet.Path, "")
		if err != nil || code != http.StatusOK {
			t.Errorf("%s: want 200, got %d %s %v", probe.HTTPGet.Path, code, body, err)
		}
	}
}

// metricsReader may read a scheduler's metrics, and nothing else.
//
//go:embed testdata/metrics-reader.yaml
var metricsReader string

// checkMetrics asks for /metrics with and without a right to it.
func checkMetrics(t *testing.T, c *framework.Cluster, scheduler *framework.Scheduler) {
	t.Helper()
	c.Apply(t, metricsReader)
	reader := strings.TrimSpace(c.Kubectl(t, "create", "token", "-n", "default", "metrics-reader"))
	stranger := strings.TrimSpace(c.Kubectl(t, "create", "token", "-n", "default", "default"))
	framework.WaitForCondition(t, framework.WaitTimeout, "the metrics", func() (bool, error) {
		code, body, err := scheduler.Get(t.Context(), "/metrics", reader)
		return code == http.StatusOK && strings.Contains(body, "schedule_attempts_total"), err
	})
	code, _, err := scheduler.Get(t.Context(), "/metrics", stranger)
	if err != nil || code != http.StatusForbidden {
		t.Errorf("/metrics for somebody without the right: want 403, got %d, %v", code, err)
	}
	if code, _, err = scheduler.Get(t.Context(), "/metrics", ""); err != nil || code != http.StatusForbidden {
		t.Errorf("/metrics for nobody: want 403, got %d, %v", code, err)
	}
}
