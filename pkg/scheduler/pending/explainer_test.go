// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2/ktesting"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
)

// That the messages reach a pod's owner is shown with a real scheduler, in
// test/integration/scheduler.

const (
	gangPlugin = "Coscheduling"
	// gaveUp is the annotation with what the gang's plugin knows of the pod.
	gaveUp     = "gave-up"
	notHelpful = "no new claims to deallocate, preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
	noVictims  = "no new claims to deallocate, preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling., can not find pod group"
)

// fixture returns an Explainer of two profiles, "gpu" and "plain", that knows these
// nodes and pods and one PodGroup, default/train with three members.
func fixture(t *testing.T, nodes []*corev1.Node, pods ...*corev1.Pod) *Explainer {
	t.Helper()
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, node := range nodes {
		if err := factory.Core().V1().Nodes().Informer().GetIndexer().Add(node); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		if err := factory.Core().V1().Pods().Informer().GetIndexer().Add(pod); err != nil {
			t.Fatal(err)
		}
	}
	groups := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := groups.Add(&unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "default", "name": "train"},
		"spec":     map[string]any{"minMember": int64(3)},
	}}); err != nil {
		t.Fatal(err)
	}
	filters := func(names ...string) *schedconfig.Plugins {
		plugins := &schedconfig.Plugins{}
		for _, name := range names {
			plugins.Filter.Enabled = append(plugins.Filter.Enabled, schedconfig.Plugin{Name: name})
		}
		return plugins
	}
	return New(factory, Options{
		Profiles: map[string]*schedconfig.Plugins{
			"gpu":   filters("GPUDevice", "TaintToleration", "NodeAffinity", "NodeResourcesFit"),
			"plain": filters("TaintToleration", "NodeAffinity", "NodeResourcesFit"),
		},
		DeviceProfiles: []string{"gpu"},
		Gangs: &Gangs{Plugin: gangPlugin, PodGroups: cache.NewGenericLister(groups, schema.GroupResource{Resource: "podgroups"}), GaveUp: func(pod *corev1.Pod) (found int, this, ok bool) {
			_, err := fmt.Sscan(pod.Annotations[gaveUp], &found, &this)
			return found, this, err == nil
		}},
	})
}

// diagnosis describes a failed attempt: nodes, by what refused them.
type diagnosis map[string]*fwk.Status

func unresolvable(plugin, reason string) *fwk.Status {
	return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, reason).WithPlugin(plugin)
}

func resolvable(plugin, reason string) *fwk.Status {
	return fwk.NewStatus(fwk.Unschedulable, reason).WithPlugin(plugin)
}

func (d diagnosis) fitError(pod *corev1.Pod, preFilter, postFilter string) *framework.FitError {
	fit := &framework.FitError{Pod: pod, NumAllNodes: len(d)}
	fit.Diagnosis = framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus(), PreFilterMsg: preFilter, PostFilterMsg: postFilter}
	for name, status := range d {
		fit.Diagnosis.NodeToStatus.Set(name, status)
		fit.Diagnosis.AddPluginStatus(status)
	}
	return fit
}

func TestMessages(t *testing.T) {
	dedicated := corev1.Taint{Key: "nvidia.com/gpu", Value: "present", Effect: corev1.TaintEffectNoSchedule}
	controlPlane := corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}
	tainted := func(name string, taint corev1.Taint, labels map[string]string) *corev1.Node {
		node := st.MakeNode().Name(name).Taints([]corev1.Taint{taint}).Obj()
		node.Labels = labels
		return node
	}
	nodes := []*corev1.Node{
		tainted("cp", controlPlane, map[string]string{"role": "cp"}),
		tainted("gpu", dedicated, map[string]string{names.GPUSharingLabel: "true"}),
		tainted("vendor", dedicated, nil),
		st.MakeNode().Name("a").Obj(), st.MakeNode().Name("b").Obj(),
	}
	nodes[2].Status.Allocatable = st.MakeNode().Capacity(map[corev1.ResourceName]string{"nvidia.com/gpu": "8"}).Obj().Status.Allocatable
	const untolerated = "node(s) had untolerated taint(s)"
	plain := st.MakePod().Namespace("default").Name("p")
	share := st.MakePod().Namespace("default").Name("p").Lim(map[corev1.ResourceName]string{names.GPUMilliResource: "500"})
	member := func(gang string) *corev1.Pod {
		return st.MakePod().Namespace("default").Name("p").Label(podgroup.Label, gang).Obj()
	}
	complete := []*corev1.Pod{member("train"), member("train"), member("train")}
	for i := range complete {
		complete[i].Name = fmt.Sprintf("train-%d", i)
	}

	tests := []struct {
		name       string
		profile    string
		pod        *corev1.Pod
		others     []*corev1.Pod
		nodes      diagnosis
		preFilter  string
		postFilter string
		want       string
		wantAction string
	}{
		{
			name: "nothing that preemption could help", profile: "plain", pod: plain.Obj(),
			nodes:     diagnosis{"a": unresolvable("X", "never"), "b": unresolvable("X", "never")},
			preFilter: "the pod can never be scheduled", postFilter: notHelpful,
			want: "0/2 nodes are available: the pod can never be scheduled.",
		},
		{
			name: "preemption could help and did not", profile: "plain", pod: plain.Obj(),
			nodes:      diagnosis{"a": resolvable("NodeResourcesFit", "Insufficient cpu"), "b": unresolvable("NodeAffinity", "node(s) didn't match")},
			postFilter: noVictims,
			want:       "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match. preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
		},
		{
			name: "what happened to a claim", profile: "plain", pod: plain.Obj(),
			nodes: diagnosis{"a": unresolvable("X", "never")}, postFilter: "deallocation of ResourceClaim completed, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
			want: "0/1 nodes are available: 1 never. deallocation of ResourceClaim completed",
		},
		{
			name: "a taint is no news to a pod that does not ask for the node", profile: "plain", pod: plain.Obj(),
			nodes: diagnosis{"cp": unresolvable("TaintToleration", untolerated), "a": resolvable("NodeResourcesFit", "Insufficient cpu")},
			want:  "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had the taint node-role.kubernetes.io/control-plane:NoSchedule, which the pod doesn't tolerate.",
		},
		{
			name: "the taint of the nodes that the pod selects", profile: "plain", pod: st.MakePod().Name("p").NodeSelector(map[string]string{"role": "cp"}).Obj(),
			nodes: diagnosis{"cp": unresolvable("TaintToleration", untolerated), "gpu": unresolvable("TaintToleration", untolerated), "a": unresolvable("NodeAffinity", "node(s) didn't match")},
			want:  "0/3 nodes are available: spec.tolerations: 1 node(s) that the pod asks for had the taint node-role.kubernetes.io/control-plane:NoSchedule, which it doesn't tolerate. 1 node(s) didn't match, 1 node(s) had the taint nvidia.com/gpu=present:NoSchedule, which the pod doesn't tolerate.",
		},
		{
			name: "the taint of the nodes that share devices", profile: "gpu", pod: share.Obj(),
			nodes: diagnosis{"gpu": unresolvable("TaintToleration", untolerated), "cp": unresolvable("TaintToleration", untolerated), "a": unresolvable("GPUDevice", "node(s) didn't share")},
			want:  "0/3 nodes are available: spec.tolerations: 1 node(s) that the pod asks for had the taint nvidia.com/gpu=present:NoSchedule, which it doesn't tolerate. 1 node(s) had the taint node-role.kubernetes.io/control-plane:NoSchedule, which the pod doesn't tolerate, 1 node(s) didn't share.",
		},
		{
			name: "the taint of the nodes with a vendor's resource", profile: "plain", pod: st.MakePod().Name("p").Lim(map[corev1.ResourceName]string{"nvidia.com/gpu": "1"}).Obj(),
			nodes: diagnosis{"vendor": unresolvable("TaintToleration", untolerated), "a": unresolvable("NodeResourcesFit", "Insufficient nvidia.com/gpu")},
			want:  "0/2 nodes are available: spec.tolerations: 1 node(s) that the pod asks for had the taint nvidia.com/gpu=present:NoSchedule, which it doesn't tolerate. 1 Insufficient nvidia.com/gpu.",
		},
		{
			name: "a node that is gone by now", profile: "plain", pod: plain.Obj(),
			nodes: diagnosis{"gone": unresolvable("TaintToleration", untolerated)},
			want:  "0/1 nodes are available: 1 node(s) had untolerated taint(s).",
		},
		{
			name: "a share under a profile that counts none", profile: "plain", pod: share.Obj(),
			nodes: diagnosis{"a": unresolvable("NodeResourcesFit", "Insufficient "+names.GPUMilliResource), "cp": unresolvable("TaintToleration", untolerated)},
			want:  `0/2 nodes are available: limit ` + names.GPUMilliResource + `: spec.schedulerName "plain" doesn't run GPUDevice, which counts it: use "gpu". 1 node(s) had the taint node-role.kubernetes.io/control-plane:NoSchedule, which the pod doesn't tolerate.`,
		},
		{
			name: "a gang that does not exist", profile: "gpu", pod: member("trian"), wantAction: actionFindGang,
			nodes: diagnosis{"a": resolvable(gangPlugin, "PodGroup not found")},
			want:  "0/5 nodes are available: PodGroup default/trian, which the pod's label " + podgroup.Label + " names, does not exist: correct the label or create it.",
		},
		{
			name: "a gang that does not exist, on nodes that are full", profile: "gpu", pod: member("trian"), wantAction: actionFindGang,
			nodes: diagnosis{"a": resolvable("NodeResourcesFit", "Insufficient cpu")}, postFilter: noVictims,
			want: "0/1 nodes are available: PodGroup default/trian, which the pod's label " + podgroup.Label + " names, does not exist: correct the label or create it. 1 Insufficient cpu.",
		},
		{
			name: "a gang that is not complete", profile: "gpu", pod: member("train"), others: []*corev1.Pod{member("train")}, wantAction: actionGatherGang,
			nodes: diagnosis{"a": unresolvable(gangPlugin, "pre-filter"), "b": unresolvable(gangPlugin, "pre-filter")}, preFilter: "pre-filter pod p cannot find enough sibling pods", postFilter: notHelpful,
			want: "0/2 nodes are available: gang default/train: 1 of its 3 members exist; it starts when all of them do.",
		},
		{
			name: "a member whose gang was given up", profile: "gpu", pod: st.MakePod().Namespace("default").Name("p").Label(podgroup.Label, "train").Annotation(gaveUp, "2 false").Obj(), others: complete, wantAction: actionPlaceGang,
			nodes: diagnosis{"a": resolvable(gangPlugin, "optimistic rejection in PostFilter")},
			want:  "0/5 nodes are available: gang default/train: 2 of its 3 members had a node and all are needed.",
		},
		{
			name: "the member that found no node", profile: "gpu", pod: st.MakePod().Namespace("default").Name("p").Label(podgroup.Label, "train").Annotation(gaveUp, "2 true").Obj(), others: complete, wantAction: actionPlaceMember,
			nodes: diagnosis{"a": resolvable("NodeResourcesFit", "Insufficient cpu"), "b": resolvable("NodeResourcesFit", "Insufficient cpu")}, postFilter: strings.TrimSuffix(noVictims, ", can not find pod group"),
			want: "0/2 nodes are available: gang default/train: 2 of its 3 members had a node when this one found none. 2 Insufficient cpu. preemption: 0/4 nodes are available: 2 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling.",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := fixture(t, nodes, tt.others...)
			got, action := e.explain(profile{name: tt.profile}, tt.pod, tt.nodes.fitError(tt.pod, tt.preFilter, tt.postFilter))
			if diff := cmp.Diff(tt.want, got.Error()); diff != "" {
				t.Errorf("message (-want,+got):\n%s", diff)
			}
			if want := tt.wantAction; action != want && (want != "" || action != actionScheduling) {
				t.Errorf("the event's action is %q", action)
			}
		})
	}
}

// handled is what the scheduler's own handler gets.
type handled struct {
	fw         framework.Framework
	podInfo    *framework.QueuedPodInfo
	status     *fwk.Status
	nominating *fwk.NominatingInfo
	start      time.Time
}

// profile is a framework of which nothing is used but its name and its recorder.
type profile struct {
	framework.Framework
	name     string
	recorder events.EventRecorderLogger
}

func (p profile) ProfileName() string                       { return p.name }
func (p profile) EventRecorder() events.EventRecorderLogger { return p.recorder }

// TestOnlyTheTextChanges wraps a handler, has random attempts fail, and compares
// what the handler gets with what it would have got without the wrapping: all that
// decides what becomes of the pod is the same.
func TestOnlyTheTextChanges(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	random := rand.New(rand.NewPCG(1, 2))
	var nodes []*corev1.Node
	for i := range 6 {
		nodes = append(nodes, st.MakeNode().Name(fmt.Sprintf("n%d", i)).Taints([]corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}).Obj())
	}
	e := fixture(t, nodes)
	var got handled
	wrapped := e.Wrap(func(_ context.Context, fw framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		got = handled{fw, podInfo, status, nominating, start}
	})
	plugins := []string{"GPUDevice", "TaintToleration", "NodeAffinity", "NodeResourcesFit", gangPlugin, ""}
	codes := []fwk.Code{fwk.Unschedulable, fwk.UnschedulableAndUnresolvable, fwk.Pending}
	answers := []string{"", notHelpful, noVictims, "deallocation of ResourceClaim completed", "an answer, with a comma"}
	gangs := []string{"", "", "train", "none"}
	for range 5000 {
		pod := st.MakePod().Namespace("default").Name("p").Obj()
		if gang := gangs[random.IntN(len(gangs))]; gang != "" {
			pod.Labels = map[string]string{podgroup.Label: gang}
		}
		d := diagnosis{}
		for i := range random.IntN(len(nodes) + 1) {
			d[nodes[i].Name] = fwk.NewStatus(codes[random.IntN(len(codes))], fmt.Sprintf("reason %d", random.IntN(3))).WithPlugin(plugins[random.IntN(len(plugins))])
		}
		fit := d.fitError(pod, []string{"", "", "refused"}[random.IntN(3)], answers[random.IntN(len(answers))])
		fit.NumAllNodes += random.IntN(2)
		fit.Diagnosis.PendingPlugins = sets.New("P")
		var err error = fit
		if random.IntN(8) == 0 {
			err = errors.New("no answer")
		}
		before := struct {
			text          string
			unschedulable []string
		}{err.Error(), slices.Sorted(maps.Keys(fit.Diagnosis.UnschedulablePlugins))}
		want := handled{
			podInfo: &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}, start: time.Unix(1, 0),
			status:     fwk.NewStatus(codes[random.IntN(len(codes))]).WithError(err).WithPlugin("R"),
			nominating: &fwk.NominatingInfo{NominatedNodeName: "n1", NominatingMode: fwk.ModeOverride},
		}
		wrapped(ctx, profile{name: "gpu"}, want.podInfo, want.status, want.nominating, want.start)

		if got.podInfo != want.podInfo || got.nominating != want.nominating || got.start != want.start || got.fw.ProfileName() != "gpu" ||
			got.status.Code() != want.status.Code() || got.status.Plugin() != want.status.Plugin() {
			t.Fatalf("%v: the handler got %+v, want %+v", err, got, want)
		}
		if err.Error() != before.text {
			t.Fatalf("the attempt's own error became %q, it was %q", err, before.text)
		}
		explained, ok := got.status.AsError().(*framework.FitError) //nolint:errorlint // as the scheduler does
		if _, fits := err.(*framework.FitError); fits != ok {       //nolint:errorlint // as above
			t.Fatalf("%v became %v", err, got.status.AsError())
		}
		if !ok {
			if got.status.AsError() != err { //nolint:errorlint // the very same
				t.Fatalf("an error that is none of the Explainer's became %v", got.status.AsError())
			}
			continue
		}
		if diff := cmp.Diff(before.unschedulable, slices.Sorted(maps.Keys(explained.Diagnosis.UnschedulablePlugins))); diff != "" {
			t.Fatalf("%v: rejecting plugins (-want,+got):\n%s", err, diff)
		}
		if !explained.Diagnosis.PendingPlugins.Equal(fit.Diagnosis.PendingPlugins) || explained.Diagnosis.NodeToStatus != fit.Diagnosis.NodeToStatus {
			t.Fatalf("%v: what the plugins decided changed", err)
		}
		if !strings.HasPrefix(explained.Error(), "0/") || strings.Contains(explained.Error(), "no new claims") {
			t.Fatalf("unexpected message %q", explained)
		}
	}
}

// TestActionOfEvents: an event goes where it went, with the action of its cause.
func TestActionOfEvents(t *testing.T) {
	logger, _ := ktesting.NewTestContext(t)
	record := events.NewFakeRecorder(2)
	fw := recording{profile{name: "gpu", recorder: actions{record}}, actionPlaceGang}
	fw.EventRecorder().WithLogger(logger).Eventf(st.MakePod().Name("p").Obj(), nil, corev1.EventTypeWarning, "FailedScheduling", actionScheduling, "text")
	if got, want := <-record.Events, "Warning FailedScheduling "+actionPlaceGang+": text"; got != want {
		t.Errorf("recorded %q, want %q", got, want)
	}
}
