// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// model is the index as it would be written if it could take all day: it keeps each
// object as the store had it when the index was last told to read it, and computes
// every answer from those. It shares no code with the index.
type model struct {
	known    map[string]metav1.Object // by kind, namespace and name
	reserved map[types.UID]string
}

func newModel() *model {
	return &model{known: map[string]metav1.Object{}, reserved: map[types.UID]string{}}
}

// read takes over an object as the store has it, nil for none.
func (m *model) read(key string, object metav1.Object) {
	if object == nil {
		delete(m.known, key)
	} else {
		m.known[key] = object
	}
	// A reservation ends when its pod is seen to have a node, or is gone.
	for uid := range m.reserved {
		p := m.podByUID(uid)
		if p == nil || p.Spec.NodeName != "" {
			delete(m.reserved, uid)
		}
	}
}

func (m *model) believe(key string) metav1.Object { return m.known[key] }

// all returns what is to be believed of a kind.
func (m *model) all(kind string) []metav1.Object {
	var objects []metav1.Object
	for key, object := range m.known {
		if strings.HasPrefix(key, kind+"/") {
			objects = append(objects, object)
		}
	}
	return objects
}

func (m *model) podByUID(uid types.UID) *corev1.Pod {
	for _, object := range m.all("pod") {
		if object.GetUID() == uid {
			return object.(*corev1.Pod)
		}
	}
	return nil
}

// answer is all that a View can say.
type answer struct {
	Total  int
	Levels map[string]map[string]int
}

// lookup is Index.Lookup; nil where that returns false.
func (m *model) lookup(requester, namespace, name string, keys []string) *answer {
	object := m.believe(objectKey("service", namespace, name))
	if object == nil {
		return nil
	}
	service := object.(*corev1.Service)
	if requester != namespace {
		allowed := false
		for entry := range strings.SplitSeq(service.Annotations[names.AllowColocationFromAnnotation], ",") {
			entry = strings.Trim(entry, " ")
			allowed = allowed || entry == requester || entry == "*"
		}
		if !allowed {
			return nil
		}
	}
	a := &answer{Levels: map[string]map[string]int{}}
	for _, key := range keys {
		a.Levels[key] = map[string]int{}
	}
	nodes, zones := m.peersOf(service)
	for zone, peers := range zones {
		a.Total += peers
		if level := a.Levels[corev1.LabelTopologyZone]; level != nil && m.anyNodeHas(corev1.LabelTopologyZone) {
			level[zone] += peers
		}
	}
	for node, peers := range nodes {
		object := m.believe(objectKey("node", "", node))
		if object == nil {
			continue
		}
		a.Total += peers
		for key := range a.Levels {
			if value, ok := object.GetLabels()[key]; ok {
				a.Levels[key][value] += peers
			}
		}
	}
	return a
}

// anyNodeHas reports whether a node carries the label key.
func (m *model) anyNodeHas(key string) bool {
	for _, node := range m.all("node") {
		if _, ok := node.GetLabels()[key]; ok {
			return true
		}
	}
	return false
}

// peersOf counts the peers behind a Service by the node that they name, and those
// that name none by their zone.
func (m *model) peersOf(service *corev1.Service) (peers, inZones map[string]int) {
	peers, inZones = map[string]int{}, map[string]int{}
	for _, object := range m.all("pod") {
		pod := object.(*corev1.Pod)
		if !m.isBehind(pod, service) || pod.DeletionTimestamp != nil || pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed" {
			continue
		}
		node := pod.Spec.NodeName
		if node == "" {
			node = m.reserved[pod.UID]
		}
		if node != "" {
			peers[node]++
		}
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || len(service.Spec.Selector) > 0 {
		return peers, inZones
	}
	byFamily := map[discoveryv1.AddressType]map[string]int{}
	nodes := map[string]bool{}
	m.eachEndpoint(service, func(slice *discoveryv1.EndpointSlice, e discoveryv1.Endpoint) {
		isPod := e.TargetRef != nil && e.TargetRef.Kind == "Pod"
		if isPod || e.Conditions.Terminating != nil && *e.Conditions.Terminating {
			return
		}
		at := ""
		switch {
		case e.NodeName != nil:
			at = *e.NodeName
		case e.Zone != nil:
			at = "zone/" + *e.Zone
		default:
			return
		}
		if byFamily[slice.AddressType] == nil {
			byFamily[slice.AddressType] = map[string]int{}
		}
		byFamily[slice.AddressType][at]++
		nodes[at] = true
	})
	for node := range nodes {
		most := 0
		for _, of := range byFamily {
			most = max(most, of[node])
		}
		if zone, ok := strings.CutPrefix(node, "zone/"); ok {
			inZones[zone] += most
		} else {
			peers[node] += most
		}
	}
	return peers, inZones
}

// isBehind reports whether a Service leads to a pod.
func (m *model) isBehind(pod *corev1.Pod, service *corev1.Service) bool {
	if pod.Namespace != service.Namespace || service.Spec.Type == corev1.ServiceTypeExternalName {
		return false
	}
	if len(service.Spec.Selector) > 0 {
		for key, value := range service.Spec.Selector {
			if got, ok := pod.Labels[key]; !ok || got != value {
				return false
			}
		}
		return true
	}
	found := false
	m.eachEndpoint(service, func(_ *discoveryv1.EndpointSlice, e discoveryv1.Endpoint) {
		ref := e.TargetRef
		if ref == nil || ref.Kind != "Pod" || ref.Namespace != "" && ref.Namespace != pod.Namespace {
			return
		}
		if ref.UID != "" {
			found = found || ref.UID == pod.UID
		} else {
			found = found || ref.Name == pod.Name
		}
	})
	return found
}

func (m *model) eachEndpoint(service *corev1.Service, visit func(*discoveryv1.EndpointSlice, discoveryv1.Endpoint)) {
	for _, object := range m.all("slice") {
		slice := object.(*discoveryv1.EndpointSlice)
		if slice.Namespace == service.Namespace && slice.Labels["kubernetes.io/service-name"] == service.Name {
			for _, e := range slice.Endpoints {
				visit(slice, e)
			}
		}
	}
}
