// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// The scene of most cases: two schedulers, of which "picky" wants the label "chosen" on
// its nodes; four nodes; one pod of each scheduler placed well, and one pod of picky that
// no node may take.
func scene() (*Cluster, *Expectation) {
	const why = `0/4 nodes are available: 2 node(s) lack label "chosen".`
	stuck := pod("stuck", "picky", "", map[string]string{"disk": "none"})
	stuck.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: why}}
	cluster := &Cluster{
		Nodes: []corev1.Node{
			node("plain", nil),
			node("fast", map[string]string{"disk": "fast"}),
			node("chosen", map[string]string{"chosen": "", "disk": "slow"}),
			node("both", map[string]string{"chosen": "", "disk": "fast"}),
		},
		Pods: []corev1.Pod{pod("easy", "easygoing", "plain", nil), pod("picky", "picky", "both", map[string]string{"disk": "fast"}), stuck},
		Events: []eventsv1.Event{
			event("easy", "Scheduled", "easygoing", "Successfully assigned shop/easy to plain"),
			event("picky", "Scheduled", "picky", "Successfully assigned shop/picky to both"),
			event("stuck", "FailedScheduling", "picky", why),
		},
		Deployments: []appsv1.Deployment{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "picky"},
			Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(1)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "picky"}},
				Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: "picky"}},
			},
		}},
	}
	return cluster, &Expectation{
		Namespaces: []string{"shop"},
		Schedulers: []Scheduler{{Name: "easygoing"}, {Name: "picky", NodeLabels: []string{"chosen"}}},
		Pending:    []Pending{{Pod: "shop/stuck", Cause: "chosen"}},
	}
}

func node(name string, labels map[string]string) corev1.Node {
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU:  resource.MustParse("2"),
			corev1.ResourcePods: resource.MustParse("3"),
		}},
	}
}

func pod(name, scheduler, nodeName string, selector map[string]string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name}},
		Spec:       corev1.PodSpec{SchedulerName: scheduler, NodeName: nodeName, NodeSelector: selector},
	}
}

// stranger is a pod on node plain that is not checked.
func stranger(name, cpu string) corev1.Pod {
	p := usingCPU(pod(name, "else", "plain", nil), cpu)
	p.Namespace = "elsewhere"
	return p
}

func usingCPU(p corev1.Pod, cpu string) corev1.Pod {
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}}}
	return p
}

func event(podName, reason, by, note string) eventsv1.Event {
	return eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: podName + "." + reason},
		Regarding:  corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: podName, UID: types.UID("uid-" + podName)},
		Reason:     reason, ReportingController: by, Note: note,
	}
}

// The good scene says of each pod why it is where it is; without an event, the condition
// explains, and without both, nothing is made up.
func TestWhy(t *testing.T) {
	cluster, expected := scene()
	for _, want := range [][]string{
		{
			"Scheduled (easygoing): Successfully assigned shop/easy to plain", "Scheduled (picky): Successfully assigned shop/picky to both",
			`FailedScheduling (picky): 0/4 nodes are available: 2 node(s) lack label "chosen".`,
		},
		{"", "", `Unschedulable (condition): 0/4 nodes are available: 2 node(s) lack label "chosen".`},
	} {
		var got []string
		for _, pod := range Check(cluster, expected).Pods {
			got = append(got, pod.Why)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Unexpected reasons (-want,+got):\n%s", diff)
		}
		cluster.Events = nil
	}
}

// Each case breaks one thing in the good scene, and that thing must be said, and nothing
// else.
func TestCheck(t *testing.T) {
	const easy, picky, stuck = 0, 1, 2
	taints := func(taints ...corev1.Taint) func(*Cluster, *Expectation) {
		return func(c *Cluster, _ *Expectation) {
			c.Nodes[easy].Spec.Taints = taints
			c.Pods[easy].Spec.Tolerations = []corev1.Toleration{{Key: "broken", Value: "yes"}, {Key: "cordoned", Operator: corev1.TolerationOpExists}}
		}
	}
	broken := corev1.Taint{Key: "broken", Value: "yes", Effect: corev1.TaintEffectNoSchedule}
	tests := []struct {
		name   string
		change func(*Cluster, *Expectation)
		want   []string
	}{
		{"nothing", func(*Cluster, *Expectation) {}, nil},
		{
			"node lacks the label that the scheduler requires", func(c *Cluster, _ *Expectation) { c.Pods[picky].Spec.NodeName = "fast" },
			[]string{`Misplaced shop/picky: node "fast" lacks label "chosen", which picky requires`},
		},
		{"label that is required of other namespaces", func(c *Cluster, e *Expectation) {
			c.Pods[picky].Spec.NodeName = "fast"
			e.Schedulers[1].Namespaces = []string{"elsewhere"}
			c.Pods[stuck].Spec.NodeSelector["disk"] = "nothing"
		}, nil},
		{
			"node has another value than the nodeSelector", func(c *Cluster, _ *Expectation) { c.Pods[picky].Spec.NodeName = "chosen" },
			[]string{`Misplaced shop/picky: node "chosen" has disk=slow, and the pod's nodeSelector wants disk=fast`},
		},
		{
			"node lacks the label of the nodeSelector", func(c *Cluster, _ *Expectation) { c.Pods[easy].Spec.NodeSelector = map[string]string{"disk": "fast"} },
			[]string{`Misplaced shop/easy: node "plain" lacks label "disk", and the pod's nodeSelector wants disk=fast`},
		},
		{"cordoned node", func(c *Cluster, _ *Expectation) {
			c.Nodes[easy].Spec.Unschedulable = true
			c.Nodes[easy].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
		}, []string{`Misplaced shop/easy: node "plain" is cordoned (spec.unschedulable)`}},
		{"cordoned node, tolerated", func(c *Cluster, _ *Expectation) {
			c.Nodes[easy].Spec.Unschedulable = true
			c.Pods[easy].Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
		}, nil},
		{
			"tainted node", taints(corev1.Taint{Key: "broken", Value: "no", Effect: corev1.TaintEffectNoExecute}),
			[]string{`Misplaced shop/easy: node "plain" has taint broken=no:NoExecute, which the pod does not tolerate`},
		},
		{"tainted node, tolerated or only discouraged", taints(broken, corev1.Taint{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule}), nil},
		{
			"node does not exist", func(c *Cluster, _ *Expectation) { c.Pods[easy].Spec.NodeName = "nowhere" },
			[]string{`Misplaced shop/easy: its node "nowhere" does not exist`},
		},
		{
			"cpu overrequested together with a pod that is not checked", func(c *Cluster, _ *Expectation) {
				c.Pods[easy] = usingCPU(c.Pods[easy], "1500m")
				c.Pods = append(c.Pods, stranger("other", "600m"))
			},
			[]string{`Overrequested plain: the pods on node "plain" request 2100m cpu of 2`},
		},
		{"cpu of a terminated pod does not count", func(c *Cluster, _ *Expectation) {
			c.Pods[easy] = usingCPU(c.Pods[easy], "1500m")
			c.Pods = append(c.Pods, stranger("other", "600m"))
			c.Pods[3].Status.Phase = corev1.PodSucceeded
		}, nil},
		{
			"more pods than the node takes", func(c *Cluster, _ *Expectation) {
				c.Pods = append(c.Pods, stranger("a", "0"), stranger("b", "0"), stranger("c", "0"))
			},
			[]string{`Overrequested plain: the pods on node "plain" request 4 pods of 3`},
		},
		{
			"resource that the node does not have", func(c *Cluster, _ *Expectation) {
				c.Pods[easy] = usingCPU(c.Pods[easy], "1")
				c.Pods[easy].Spec.Containers[0].Resources.Requests["example.com/card"] = resource.MustParse("1")
			},
			[]string{`Overrequested plain: the pods on node "plain" request 1 example.com/card of 0`},
		},
		{
			"placed by another scheduler", func(c *Cluster, _ *Expectation) { c.Events[picky].ReportingController = "easygoing" },
			[]string{`WrongScheduler shop/picky: placed by "easygoing", not by its schedulerName "picky"`},
		},
		{
			"placed by another scheduler, told by the older event field", func(c *Cluster, _ *Expectation) {
				c.Events[picky].ReportingController, c.Events[picky].DeprecatedSource.Component = "", "easygoing"
			},
			[]string{`WrongScheduler shop/picky: placed by "easygoing", not by its schedulerName "picky"`},
		},
		{
			"placed by nobody who says so", func(c *Cluster, _ *Expectation) { c.Events = c.Events[1:] },
			[]string{`WrongScheduler shop/easy: has node "plain", but no event Scheduled: easygoing did not place it`},
		},
		{
			"event of an earlier pod with the same name", func(c *Cluster, _ *Expectation) { c.Events[easy].Regarding.UID = "uid-of-yesterday" },
			[]string{`WrongScheduler shop/easy: has node "plain", but no event Scheduled: easygoing did not place it`},
		},
		{
			"without a node and not expected to be pending", func(c *Cluster, _ *Expectation) { c.Pods[easy].Spec.NodeName = "" },
			[]string{"Unplaced shop/easy: has no node"},
		},
		{
			"expected to be pending, and placed", func(c *Cluster, _ *Expectation) {
				c.Pods[stuck].Spec.NodeSelector, c.Pods[stuck].Spec.NodeName = nil, "chosen"
				c.Events[stuck] = event("stuck", "Scheduled", "picky", "")
			},
			[]string{`Misplaced shop/stuck: has node "chosen", but no node may take it`},
		},
		{
			"pending although a node would do", func(c *Cluster, _ *Expectation) { c.Nodes[2].Labels["disk"] = "none" },
			[]string{`Unplaced shop/stuck: has no node, although node "chosen" satisfies every rule`},
		},
		{
			"pending without the condition", func(c *Cluster, _ *Expectation) { c.Pods[stuck].Status.Conditions = nil },
			[]string{"WrongReason shop/stuck: has no condition PodScheduled=False with reason Unschedulable"},
		},
		{
			"pending because it is gated", func(c *Cluster, _ *Expectation) {
				c.Pods[stuck].Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			},
			[]string{"WrongReason shop/stuck: has no condition PodScheduled=False with reason Unschedulable"},
		},
		{
			"condition names no label", func(c *Cluster, _ *Expectation) {
				c.Pods[stuck].Status.Conditions[0].Message = "4 node(s) are unchosen"
			},
			[]string{`WrongReason shop/stuck: its condition does not name "chosen": 4 node(s) are unchosen`},
		},
		{
			"event names no label", func(c *Cluster, _ *Expectation) { c.Events[stuck].Note = "4 node(s) are unchosen" },
			[]string{`WrongReason shop/stuck: has no event FailedScheduling from picky that names "chosen"`},
		},
		{
			"event that names the label is another scheduler's", func(c *Cluster, _ *Expectation) { c.Events[stuck].ReportingController = "easygoing" },
			[]string{`WrongReason shop/stuck: has no event FailedScheduling from picky that names "chosen"`},
		},
		{
			"pod of a scheduler that is not expected", func(_ *Cluster, e *Expectation) { e.Schedulers = e.Schedulers[1:] },
			[]string{`WrongScheduler shop/easy: schedulerName "easygoing" is not expected`},
		},
		{
			"scheduler without a pod", func(_ *Cluster, e *Expectation) { e.Schedulers = append(e.Schedulers, Scheduler{Name: "idle"}) },
			[]string{"Missing idle: no pod has this schedulerName, so nothing shows what the scheduler does"},
		},
		{
			"pod that should be pending does not exist", func(c *Cluster, _ *Expectation) { c.Pods = c.Pods[:stuck] },
			[]string{"Missing shop/stuck: must be pending, and does not exist"},
		},
		{
			"deployment without its pods", func(c *Cluster, _ *Expectation) { c.Deployments[0].Spec.Replicas = new(int32(2)) },
			[]string{"Missing shop/picky: the Deployment wants 2 pods and has 1"},
		},
		{
			"deployment of default size without its pod", func(c *Cluster, _ *Expectation) {
				c.Deployments[0].Spec.Replicas, c.Pods[picky].Labels = nil, nil
			},
			[]string{"Missing shop/picky: the Deployment wants 1 pods and has 0"},
		},
		{
			"pod with another scheduler than its deployment", func(c *Cluster, _ *Expectation) {
				c.Deployments[0].Spec.Template.Spec.SchedulerName = "easygoing"
			},
			[]string{`WrongScheduler shop/picky: has schedulerName "picky", and the template of its Deployment "easygoing"`},
		},
		{
			"deployment with a selector that cannot be read", func(c *Cluster, _ *Expectation) {
				c.Deployments[0].Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			},
			[]string{`Missing shop/picky: spec.selector of the Deployment: "Like" is not a valid label selector operator`},
		},
		{
			"devices", func(c *Cluster, _ *Expectation) {
				c.Nodes = append(c.Nodes, gpus())
				c.Pods = append(c.Pods, bound("half", "500", "0", "main=0:500m:1Mi"))
				c.Nodes[4].Status.Allocatable = c.Nodes[0].Status.Allocatable
			},
			[]string{`WrongRecord ns/half: container "main" requests 500m 500Mi of each device, and was given 500m 1Mi`},
		},
		{"pending with a share that no device has", func(c *Cluster, _ *Expectation) {
			c.Nodes = append(c.Nodes, gpus())
			c.Nodes[4].Labels["chosen"] = ""
			c.Pods[stuck].Spec.NodeSelector, c.Pods[stuck].Spec.Containers = nil, []corev1.Container{container("main", "", "1001Mi")}
		}, nil},
		{
			"empty cluster", func(c *Cluster, e *Expectation) { *c, e.Pending = Cluster{}, nil },
			[]string{
				"Missing pods: there are no pods to check",
				"Missing easygoing: no pod has this schedulerName, so nothing shows what the scheduler does",
				"Missing picky: no pod has this schedulerName, so nothing shows what the scheduler does",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, expected := scene()
			tt.change(cluster, expected)
			requireViolations(t, tt.want, Check(cluster, expected).Violations)
		})
	}
}

func requireViolations(t *testing.T, want []string, violations Violations) {
	t.Helper()
	var got []string
	for _, v := range violations {
		got = append(got, v.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected violations (-want,+got):\n%s", diff)
	}
}

// A constraint that is not checked must not be taken for kept.
func TestUnchecked(t *testing.T) {
	const required = "requiredDuringSchedulingIgnoredDuringExecution"
	term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname"}
	spread := func(change func(*corev1.TopologySpreadConstraint)) func(*corev1.PodSpec) {
		constraint := corev1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule}
		change(&constraint)
		return func(s *corev1.PodSpec) { s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{constraint} }
	}
	const first = "spec.topologySpreadConstraints[0]"
	tests := []struct {
		field string // the one that must be named; empty: the pod passes
		spec  func(*corev1.PodSpec)
	}{
		{"spec.affinity.nodeAffinity." + required, func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		}},
		{"spec.affinity.podAffinity." + required, func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		}},
		{"spec.affinity.podAntiAffinity." + required, func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
		}},
		{"spec.volumes[1]", func(s *corev1.PodSpec) {
			s.Volumes = []corev1.Volume{
				{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
			}
		}},
		{"spec.containers[0].ports[1].hostPort", func(s *corev1.PodSpec) {
			s.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81}}}}
		}},
		{"spec.resourceClaims", func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }},
		{"", func(s *corev1.PodSpec) { // preferences only
			s.Affinity = &corev1.Affinity{
				NodeAffinity:    &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}},
				PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1}}},
				PodAntiAffinity: &corev1.PodAntiAffinity{},
			}
		}},
		{"", spread(func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy, c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor), ptr.To(corev1.NodeInclusionPolicyIgnore)
		})},
		{"", spread(func(c *corev1.TopologySpreadConstraint) { c.WhenUnsatisfiable = corev1.ScheduleAnyway })},
		{first, func(s *corev1.PodSpec) {
			spread(func(*corev1.TopologySpreadConstraint) {})(s)
			s.NodeName = ""
		}},
		{first, spread(func(c *corev1.TopologySpreadConstraint) { c.MinDomains = new(int32) })},
		{first, spread(func(c *corev1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{"app"} })},
		{first, spread(func(c *corev1.TopologySpreadConstraint) {
			c.NodeAffinityPolicy = ptr.To(corev1.NodeInclusionPolicyIgnore)
		})},
		{first, spread(func(c *corev1.TopologySpreadConstraint) {
			c.NodeTaintsPolicy = ptr.To(corev1.NodeInclusionPolicyHonor)
		})},
	}
	for _, tt := range tests {
		t.Run(tt.field, func(t *testing.T) {
			spec := pod("web", "easygoing", "plain", nil).Spec
			tt.spec(&spec)
			var want []string
			if tt.field != "" {
				want = []string{tt.field}
			}
			if diff := cmp.Diff(want, uncheckedFields(&spec)); diff != "" {
				t.Errorf("Unexpected fields (-want,+got):\n%s", diff)
			}
		})
	}
	cluster, expected := scene()
	cluster.Pods[0].Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}}
	requireViolations(t, []string{"Unchecked shop/easy: spec.resourceClaims limits its nodes in a way that is not checked"}, Check(cluster, expected).Violations)
}

func TestSpread(t *testing.T) {
	zone := func(name, zone string) corev1.Node {
		return node(name, map[string]string{"zone": zone, "name": name})
	}
	nodes := []corev1.Node{zone("a1", "a"), zone("a2", "a"), zone("b1", "b"), node("nowhere", map[string]string{"name": "nowhere"})}
	replica := func(name, nodeName string) corev1.Pod {
		p := pod(name, "easygoing", nodeName, nil)
		p.Labels = map[string]string{"app": "web"}
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		}}
		return p
	}
	tests := []struct {
		name string
		pods []corev1.Pod
		want []string // about the first pod
	}{
		{name: "one in each zone", pods: []corev1.Pod{replica("1", "a1"), replica("2", "b1")}},
		{name: "one more than elsewhere", pods: []corev1.Pod{replica("1", "a1"), replica("2", "a2"), replica("3", "b1")}},
		{
			name: "two more than elsewhere", pods: []corev1.Pod{replica("1", "a1"), replica("2", "a2")},
			want: []string{"Misplaced shop/1: zone=a has 2 pods like it and another value 0: the skew is 2, at most 1 is allowed"},
		},
		{name: "where there are fewer all is well", pods: []corev1.Pod{replica("1", "b1"), replica("2", "a1"), replica("3", "a1"), replica("4", "a2")}},
		{name: "zones that nodeSelector excludes do not count", pods: []corev1.Pod{
			with(replica("1", "a1"), func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"name": "a1"} }), replica("2", "a1"),
		}},
		{name: "others do not count", pods: []corev1.Pod{
			replica("1", "a1"),
			with(replica("2", "a1"), func(p *corev1.Pod) { p.Namespace = "elsewhere" }),
			with(replica("3", "a1"), func(p *corev1.Pod) { p.Labels = nil }),
			with(replica("4", "a1"), func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }),
			replica("5", ""),
		}},
		{
			name: "a node without the label", pods: []corev1.Pod{replica("1", "nowhere")},
			want: []string{`Misplaced shop/1: node "nowhere" lacks label "zone", over which the pod is to be spread`},
		},
		{
			name: "a selector that is none",
			pods: []corev1.Pod{with(replica("1", "a1"), func(p *corev1.Pod) {
				p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}
			})},
			want: []string{`Unchecked shop/1: spec.topologySpreadConstraints[0].labelSelector: "Near" is not a valid label selector operator`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &check{cluster: &Cluster{Nodes: nodes, Pods: tt.pods}, nodes: map[string]*corev1.Node{}}
			for i := range nodes {
				c.nodes[nodes[i].Name] = &nodes[i]
			}
			c.spread(&tt.pods[0], c.nodes[tt.pods[0].Spec.NodeName])
			requireViolations(t, tt.want, c.report.Violations)
		})
	}
}
