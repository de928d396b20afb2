// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/berth-scheduler/berth/pkg/oracle"
)

// podsResource is what the API server's errors name.
var podsResource = corev1.Resource("pods")

// errFull is what the API server answers where etcd does not take an object.
var errFull = &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: "etcdserver: request is too large"}}

// change is one write, as watches deliver it. One of old and updated is nil if the object is
// new or gone.
type change struct {
	version int
	old     metav1.Object
	updated metav1.Object
}

// server is the model of the API server and of etcd: pods and nodes by name, one sequence of
// versions, and the changes of each kind in order, which every watch reads at its own pace. A
// write takes place at once and as a whole. Objects do not change, they are replaced.
type server struct {
	version int
	pods    map[string]*corev1.Pod
	nodes   map[string]*corev1.Node
	// podLog and nodeLog are all changes. A watch is an index into one of them.
	podLog, nodeLog []change
	// saved are the pods at the time of a backup; nil if none was made.
	saved map[string]*corev1.Pod
	// full is a pod that is as large as etcd takes: nothing can be written to it.
	full string
	// denied is a pod that a policy keeps from being bound.
	denied string
	// counts say of each version of which object it is, and its number; newest has the number of the newest one.
	counts map[string]counted
	newest map[string]int
	// epochs are the versions at which processes began to fence, in order. exact is whether versions
	// are compared with those of other objects.
	epochs []int
	exact  bool
	// history sees every version of every pod.
	history *oracle.History
}

// counted is a version of an object, numbered from 1.
type counted struct {
	object string
	count  int
}

func newServer() *server {
	return &server{version: 1, counts: map[string]counted{}, newest: map[string]int{}, pods: map[string]*corev1.Pod{}, nodes: map[string]*corev1.Node{}, history: oracle.NewHistory()}
}

// count gives an object the next version.
func (s *server) count(object metav1.Object) {
	s.version++
	object.SetResourceVersion(strconv.Itoa(s.version))
	s.newest[object.GetName()]++
	s.counts[object.GetResourceVersion()] = counted{object.GetName(), s.newest[object.GetName()]}
}

// putPod writes a version of a pod.
func (s *server) putPod(pod *corev1.Pod) *corev1.Pod {
	s.count(pod)
	old := s.pods[pod.Name]
	c := change{version: s.version, updated: pod}
	if old != nil {
		c.old = old
	}
	s.pods[pod.Name] = pod
	s.podLog = append(s.podLog, c)
	s.history.Observe(pod)
	return pod
}

// editPod changes a pod, and reports whether it is there.
func (s *server) editPod(name string, edit func(*corev1.Pod)) bool {
	pod := s.pods[name]
	if pod == nil {
		return false
	}
	pod = pod.DeepCopy()
	edit(pod)
	s.putPod(pod)
	return true
}

// deletePod removes a pod at once, as for one without a node or by force.
func (s *server) deletePod(name string) {
	old := s.pods[name]
	if old == nil {
		return
	}
	delete(s.pods, name)
	gone := old.DeepCopy()
	s.count(gone)
	s.podLog = append(s.podLog, change{version: s.version, old: gone})
	s.history.Gone(gone)
}

// putNode writes a version of a node.
func (s *server) putNode(node *corev1.Node) {
	s.count(node)
	c := change{version: s.version, updated: node}
	if old := s.nodes[node.Name]; old != nil {
		c.old = old
	}
	s.nodes[node.Name] = node
	s.nodeLog = append(s.nodeLog, c)
}

// editNode changes a node.
func (s *server) editNode(name string, edit func(*corev1.Node)) {
	node := s.nodes[name].DeepCopy()
	edit(node)
	s.putNode(node)
}

// bind is BindingREST: it checks the preconditions, and writes the node and the annotations in
// one step.
func (s *server) bind(binding *corev1.Binding) error {
	pod := s.pods[binding.Name]
	conflict := func(format string, args ...any) error {
		return apierrors.NewConflict(podsResource, binding.Name, fmt.Errorf(format, args...))
	}
	switch {
	case pod == nil:
		return apierrors.NewNotFound(podsResource, binding.Name)
	case s.full == binding.Name:
		return errFull
	case s.denied == binding.Name:
		return apierrors.NewForbidden(podsResource, binding.Name, errors.New("a policy does not allow it"))
	case binding.UID != "" && binding.UID != pod.UID:
		return conflict("the UID in the precondition (%s) does not match the UID in record (%s)", binding.UID, pod.UID)
	case binding.ResourceVersion != "" && binding.ResourceVersion != pod.ResourceVersion:
		return conflict("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)", binding.ResourceVersion, pod.ResourceVersion)
	case pod.DeletionTimestamp != nil:
		return conflict("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return conflict("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	}
	s.editPod(binding.Name, func(pod *corev1.Pod) {
		pod.Spec.NodeName = binding.Target.Name
		pod.Status.NominatedNodeName = ""
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		maps.Copy(pod.Annotations, binding.Annotations)
		setCondition(pod, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Unix(int64(s.version), 0)})
	})
	return nil
}

// setCondition replaces the condition of that type, as a strategic merge patch does, and reports
// whether that is a change.
func setCondition(pod *corev1.Pod, condition corev1.PodCondition) bool {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition.Type {
			changed := !pod.Status.Conditions[i].LastTransitionTime.Equal(&condition.LastTransitionTime) || pod.Status.Conditions[i].Message != condition.Message
			pod.Status.Conditions[i] = condition
			return changed
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
	return true
}

// statusPatch is a patch of conditions.
type statusPatch struct {
	Metadata struct {
		UID             types.UID `json:"uid"`
		ResourceVersion string    `json:"resourceVersion"`
	} `json:"metadata"`
	Status struct {
		Conditions []corev1.PodCondition `json:"conditions"`
	} `json:"status"`
}

// patchOf reads a patch. The plugin's are well formed.
func patchOf(data []byte) (patch statusPatch) {
	if err := json.Unmarshal(data, &patch); err != nil {
		panic(err)
	}
	return patch
}

// patchStatus is StatusREST for a patch of conditions. One that changes nothing leaves the
// version as it is.
func (s *server) patchStatus(name string, data []byte) (*corev1.Pod, error) {
	patch, pod := patchOf(data), s.pods[name]
	switch {
	case pod == nil:
		return nil, apierrors.NewNotFound(podsResource, name)
	case s.full == name:
		return nil, errFull
	case patch.Metadata.UID != pod.UID, patch.Metadata.ResourceVersion != "" && patch.Metadata.ResourceVersion != pod.ResourceVersion:
		return nil, apierrors.NewConflict(podsResource, name, errors.New("the object has been modified"))
	}
	pod = pod.DeepCopy()
	changed := false
	for _, condition := range patch.Status.Conditions {
		changed = setCondition(pod, condition) || changed
	}
	if changed {
		s.putPod(pod)
	}
	return pod, nil
}

// list is a consistent read: of one pod, or of the version of the store.
func (s *server) list(name string) *corev1.PodList {
	list := &corev1.PodList{}
	list.ResourceVersion = strconv.Itoa(s.version)
	if name == "" && !slices.Contains(s.epochs, s.version) {
		s.epochs = append(s.epochs, s.version)
	}
	if pod := s.pods[name]; pod != nil {
		list.Items = append(list.Items, *pod)
	}
	return list
}

// watchFrom is what a watch of pods delivers that starts at a version and has a time-out: the
// changes since, and a bookmark.
func (s *server) watchFrom(version string) watch.Interface {
	from, _ := strconv.Atoi(version)
	delivered := make(chan watch.Event, len(s.podLog)+1)
	for _, c := range s.podLog {
		if c.version <= from {
			continue
		}
		kind, object := watch.Modified, c.updated
		switch {
		case c.updated == nil:
			kind, object = watch.Deleted, c.old
		case c.old == nil:
			kind = watch.Added
		}
		delivered <- watch.Event{Type: kind, Object: object.(*corev1.Pod)}
	}
	bookmark := &corev1.Pod{}
	bookmark.ResourceVersion = strconv.Itoa(s.version)
	delivered <- watch.Event{Type: watch.Bookmark, Object: bookmark}
	return &finishedWatch{delivered}
}

// finishedWatch is a watch of which everything that it delivers is known.
type finishedWatch struct{ events chan watch.Event }

func (*finishedWatch) Stop() {}

func (w *finishedWatch) ResultChan() <-chan watch.Event { return w.events }

// backup remembers the pods, and restore brings back those that are bound now and were not then:
// etcd was restored. The versions go on: every watch sees another version, as after a restore
// with a raised revision.
func (s *server) backup() { s.saved = maps.Clone(s.pods) }

func (s *server) restore() {
	for _, name := range slices.Sorted(maps.Keys(s.saved)) {
		if now := s.pods[name]; now != nil && now.UID == s.saved[name].UID && now.ResourceVersion != s.saved[name].ResourceVersion {
			s.history.Gone(now)
			s.putPod(s.saved[name].DeepCopy())
		}
	}
}

// lists returns the nodes and the pods as the oracle reads them.
func (s *server) lists() ([]corev1.Node, []corev1.Pod) {
	var nodes []corev1.Node
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		nodes = append(nodes, *s.nodes[name])
	}
	var pods []corev1.Pod
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, *s.pods[name])
	}
	return nodes, pods
}
