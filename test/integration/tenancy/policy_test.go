// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestPolicies has one cluster with nodes of tenant b, pods from before the policies,
// and the policies in force.
func TestPolicies(t *testing.T) {
	// As it may be tainted: once with each effect.
	thrice := node("b3", "b")
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute} {
		thrice.Spec.Taints = append(thrice.Spec.Taints, corev1.Taint{Key: names.TenantLabel, Value: "b", Effect: effect})
	}
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{node("b1", "b"), thrice}})
	addNamespaces(t, c)
	for _, pod := range []*corev1.Pod{newPod("no-tenant", "tolerant"), newPod("team-a", "strange"), newPod("no-tenant", "plain")} {
		pod.Spec.SchedulerName = corev1.DefaultSchedulerName
		if pod.Name == "tolerant" {
			pod.Spec.Tolerations = tolerateAll
		}
		c.CreatePod(t, pod)
	}
	installPolicy(t, c)
	t.Run("update", func(t *testing.T) { policyOnUpdate(t, c) })
	// It brings a node of nobody's, shared, which the others need.
	t.Run("other schedulers", func(t *testing.T) { taintKeepsOtherSchedulersOff(t, c) })
	t.Run("creation", func(t *testing.T) { policyOnCreation(t, c) })
	t.Run("controllers", func(t *testing.T) { policyOnControllers(t, c) })
	t.Run("bindings", func(t *testing.T) { policyOnBindings(t, c) })
	t.Run("assignments", func(t *testing.T) { tenantsAreAssigned(t, c) })
	t.Run("labels", func(t *testing.T) { labelsAreOutOfReach(t, c) })
}

// policyOnCreation creates pods, without storing them, as somebody who may do
// everything: what is refused here, the policy refuses to everybody.
func policyOnCreation(t *testing.T, c *framework.Cluster) {
	mirrored, err := c.Client.CoreV1().Nodes().Get(t.Context(), "b1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubelet := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:b1", "system:nodes"))
	// Who has the kubelets' group or the name of one, but not both, is no kubelet.
	onlyGroup := framework.ClientFor(t, c.UserKubeconfig(t, "fake", "system:nodes"))
	onlyName := framework.ClientFor(t, c.UserKubeconfig(t, "system:node:forged"))
	for user, client := range map[string]kubernetes.Interface{"fake": onlyGroup, "system:node:forged": onlyName} {
		bindRole(t, c, "no-tenant", user, "edit")
		framework.WaitForCondition(t, framework.WaitTimeout, "the role of "+user, func() (bool, error) {
			_, err := client.CoreV1().Pods("no-tenant").Create(t.Context(), newPod("no-tenant", "p"), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			return err == nil, err
		})
	}

	byStock := framework.ScheduledBy(corev1.DefaultSchedulerName)
	tests := []struct {
		name      string
		client    kubernetes.Interface // nil: the administrator
		namespace string
		arm       func(*corev1.Pod)
		// want is part of the refusal; empty: let in.
		want []string
	}{
		{
			name:      "a tenant's pod for Berth",
			namespace: "team-a",
			arm:       func(*corev1.Pod) {},
		},
		{
			name:      "a tenant's pod for Berth that tolerates everything, which Berth judges",
			namespace: "team-a",
			arm:       framework.ToleratesAll,
		},
		{
			name:      "a tenant's pod for the cluster's scheduler",
			namespace: "team-a",
			arm:       byStock,
			want:      []string{"spec.schedulerName", `"team-a"`, `tenant "a"`, "[berth-tenancy]", `"default-scheduler"`},
		},
		{
			name:      "a tenant's pod that names no scheduler",
			namespace: "team-a",
			arm:       framework.ScheduledBy(""),
			want:      []string{"spec.schedulerName", `not "default-scheduler"`},
		},
		{
			name:      "a tenant's pod for the random scheduler",
			namespace: "team-a",
			arm:       framework.ScheduledBy(names.RandomScheduler),
			want:      []string{"spec.schedulerName", names.RandomScheduler},
		},
		{
			name:      "a tenant with an empty name is a tenant",
			namespace: "team-empty",
			arm:       byStock,
			want:      []string{"spec.schedulerName", `tenant ""`},
		},
		{
			name:      "a tenant's pod that names its node",
			namespace: "team-a",
			arm:       framework.OnNode("b1"),
			want:      []string{"spec.nodeName", "exempt namespace"},
		},
		{
			name:      "anybody's pod that names its node",
			namespace: "no-tenant",
			arm:       framework.OnNode("b1"),
			want:      []string{"spec.nodeName"},
		},
		{
			name:      "anybody's pod for the cluster's scheduler",
			namespace: "no-tenant",
			arm:       byStock,
		},
		{
			name:      "anybody's pod for the cluster's scheduler that tolerates the taint",
			namespace: "no-tenant",
			arm:       framework.Edits(byStock, framework.Tolerates(corev1.Toleration{Key: names.TenantLabel, Value: "b", Effect: corev1.TaintEffectNoSchedule})),
			want:      []string{"spec.tolerations", names.TenantLabel, `"default-scheduler"`, "[berth-tenancy]"},
		},
		{
			name:      "anybody's pod for the cluster's scheduler that tolerates every taint",
			namespace: "no-tenant",
			arm:       framework.Edits(byStock, framework.ToleratesAll),
			want:      []string{"spec.tolerations"},
		},
		{
			name:      "anybody's pod for the cluster's scheduler that tolerates every effect of the taint",
			namespace: "no-tenant",
			arm:       framework.Edits(byStock, framework.Tolerates(corev1.Toleration{Key: names.TenantLabel, Operator: corev1.TolerationOpExists})),
			want:      []string{"spec.tolerations"},
		},
		{
			name:      "anybody's pod for the cluster's scheduler that tolerates other things",
			namespace: "no-tenant",
			arm: func(pod *corev1.Pod) {
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				pod.Spec.Tolerations = []corev1.Toleration{
					{Key: "node.kubernetes.io/not-ready", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
					{Key: "example.com/other", Operator: corev1.TolerationOpExists},
				}
			},
		},
		{
			// A node may have its taint with that effect. The whole table is in package gpupolicies.
			name:      "anybody's pod for the cluster's scheduler that tolerates every taint with effect NoExecute",
			namespace: "no-tenant",
			arm:       framework.Edits(byStock, framework.Tolerates(corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})),
			want:      []string{"spec.tolerations"},
		},
		{
			name:      "a pod of an exempt namespace",
			namespace: metav1.NamespaceSystem,
			arm:       framework.Edits(byStock, framework.ToleratesAll, framework.OnNode("b1")),
		},
		{
			name:      "a kubelet's mirror pod",
			client:    kubelet,
			namespace: "no-tenant",
			arm: func(pod *corev1.Pod) {
				pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
				pod.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: "v1", Kind: "Node", Name: mirrored.Name, UID: mirrored.UID, Controller: ptr.To(true),
				}}
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				pod.Spec.Tolerations = tolerateAll
				pod.Spec.NodeName = mirrored.Name
			},
		},
		{
			name:      "a pod of somebody in the kubelets' group that names its node",
			client:    onlyGroup,
			namespace: "no-tenant",
			arm:       framework.OnNode("b1"),
			want:      []string{"spec.nodeName"},
		},
		{
			name:      "a pod of somebody with the name of a kubelet that names its node",
			client:    onlyName,
			namespace: "no-tenant",
			arm:       framework.OnNode("forged"),
			want:      []string{"spec.nodeName"},
		},
		{
			name:      "a pod of somebody in the kubelets' group that tolerates the taint",
			client:    onlyGroup,
			namespace: "no-tenant",
			arm:       framework.Edits(byStock, framework.ToleratesAll),
			want:      []string{"spec.tolerations"},
		},
		{
			name:      "anybody's pod for Berth's profile without tenancy that tolerates the taint",
			namespace: "no-tenant",
			arm:       framework.Edits(framework.ScheduledBy(names.Scheduler), framework.Tolerates(tolerateTenants...)),
			want:      []string{"spec.tolerations", `"berth-scheduler"`},
		},
		{
			// Not the policy's doing, but what its exception for kubelets rests on.
			name:      "a kubelet's other pod",
			client:    kubelet,
			namespace: "no-tenant",
			arm:       framework.OnNode(mirrored.Name),
			want:      []string{"can only create mirror pods"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := tt.client
			if client == nil {
				client = c.Client
			}
			pod := newPod(tt.namespace, "p")
			tt.arm(pod)
			_, err := client.CoreV1().Pods(tt.namespace).Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			framework.CheckDenied(t, err, tt.want)
		})
	}
}

// policyOnUpdate: a waiting pod can be given a toleration. Pods from before the
// policy stay editable in every other way.
func policyOnUpdate(t *testing.T, c *framework.Cluster) {
	tests := []struct {
		name      string
		namespace string
		pod       string
		patch     string
		want      []string
	}{
		{
			name:      "a toleration for another scheduler",
			namespace: "no-tenant",
			pod:       "plain",
			patch:     fmt.Sprintf(`[{"op": "add", "path": "/spec/tolerations/-", "value": {"key": %q, "operator": "Exists"}}]`, names.TenantLabel),
			want:      []string{"spec.tolerations"},
		},
		{
			name:      "a toleration of something else",
			namespace: "no-tenant",
			pod:       "plain",
			patch:     `[{"op": "add", "path": "/spec/tolerations/-", "value": {"key": "example.com/other", "operator": "Exists"}}]`,
		},
		{
			name:      "a label of a pod that tolerated the taint before",
			namespace: "no-tenant",
			pod:       "tolerant",
			patch:     `[{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]`,
		},
		{
			name:      "a label of a tenant's pod with another scheduler from before",
			namespace: "team-a",
			pod:       "strange",
			patch:     `[{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]`,
		},
		{
			name:      "the scheduler, which the API server never lets change",
			namespace: "no-tenant",
			pod:       "plain",
			patch:     `[{"op": "replace", "path": "/spec/schedulerName", "value": "other"}]`,
			want:      []string{"pod updates may not change fields"},
		},
		{
			name:      "the node, which the API server never lets change",
			namespace: "no-tenant",
			pod:       "plain",
			patch:     `[{"op": "add", "path": "/spec/nodeName", "value": "b1"}]`,
			want:      []string{"pod updates may not change fields"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.Client.CoreV1().Pods(tt.namespace).Patch(t.Context(), tt.pod, types.JSONPatchType, []byte(tt.patch), metav1.PatchOptions{})
			framework.CheckDenied(t, err, tt.want)
		})
	}
}

// policyOnControllers: a workload whose pods are refused says so.
func policyOnControllers(t *testing.T, c *framework.Cluster) {
	template := newPod("team-a", "web")
	template.Labels = map[string]string{"app": "web"}
	template.Spec.SchedulerName = ""
	_, err := c.Client.AppsV1().Deployments("team-a").Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: template.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: template.Labels}, Spec: template.Spec},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	denial := `spec.schedulerName: must be one of [berth-tenancy], not "default-scheduler", because namespace "team-a"`
	framework.WaitForCondition(t, framework.WaitTimeout, "the Deployment to say why it has no pods", func() (bool, error) {
		deployment, err := c.Client.AppsV1().Deployments("team-a").Get(t.Context(), "web", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, condition := range deployment.Status.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && strings.Contains(condition.Message, denial) {
				return true, nil
			}
		}
		return false, fmt.Errorf("conditions: %v", deployment.Status.Conditions)
	})
}

// policyOnBindings: whoever binds pods needs no scheduler. The built-in roles
// of a tenant do not grant it, and a role that does is no use in a tenant's
// namespace.
func policyOnBindings(t *testing.T, c *framework.Cluster) {
	for _, namespace := range []string{"team-a", "no-tenant"} {
		c.CreatePod(t, newPod(namespace, "waiting"))
		bindRole(t, c, namespace, "tenant-admin", "admin")
		bindRole(t, c, namespace, "binder", "binder")
	}
	// Both spellings of the right.
	_, err := c.Client.RbacV1().ClusterRoles().Create(t.Context(), &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "binder"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods/binding", "bindings"}, Verbs: []string{"create"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}

	bindRoleEverywhere(t, c, "cluster-binder", "binder")

	bind := func(ctx context.Context, client kubernetes.Interface, namespace string) error {
		return client.CoreV1().Pods(namespace).Bind(ctx, binding(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	}
	bindOld := func(ctx context.Context, client kubernetes.Interface, namespace string) error {
		return client.CoreV1().RESTClient().Post().Namespace(namespace).Resource("bindings").
			Param("dryRun", metav1.DryRunAll).Body(binding()).Do(ctx).Error()
	}
	tests := []struct {
		name      string
		user      string
		bind      func(context.Context, kubernetes.Interface, string) error
		namespace string
		want      []string
	}{
		{
			name:      "an administrator of the namespace",
			user:      "tenant-admin",
			bind:      bind,
			namespace: "team-a",
			want:      []string{`cannot create resource "pods/binding"`},
		},
		{
			name:      "an administrator of the namespace, in the old spelling",
			user:      "tenant-admin",
			bind:      bindOld,
			namespace: "team-a",
			want:      []string{`cannot create resource "bindings"`},
		},
		{
			name:      "somebody with a role for it",
			user:      "binder",
			bind:      bind,
			namespace: "team-a",
			want:      []string{"only Berth binds its pods", "not binder"},
		},
		{
			name:      "somebody with a role for it, in the old spelling",
			user:      "binder",
			bind:      bindOld,
			namespace: "team-a",
			want:      []string{"only Berth binds its pods", "not binder"},
		},
		{
			// It could serve any schedulerName.
			name:      "a scheduler of one's own in a namespace without a tenant",
			user:      "binder",
			bind:      bind,
			namespace: "no-tenant",
			want:      []string{"binder must not bind pods", "in all namespaces"},
		},
		{
			name:      "a scheduler of one's own in a namespace without a tenant, in the old spelling",
			user:      "binder",
			bind:      bindOld,
			namespace: "no-tenant",
			want:      []string{"binder must not bind pods", "in all namespaces"},
		},
		{
			name:      "another scheduler of the cluster in a tenant's namespace",
			user:      "cluster-binder",
			bind:      bind,
			namespace: "team-a",
			want:      []string{"only Berth binds its pods", "not cluster-binder"},
		},
		{
			name:      "another scheduler of the cluster in a namespace without a tenant",
			user:      "cluster-binder",
			bind:      bind,
			namespace: "no-tenant",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := framework.ClientFor(t, c.UserKubeconfig(t, tt.user))
			if tt.user != "tenant-admin" {
				// The authorizer learns of the role through a watch.
				framework.WaitForCondition(t, framework.WaitTimeout, "the role of "+tt.user, func() (bool, error) {
					err := tt.bind(t.Context(), client, tt.namespace)
					return err == nil || !strings.Contains(err.Error(), "cannot create resource"), err
				})
			}
			framework.CheckDenied(t, tt.bind(t.Context(), client, tt.namespace), tt.want)
		})
	}
}

// taintKeepsOtherSchedulersOff: in namespaces without a tenant the cluster's own
// scheduler goes on, and stays off tenants' nodes because of the taint.
func taintKeepsOtherSchedulersOff(t *testing.T, c *framework.Cluster) {
	framework.StartProcess(t, framework.KubeScheduler, "--kubeconfig="+c.StockSchedulerKubeconfig(t), "--secure-port=0")
	pod := newPod("no-tenant", "keeps-off")
	pod.Spec.SchedulerName = corev1.DefaultSchedulerName
	c.CreatePod(t, pod)
	c.WaitForPodUnschedulable(t, "no-tenant", "keeps-off")
	c.CreateNode(t, node("shared", ""))
	if scheduled := c.WaitForPodScheduled(t, "no-tenant", "keeps-off"); scheduled.Spec.NodeName != "shared" {
		t.Errorf("the pod got node %s, want shared", scheduled.Spec.NodeName)
	}
}

func addNamespaces(t *testing.T, c *framework.Cluster) {
	t.Helper()
	addNamespace(t, c, "team-a", "a")
	addNamespace(t, c, "no-tenant", "")
	c.CreateNamespace(t, "team-empty", map[string]string{names.TenantLabel: ""})
}

// installPolicy applies the overlay and waits until the API server has compiled
// both policies.
func installPolicy(t *testing.T, c *framework.Cluster) {
	t.Helper()
	install.Apply(t, c, "overlays/tenancy")
	pod := newPod("team-a", "probe")
	pod.Spec.NodeName = "b1"
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy on pods", func() (bool, error) {
		_, err := c.Client.CoreV1().Pods("team-a").Create(t.Context(), pod, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), err
	})
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy on bindings", func() (bool, error) {
		err := c.Client.CoreV1().Pods("team-a").Bind(t.Context(), binding(), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err), err
	})
	for _, name := range policies {
		policy, err := c.Client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if checked := policy.Status.TypeChecking; checked != nil && len(checked.ExpressionWarnings) > 0 {
			t.Errorf("%s: the API server finds fault with %v", name, checked.ExpressionWarnings)
		}
	}
}

// policies are the names of all of them.
var policies = []string{
	"berth-tenancy-pods", "berth-tenancy-bindings", "berth-tenancy-namespaces", "berth-tenancy-nodes", "berth-tenancy-deployment",
}

// binding puts the pod "waiting" on b1.
func binding() *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: "waiting"},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "b1"},
	}
}

func bindRole(t *testing.T, c *framework.Cluster, namespace, user, clusterRole string) {
	t.Helper()
	_, err := c.Client.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// bindRoleEverywhere grants a role in all namespaces, and on what has none.
func bindRoleEverywhere(t *testing.T, c *framework.Cluster, user, clusterRole string) {
	t.Helper()
	_, err := c.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user + "-" + clusterRole},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}
