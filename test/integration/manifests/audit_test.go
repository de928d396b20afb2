// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/kustomize/api/resmap"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// rightsInRoles lists the rights of the scheduler's own roles, without the
// namespaces and names that limit them, which an audited request may not have.
func rightsInRoles(t *testing.T, built resmap.ResMap) []string {
	t.Helper()
	rules := install.Find[rbacv1.ClusterRole](t, built, "ClusterRole", names.Scheduler).Rules
	rules = append(rules, install.Find[rbacv1.Role](t, built, "Role", names.Scheduler).Rules...)
	var rights []string
	for _, rule := range rules {
		rule.ResourceNames = nil
		for _, right := range rightsOf(rule, "") {
			rights = append(rights, right.String())
		}
	}
	return rights
}

// node returns a node of so many CPUs.
func node(name, cpu string) corev1.Node {
	n := framework.Node(name, nil)
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	return n
}
