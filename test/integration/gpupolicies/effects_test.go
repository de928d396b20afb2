// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/kustomize/api/resmap"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// comparisons lets tolerations compare numbers, which is off by default.
const comparisons = "TaintTolerationComparisonOperators=true"

// side is what one component keeps pods away from: nodes with a taint. Pods of the
// namespace and the scheduler concern its policy and not the other's.
type side struct {
	policy, taint, namespace, scheduler string
	// refusal is what its policy says of a pod that tolerates the taint.
	refusal string
}

var sides = []side{
	// Exempt from the policies of shares alone.
	{"berth-tenancy-pods", names.TenantLabel, "gpu-operator", corev1.DefaultSchedulerName, "spec.tolerations"},
	// Berth itself keeps a pod of this name off other tenants' nodes.
	{"berth-gpu-devices", names.GPUSharingLabel, "team", names.TenancyScheduler, `must be "void"`},
}

var effects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

// lifted returns the effects of a taint that a toleration lifts with some value: a policy
// does not know what a node's is. It is Kubernetes' own answer.
func lifted(key string, toleration corev1.Toleration) []corev1.TaintEffect {
	var found []corev1.TaintEffect
	for _, effect := range effects {
		if slices.ContainsFunc([]string{"", "true", "a", "4", "5", "6"}, func(value string) bool {
			taint := corev1.Taint{Key: key, Value: value, Effect: effect}
			return v1helper.TolerationsTolerateTaint(klog.Background(), []corev1.Toleration{toleration}, &taint, true)
		}) {
			found = append(found, effect)
		}
	}
	return found
}

// everyToleration is every key, operator, effect and value that the API server takes.
func everyToleration() []corev1.Toleration {
	var all []corev1.Toleration
	for _, key := range []string{"", names.TenantLabel, names.GPUSharingLabel, "example.com/other"} {
		for _, effect := range append([]corev1.TaintEffect{""}, effects...) {
			all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect})
			if effect == corev1.TaintEffectNoExecute {
				all = append(all, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: effect, TolerationSeconds: ptr.To[int64](60)})
			}
			if key == "" {
				continue // takes no other operator
			}
			for _, operator := range []corev1.TolerationOperator{"", corev1.TolerationOpEqual} {
				for _, value := range []string{"", "true", "a"} {
					all = append(all, corev1.Toleration{Key: key, Operator: operator, Effect: effect, Value: value})
				}
			}
			for _, operator := range []corev1.TolerationOperator{corev1.TolerationOpLt, corev1.TolerationOpGt} {
				all = append(all, corev1.Toleration{Key: key, Operator: operator, Effect: effect, Value: "5"})
			}
		}
	}
	return all
}

func describe(t corev1.Toleration) string {
	text := fmt.Sprintf("key %q operator %q value %q effect %q", t.Key, t.Operator, t.Value, t.Effect)
	if t.TolerationSeconds != nil {
		text += " for a time"
	}
	return text
}

// stranger is a pod that would see every device, of the side's namespace and scheduler.
func (s side) stranger(name string, tolerations ...corev1.Toleration) *corev1.Pod {
	pod := framework.Pod(s.namespace, name, s.scheduler)
	pod.Spec.Tolerations = tolerations
	pod.Spec.Containers[0].Env = []corev1.EnvVar{value("all")}
	return pod
}

// early is the pod from before the policies that had the toleration, or none.
func (s side) early(toleration *corev1.Toleration) *corev1.Pod {
	if toleration == nil {
		return s.stranger("had-none")
	}
	return s.stranger("had-"+strings.ToLower(string(toleration.Effect)), *toleration)
}

// earlyTolerations are those of pods from before the policies: none, and one with one
// effect and one value.
func (s side) earlyTolerations() []*corev1.Toleration {
	return []*corev1.Toleration{nil, {Key: s.taint, Operator: corev1.TolerationOpEqual, Value: "a", Effect: corev1.TaintEffectNoExecute}}
}

// check says whether the side's policy refused exactly what it must.
func (s side) check(t *testing.T, what string, err error, may []corev1.TaintEffect) {
	t.Helper()
	refused := apierrors.IsForbidden(err) && strings.Contains(err.Error(), s.policy) && strings.Contains(err.Error(), s.refusal)
	switch {
	case err != nil && !refused:
		t.Errorf("%s: want an answer of %s, got %v", what, s.policy, err)
	case refused != (len(may) > 0):
		t.Errorf("%s: lifts the effects %q of the taint %s, and refused is %t", what, may, s.taint, refused)
	}
}

// beforeEffects makes the pods that [testEffects] gives tolerations to later.
func beforeEffects(t *testing.T, c *framework.Cluster) {
	t.Helper()
	c.CreateNamespace(t, "gpu-operator", nil)
	for _, s := range sides {
		for _, toleration := range s.earlyTolerations() {
			c.CreatePod(t, s.early(toleration))
		}
		many := s.stranger("had-many")
		for i := range 300 {
			many.Spec.Tolerations = append(many.Spec.Tolerations, corev1.Toleration{Key: s.taint, Value: strconv.Itoa(i)})
		}
		c.CreatePod(t, many)
	}
}

// testEffects: whoever may get past a taint of Berth's, with whatever effect, is refused
// by the policy behind it (or, with a share or as void, sees nothing), and nobody else is.
// The chart installs the same policies: TestOverlaysAreReleases compares them.
func testEffects(t *testing.T, c *framework.Cluster) {
	addTenancy(t, c)
	for _, s := range sides {
		t.Run(s.policy, func(t *testing.T) {
			var refusals int
			for _, toleration := range everyToleration() {
				may := lifted(s.taint, toleration)
				if len(may) > 0 {
					refusals++
				}
				_, err := c.Client.CoreV1().Pods(s.namespace).Create(t.Context(), s.stranger("p", toleration), dryRun)
				s.check(t, describe(toleration), err, may)

				for _, had := range s.earlyTolerations() {
					gained := may
					if had != nil && *had == toleration {
						gained = nil
					}
					s.check(t, describe(toleration)+" added to "+s.early(had).Name, addToleration(t, c, s.early(had), toleration), gained)
				}
			}
			// More than are compared: any change of them counts as a new one.
			many := s.early(nil)
			many.Name = "had-many"
			framework.CheckDenied(t, addToleration(t, c, many, corev1.Toleration{Key: s.taint, Value: "new"}), []string{s.policy})
			framework.CheckDenied(t, patchDry(t, c, many, `[{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]`), nil)
			t.Logf("%d of %d tolerations are refused", refusals, len(everyToleration()))
			// Other edits of pods from before the policies are not.
			for _, had := range s.earlyTolerations() {
				framework.CheckDenied(t, patchDry(t, c, s.early(had), `[{"op": "add", "path": "/metadata/labels", "value": {"edited": "yes"}}]`), nil)
			}
		})
	}
	t.Run("other ways", func(t *testing.T) { testOtherWays(t, c) })
	t.Run("subresources", func(t *testing.T) { testSubresources(t, c) })
}

func addToleration(t *testing.T, c *framework.Cluster, pod *corev1.Pod, toleration corev1.Toleration) error {
	t.Helper()
	content, err := json.Marshal(toleration)
	if err != nil {
		t.Fatal(err)
	}
	return patchDry(t, c, pod, `[{"op": "add", "path": "/spec/tolerations/-", "value": `+string(content)+`}]`)
}

func patchDry(t *testing.T, c *framework.Cluster, pod *corev1.Pod, patch string) error {
	t.Helper()
	_, err := c.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.JSONPatchType, []byte(patch),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	return err
}

// addTenancy adds the policies on pods and Bindings of overlays/tenancy.
func addTenancy(t *testing.T, c *framework.Cluster) {
	t.Helper()
	kept := resmap.New()
	for _, object := range install.Build(t, install.Path("manifests/overlays/tenancy")).Resources() {
		if group := object.GetGvk().Group; group == "admissionregistration.k8s.io" && slices.Contains([]string{"berth-tenancy-pods", "berth-tenancy-bindings"}, object.GetName()) {
			if err := kept.Append(object); err != nil {
				t.Fatal(err)
			}
		}
	}
	if kept.Size() != 4 {
		t.Fatalf("overlays/tenancy has %d of the objects, want 2 policies and their bindings", kept.Size())
	}
	content, err := kept.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(content))
	framework.WaitForCondition(t, framework.WaitTimeout, "the policy berth-tenancy-pods", func() (bool, error) {
		_, err := c.Client.CoreV1().Pods("gpu-operator").Create(t.Context(), sides[0].stranger("probe", corev1.Toleration{Operator: corev1.TolerationOpExists}), dryRun)
		return apierrors.IsForbidden(err), err
	})
}

// testOtherWays: what leads to a node beside tolerations.
func testOtherWays(t *testing.T, c *framework.Cluster) {
	pin := func(terms ...corev1.NodeSelectorTerm) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			}}
		}
	}
	requirement := func(key string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{"gpu"}}}
	}
	owned := func(kind string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: "forged", UID: "forged", Controller: ptr.To(true)}}
		}
	}
	tests := []struct {
		name string
		arm  func(*corev1.Pod)
		// refused is whether the policies refuse it. One that is let in has no toleration
		// of the taint, so that every scheduler that keeps to taints keeps it off.
		refused bool
	}{
		{name: "affinity to the node's name", arm: pin(corev1.NodeSelectorTerm{MatchFields: requirement(metav1.ObjectNameField)})},
		{name: "affinity to the node's host name", arm: pin(corev1.NodeSelectorTerm{MatchExpressions: requirement(corev1.LabelHostname)})},
		{name: "a selector", arm: func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "gpu"} }},
		{name: "the node named", arm: func(pod *corev1.Pod) { pod.Spec.NodeName = "gpu" }, refused: true},
		{name: "the node named, as in a mirror pod", arm: func(pod *corev1.Pod) {
			owned("Node")(pod)
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			pod.Spec.NodeName = "gpu"
		}, refused: true},
		{name: "an owner that is a DaemonSet", arm: owned("DaemonSet")},
		{name: "an owner that is a Node", arm: owned("Node")},
		{name: "a gate, which lets affinity change later", arm: func(pod *corev1.Pod) {
			pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/gate"}}
		}},
		{name: "a nomination", arm: func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "gpu" }},
	}
	for _, s := range sides {
		for _, tt := range tests {
			t.Run(s.policy+", "+tt.name, func(t *testing.T) {
				for tolerates, tolerations := range map[bool][]corev1.Toleration{
					false: {{Key: "example.com/other", Operator: corev1.TolerationOpExists}},
					true:  {{Key: s.taint, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
				} {
					pod := s.stranger("p", tolerations...)
					tt.arm(pod)
					got, err := c.Client.CoreV1().Pods(s.namespace).Create(t.Context(), pod, dryRun)
					switch {
					case (err != nil) != (tolerates || tt.refused):
						t.Errorf("with toleration %t: %v", tolerates, err)
					case err != nil && !apierrors.IsForbidden(err):
						t.Errorf("with toleration %t: %v", tolerates, err)
					case err == nil && (got.Spec.NodeName != "" || got.Status.NominatedNodeName != ""):
						t.Errorf("it came out on %q, nominated to %q", got.Spec.NodeName, got.Status.NominatedNodeName)
					}
				}
			})
		}
	}
}

// testSubresources: none of them takes what the policies on pods are about, and the
// one that does is a policy's: the annotations of a status.
func testSubresources(t *testing.T, c *framework.Cluster) {
	const (
		tolerate = `{"op": "add", "path": "/spec/tolerations", "value": [{"operator": "Exists"}]}`
		name     = `{"op": "add", "path": "/spec/nodeName", "value": "gpu"}`
		env      = `{"op": "add", "path": "/spec/containers/0/env", "value": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "0"}]}`
		schedule = `{"op": "add", "path": "/spec/schedulerName", "value": "berth-scheduler"}`
		owner    = `{"op": "add", "path": "/metadata/ownerReferences", "value": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "forged", "uid": "forged"}]}`
	)
	for _, s := range sides {
		plain := s.early(nil)
		before, err := c.Client.CoreV1().Pods(s.namespace).Get(t.Context(), plain.Name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, subresource := range []string{"", "status", "ephemeralcontainers", "resize"} {
			for _, patch := range []string{tolerate, name, env, schedule, owner} {
				if subresource == "" && patch == owner {
					continue // which nothing reads
				}
				t.Run(fmt.Sprintf("%s, pods/%s, %s", s.policy, subresource, patch), func(t *testing.T) {
					after, err := c.Client.CoreV1().Pods(s.namespace).Patch(t.Context(), plain.Name, types.JSONPatchType, []byte("["+patch+"]"),
						metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}}, subresources(subresource)...)
					if err != nil {
						return // refused, by whomever
					}
					if diff := cmp.Diff(before.Spec, after.Spec); diff != "" {
						t.Errorf("it changed the pod (-before,+after):\n%s", diff)
					}
					if diff := cmp.Diff(before.OwnerReferences, after.OwnerReferences); diff != "" {
						t.Errorf("it changed its owners (-before,+after):\n%s", diff)
					}
				})
			}
		}
		t.Run(s.policy+", pods/eviction", func(t *testing.T) {
			err := c.Client.PolicyV1().Evictions(s.namespace).Evict(t.Context(), &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: s.namespace, Name: plain.Name, Annotations: map[string]string{names.GPUAssignedAnnotation: "x", cdiAnnotation: "x"}},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			})
			if err != nil {
				t.Fatal(err)
			}
			after, err := c.Client.CoreV1().Pods(s.namespace).Get(t.Context(), plain.Name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before.Spec, after.Spec); diff != "" || len(after.Annotations) > 0 {
				t.Errorf("it left annotations %v, and changed (-before,+after):\n%s", after.Annotations, diff)
			}
		})
	}
	// A Binding goes past both. RBAC says who may create one, and tenancy's policy asks for
	// the right in all namespaces: policyOnBindings of package tenancy.
	t.Run("pods/binding", func(t *testing.T) {
		c.Apply(t, binder)
		client := framework.ClientFor(t, c.UserKubeconfig(t, "binder"))
		bound := sides[0].early(nil)
		framework.WaitForCondition(t, framework.WaitTimeout, "the role of binder", func() (bool, error) {
			err := client.CoreV1().Pods(bound.Namespace).Bind(t.Context(), binding(bound, nil), dryRun)
			return err == nil || !strings.Contains(err.Error(), "cannot create resource"), err
		})
		err := client.CoreV1().Pods(bound.Namespace).Bind(t.Context(), binding(bound, nil), dryRun)
		framework.CheckDenied(t, err, []string{"berth-tenancy-bindings", "binder must not bind pods"})
	})
}

// binder may bind in one namespace.
const binder = `
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: binder, namespace: gpu-operator}
rules: [{apiGroups: [""], resources: [pods/binding], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: binder, namespace: gpu-operator}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: binder}
subjects: [{kind: User, apiGroup: rbac.authorization.k8s.io, name: binder}]
`
