// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// tenancyNodes has one node of each tenant, and a shared one.
func tenancyNodes() []*corev1.Node {
	return []*corev1.Node{
		makeNode("shared", map[string]string{"other": "blue"}),
		makeNode("blue", map[string]string{nodeTenantKey: "blue"}),
		makeNode("red", map[string]string{nodeTenantKey: "red"}),
		makeNode("empty", map[string]string{nodeTenantKey: ""}),
	}
}

// tenancyNamespaces has one namespace of each tenant, one without, and one that
// is exempt.
func tenancyNamespaces() []*corev1.Namespace {
	return []*corev1.Namespace{
		makeNamespace("blue", "1", map[string]string{namespaceTenantKey: "blue"}),
		makeNamespace("empty", "2", map[string]string{namespaceTenantKey: ""}),
		makeNamespace("none", "3", map[string]string{"other": "blue"}),
		makeNamespace("kube-system", "4", nil),
		makeNamespace("exempt-blue", "5", map[string]string{namespaceTenantKey: "blue"}),
	}
}

const (
	askWhom = ` (tenancy of profile "berth-scheduler": ask the administrator who assigns nodes and namespaces to tenants)`

	reasonNoTenant      = `node(s) belonged to a tenant (label "example.node-restriction.kubernetes.io/tenant" or taint "example.com/tenant-taint"), and the pod's namespace has no label "example.com/tenant"` + askWhom
	reasonUnknownTenant = `node(s) belonged to a tenant that is not known (taint "example.com/tenant-taint", and no label "example.node-restriction.kubernetes.io/tenant" that agrees with it)` + askWhom
	reasonOtherTenant   = `node(s) had label "example.node-restriction.kubernetes.io/tenant", which names another tenant than label "example.com/tenant" of the pod's namespace` + askWhom
	reasonUnconfined    = `node(s) didn't have label "example.node-restriction.kubernetes.io/tenant" of the tenant that the pod's namespace has in label "example.com/tenant"` + askWhom
)

func TestFilterTenancy(t *testing.T) {
	tests := []struct {
		name      string
		tenants   config.TenantPolicy
		namespace string
		// want has the reason by node; nil means that the plugin skips the pod.
		want map[string]string
	}{
		{
			name:      "a tenant's pods are confined to its nodes",
			tenants:   config.TenantsConfined,
			namespace: "blue",
			want:      map[string]string{"shared": reasonUnconfined, "blue": "", "red": reasonOtherTenant, "empty": reasonOtherTenant},
		},
		{
			name:      "a tenant's pods are free to use shared nodes",
			tenants:   config.TenantsFree,
			namespace: "blue",
			want:      map[string]string{"shared": "", "blue": "", "red": reasonOtherTenant, "empty": reasonOtherTenant},
		},
		{
			name:      "the empty value is a tenant, confined",
			tenants:   config.TenantsConfined,
			namespace: "empty",
			want:      map[string]string{"shared": reasonUnconfined, "blue": reasonOtherTenant, "red": reasonOtherTenant, "empty": ""},
		},
		{
			name:      "the empty value is a tenant, free",
			tenants:   config.TenantsFree,
			namespace: "empty",
			want:      map[string]string{"shared": "", "blue": reasonOtherTenant, "red": reasonOtherTenant, "empty": ""},
		},
		{
			name:      "pods without a tenant use shared nodes, under Confined",
			tenants:   config.TenantsConfined,
			namespace: "none",
			want:      map[string]string{"shared": "", "blue": reasonNoTenant, "red": reasonNoTenant, "empty": reasonNoTenant},
		},
		{
			name:      "pods without a tenant use shared nodes, under Free",
			tenants:   config.TenantsFree,
			namespace: "none",
			want:      map[string]string{"shared": "", "blue": reasonNoTenant, "red": reasonNoTenant, "empty": reasonNoTenant},
		},
		{
			name:      "an exempt namespace may use every node",
			tenants:   config.TenantsConfined,
			namespace: "kube-system",
			want:      nil,
		},
		{
			name:      "an exempt namespace with a tenant label may use every node too",
			tenants:   config.TenantsConfined,
			namespace: "exempt-blue",
			want:      nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := &config.LabelPresenceArgs{Tenancy: makeTenancy(tt.tenants, "kube-system", "exempt-blue")}
			profile := startProfile(t, args, schedtest.Options{Nodes: tenancyNodes(), Namespaces: tenancyNamespaces()})
			expectVerdicts(t, profile, podIn(tt.namespace), tt.want)
		})
	}
}

// What the owner of a pod reads where tenancy keeps all nodes from it.
func TestTenancyNoNode(t *testing.T) {
	const (
		onNodes = ` (node label "example.node-restriction.kubernetes.io/tenant", and no taint "example.com/tenant-taint" with another value)`
		named   = `belongs to the tenant named by namespace label "example.com/tenant"`
	)
	for _, tt := range []struct {
		tenants config.TenantPolicy
		owner   tenant
		want    string
	}{
		{config.TenantsConfined, tenant{}, `no node accepts pods from namespaces without label "example.com/tenant": any that exist belong to a tenant (label "example.node-restriction.kubernetes.io/tenant" or taint "example.com/tenant-taint")`},
		{config.TenantsConfined, tenant{exists: true}, "no node " + named + onNodes},
		{config.TenantsFree, tenant{exists: true}, "no node is shared or " + named + onNodes},
	} {
		if got, want := newTenancy(makeTenancy(tt.tenants), "berth-scheduler", nil).noNode(tt.owner), tt.want+askWhom; got != want {
			t.Errorf("%s, %+v: got %q, want %q", tt.tenants, tt.owner, got, want)
		}
	}
}

// The taint alone makes a node somebody's. Until the label agrees with it, nobody
// knows whose, and only exempt namespaces use the node.
func TestFilterTaintedNodes(t *testing.T) {
	blue := map[string]string{nodeTenantKey: "blue"}
	otherEffect := tainted(makeNode("only-tainted-no-execute", nil), "blue")
	otherEffect.Spec.Taints[1].Effect = corev1.TaintEffectNoExecute
	nodes := []*corev1.Node{
		tainted(makeNode("only-tainted", nil), ""),
		tainted(makeNode("only-tainted-blue", nil), "blue"),
		otherEffect,
		tainted(makeNode("agrees", blue), "blue"),
		tainted(makeNode("taint-without-value", blue), ""),
		tainted(makeNode("disagrees", blue), "red"),
		tainted(tainted(makeNode("two-taints", blue), "blue"), "red"),
	}
	for _, tenants := range []config.TenantPolicy{config.TenantsConfined, config.TenantsFree} {
		profile := startProfile(t, &config.LabelPresenceArgs{Tenancy: makeTenancy(tenants, "kube-system")},
			schedtest.Options{Nodes: nodes, Namespaces: tenancyNamespaces()})
		for namespace, want := range map[string]map[string]string{
			"blue": {
				"only-tainted": reasonUnknownTenant, "only-tainted-blue": reasonUnknownTenant, "only-tainted-no-execute": reasonUnknownTenant,
				"agrees": "", "taint-without-value": "", "disagrees": reasonUnknownTenant, "two-taints": reasonUnknownTenant,
			},
			"none": {
				"only-tainted": reasonNoTenant, "only-tainted-blue": reasonNoTenant, "only-tainted-no-execute": reasonNoTenant,
				"agrees": reasonNoTenant, "taint-without-value": reasonNoTenant, "disagrees": reasonNoTenant, "two-taints": reasonNoTenant,
			},
		} {
			t.Run(string(tenants)+"/"+namespace, func(t *testing.T) {
				pod := podIn(namespace)
				pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
				expectVerdicts(t, profile, pod, want)
			})
		}
		if !profile.Skips(t.Context(), t, podIn("kube-system")) {
			t.Error("an exempt namespace is not exempt")
		}
	}
}

// No field of a pod lifts tenancy: with whatever its author writes, the verdict
// on every node is that of a pod without it.
func TestNoPodFieldLiftsTenancy(t *testing.T) {
	want := map[string]string{"shared": reasonUnconfined, "blue": "", "red": reasonOtherTenant, "empty": reasonOtherTenant}
	priority := int32(2000001000)
	tests := []struct {
		name   string
		change func(*corev1.Pod)
	}{
		{name: "nothing", change: func(*corev1.Pod) {}},
		{name: "a toleration of everything", change: func(pod *corev1.Pod) {
			pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		}},
		{name: "a selector of the other tenant's nodes", change: func(pod *corev1.Pod) {
			pod.Spec.NodeSelector = map[string]string{nodeTenantKey: "red"}
		}},
		{name: "labels as the other tenant's", change: func(pod *corev1.Pod) {
			pod.Labels = map[string]string{namespaceTenantKey: "red", nodeTenantKey: "red"}
		}},
		{name: "annotations as the other tenant's", change: func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{namespaceTenantKey: "red", nodeTenantKey: "red"}
		}},
		{name: "a forged affinity to a node's name", change: func(pod *corev1.Pod) {
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: pinnedTo("red")}
		}},
		{name: "a forged DaemonSet owner and node affinity", change: func(pod *corev1.Pod) {
			forged := makeDaemonPod("blue", "p", "red").Obj()
			pod.OwnerReferences, pod.Spec.Affinity = forged.OwnerReferences, forged.Spec.Affinity
		}},
		{name: "a nominated node", change: func(pod *corev1.Pod) { pod.Status.NominatedNodeName = "red" }},
		{name: "the highest priority", change: func(pod *corev1.Pod) {
			pod.Spec.Priority, pod.Spec.PriorityClassName = &priority, "system-node-critical"
		}},
		{name: "a static pod's annotation", change: func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
		}},
	}
	args := &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsConfined, "kube-system")}
	profile := startProfile(t, args, schedtest.Options{Nodes: tenancyNodes(), Namespaces: tenancyNamespaces()})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pod := podIn("blue")
			tt.change(pod)
			expectVerdicts(t, profile, pod, want)
		})
	}
}

// A node that breaks tenancy and a rule is rejected for tenancy.
func TestTenancyIsTheReasonThatIsGiven(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{makeRule(true, "nowhere")},
		Tenancy: makeTenancy(config.TenantsConfined),
	}
	profile := startProfile(t, args, schedtest.Options{Nodes: tenancyNodes(), Namespaces: tenancyNamespaces()})
	want := map[string]string{
		"shared": reasonUnconfined, "red": reasonOtherTenant, "empty": reasonOtherTenant,
		"blue": `node(s) didn't have label "nowhere", which rules[0] of LabelPresence in profile "berth-scheduler" requires (ask that profile's administrator)`,
	}
	expectVerdicts(t, profile, podIn("blue"), want)
}

// Where the labels of a namespace decide, a pod of a namespace that the
// scheduler does not know is rejected, and nobody else.
func TestUnknownNamespace(t *testing.T) {
	tests := []struct {
		name string
		args *config.LabelPresenceArgs
		pod  *corev1.Pod
		// wantRefused is whether PreFilter rejects the pod.
		wantRefused bool
	}{
		{
			name:        "tenancy",
			args:        &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree, "kube-system")},
			pod:         podIn("unknown"),
			wantRefused: true,
		},
		{
			name: "tenancy, exempt namespace",
			args: &config.LabelPresenceArgs{Tenancy: makeTenancy(config.TenantsFree, "kube-system")},
			pod:  podIn("kube-system"),
		},
		{
			name:        "rule with a namespaceSelector",
			args:        &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x")}},
			pod:         podIn("unknown"),
			wantRefused: true,
		},
		{
			name: "rule with a namespaceSelector, for other pods",
			args: &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{forPods(inNamespaces(makeRule(true, "a"), "x"), "web")}},
			pod:  podIn("unknown"),
		},
		{
			name: "rule with a namespaceSelector, daemon pod",
			args: &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{inNamespaces(makeRule(true, "a"), "x")}},
			pod:  makeDaemonPod("unknown", "p", "n").Obj(),
		},
		{
			name: "rule without a namespaceSelector",
			args: &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{makeRule(true, "a")}},
			pod:  podIn("unknown"),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile := startProfile(t, tt.args, schedtest.Options{})
			_, status := profile.Filter(t.Context(), t, tt.pod)
			if !tt.wantRefused {
				if !status.IsSuccess() {
					t.Fatalf("PreFilter: %v", status)
				}
				return
			}
			want := `namespace "unknown" is not known to the scheduler yet, and LabelPresence needs its labels`
			if got := status.Message(); got != want || status.Code() != fwk.UnschedulableAndUnresolvable {
				t.Errorf("want %v %q, got %v %q", fwk.UnschedulableAndUnresolvable, want, status.Code(), got)
			}
		})
	}
}

// The framework aggregates equal reasons and uses them as a format string.
func TestReasonsAreFewAndSafe(t *testing.T) {
	args := &config.LabelPresenceArgs{
		Rules:   []config.LabelPresenceRule{makeRule(true, "a", "b"), makeRule(false, "c")},
		Tenancy: makeTenancy(config.TenantsConfined),
	}
	pl := newProfile(t, args, schedtest.Options{}).Plugin.(*LabelPresence)
	reasons := map[string]bool{}
	for _, rejected := range []*rejection{pl.policy.tenancy.noTenant, pl.policy.tenancy.otherTenant, pl.policy.tenancy.unknownTenant, pl.policy.tenancy.unconfined} {
		reasons[rejected.reason] = true
	}
	for _, r := range pl.policy.rules {
		for _, label := range r.labels {
			reasons[label.rejection.reason] = true
		}
	}
	if want := 7; len(reasons) != want {
		t.Errorf("want %d distinct reasons, got %d", want, len(reasons))
	}
	for reason := range reasons {
		if strings.Contains(reason, "%") || !strings.HasPrefix(reason, "node(s) ") {
			t.Errorf("reason %q", reason)
		}
	}
}
