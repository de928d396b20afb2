// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"net/http"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/preflight"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// workload makes the scheduler use its rights: a plain pod, one with a volume that
// is there, one with a volume that has yet to be made, one with a device that it
// claims, and one with a device that it asks for as a resource.
const workload = `
apiVersion: v1
kind: Pod
metadata: {name: plain, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: important}
value: 1000
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: volume}
spec:
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  storageClassName: on-demand
  hostPath: {path: /nowhere}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: on-demand}
provisioner: kubernetes.io/no-provisioner
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: claim, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: on-demand
  resources: {requests: {storage: 1Gi}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: provisioned}
provisioner: driver.example.com
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: provisioned, namespace: default}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: provisioned
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: Pod
metadata: {name: with-provisioned-volume, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: provisioned}}]
---
apiVersion: v1
kind: Pod
metadata: {name: with-volume, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x}]
  volumes: [{name: v, persistentVolumeClaim: {claimName: claim}}]
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: device}
spec:
  extendedResourceName: example.com/device
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: slice}
spec:
  driver: driver.example.com
  nodeName: big
  pool: {name: pool, generation: 1, resourceSliceCount: 1}
  devices: [{name: one}, {name: two}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: device, namespace: default}
spec:
  devices: {requests: [{name: r, exactly: {deviceClassName: device}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: with-claim, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x, resources: {claims: [{name: d}]}}]
  resourceClaims: [{name: d, resourceClaimName: device}]
---
apiVersion: v1
kind: Pod
metadata: {name: with-extended-resource, namespace: default}
spec:
  schedulerName: berth-scheduler
  containers: [{name: c, image: x, resources: {limits: {example.com/device: 1}}}]
`

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

// unused are the rights that this test need not see in use, each with when it is.
// The name in the key is String of the right.
var unused = map[string]string{
	"patch events.events.k8s.io":                    "an event that recurs within minutes becomes a series",
	"patch events":                                  "the same for leader election",
	"get resourceclaims.resource.k8s.io":            "a claim that somebody else changed at the same time is read again",
	"delete resourceclaims.resource.k8s.io":         "the claim of an extended resource, when the pod could not be bound after all",
	"patch resourceclaims.resource.k8s.io/status":   "a reservation is taken back, or devices are bound by conditions",
	"update resourceclaims.resource.k8s.io/binding": "asked for by the API server itself with every update of status.allocation",
	"patch resourceclaims.resource.k8s.io/binding":  "the same with every patch",
	"update pods/finalizers":                        "asked for by the admission plugin OwnerReferencesPermissionEnforcement",
}

// TestRolesSuffice runs the scheduler with its own credential and lets it do all
// that it does. The audit log says what it asked for: nothing was forbidden, and
// there is no right in the roles that it never uses.
func TestRolesSuffice(t *testing.T) {
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{node("big", "16"), node("small", "1")},
		Audit: true,
		APIServerArgs: []string{
			"--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
		},
	})
	install.Apply(t, c, "base")
	scheduler := install.Start(t, c)
	scheduler.WaitReady(t)
	checkProbes(t, scheduler)

	c.Apply(t, workload)
	c.Apply(t, victim)
	for _, name := range []string{"plain", "with-volume", "with-claim", "with-extended-resource", "victim"} {
		c.WaitForPodScheduled(t, "default", name)
	}
	// Nobody makes that volume, but the scheduler tells whom it asks which node it is for.
	framework.WaitForCondition(t, framework.WaitTimeout, "the node for the volume to be made", func() (bool, error) {
		claim, err := c.Client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "provisioned", metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/selected-node"] != "", err
	})
	c.Apply(t, preemptor)
	c.WaitForPodScheduled(t, "default", "preemptor")
	checkMetrics(t, c, scheduler)
	c.WaitForEvent(t, "default", "preemptor", "Scheduled", "")
	if code := scheduler.Stop(t); code != 0 {
		t.Errorf("after SIGTERM the scheduler ended with code %d", code)
	}

	if strings.Contains(scheduler.Output(), "forbidden") {
		t.Errorf("the scheduler was forbidden something:\n%s", scheduler.Output())
	}
	used := sets.New[string]()
	for _, event := range c.AuditEvents(t, func(event *auditv1.Event) bool { return event.User.Username == schedulerUser }) {
		if event.ObjectRef == nil || event.ResponseStatus == nil {
			continue
		}
		if event.ResponseStatus.Code == http.StatusForbidden {
			t.Errorf("forbidden: %s %s", event.Verb, event.RequestURI)
		}
		used.Insert(preflight.Right{
			Verb: event.Verb, Group: event.ObjectRef.APIGroup, Resource: event.ObjectRef.Resource, Subresource: event.ObjectRef.Subresource,
		}.String())
	}

	built := install.Build(t, install.Path("manifests/base"))
	for _, right := range rightsInRoles(t, built) {
		// A reflector streams its first list through watch, and lists where an API
		// server does not offer that.
		if used.Has(right) || used.Has(strings.Replace(right, "list ", "watch ", 1)) {
			continue
		}
		// The other way round proves nothing: some of these are used by chance.
		if _, known := unused[right]; !known {
			t.Errorf("the roles grant %q, and the scheduler never used it", right)
		}
	}
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
const metricsReader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, name: metrics-reader, namespace: default}]
`

// checkMetrics asks for /metrics with and without a right to it.
func checkMetrics(t *testing.T, c *framework.Cluster, scheduler *framework.Scheduler) {
	t.Helper()
	c.Apply(t, metricsReader)
	reader := strings.TrimSpace(c.Kubectl(t, "create", "token", "-n", "default", "metrics-reader"))
	stranger := strings.TrimSpace(c.Kubectl(t, "create", "token", "-n", "default", "default"))
	framework.WaitForCondition(t, framework.WaitTimeout, "the metrics", func() (bool, error) {
		code, body, err := scheduler.Get(t.Context(), "/metrics", reader)
		return code == http.StatusOK && strings.Contains(body, "scheduler_schedule_attempts_total"), err
	})
	code, _, err := scheduler.Get(t.Context(), "/metrics", stranger)
	if err != nil || code != http.StatusForbidden {
		t.Errorf("/metrics for somebody without the right: want 403, got %d, %v", code, err)
	}
	if code, _, err = scheduler.Get(t.Context(), "/metrics", ""); err != nil || code != http.StatusForbidden {
		t.Errorf("/metrics for nobody: want 403, got %d, %v", code, err)
	}
}
