// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package registry

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"
)

// newCoscheduling builds nothing: the plugin does not exist for Kubernetes 1.37, which
// has gangs of its own.
func newCoscheduling(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
	return nil, fmt.Errorf("%s is in Berth's build for Kubernetes 1.36 alone: remove it from the profile and place gangs by "+
		"PodGroups of scheduling.k8s.io (manifests/README.md, Gangs), or run that build", GangPlugin)
}
