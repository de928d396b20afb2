// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Uses is what uses devices on the nodes, as the API has it: by device, not by index. It
// knows of pods that ask for up to one device by gpu-milli, in their first container.
type Uses struct {
	// Shares and Others are the names of the running pods on each node that hold a
	// share, and that were given devices by something else.
	Shares, Others map[string]sets.Set[string]
	// Problems are devices given away twice, and shares without a record.
	Problems Problems

	// held is in thousandths, by node and device. A device is named by its UUID where
	// its node lists UUIDs or the container reads one, and else by its index.
	held map[string]map[string]int64
	// unknown are nodes with a pod that reads UUIDs where none are listed any more.
	unknown sets.Set[string]
}

// CheckUses judges the state that two lists of one moment show.
func CheckUses(nodes []corev1.Node, pods []corev1.Pod) *Uses {
	u := &Uses{
		Shares: map[string]sets.Set[string]{}, Others: map[string]sets.Set[string]{},
		held: map[string]map[string]int64{}, unknown: sets.New[string](),
	}
	byName := map[string]*corev1.Node{}
	for i := range nodes {
		name := nodes[i].Name
		byName[name] = &nodes[i]
		u.Shares[name], u.Others[name], u.held[name] = sets.New[string](), sets.New[string](), map[string]int64{}
	}
	for i := range pods {
		pod := &pods[i]
		node := byName[pod.Spec.NodeName]
		if node == nil || over(pod) {
			continue
		}
		if WantsOther(pod) {
			u.Others[node.Name].Insert(pod.Name)
		}
		if milli := WantedMilli(pod); milli > 0 {
			u.Shares[node.Name].Insert(pod.Name)
			u.hold(node, pod, milli)
		}
	}
	return u
}

// WantedMilli returns the thousandths that the pod asks for.
func WantedMilli(pod *corev1.Pod) int64 {
	q := pod.Spec.Containers[0].Resources.Limits[names.GPUMilliResource]
	return q.Value()
}

// WantsOther reports whether the pod asks something else for devices.
func WantsOther(pod *corev1.Pod) bool {
	for name, q := range pod.Spec.Containers[0].Resources.Limits {
		if strings.HasPrefix(string(name), "nvidia.com/") && !q.IsZero() {
			return true
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// hold counts one share.
func (u *Uses) hold(node *corev1.Node, pod *corev1.Pod, milli int64) {
	read := pod.Annotations[names.GPUDevicesAnnotationPrefix+pod.Spec.Containers[0].Name]
	device := read
	index, err := strconv.Atoi(read)
	switch uuids := listOf(node); {
	case read == "":
		u.Problems = append(u.Problems, Problem{Kind: Unrecorded, Object: nameOf(pod), Detail: "holds a share and reads no device"})
		return
	case err != nil && uuids == nil:
		u.unknown.Insert(node.Name)
	case err == nil && index < len(uuids):
		device = uuids[index]
	}
	held := u.held[node.Name]
	if held[device] += milli; held[device] > whole {
		u.Problems = append(u.Problems, Problem{Kind: Overcommitted, Object: node.Name + "/" + device, Detail: fmt.Sprintf("%dm of it are held, the last by %s", held[device], pod.Name)})
	}
}

// listOf returns the UUIDs that a node lists; nil for none.
func listOf(node *corev1.Node) []string {
	list := node.Annotations[names.GPUUUIDsAnnotation]
	if list == "" {
		return nil
	}
	return strings.Split(list, ",")
}

// Takes reports whether the node must take one more share of so many thousandths.
func (u *Uses) Takes(node *corev1.Node, milli int64) bool {
	b, ok := readNode(node)
	if !ok || u.Others[node.Name].Len() > 0 || u.unknown.Has(node.Name) {
		return false
	}
	uuids := listOf(node)
	return slices.ContainsFunc(indexes(b.devices), func(i int) bool {
		device := strconv.Itoa(i)
		if uuids != nil {
			device = uuids[i]
		}
		return !b.cordoned[i] && u.held[node.Name][device]+milli <= whole
	})
}

func indexes(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
