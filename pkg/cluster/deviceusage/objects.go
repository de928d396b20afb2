// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceusage

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/device"
)

// Resources returns the plurals of what a report is computed from.
func Resources() []string {
	return []string{"nodes", "pods", "resourceslices", "resourceclaims", "deviceclasses"}
}

// Objects are what a report is computed from. They are only read.
type Objects struct {
	Nodes []*corev1.Node
	// NodesUnseen is that the nodes could not be read: the report has each node that a pod
	// runs on, and what pods hold there.
	NodesUnseen bool
	Pods        []*corev1.Pod
	// OnlyNamespace is the namespace whose pods are the only ones that could be read;
	// empty if all are there.
	OnlyNamespace string
	Slices        []*resourcev1.ResourceSlice
	Claims        []*resourcev1.ResourceClaim
	Classes       []*resourcev1.DeviceClass
}

// ObjectsOf returns what a cluster has for a report.
func ObjectsOf(c *cluster.Cluster) Objects {
	o := Objects{Nodes: c.Nodes(), NodesUnseen: !c.Has("nodes"), Pods: c.Pods(), OnlyNamespace: c.ListedIn("pods")}
	for _, obj := range c.Others() {
		switch obj := obj.(type) {
		case *resourcev1.ResourceSlice:
			o.Slices = append(o.Slices, obj)
		case *resourcev1.ResourceClaim:
			o.Claims = append(o.Claims, obj)
		case *resourcev1.DeviceClass:
			o.Classes = append(o.Classes, obj)
		}
	}
	return o
}

// claimSource is a device.ClaimSource of the objects.
type claimSource struct {
	claims  map[types.NamespacedName]*resourcev1.ResourceClaim
	classes map[string]*resourcev1.DeviceClass
	// byResource are the classes that extended resources stand for.
	byResource map[corev1.ResourceName]*resourcev1.DeviceClass
}

var _ device.ClaimSource = &claimSource{}

func newClaimSource(o *Objects) *claimSource {
	s := &claimSource{
		claims:     map[types.NamespacedName]*resourcev1.ResourceClaim{},
		classes:    map[string]*resourcev1.DeviceClass{},
		byResource: map[corev1.ResourceName]*resourcev1.DeviceClass{},
	}
	for _, claim := range o.Claims {
		s.claims[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name}] = claim
	}
	for _, class := range o.Classes {
		s.classes[class.Name] = class
		if name := class.Spec.ExtendedResourceName; name != nil {
			s.byResource[corev1.ResourceName(*name)] = newest(s.byResource[corev1.ResourceName(*name)], class)
		}
	}
	return s
}

// newest returns the class that counts where two stand for one resource: the newer one
// and, of the same age, the first by name (the scheduler's extended resource cache).
func newest(a, b *resourcev1.DeviceClass) *resourcev1.DeviceClass {
	if a == nil || a.CreationTimestamp.Before(&b.CreationTimestamp) || a.CreationTimestamp.Equal(&b.CreationTimestamp) && b.Name < a.Name {
		return b
	}
	return a
}

// Claim implements device.ClaimSource.
func (s *claimSource) Claim(namespace, name string) (*resourcev1.ResourceClaim, error) {
	if claim, ok := s.claims[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return claim, nil
	}
	return nil, fmt.Errorf("ResourceClaim %s/%s is not there", namespace, name)
}

// Class implements device.ClaimSource.
func (s *claimSource) Class(name string) (*resourcev1.DeviceClass, error) {
	if class, ok := s.classes[name]; ok {
		return class, nil
	}
	return nil, fmt.Errorf("DeviceClass %s is not there", name)
}

// ClassOf implements device.ClaimSource.
func (s *claimSource) ClassOf(name corev1.ResourceName) *resourcev1.DeviceClass {
	return s.byResource[name]
}

// byNode returns the pods that run on each node.
func (o *Objects) byNode() map[string][]*corev1.Pod {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range o.Pods {
		if pod.Spec.NodeName != "" && !podutil.IsPodTerminal(pod) {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	for _, pods := range byNode {
		slices.SortFunc(pods, func(a, b *corev1.Pod) int { return comparePods(nameOf(a), nameOf(b)) })
	}
	return byNode
}

func nameOf(pod *corev1.Pod) Pod { return Pod{Namespace: pod.Namespace, Name: pod.Name} }
