// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The scene of most cases: two schedulers, of which "picky" wants the label
// "chosen" on its nodes; four nodes; one pod of each scheduler placed well, and
// one pod of picky that no node may take.
func scene() (*Cluster, *Declaration) {
	cluster := &Cluster{
		Nodes: []corev1.Node{
			node("plain", nil),
			node("fast", map[string]string{"disk": "fast"}),
			node("chosen", map[string]string{"chosen": "", "disk": "slow"}),
			node("both", map[string]string{"chosen": "", "disk": "fast"}),
		},
		Pods: []corev1.Pod{
			pod("easy", "easygoing", "plain", nil),
			pod("picky", "picky", "both", map[string]string{"disk": "fast"}),
			pending("stuck", "picky", map[string]string{"disk": "none"}, `0/4 nodes are available: 2 node(s) lack label "chosen".`),
		},
		Events: []eventsv1.Event{
			event("easy", "Scheduled", "easygoing", "Successfully assigned shop/easy to plain"),
			event("picky", "Scheduled", "picky", "Successfully assigned shop/picky to both"),
			event("stuck", "FailedScheduling", "picky", `0/4 nodes are available: 2 node(s) lack label "chosen".`),
		},
		Deployments: []appsv1.Deployment{deployment("picky", "picky")},
	}
	declared := &Declaration{
		Namespaces: []string{"shop"},
		Schedulers: []Scheduler{{Name: "easygoing"}, {Name: "picky", NodeLabels: []string{"chosen"}}},
		Pending:    []Pending{{Namespace: "shop", Name: "stuck", Cause: "chosen"}},
	}
	return cluster, declared
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

func pending(name, scheduler string, selector map[string]string, message string) corev1.Pod {
	p := pod(name, scheduler, "", selector)
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message,
	}}
	return p
}

func event(podName, reason, by, note string) eventsv1.Event {
	return eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: "shop", Name: podName + "." + reason},
		Regarding:           corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: podName, UID: types.UID("uid-" + podName)},
		Reason:              reason,
		ReportingController: by,
		Note:                note,
	}
}

func deployment(app, scheduler string) appsv1.Deployment {
	return appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: app},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{SchedulerName: scheduler}},
		},
	}
}

func requesting(p corev1.Pod, cpu string) corev1.Pod {
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
	}}}
	return p
}

// The good scene gives a full judgement of each pod, and no violation.
func TestJudgeGoodScene(t *testing.T) {
	want := &Result{Pods: []Pod{
		{
			Namespace: "shop", Name: "easy", SchedulerName: "easygoing", NodeName: "plain",
			Why: "Scheduled (easygoing): Successfully assigned shop/easy to plain",
		},
		{
			Namespace: "shop", Name: "picky", SchedulerName: "picky", NodeName: "both",
			Why: "Scheduled (picky): Successfully assigned shop/picky to both",
		},
		{
			Namespace: "shop", Name: "stuck", SchedulerName: "picky",
			Why: `FailedScheduling (picky): 0/4 nodes are available: 2 node(s) lack label "chosen".`,
		},
	}}
	cluster, declared := scene()
	got := Judge(cluster, declared)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected verdict (-want,+got):\n%s", diff)
	}
	if !got.OK() {
		t.Error("the good scene is not OK")
	}
}

// Each case breaks one thing in the good scene, and that thing must be said, of
// the right pod, and nothing else.
func TestJudgeViolations(t *testing.T) {
	tests := []struct {
		name   string
		change func(*Cluster, *Declaration)
		// want is violations by pod name; those of no pod stand under "".
		want map[string][]string
	}{
		{
			name: "node lacks the label that the scheduler requires",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[1].Spec.NodeName = "fast"
			},
			want: map[string][]string{"picky": {`node "fast" lacks label "chosen", which picky requires`}},
		},
		{
			name: "node has another value than the nodeSelector",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[1].Spec.NodeName = "chosen"
			},
			want: map[string][]string{"picky": {`node "chosen" has disk=slow, and the pod's nodeSelector wants disk=fast`}},
		},
		{
			name: "node lacks the label of the nodeSelector",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0].Spec.NodeSelector = map[string]string{"disk": "fast"}
			},
			want: map[string][]string{"easy": {`node "plain" lacks label "disk", and the pod's nodeSelector wants disk=fast`}},
		},
		{
			name: "cordoned node",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[0].Spec.Unschedulable = true
				c.Nodes[0].Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}}
			},
			want: map[string][]string{"easy": {`node "plain" is cordoned (spec.unschedulable)`}},
		},
		{
			name: "cordoned node, tolerated",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[0].Spec.Unschedulable = true
				c.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}
			},
		},
		{
			name: "tainted node",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[0].Spec.Taints = []corev1.Taint{{Key: "broken", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
				c.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: "broken", Value: "no"}}
			},
			want: map[string][]string{"easy": {`node "plain" has taint broken=yes:NoExecute, which the pod does not tolerate`}},
		},
		{
			name: "tainted node, tolerated or only discouraged",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[0].Spec.Taints = []corev1.Taint{
					{Key: "broken", Value: "yes", Effect: corev1.TaintEffectNoSchedule},
					{Key: "old", Effect: corev1.TaintEffectPreferNoSchedule},
				}
				c.Pods[0].Spec.Tolerations = []corev1.Toleration{{Key: "broken", Value: "yes"}}
			},
		},
		{
			name: "node does not exist",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0].Spec.NodeName = "nowhere"
			},
			want: map[string][]string{"easy": {`its node "nowhere" does not exist`}},
		},
		{
			name: "cpu overcommitted together with a pod that is not judged",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0] = requesting(c.Pods[0], "1500m")
				other := requesting(pod("other", "else", "plain", nil), "600m")
				other.Namespace = "elsewhere"
				c.Pods = append(c.Pods, other)
			},
			want: map[string][]string{"easy": {`the pods on node "plain" request 2100m cpu of 2`}},
		},
		{
			name: "cpu of a pod that has run to its end does not count",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0] = requesting(c.Pods[0], "1500m")
				other := requesting(pod("other", "else", "plain", nil), "600m")
				other.Namespace, other.Status.Phase = "elsewhere", corev1.PodSucceeded
				c.Pods = append(c.Pods, other)
			},
		},
		{
			name: "more pods than the node takes",
			change: func(c *Cluster, _ *Declaration) {
				for _, name := range []string{"a", "b", "c"} {
					p := pod(name, "else", "plain", nil)
					p.Namespace = "elsewhere"
					c.Pods = append(c.Pods, p)
				}
			},
			want: map[string][]string{"easy": {`the pods on node "plain" request 4 pods of 3`}},
		},
		{
			name: "resource that the node does not have",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0] = requesting(c.Pods[0], "1")
				c.Pods[0].Spec.Containers[0].Resources.Requests["example.com/card"] = resource.MustParse("1")
			},
			want: map[string][]string{"easy": {`the pods on node "plain" request 1 example.com/card of 0`}},
		},
		{
			name: "placed by another scheduler",
			change: func(c *Cluster, _ *Declaration) {
				c.Events[1].ReportingController = "easygoing"
			},
			want: map[string][]string{"picky": {`placed by "easygoing", not by its schedulerName "picky"`}},
		},
		{
			name: "placed by another scheduler, told by the older event field",
			change: func(c *Cluster, _ *Declaration) {
				c.Events[1].ReportingController = ""
				c.Events[1].DeprecatedSource.Component = "easygoing"
			},
			want: map[string][]string{"picky": {`placed by "easygoing", not by its schedulerName "picky"`}},
		},
		{
			name: "placed by nobody who says so",
			change: func(c *Cluster, _ *Declaration) {
				c.Events = c.Events[1:]
			},
			want: map[string][]string{"easy": {`has node "plain", but no event Scheduled: easygoing did not place it`}},
		},
		{
			name: "event of an earlier pod with the same name",
			change: func(c *Cluster, _ *Declaration) {
				c.Events[0].Regarding.UID = "uid-of-yesterday"
			},
			want: map[string][]string{"easy": {`has node "plain", but no event Scheduled: easygoing did not place it`}},
		},
		{
			name: "without a node and not declared to be pending",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[0].Spec.NodeName = ""
			},
			want: map[string][]string{"easy": {"has no node"}},
		},
		{
			name: "declared to be pending, and placed",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[2].Spec.NodeSelector = nil
				c.Pods[2].Spec.NodeName = "chosen"
				c.Events[2] = event("stuck", "Scheduled", "picky", "")
			},
			want: map[string][]string{"stuck": {`has node "chosen", but no node may take it`}},
		},
		{
			name: "pending although a node would do",
			change: func(c *Cluster, _ *Declaration) {
				c.Nodes[2].Labels["disk"] = "none"
			},
			want: map[string][]string{"stuck": {`has no node, although node "chosen" satisfies every rule`}},
		},
		{
			name: "pending without the condition",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[2].Status.Conditions = nil
			},
			want: map[string][]string{"stuck": {"has no condition PodScheduled=False with reason Unschedulable"}},
		},
		{
			name: "pending because it is gated",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[2].Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
			},
			want: map[string][]string{"stuck": {"has no condition PodScheduled=False with reason Unschedulable"}},
		},
		{
			name: "condition names no label",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods[2].Status.Conditions[0].Message = "4 node(s) are unchosen"
			},
			want: map[string][]string{"stuck": {`its condition does not name "chosen": 4 node(s) are unchosen`}},
		},
		{
			name: "event names no label",
			change: func(c *Cluster, _ *Declaration) {
				c.Events[2].Note = "4 node(s) are unchosen"
			},
			want: map[string][]string{"stuck": {`has no event FailedScheduling from picky that names "chosen"`}},
		},
		{
			name: "event that names the label is another scheduler's",
			change: func(c *Cluster, _ *Declaration) {
				c.Events[2].ReportingController = "easygoing"
			},
			want: map[string][]string{"stuck": {`has no event FailedScheduling from picky that names "chosen"`}},
		},
		{
			name: "pod of a scheduler that nobody declared",
			change: func(_ *Cluster, d *Declaration) {
				d.Schedulers = d.Schedulers[1:]
			},
			want: map[string][]string{"easy": {`schedulerName "easygoing" is none of those that were declared`}},
		},
		{
			name: "scheduler without a pod",
			change: func(_ *Cluster, d *Declaration) {
				d.Schedulers = append(d.Schedulers, Scheduler{Name: "idle"})
			},
			want: map[string][]string{"": {`no pod has schedulerName "idle", so nothing shows what it does`}},
		},
		{
			name: "pod that should be pending does not exist",
			change: func(c *Cluster, _ *Declaration) {
				c.Pods = c.Pods[:2]
			},
			want: map[string][]string{"": {"pod shop/stuck, which must be pending, does not exist"}},
		},
		{
			name: "deployment without its pods",
			change: func(c *Cluster, _ *Declaration) {
				c.Deployments[0].Spec.Replicas = new(int32(2))
			},
			want: map[string][]string{"": {"deployment shop/picky: wants 2 pods and has 1"}},
		},
		{
			name: "deployment of default size without its pod",
			change: func(c *Cluster, _ *Declaration) {
				c.Deployments[0].Spec.Replicas = nil
				c.Pods[1].Labels = nil
			},
			want: map[string][]string{"": {"deployment shop/picky: wants 1 pods and has 0"}},
		},
		{
			name: "pod with another scheduler than its deployment",
			change: func(c *Cluster, _ *Declaration) {
				c.Deployments[0].Spec.Template.Spec.SchedulerName = "easygoing"
			},
			want: map[string][]string{"": {`deployment shop/picky: its template names schedulerName "easygoing", its pod picky has "picky"`}},
		},
		{
			name: "deployment with a selector that cannot be read",
			change: func(c *Cluster, _ *Declaration) {
				c.Deployments[0].Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}
			},
			want: map[string][]string{"": {`deployment shop/picky: spec.selector: "Like" is not a valid label selector operator`}},
		},
		{
			name: "empty cluster",
			change: func(c *Cluster, d *Declaration) {
				*c = Cluster{}
				d.Pending = nil
			},
			want: map[string][]string{"": {
				"there are no pods to judge",
				`no pod has schedulerName "easygoing", so nothing shows what it does`,
				`no pod has schedulerName "picky", so nothing shows what it does`,
			}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, declared := scene()
			tt.change(cluster, declared)
			result := Judge(cluster, declared)
			if diff := cmp.Diff(tt.want, violations(result)); diff != "" {
				t.Errorf("unexpected violations (-want,+got):\n%s", diff)
			}
			if got, want := result.OK(), len(tt.want) == 0; got != want {
				t.Errorf("OK() = %t, want %t", got, want)
			}
		})
	}
}

// A constraint that is not checked must not be taken for kept.
func TestJudgeUnknownConstraints(t *testing.T) {
	term := corev1.PodAffinityTerm{TopologyKey: "kubernetes.io/hostname"}
	tests := []struct {
		name  string
		field string // the one that must be named; empty: the pod passes
		spec  func(*corev1.PodSpec)
	}{
		{
			name:  "required node affinity",
			field: "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution",
			spec: func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
			},
		},
		{
			name:  "required pod affinity",
			field: "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution",
			spec: func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
			},
		},
		{
			name:  "required pod anti-affinity",
			field: "spec.affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution",
			spec: func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}
			},
		},
		{
			name:  "hard topology spreading",
			field: "spec.topologySpreadConstraints[1]",
			spec: func(s *corev1.PodSpec) {
				s.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{WhenUnsatisfiable: corev1.ScheduleAnyway}, {WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32)}}
			},
		},
		{
			name:  "volume claim",
			field: "spec.volumes[1]",
			spec: func(s *corev1.PodSpec) {
				s.Volumes = []corev1.Volume{
					{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
					{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}},
				}
			},
		},
		{
			name:  "host port",
			field: "spec.containers[0].ports[1].hostPort",
			spec: func(s *corev1.PodSpec) {
				s.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{ContainerPort: 80}, {ContainerPort: 81, HostPort: 81}}}}
			},
		},
		{
			name:  "resource claim",
			field: "spec.resourceClaims",
			spec:  func(s *corev1.PodSpec) { s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} },
		},
		{
			name: "preferences only",
			spec: func(s *corev1.PodSpec) {
				s.Affinity = &corev1.Affinity{
					NodeAffinity:    &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{Weight: 1}}},
					PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 1}}},
					PodAntiAffinity: &corev1.PodAntiAffinity{},
				}
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cluster, declared := scene()
			tt.spec(&cluster.Pods[0].Spec)
			var want map[string][]string
			if tt.field != "" {
				want = map[string][]string{"easy": {tt.field + " limits its nodes in a way that this verdict cannot check"}}
			}
			if diff := cmp.Diff(want, violations(Judge(cluster, declared))); diff != "" {
				t.Errorf("unexpected violations (-want,+got):\n%s", diff)
			}
		})
	}
}

// Without an event, the condition is what explains; without both, nothing is
// made up.
func TestWhyWithoutEvents(t *testing.T) {
	cluster, declared := scene()
	cluster.Events = nil
	var got []string
	for _, pod := range Judge(cluster, declared).Pods {
		got = append(got, pod.Why)
	}
	want := []string{"", "", `Unschedulable (condition): 0/4 nodes are available: 2 node(s) lack label "chosen".`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("unexpected explanations (-want,+got):\n%s", diff)
	}
}

// violations returns those of result by the name of the pod, and under "" those
// of no pod; nil if there are none.
func violations(result *Result) map[string][]string {
	var found map[string][]string
	add := func(name string, list []string) {
		if len(list) == 0 {
			return
		}
		if found == nil {
			found = map[string][]string{}
		}
		found[name] = append(found[name], list...)
	}
	add("", result.Violations)
	for _, pod := range result.Pods {
		add(pod.Name, pod.Violations)
	}
	return found
}
