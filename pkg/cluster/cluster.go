// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// Cluster is the objects that a simulation starts from. The zero value is an
// empty cluster; fill it with [Cluster.Add], or read it with a [Reader] or
// [List]. It does not change while an engine uses it, and may be shared by
// several engines.
type Cluster struct {
	nodes  []*corev1.Node
	pods   []*corev1.Pod
	others []runtime.Object

	resources sets.Set[string]
	names     map[objectKey]struct{}
	uids      map[types.UID]objectKey
	// listedIn is the only namespace in which a resource was listed.
	listedIn map[string]string
}

// objectKey identifies an object within the cluster.
type objectKey struct {
	resource, namespace, name string
}

// String returns the key as the user knows the object.
func (k objectKey) String() string {
	if k.namespace == "" {
		return fmt.Sprintf("%s %q", k.resource, k.name)
	}
	return fmt.Sprintf("%s %q", k.resource, k.namespace+"/"+k.name)
}

// keyOf returns the key of an object.
func keyOf(kind Kind, object metav1.Object) objectKey {
	return objectKey{resource: kind.Resource, namespace: object.GetNamespace(), name: object.GetName()}
}

// uidPrefix begins the UID of an object that was given none by an API server.
const uidPrefix = "berth-simulator/"

// Note is something about the input that is no error and that the user should
// know, for example that objects were left out.
type Note struct {
	// Source is the file, or empty for what was listed from an API server.
	Source string
	// Text is one line without a full stop.
	Text string
}

// String returns the note as one line.
func (n Note) String() string {
	if n.Source == "" {
		return n.Text
	}
	return n.Source + ": " + n.Text
}

// Nodes returns the nodes in the order of the input. The slice and the objects
// are shared and must not be changed.
func (c *Cluster) Nodes() []*corev1.Node { return c.nodes }

// Pods returns the pods that have not terminated, bound and pending ones, in the
// order of the input. The slice and the objects are shared and must not be
// changed.
func (c *Cluster) Pods() []*corev1.Pod { return c.pods }

// Others returns the objects of all other kinds, typed, in the order of the
// input. The slice and the objects are shared and must not be changed.
func (c *Cluster) Others() []runtime.Object { return c.others }

// Objects returns all objects: the nodes, those of other kinds, and the pods.
func (c *Cluster) Objects() []runtime.Object {
	return slices.Concat(asObjects(c.nodes), c.others, asObjects(c.pods))
}

func asObjects[T runtime.Object](list []T) []runtime.Object {
	objects := make([]runtime.Object, 0, len(list))
	for _, obj := range list {
		objects = append(objects, obj)
	}
	return objects
}

// Bound returns the pods that have a node.
func (c *Cluster) Bound() []*corev1.Pod {
	return c.podsThat(func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
}

// Pending returns the pods that have none, which are those to be scheduled. Pods
// that are being deleted are not among them.
func (c *Cluster) Pending() []*corev1.Pod {
	return c.podsThat(func(pod *corev1.Pod) bool { return pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil })
}

func (c *Cluster) podsThat(is func(*corev1.Pod) bool) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range c.pods {
		if is(pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// WithNodes returns a copy of the cluster in which each node is what replace makes
// of it: the same node, or another object of the same name and UID. Everything else
// is shared, and neither cluster must be added to afterwards.
func (c *Cluster) WithNodes(replace func(*corev1.Node) *corev1.Node) *Cluster {
	other := *c
	other.nodes = make([]*corev1.Node, 0, len(c.nodes))
	for _, node := range c.nodes {
		other.nodes = append(other.nodes, replace(node))
	}
	return &other
}

// Has reports whether the input had the resource, by its plural as in
// "persistentvolumeclaims": an object of it, or a list from an API server, which
// may be empty.
func (c *Cluster) Has(resource string) bool {
	return c.resources.Has(resource)
}

// ListedIn returns the namespace whose objects of the resource are the only ones that the
// credential could list; empty if all are there, or the resource is not.
func (c *Cluster) ListedIn(resource string) string { return c.listedIn[resource] }

// Add adds an object of a kind that [Supported] knows. The error says what is
// wrong with the object and in which field, and does not name the file. The
// object must not be changed afterwards; Add itself may give it a UID, and drops
// its managed fields.
func (c *Cluster) Add(obj runtime.Object) error {
	kind, ok := KindOf(obj)
	if !ok {
		return fmt.Errorf("objects of type %T play no part in scheduling", obj)
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	key := keyOf(kind, accessor)
	if err := validate(kind, obj, accessor); err != nil {
		return err
	}
	if pod, ok := obj.(*corev1.Pod); ok && podutil.IsPodTerminal(pod) {
		c.has(kind.Resource)
		return nil
	}
	if _, ok := c.names[key]; ok {
		return fmt.Errorf("metadata.name: there are two %s", key)
	}
	if accessor.GetUID() == "" {
		accessor.SetUID(types.UID(uidPrefix + kind.Resource + "/" + key.namespace + "/" + key.name))
	}
	if other, ok := c.uids[accessor.GetUID()]; ok {
		return fmt.Errorf("metadata.uid: %q is also that of %s", accessor.GetUID(), other)
	}
	accessor.SetManagedFields(nil) // half of the memory, and of no use
	c.has(kind.Resource)
	c.names[key] = struct{}{}
	c.uids[accessor.GetUID()] = key
	switch obj := obj.(type) {
	case *corev1.Node:
		c.nodes = append(c.nodes, obj)
	case *corev1.Pod:
		c.pods = append(c.pods, obj)
	default:
		c.others = append(c.others, obj)
	}
	return nil
}

// Apply adds an object as kubectl apply would: it takes the place of the one of its kind and
// name, if there is one, and keeps that one's UID. A node without a status keeps the status
// that is there.
func (c *Cluster) Apply(obj runtime.Object) error {
	kind, ok := KindOf(obj)
	if !ok {
		return c.Add(obj) // says so
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		return err
	}
	key := keyOf(kind, accessor)
	if _, ok := c.names[key]; !ok {
		return c.Add(obj)
	}
	if err := validate(kind, obj, accessor); err != nil {
		return err
	}
	switch obj := obj.(type) {
	case *corev1.Node:
		if replaced := replace(c.nodes, obj, accessor); len(obj.Status.Allocatable)+len(obj.Status.Capacity) == 0 {
			obj.Status = replaced.Status
		}
	case *corev1.Pod:
		replace(c.pods, obj, accessor)
	default:
		replace(c.others, obj, accessor)
	}
	return nil
}

// replace puts an object in the place of the one of its type and name, which is there, gives
// it the UID of that one, and returns that one.
func replace[T runtime.Object](list []T, obj T, accessor metav1.Object) (replaced T) {
	for i, other := range list {
		is, err := meta.Accessor(other)
		if err != nil || is.GetName() != accessor.GetName() || is.GetNamespace() != accessor.GetNamespace() || reflect.TypeOf(other) != reflect.TypeOf(obj) {
			continue
		}
		accessor.SetUID(is.GetUID())
		list[i] = obj
		return other
	}
	return replaced
}

// has takes note that the input has the resource.
func (c *Cluster) has(resource string) {
	if c.resources == nil {
		c.resources = sets.New[string]()
		c.names = map[objectKey]struct{}{}
		c.uids = map[types.UID]objectKey{}
		c.listedIn = map[string]string{}
	}
	c.resources.Insert(resource)
}

// strayNotes tell of bound pods whose node is not there.
func (c *Cluster) strayNotes() []Note {
	nodes := sets.New[string]()
	for _, node := range c.nodes {
		nodes.Insert(node.Name)
	}
	stray, example := 0, ""
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" && !nodes.Has(pod.Spec.NodeName) {
			stray++
			example = fmt.Sprintf("%s/%s on %q", pod.Namespace, pod.Name, pod.Spec.NodeName)
		}
	}
	if stray == 0 {
		return nil
	}
	return []Note{{Text: fmt.Sprintf("%d pod(s) are bound to nodes that are not in the input and occupy nothing, for example %s", stray, example)}}
}
