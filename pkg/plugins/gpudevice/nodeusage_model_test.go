// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// TestModelOfDeviceUse drives the plugin through random histories in which nodes are
// switched to sharing and back under their pods, UUIDs are listed in another order, or
// fewer of them, memory labels change, devices are cordoned, and pods of every kind come
// and go: with shares, of a device plugin, with MIG devices and claims, with zeros. After
// each step what each node takes is worked out a second time, from the API's objects and
// by device instead of by index, and every placement is checked against it: no device is
// given away twice, and no node is closed by a pod that holds nothing.
func TestModelOfDeviceUse(t *testing.T) {
	total := map[string]int{}
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			m := newModel(t, seed)
			for range 300 {
				m.step()
				m.check()
			}
			for what, n := range m.did {
				total[what] += n
			}
		})
	}
	for _, what := range []string{
		"share placed", "share refused", "refused for other use", "refused for shares held", "other placed", "unknown UUIDs", "device gone", "zero",
		"switched under pods", "reordered under pods", "terminated", "memory changed under pods",
	} {
		if total[what] < 20 {
			t.Errorf("%q happened %d times: the histories show little (%v)", what, total[what], total)
		}
	}
}

// modelNode is a node, and the devices that are in it, by UUID.
type modelNode struct {
	object  *corev1.Node
	devices []string // in the order of their indexes
}

type model struct {
	process
	nodes map[string]*modelNode
	pods  map[string]*corev1.Pod // bound ones, by name
	// real are the devices, by UUID, that each pod with a share was really given.
	real  map[string][]string
	count int
	did   map[string]int
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{
		process: newProcess(t, seed, 7),
		nodes:   map[string]*modelNode{}, pods: map[string]*corev1.Pod{}, real: map[string][]string{}, did: map[string]int{},
	}
	m.start(gpuArgs())
	for i := range 3 {
		name := fmt.Sprintf("n%d", i)
		n := &modelNode{object: gpuNode(name, 2+i%2)}
		for d := range 2 + i%2 {
			n.devices = append(n.devices, fmt.Sprintf("GPU-%d-%c", i, 'a'+d))
		}
		if i > 0 {
			annotated(n.object, names.GPUUUIDsAnnotation, strings.Join(n.devices, ","))
		}
		m.nodes[name] = n
		m.live.AddNode(m.logger, n.object)
	}
	return m
}

func (m *model) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		if m.pods[name].Spec.NodeName == node {
			pods = append(pods, m.pods[name])
		}
	}
	return pods
}

// update changes a node's object.
func (m *model) update(n *modelNode, change func(*corev1.Node)) {
	old := n.object
	n.object = old.DeepCopy()
	change(n.object)
	m.live.UpdateNode(m.logger, old, n.object)
}

func (m *model) step() {
	n := oneOf(m.rand, m.nodes)
	running := len(m.podsOn(n.object.Name)) > 0
	switch m.rand.IntN(16) {
	case 0, 1, 2, 3, 4, 5:
		m.schedule(m.randomPod())
	case 6, 7, 8:
		m.deletePod()
	case 9:
		m.terminate()
	case 10:
		m.update(n, func(node *corev1.Node) {
			if node.Labels[names.GPUSharingLabel] == "true" {
				delete(node.Labels, names.GPUSharingLabel)
				plugin := pluginNode("x", a100, len(n.devices))
				node.Status = plugin.Status
				node.Status.Allocatable["nvidia.com/mig-1g.5gb"] = *plugin.Status.Capacity.Pods()
			} else {
				node.Labels[names.GPUSharingLabel] = "true"
				node.Status = makeNode("x", nil).Status
			}
		})
		if running {
			m.did["switched under pods"]++
		}
	case 11:
		if n.object.Annotations[names.GPUUUIDsAnnotation] == "" {
			return
		}
		// The devices swap their places, or the list goes, or is back.
		m.rand.Shuffle(len(n.devices), func(i, j int) { n.devices[i], n.devices[j] = n.devices[j], n.devices[i] })
		m.relist(n)
		if running {
			m.did["reordered under pods"]++
		}
	case 12:
		// A device falls out, with what was on it, or is replaced.
		if n.object.Annotations[names.GPUUUIDsAnnotation] == "" {
			return
		}
		at := m.rand.IntN(len(n.devices))
		if len(n.devices) > 1 && m.rand.IntN(2) == 0 {
			n.devices = slices.Delete(n.devices, at, at+1)
		} else {
			m.count++
			n.devices = append(n.devices[:at:at], append([]string{fmt.Sprintf("GPU-new-%d", m.count)}, n.devices[at+1:]...)...)
		}
		m.relist(n)
	case 13:
		m.update(n, func(node *corev1.Node) {
			node.Labels["nvidia.com/gpu.memory"] = strconv.Itoa([]int{a100Memory, a100Memory - 24, a100Memory + 512}[m.rand.IntN(3)])
		})
		if running {
			m.did["memory changed under pods"]++
		}
	case 14:
		m.update(n, func(node *corev1.Node) {
			delete(node.Annotations, names.GPUCordonedAnnotation)
			if m.rand.IntN(2) == 0 {
				node.Annotations[names.GPUCordonedAnnotation] = "0"
			}
		})
	case 15:
		// The list of UUIDs is lost for a moment, and back in the next such step.
		m.update(n, func(node *corev1.Node) {
			switch {
			case node.Name == "n0":
			case node.Annotations[names.GPUUUIDsAnnotation] == "":
				node.Annotations[names.GPUUUIDsAnnotation] = strings.Join(n.devices, ",")
			case m.rand.IntN(3) == 0:
				delete(node.Annotations, names.GPUUUIDsAnnotation)
			}
		})
	}
}

func (m *model) relist(n *modelNode) {
	m.update(n, func(node *corev1.Node) {
		node.Labels["nvidia.com/gpu.count"] = strconv.Itoa(len(n.devices))
		node.Annotations[names.GPUUUIDsAnnotation] = strings.Join(n.devices, ",")
		delete(node.Annotations, names.GPUCordonedAnnotation)
	})
}

func (m *model) randomPod() *corev1.Pod {
	m.count++
	name := fmt.Sprintf("p%d", m.count)
	switch m.rand.IntN(10) {
	case 0:
		return makePod(name, "nvidia.com/gpu", "1")
	case 1:
		return makePod(name, "nvidia.com/mig-1g.5gb", "1")
	case 2:
		return claimPod(name)
	case 3:
		return makePod(name, names.GPUMilliResource, "0", "nvidia.com/gpu", "0")
	case 4:
		return makePod(name, names.GPUMemoryResource, fmt.Sprintf("%dGi", 1+m.rand.IntN(20)))
	case 5:
		return sharePod(name, 1000*(1+m.rand.IntN(2)))
	default:
		return sharePod(name, 50*(1+m.rand.IntN(19)))
	}
}

// isShare and isOther say by what a pod asks for whether it may hold devices.
func isShare(pod *corev1.Pod) bool {
	for name, q := range pod.Spec.Containers[0].Resources.Limits {
		if strings.HasPrefix(string(name), "berth.dev/") && q.Sign() > 0 {
			return true
		}
	}
	return false
}

func isOther(pod *corev1.Pod) bool {
	for name, q := range pod.Spec.Containers[0].Resources.Limits {
		if strings.HasPrefix(string(name), "nvidia.com/") && q.Sign() > 0 {
			return true
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

func running(pod *corev1.Pod) bool { return pod.Status.Phase == "" }

// amount is what a pod holds of one device of a node.
func amount(pod *corev1.Pod, node *corev1.Node) (milli, mib int64) {
	limits := pod.Spec.Containers[0].Resources.Limits
	memory, err := strconv.ParseInt(node.Labels["nvidia.com/gpu.memory"], 10, 64)
	if err != nil {
		panic(err)
	}
	if q, ok := limits["berth.dev/gpu-milli"]; ok {
		milli = min(q.Value(), 1000)
		return milli, memory * milli / 1000
	}
	q := limits["berth.dev/gpu-memory"]
	mib = q.Value() >> 20
	return 1000 * mib / memory, mib
}

// oracle is what is true of a node.
type oracle struct {
	shared, unknown, other, shares bool
	free                           map[string][2]int64 // by UUID
}

func (m *model) oracle(n *modelNode) oracle {
	o := oracle{shared: n.object.Labels[names.GPUSharingLabel] == "true", free: map[string][2]int64{}}
	memory, err := strconv.ParseInt(n.object.Labels["nvidia.com/gpu.memory"], 10, 64)
	m.must(err)
	for i, uuid := range n.devices {
		if i > 0 || n.object.Annotations[names.GPUCordonedAnnotation] == "" {
			o.free[uuid] = [2]int64{1000, memory}
		}
	}
	for _, pod := range m.podsOn(n.object.Name) {
		if !running(pod) {
			continue
		}
		o.other = o.other || isOther(pod)
		if !isShare(pod) {
			continue
		}
		o.shares = true
		byUUID := strings.HasPrefix(pod.Annotations["gpu.berth.dev/main"], "GPU-")
		o.unknown = o.unknown || byUUID && n.object.Annotations[names.GPUUUIDsAnnotation] == ""
		milli, mib := amount(pod, n.object)
		for i, uuid := range m.real[pod.Name] {
			if !byUUID { // a container that reads an index has what has the index
				index, err := strconv.Atoi(strings.Split(pod.Annotations["gpu.berth.dev/main"], ",")[i])
				m.must(err)
				if index >= len(n.devices) {
					continue
				}
				uuid = n.devices[index]
			}
			if free, ok := o.free[uuid]; ok {
				o.free[uuid] = [2]int64{free[0] - milli, free[1] - mib}
			} else if !slices.Contains(n.devices, uuid) {
				m.did["device gone"]++
			}
		}
	}
	if o.unknown {
		m.did["unknown UUIDs"]++
	}
	return o
}

// takes says whether the node may take the pod, as far as devices go.
func (o *oracle) takes(pod *corev1.Pod, node *corev1.Node) bool {
	switch {
	case isOther(pod):
		return !o.shared && !o.shares
	case !isShare(pod):
		return true
	case !o.shared || o.unknown || o.other:
		return false
	}
	milli, mib := amount(pod, node)
	want := 1
	if q, ok := pod.Spec.Containers[0].Resources.Limits["berth.dev/gpu-milli"]; ok {
		want = max(1, int(q.Value()/1000))
	}
	for _, free := range o.free {
		if free[0] >= milli && free[1] >= mib {
			want--
		}
	}
	return want <= 0
}

// schedule runs a cycle for the pod up to its Binding, and checks its verdicts.
func (m *model) schedule(pod *corev1.Pod) {
	m.t.Helper()
	m.must(m.live.UpdateSnapshot(m.logger, m.live.snapshot))
	var feasible []string
	state := framework.NewCycleState()
	_, preFiltered, _ := m.profile.RunPreFilterPlugins(m.t.Context(), state, pod)
	for _, name := range slices.Sorted(maps.Keys(m.nodes)) {
		n := m.nodes[name]
		status := preFiltered
		if preFiltered.IsSuccess() {
			status = m.profile.RunFilterPlugins(m.t.Context(), state, pod, nodeInfo(m.t, m.profile, name))
		}
		got := status.IsSuccess() || status.IsSkip()
		o := m.oracle(n)
		if want := o.takes(pod, n.object); got != want {
			m.t.Fatalf("node %s, pod %s with limits %v and claims %v: want taken %t, got %v\n%+v", name, pod.Name, pod.Spec.Containers[0].Resources.Limits, len(pod.Spec.ResourceClaims), want, status, o)
		}
		switch {
		case got:
			feasible = append(feasible, name)
		case isShare(pod):
			m.did["share refused"]++
		}
		switch status.Message() {
		case reasonTexts[device.UsedOutsideShares]:
			m.did["refused for other use"]++
		case reasonTexts[device.SharesHeld]:
			m.did["refused for shares held"]++
		}
	}
	if len(feasible) == 0 {
		return
	}
	n := m.nodes[feasible[m.rand.IntN(len(feasible))]]
	before := m.oracle(n)
	show(m.t, m.profile, pod)
	assumed := runningOn(pod, n.object.Name)
	m.must(m.live.AssumePod(m.logger, assumed))
	if status := m.profile.RunReservePluginsReserve(m.t.Context(), state, assumed, n.object.Name); !status.IsSuccess() {
		m.t.Fatalf("Filter let %s through and Reserve did not: %v", pod.Name, status)
	}
	if m.rand.IntN(4) == 0 {
		m.profile.RunReservePluginsUnreserve(m.t.Context(), state, assumed, n.object.Name)
		m.must(m.live.ForgetPod(m.logger, assumed))
		return
	}
	onNode := assumed.DeepCopy()
	switch {
	case isShare(pod):
		m.did["share placed"]++
		for key, value := range m.pl.allocations.get(pod.UID).annotations {
			annotated(onNode, key, value)
		}
		milli, mib := amount(pod, n.object)
		for part := range strings.SplitSeq(onNode.Annotations["gpu.berth.dev/main"], ",") {
			uuid := part
			if index, err := strconv.Atoi(part); err == nil {
				uuid = n.devices[index]
			}
			free, ok := before.free[uuid]
			if !ok || free[0] < milli || free[1] < mib {
				m.t.Fatalf("device %s of node %s is given to %s (%dm, %dMi) and has %v left (usable: %t)", uuid, n.object.Name, pod.Name, milli, mib, free, ok)
			}
			m.real[pod.Name] = append(m.real[pod.Name], uuid)
		}
	case isOther(pod):
		m.did["other placed"]++
	default:
		m.did["zero"]++
	}
	m.pods[pod.Name] = onNode
	m.must(m.store().Update(onNode))
	events := []func(){
		func() { m.events.OnUpdate(pod, onNode) },
		func() { m.must(m.live.AddPod(m.logger, onNode)) },
	}
	m.rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
	for _, event := range events {
		event()
	}
}

func (m *model) deletePod() {
	pod := oneOf(m.rand, m.pods)
	if pod == nil {
		return
	}
	delete(m.pods, pod.Name)
	m.must(m.store().Delete(pod))
	m.events.OnDelete(pod)
	m.must(m.live.RemovePod(m.logger, pod))
}

// terminate ends a pod whose object stays, and that the cache still shows.
func (m *model) terminate() {
	pod := oneOf(m.rand, m.pods)
	if pod == nil || !running(pod) {
		return
	}
	m.did["terminated"]++
	ended := terminated(pod.DeepCopy())
	m.pods[pod.Name] = ended
	m.must(m.store().Update(ended))
	m.events.OnUpdate(pod, ended)
	m.must(m.live.UpdatePod(m.logger, pod, ended))
}

// check asks every node about pods of every kind that are not there.
func (m *model) check() {
	m.t.Helper()
	m.must(m.live.UpdateSnapshot(m.logger, m.live.snapshot))
	for name, n := range m.nodes {
		o := m.oracle(n)
		for _, pod := range []*corev1.Pod{sharePod("probe", 1), sharePod("probe", 500), sharePod("probe", 1000), makePod("probe", "nvidia.com/mig-1g.5gb", "1"), claimPod("probe")} {
			s := &preFilterState{podRequest: podRequestOf(m.t, m.pl, pod), claims: len(pod.Spec.ResourceClaims) > 0}
			v := m.pl.view(nodeInfo(m.t, m.profile, name), false)
			if got, want := v.check(s), o.takes(pod, n.object); (got == device.Fits) != want {
				m.t.Fatalf("node %s, probe %v: want taken %t, got %v\n%+v", name, pod.Spec.Containers[0].Resources.Limits, want, got, o)
			}
		}
	}
}
