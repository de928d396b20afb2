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
