// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

// Component names one process of the control plane.
type Component string

// The components, in the order in which they start. They stop in reverse.
const (
	Etcd              Component = "etcd"
	APIServer         Component = "kube-apiserver"
	ControllerManager Component = "kube-controller-manager"
	Kwok              Component = "kwok"
)

// Components returns every component in the order of their start.
func Components() []Component {
	return []Component{Etcd, APIServer, ControllerManager, Kwok}
}
