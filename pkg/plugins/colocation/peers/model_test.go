// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// news is what was told of an object: that it was as object is, or that it is gone
// and was last seen like that.
type news struct {
	object metav1.Object
	gone   bool
}

// model is the index as it would be written if it could take all day: it keeps
// everything that it was told, and computes every answer from that. It shares no
// code with the index.
type model struct {
	told     map[string][]news // by kind, namespace and name
	promised map[types.UID]string
}

func newModel() *model {
	return &model{told: map[string][]news{}, promised: map[types.UID]string{}}
}

func modelKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

func (m *model) tell(kind string, object metav1.Object, gone bool) {
	key := modelKey(kind, object.GetNamespace(), object.GetName())
	m.told[key] = append(m.told[key], news{object, gone})
	m.breakPromises()
}

// breakPromises forgets the promises to pods that have a node now, or are gone.
func (m *model) breakPromises() {
	for uid := range m.promised {
		p := m.podByUID(uid)
		if p == nil || p.Spec.NodeName != "" {
			delete(m.promised, uid)
		}
	}
}

func number(object metav1.Object) int {
	n, err := strconv.Atoi(object.GetResourceVersion())
	if err != nil {
		panic(err)
	}
	return n
}

// believe returns what is to be believed of a name: the latest version that was
// told, unless its incarnation or a later one is gone.
func (m *model) believe(key string) metav1.Object {
	var latest metav1.Object
	for _, n := range m.told[key] {
		if !n.gone && (latest == nil || number(n.object) > number(latest)) {
			latest = n.object
		}
	}
	for _, n := range m.told[key] {
		if latest != nil && n.gone && (n.object.GetUID() == latest.GetUID() || number(n.object) > number(latest)) {
			return nil
		}
	}
	return latest
}

// all returns what is to be believed of a kind.
func (m *model) all(kind string) []metav1.Object {
	var objects []metav1.Object
	for key := range m.told {
		if strings.HasPrefix(key, kind+"/") {
			if object := m.believe(key); object != nil {
				objects = append(objects, object)
			}
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
	Nodes  map[string]int
	Levels map[string]map[string]int
}

// lookup is Index.Lookup; nil where that returns false.
func (m *model) lookup(requester, namespace, name string, keys []string) *answer {
	object := m.believe(modelKey("service", namespace, name))
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
	a := &answer{Nodes: map[string]int{}, Levels: map[string]map[string]int{}}
	for _, key := range keys {
		a.Levels[key] = map[string]int{}
	}
	for node, peers := range m.peersOf(service) {
		object := m.believe(modelKey("node", "", node))
		if object == nil {
			continue
		}
		a.Total += peers
		a.Nodes[node] += peers
		for key := range a.Levels {
			if value, ok := object.GetLabels()[key]; ok {
				a.Levels[key][value] += peers
			}
		}
	}
	return a
}

// peersOf counts the peers behind a Service by the node that they name.
func (m *model) peersOf(service *corev1.Service) map[string]int {
	peers := map[string]int{}
	for _, object := range m.all("pod") {
		pod := object.(*corev1.Pod)
		if !m.isBehind(pod, service) || pod.DeletionTimestamp != nil || pod.Status.Phase == "Succeeded" || pod.Status.Phase == "Failed" {
			continue
		}
		node := pod.Spec.NodeName
		if node == "" {
			node = m.promised[pod.UID]
		}
		if node != "" {
			peers[node]++
		}
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName || len(service.Spec.Selector) > 0 {
		return peers
	}
	byFamily := map[discoveryv1.AddressType]map[string]int{}
	nodes := map[string]bool{}
	m.eachEndpoint(service, func(slice *discoveryv1.EndpointSlice, e discoveryv1.Endpoint) {
		isPod := e.TargetRef != nil && e.TargetRef.Kind == "Pod"
		if isPod || e.NodeName == nil || e.Conditions.Terminating != nil && *e.Conditions.Terminating {
			return
		}
		if byFamily[slice.AddressType] == nil {
			byFamily[slice.AddressType] = map[string]int{}
		}
		byFamily[slice.AddressType][*e.NodeName]++
		nodes[*e.NodeName] = true
	})
	for node := range nodes {
		most := 0
		for _, of := range byFamily {
			most = max(most, of[node])
		}
		peers[node] += most
	}
	return peers
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
