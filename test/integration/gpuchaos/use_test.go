// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/retry"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// versionLabel is on every node: how often the test has changed it. A pod is for one node
// in one version, so that it is placed by a scheduler that has seen the last change, or
// not at all.
const versionLabel = "example.com/version"

// TestDeviceUse drives a scheduler through a random history in which nodes are switched to
// sharing and back under running pods, their UUIDs are listed in another order, or not at
// all, devices are cordoned, memory labels change, and pods of every kind come and go, some
// of them while they are being bound. No device is allocated more than once, by UUID; none that
// something else has given to a pod; none is kept from pods by one that holds nothing; and
// no pod goes that the test does not delete. 300 steps, and 10,000 with BERTH_LONG=1.
func TestDeviceUse(t *testing.T) {
	steps := 300
	if framework.Long() {
		steps = 10_000
	}
	nodes := gpuchurn.Nodes(4, 3)
	h := &uses{t: t, rng: rand.New(rand.NewPCG(10, 0)), nodes: map[string]*useNode{}, created: map[string]string{}, did: map[string]int{}}
	for i := range nodes {
		nodes[i].Labels[versionLabel] = "0"
		n := &useNode{}
		if i > 0 {
			for d := range 3 {
				n.uuids = append(n.uuids, fmt.Sprintf("GPU-%d-%c", i, 'a'+d))
			}
			nodes[i].Annotations = map[string]string{names.GPUUUIDsAnnotation: strings.Join(n.uuids, ",")}
		}
		h.nodes[nodes[i].Name] = n
	}
	h.c = framework.Start(t, framework.Options{Nodes: nodes})
	h.c.ApplyManifests(t, "manifests/base")
	h.c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	h.settle()
	for range steps {
		h.step()
	}
	h.settle()
	t.Logf("%d steps: %v", steps, h.did)
	for _, what := range []string{"share bound", "share waits", "other bound", "other waits", "switched under pods", "list changed under pods", "memory changed", "deleted at once", "zero"} {
		if h.did[what] < 3 {
			t.Errorf("%q happened %d times: the history shows little", what, h.did[what])
		}
	}
}

type useNode struct {
	version int
	uuids   []string
}

type uses struct {
	t       *testing.T
	c       *framework.Cluster
	rng     *rand.Rand
	nodes   map[string]*useNode
	created map[string]string // UIDs by namespace/name
	count   int
	last    *usage
	pods    []corev1.Pod
	did     map[string]int
}

// usage is what the pods of one moment use.
type usage struct {
	*oracle.Devices
	// shares and others are the names of the running pods on each node that have a share,
	// and that were given devices by something else.
	shares, others map[string]sets.Set[string]
}

func usageOf(nodes []corev1.Node, pods []corev1.Pod) *usage {
	u := &usage{oracle.CheckDevices(nodes, pods), map[string]sets.Set[string]{}, map[string]sets.Set[string]{}}
	for i := range nodes {
		u.shares[nodes[i].Name], u.others[nodes[i].Name] = sets.New[string](), sets.New[string]()
	}
	for i := range pods {
		pod := &pods[i]
		if pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded {
			continue
		}
		if oracle.RequestsOther(pod) {
			u.others[pod.Spec.NodeName].Insert(pod.Name)
		}
		if requestedMilli(pod) > 0 {
			u.shares[pod.Spec.NodeName].Insert(pod.Name)
		}
	}
	return u
}

func requestedMilli(pod *corev1.Pod) int64 {
	q := pod.Spec.Containers[0].Resources.Limits[names.GPUMilliResource]
	return q.Value()
}

func (h *uses) must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *uses) node() string {
	return slices.Sorted(maps.Keys(h.nodes))[h.rng.IntN(len(h.nodes))]
}

func (h *uses) step() {
	h.t.Helper()
	name := h.node()
	switch h.rng.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		h.create(h.pinned(h.randomPod(), name))
	case 8:
		// Given to the node by something else, while the scheduler knows of nothing.
		h.settle()
		pod := h.other()
		pod.Spec.NodeName = name
		h.create(pod)
		h.last = nil
		h.settle()
	case 9:
		pod := h.create(h.pinned(h.randomPod(), name))
		h.delete(pod.Name)
		h.did["deleted at once"]++
	case 10, 11, 12, 13, 14:
		h.settle()
		for _, at := range h.rng.Perm(len(h.pods))[:min(len(h.pods), 1+h.rng.IntN(3))] {
			h.delete(h.pods[at].Name)
		}
	case 15:
		h.settle()
		for i := range h.pods {
			if pod := h.pods[i].DeepCopy(); pod.Spec.NodeName != "" && pod.Status.Phase != corev1.PodSucceeded && h.rng.IntN(4) == 0 {
				pod.Status.Phase = corev1.PodSucceeded
				_, err := h.c.Client.CoreV1().Pods(namespace).UpdateStatus(h.t.Context(), pod, metav1.UpdateOptions{})
				h.must(err)
				break
			}
		}
	default:
		h.change(name)
	}
	if h.count%8 == 0 {
		h.settle()
	}
}

func (h *uses) name() string {
	h.count++
	return fmt.Sprintf("use-%d", h.count)
}

func (h *uses) randomPod() *corev1.Pod {
	switch h.rng.IntN(8) {
	case 0:
		return h.limited("nvidia.com/gpu", "1")
	case 1:
		return h.limited("nvidia.com/mig-1g.5gb", "1")
	case 2:
		return h.limited("nvidia.com/gpu", "0", names.GPUMilliResource, "0")
	default:
		return h.limited(names.GPUMilliResource, strconv.Itoa(100*(1+h.rng.IntN(10))))
	}
}

func (h *uses) other() *corev1.Pod {
	switch h.rng.IntN(4) {
	case 0:
		pod := h.limited()
		claim := "claim-of-" + pod.Name
		pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "device", ResourceClaimName: &claim}}
		return pod
	case 1:
		return h.limited("nvidia.com/mig-1g.5gb", "1")
	case 2:
		return h.limited(names.GPUMilliResource, "0") // as a chart's default has it
	default:
		return h.limited("nvidia.com/gpu", "1")
	}
}

func (h *uses) limited(limits ...string) *corev1.Pod {
	pod := gpuchurn.Pod(h.name(), gpuchurn.Container("main", "", ""))
	for i := 0; i < len(limits); i += 2 {
		pod.Spec.Containers[0].Resources.Limits[corev1.ResourceName(limits[i])] = resource.MustParse(limits[i+1])
	}
	return pod
}

// pinned makes the pod one for the node in its present version.
func (h *uses) pinned(pod *corev1.Pod, node string) *corev1.Pod {
	pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node, versionLabel: strconv.Itoa(h.nodes[node].version)}
	return pod
}

func (h *uses) create(pod *corev1.Pod) *corev1.Pod {
	h.t.Helper()
	created := h.c.CreatePod(h.t, pod)
	h.created[namespace+"/"+pod.Name] = string(created.UID)
	return created
}

func (h *uses) delete(name string) {
	h.t.Helper()
	delete(h.created, namespace+"/"+name)
	forceDelete(h.t, h.c, name)
}

// change changes a node while no pod is on its way. Pods that wait for the version of
// before go.
func (h *uses) change(name string) {
	h.t.Helper()
	h.settle()
	for i := range h.pods {
		if pod := &h.pods[i]; pod.Spec.NodeName == "" && pod.Spec.NodeSelector[corev1.LabelHostname] == name {
			h.delete(pod.Name)
		}
	}
	n := h.nodes[name]
	n.version++
	inUse := h.last.shares[name].Len()+h.last.others[name].Len() > 0
	choice, shuffled := h.rng.IntN(6), h.rng.Perm(3)
	nodes := h.c.Client.CoreV1().Nodes()
	var share *bool
	h.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(h.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if choice < 2 && share == nil {
			shared := node.Labels[names.GPUSharingLabel] != "true"
			share = &shared
		}
		if share == nil {
			return nil
		}
		for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
			for _, resourceName := range []corev1.ResourceName{"nvidia.com/gpu", "nvidia.com/mig-1g.5gb"} {
				delete(list, resourceName)
				if !*share {
					list[resourceName] = resource.MustParse("30")
				}
			}
		}
		_, err = nodes.UpdateStatus(h.t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
	h.must(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		node, err := nodes.Get(h.t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Labels[versionLabel] = strconv.Itoa(n.version)
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		switch {
		case choice < 2 && *share:
			node.Labels[names.GPUSharingLabel] = "true"
		case choice < 2:
			delete(node.Labels, names.GPUSharingLabel)
		case choice < 4 && n.uuids != nil:
			if node.Annotations[names.GPUUUIDsAnnotation] != "" && shuffled[0] == 0 {
				delete(node.Annotations, names.GPUUUIDsAnnotation)
				break
			}
			listed := []string{n.uuids[shuffled[0]], n.uuids[shuffled[1]], n.uuids[shuffled[2]]}
			node.Annotations[names.GPUUUIDsAnnotation] = strings.Join(listed, ",")
		case choice == 4:
			node.Labels["nvidia.com/gpu.memory"] = []string{"40960", "40936", "41472"}[shuffled[0]]
		default:
			node.Annotations[names.GPUCordonedAnnotation] = []string{"", "0", "1,2"}[shuffled[0]]
		}
		_, err = nodes.Update(h.t.Context(), node, metav1.UpdateOptions{})
		return err
	}))
	switch {
	case choice < 2 && inUse:
		h.did["switched under pods"]++
	case choice >= 2 && choice < 4 && inUse:
		h.did["list changed under pods"]++
	case choice == 4:
		h.did["memory changed"]++
	}
}

// settle waits until every pod has a node or, with a reason, none that must take it, and
// checks what has become of the pods since the last time.
func (h *uses) settle() {
	h.t.Helper()
	var now *usage
	var pods []corev1.Pod
	byName := map[string]*corev1.Node{}
	framework.WaitForCondition(h.t, framework.WaitTimeout, "every pod to have a node or a reason", func() (bool, error) {
		nodeList, err := h.c.Client.CoreV1().Nodes().List(h.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		podList, err := h.c.Client.CoreV1().Pods(namespace).List(h.t.Context(), metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for i := range nodeList.Items {
			byName[nodeList.Items[i].Name] = &nodeList.Items[i]
		}
		now, pods = usageOf(nodeList.Items, podList.Items), podList.Items
		for i := range pods {
			if why := h.unsettled(&pods[i], now, byName); why != "" {
				return false, fmt.Errorf("pod %s with limits %v %s", pods[i].Name, pods[i].Spec.Containers[0].Resources.Limits, why)
			}
		}
		return true, nil
	})
	// Records say what their nodes were like when the pods came.
	if violations := slices.Concat(now.Violations.Of(oracle.Overcommitted, oracle.Unrecorded), oracle.CheckLost(h.created, pods)); len(violations) > 0 {
		h.t.Fatal(violations)
	}
	if h.last != nil {
		h.compare(now)
	}
	h.last, h.pods = now, pods
}

// unsettled says what is still to happen to a pod, or "".
func (h *uses) unsettled(pod *corev1.Pod, now *usage, nodes map[string]*corev1.Node) string {
	if pod.Spec.NodeName != "" {
		return ""
	}
	condition := framework.PodScheduledCondition(pod)
	node := nodes[pod.Spec.NodeSelector[corev1.LabelHostname]]
	milli := requestedMilli(pod)
	switch {
	case condition == nil || condition.Status != corev1.ConditionFalse:
		return "has neither a node nor a reason"
	case milli > 0 && now.HasCompute(node.Name, milli):
		return "waits, and there is room: " + condition.Message
	case milli == 0 && !oracle.RequestsOther(pod):
		return "asks for nothing, and waits: " + condition.Message
	case milli == 0 && node.Labels[names.GPUSharingLabel] != "true" && now.shares[node.Name].Len() == 0:
		return "waits for devices of a device plugin, and there are some: " + condition.Message
	}
	return ""
}

// compare looks at the pods that came to have a node since the last time.
func (h *uses) compare(now *usage) {
	h.t.Helper()
	for name := range h.nodes {
		shares, others := now.shares[name].Difference(h.last.shares[name]), now.others[name].Difference(h.last.others[name])
		h.did["share bound"] += shares.Len()
		h.did["other bound"] += others.Len()
		if staying := now.others[name].Intersection(h.last.others[name]); shares.Len() > 0 && staying.Len() > 0 {
			h.t.Fatalf("node %s: %v were given shares while %v use its devices", name, shares.UnsortedList(), staying.UnsortedList())
		}
		if staying := now.shares[name].Intersection(h.last.shares[name]); others.Len() > 0 && staying.Len() > 0 {
			h.t.Fatalf("node %s: %v were given devices while %v hold shares", name, others.UnsortedList(), staying.UnsortedList())
		}
	}
	for i := range h.pods {
		switch pod := &h.pods[i]; {
		case requestedMilli(pod) > 0 && pod.Spec.NodeName == "":
			h.did["share waits"]++
		case oracle.RequestsOther(pod) && pod.Spec.NodeName == "":
			h.did["other waits"]++
		case requestedMilli(pod) == 0 && !oracle.RequestsOther(pod):
			h.did["zero"]++
		}
	}
}
