// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

func versionNumber(n int) string { return strconv.Itoa(n + 1) }

func nodeName(i int) string { return fmt.Sprintf("n%d", i) }

// makeNode is node i in a zone.
func makeNode(i int, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: nodeName(i), UID: types.UID(nodeName(i) + "-uid"), ResourceVersion: "1",
		Labels: map[string]string{corev1.LabelHostname: nodeName(i), corev1.LabelTopologyZone: zone},
	}}
}

// makeService is a Service in namespace shop.
func makeService(name string, selector map[string]string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1"},
		Spec:       corev1.ServiceSpec{Selector: selector},
	}
}

// makePod is a pod of Service backend in namespace shop; which incarnation it is sets
// UID and version.
func makePod(name string, incarnation int, on string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(fmt.Sprintf("%s-uid-%d", name, incarnation)),
			ResourceVersion: versionNumber(2 * incarnation),
			Labels:          map[string]string{"app": "backend"},
		},
		Spec: corev1.PodSpec{NodeName: on},
	}
}

// makeSlice is an EndpointSlice of a Service in namespace shop.
func makeSlice(name, service string, family discoveryv1.AddressType, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(name + "-uid"), ResourceVersion: "1",
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: family,
		Endpoints:   endpoints,
	}
}

// informed is an index and the stores that it reads, by kind.
type informed struct {
	*Index
	kinds map[string]cache.Store
}

func newInformed() *informed {
	kinds := map[string]cache.Store{}
	for _, kind := range []string{"pod", "node", "service", "slice"} {
		kinds[kind] = cache.NewStore(cache.MetaNamespaceKeyFunc)
	}
	return &informed{
		Index: New(Stores{Pods: kinds["pod"], Nodes: kinds["node"], Services: kinds["service"], EndpointSlices: kinds["slice"]}),
		kinds: kinds,
	}
}

func objectKey(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// get returns an object of a store, nil for none.
func (w *informed) get(kind, namespace, name string) metav1.Object {
	stored, ok, err := w.kinds[kind].GetByKey(cache.NewObjectName(namespace, name).String())
	if !ok || err != nil {
		return nil
	}
	return stored.(metav1.Object)
}

// put stores the object that old became, as an informer does before it tells its
// handlers; updated is nil for one that is gone.
func (w *informed) put(kind string, old, updated metav1.Object) {
	var err error
	if updated != nil {
		err = w.kinds[kind].Update(updated)
	} else {
		err = w.kinds[kind].Delete(old)
	}
	if err != nil {
		panic(err)
	}
}

// sync lets the index read one name.
func (w *informed) sync(kind, namespace, name string) {
	switch kind {
	case "pod":
		w.SyncPod(namespace, name)
	case "node":
		w.SyncNode(name)
	case "service":
		w.SyncService(namespace, name)
	case "slice":
		w.SyncEndpointSlice(namespace, name)
	}
}

// apply is put and sync: a change, and its event.
func apply[T any, P interface {
	*T
	metav1.Object
}](w *informed, kind string, old, updated P,
) {
	if updated == nil {
		w.put(kind, old, nil)
		w.sync(kind, old.GetNamespace(), old.GetName())
		return
	}
	w.put(kind, nil, updated)
	w.sync(kind, updated.GetNamespace(), updated.GetName())
}

func (w *informed) ApplyPod(old, updated *corev1.Pod)         { apply(w, "pod", old, updated) }
func (w *informed) ApplyNode(old, updated *corev1.Node)       { apply(w, "node", old, updated) }
func (w *informed) ApplyService(old, updated *corev1.Service) { apply(w, "service", old, updated) }
func (w *informed) ApplyEndpointSlice(old, updated *discoveryv1.EndpointSlice) {
	apply(w, "slice", old, updated)
}
