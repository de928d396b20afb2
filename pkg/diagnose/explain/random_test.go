// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apitypes "k8s.io/apimachinery/pkg/types"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// TestRandom explains random pods in random clusters, and makes every change that is
// proposed, in an engine that has nothing to do with the one that tried it: each must
// give the pods their nodes.
func TestRandom(t *testing.T) {
	placeGangs(t)
	snapshots := 40
	if os.Getenv("BERTH_LONG") == "1" {
		snapshots = 2000
	}
	configs := map[bool]*schedconfig.KubeSchedulerConfiguration{false: loadConfig(t, profilesFile), true: loadConfig(t, tenancyProfile)}
	states, proposed, without := map[explain.State]int{}, 0, 0
	for seed := range snapshots {
		r := &random{Rand: rand.New(rand.NewPCG(uint64(seed), 0))} //nolint:gosec // reproducible on purpose
		tenancy := r.IntN(6) == 0
		in := r.input(t, configs[tenancy], tenancy)
		x, err := explain.Explain(t.Context(), in)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		states[x.State]++
		if x.State == explain.Unschedulable && len(x.Changes) == 0 {
			without++
		}
		for i := range x.Changes {
			proposed++
			if placed, needed := schedule(t, applied(t, in, &x.Changes[i])); placed < needed {
				t.Errorf("seed %d: with the change %q only %d of %d pods have a node:\n%s", seed, x.Changes[i].Text, placed, needed, table(t, x, true))
			}
		}
	}
	t.Logf("%d snapshots: %v; %d changes proposed and made, none for %d of the pods", snapshots, states, proposed, without)
	if proposed < snapshots {
		t.Errorf("%d changes were proposed for %d pods: that tests little", proposed, snapshots)
	}
}

func loadConfig(t *testing.T, file string) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config, err := engine.LoadConfiguration(file, content)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// schedule lets the pods come to an engine of their own, and returns how many have a
// node, and how many need one.
func schedule(t *testing.T, in *explain.Input) (placed, needed int) {
	t.Helper()
	config, _ := engine.WithoutGangs(in.Config)
	e, err := engine.New(t.Context(), engine.Options{Config: config}, in.Objects)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEngine(t, e)
	for _, pod := range in.Pods {
		if err := e.Delete(t.Context(), pod.Namespace, pod.Name); err != nil {
			t.Fatal(err)
		}
	}
	needed = len(in.Pods)
	for _, group := range in.PodGroups {
		if group.Name == podgroup.Of(in.Pods[0]).Name {
			needed = group.MinMember
		}
	}
	var pods []*corev1.Pod
	for _, pod := range in.Pods {
		pod = pod.DeepCopy()
		pod.Spec.SchedulingGates = nil
		pods = append(pods, pod)
	}
	var results []engine.Result
	if e.IsMember(pods[0]) {
		if err := e.SetMinCount(t.Context(), pods[0].Namespace, in.PodGroups[0].Name, in.PodGroups[0].MinMember); err != nil {
			t.Fatal(err)
		}
		group, err := e.SchedulePodGroup(t.Context(), pods)
		if err != nil {
			t.Fatal(err)
		}
		pods, results = nil, group.Members
	}
	for _, pod := range pods {
		result, err := e.Schedule(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, result)
	}
	for i := range results {
		if results[i].Node != "" {
			placed++
		}
	}
	return placed, needed
}

// random makes clusters and pods.
type random struct {
	*rand.Rand
	pods int
}

func pick[T any](r *random, values ...T) T { return values[r.IntN(len(values))] }

func (r *random) chance(percent int) bool { return r.IntN(100) < percent }

// input is a cluster with running pods, and one pod, or gang, that comes.
func (r *random) input(t *testing.T, config *schedconfig.KubeSchedulerConfiguration, tenancy bool) *explain.Input {
	t.Helper()
	objects := &cluster.Cluster{}
	for _, namespace := range []string{"default", "team-a", "team-b"} {
		n := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
		if namespace != "default" {
			n.Labels = map[string]string{names.TenantLabel: namespace[len("team-"):]}
		}
		add(t, objects, n)
	}
	for _, name := range []string{"backend", "frontend"} {
		add(t, objects, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": name}}})
	}
	for i := range 1 + r.IntN(7) {
		add(t, objects, r.node(fmt.Sprintf("node-%d", i)))
	}
	in := &explain.Input{Config: config, Objects: r.running(t, config, objects, tenancy), Now: time.Unix(0, 0)}
	count := 1
	if !tenancy && r.chance(15) {
		count = 1 + r.IntN(4)
		in.PodGroups = []explain.PodGroup{{Namespace: "default", Name: "training", MinMember: 1 + r.IntN(4), Native: len(engine.GangGates()) > 0 && r.chance(70)}}
	}
	pod := r.pod(tenancy)
	for i := range count {
		member := pod.DeepCopy()
		member.Name, member.UID = fmt.Sprintf("%s-%d", pod.Name, i), apitypes.UID(fmt.Sprintf("%s-%d", pod.UID, i))
		if in.PodGroups != nil {
			member.Namespace = "default"
			if name := pick(r, "training", "training", "training", "trainning"); in.PodGroups[0].Native {
				member.Spec.SchedulingGroup = &corev1.PodSchedulingGroup{PodGroupName: &name}
			} else {
				metav1.SetMetaDataLabel(&member.ObjectMeta, podgroup.Label, name)
			}
		}
		in.Pods = append(in.Pods, member)
		if in.PodGroups != nil && podgroup.Of(in.Pods[0]).Name != podgroup.Of(member).Name {
			in.Pods = in.Pods[:len(in.Pods)-1]
		}
	}
	return in
}

// running lets pods come, and returns the cluster with those that found a node.
func (r *random) running(t *testing.T, config *schedconfig.KubeSchedulerConfiguration, objects *cluster.Cluster, tenancy bool) *cluster.Cluster {
	t.Helper()
	without, _ := engine.WithoutGangs(config)
	e, err := engine.New(t.Context(), engine.Options{Config: without}, objects)
	if err != nil {
		t.Fatal(err)
	}
	defer closeEngine(t, e)
	after := &cluster.Cluster{}
	for _, object := range all(objects) {
		add(t, after, object)
	}
	for range r.IntN(25) {
		pod := r.pod(tenancy)
		if !e.Handles(pod) {
			continue
		}
		if result, err := e.Schedule(t.Context(), pod); err != nil {
			t.Fatal(err)
		} else if result.Node != "" {
			add(t, after, result.Pod)
		}
	}
	return after
}

func (r *random) node(name string) *corev1.Node {
	cpu := pick(r, "2", "4", "8", "16")
	list := corev1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse(pick(r, "8Gi", "16Gi", "64Gi")), "pods": resource.MustParse(pick(r, "5", "110"))}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelTopologyZone: pick(r, "a", "b"),
	}}}
	for key, values := range map[string][]string{"disktype": {"solid", "spinning"}, "selectable": {""}, names.TenantNodeLabel: {"a", "b"}} {
		if r.chance(25) {
			node.Labels[key] = pick(r, values...)
		}
	}
	if r.chance(50) {
		node.Labels["nvidia.com/gpu.count"] = pick(r, "1", "2", "4")
		node.Labels["nvidia.com/gpu.memory"] = pick(r, "16384", "40960")
		node.Labels["nvidia.com/gpu.product"] = pick(r, "Tesla-T4", "NVIDIA-A100-SXM4-40GB")
		if r.chance(75) {
			node.Labels[names.GPUSharingLabel] = pick(r, "true", "true", "true", "True")
		} else {
			list["nvidia.com/gpu"] = resource.MustParse(node.Labels["nvidia.com/gpu.count"])
		}
		if r.chance(15) {
			node.Annotations = map[string]string{names.GPUCordonedAnnotation: "0"}
		}
	}
	if r.chance(30) {
		node.Spec.Taints = []corev1.Taint{{Key: pick(r, "dedicated", "nvidia.com/gpu"), Value: pick(r, "", "x"), Effect: pick(r, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)}}
	}
	if r.chance(15) {
		node.Spec.Unschedulable = true
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	node.Status.Allocatable, node.Status.Capacity = list, list.DeepCopy()
	return node
}

func (r *random) pod(tenancy bool) *corev1.Pod {
	r.pods++
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "pod-" + strconv.Itoa(r.pods), UID: apitypes.UID("uid-" + strconv.Itoa(r.pods)),
			Labels: map[string]string{"app": pick(r, "backend", "frontend", "other")}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{SchedulerName: pick(r, "berth-gpu", "berth-gpu", "berth-plain", "berth-labels", "berth-colocation")},
	}
	if tenancy {
		pod.Spec.SchedulerName, pod.Namespace = "berth-tenancy", pick(r, "default", "team-a", "team-b")
	}
	if r.chance(3) {
		pod.Spec.SchedulerName += "s"
	}
	pod.Spec.Priority = new(pick[int32](r, 0, 0, 0, 1000))
	main := corev1.Container{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}, Limits: corev1.ResourceList{}}}
	main.Resources.Requests["cpu"] = resource.MustParse(pick(r, "100m", "1", "2500m", "6", "20"))
	main.Resources.Requests["memory"] = resource.MustParse(pick(r, "64Mi", "1Gi", "6Gi", "100Gi"))
	if r.chance(10) {
		main.Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	r.askForDevices(pod, &main)
	pod.Spec.Containers = []corev1.Container{main}
	if r.chance(30) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: "side", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("500m")}}})
	}
	r.constrain(pod)
	return pod
}

// askForDevices gives the container a share, whole devices or nothing.
func (r *random) askForDevices(pod *corev1.Pod, c *corev1.Container) {
	limit := func(name corev1.ResourceName, amount string) {
		c.Resources.Limits[name], c.Resources.Requests[name] = resource.MustParse(amount), resource.MustParse(amount)
	}
	if pod.Spec.SchedulerName != "berth-gpu" && !r.chance(5) {
		return
	}
	if r.chance(60) {
		if r.chance(70) {
			limit(names.GPUMilliResource, pick(r, "100", "300", "500", "800", "1000", "2000", "1500"))
		}
		if r.chance(30) {
			limit(names.GPUMemoryResource, pick(r, "2Gi", "12Gi", "30Gi", "100Gi", "10"))
		}
		if r.chance(25) {
			pod.Annotations[names.GPUModelAnnotation] = pick(r, "Tesla-T4", "A100", "NVIDIA-A100*", "H100")
		}
		if r.chance(10) {
			pod.Annotations[names.GPUMinMemoryAnnotation] = pick(r, "20Gi", "80Gi", "much")
		}
	}
	if r.chance(10) {
		limit("nvidia.com/gpu", pick(r, "1", "2", "8"))
	}
}

// constrain gives the pod what keeps it from nodes.
func (r *random) constrain(pod *corev1.Pod) {
	if r.chance(40) {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: pick(r, "dedicated", "nvidia.com/gpu"), Operator: corev1.TolerationOpExists}}
	}
	if r.chance(20) {
		pod.Spec.NodeSelector = map[string]string{pick(r, "disktype", "disktpye"): pick(r, "solid", "sollid", "spinning", "tape")}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": pick(r, "backend", "frontend", "nobody")}}
	terms := []corev1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: pick(r, corev1.LabelHostname, corev1.LabelTopologyZone)}}
	affinity := &corev1.Affinity{}
	switch r.IntN(12) {
	case 0:
		affinity.PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	case 1, 2:
		affinity.PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}
	case 3:
		affinity.NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{pick(r, "a", "b", "c")}},
				{Key: "disktype", Operator: corev1.NodeSelectorOpExists},
			}[:1+r.IntN(2)],
		}}}}
	case 4:
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": pod.Labels["app"]}},
		}}
	}
	pod.Spec.Affinity = affinity
	if pod.Spec.SchedulerName == "berth-colocation" && r.chance(70) {
		pod.Annotations[names.ColocateWithAnnotation] = pick(r, "backend", "backend=3,frontend", "bakend")
		if r.chance(60) {
			pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation] = pick(r, corev1.LabelHostname, corev1.LabelTopologyZone, "topology.kubernetes.io/zoen")
		}
	}
}

func closeEngine(t *testing.T, e *engine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}
