// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// rightsInRoles lists the rights of the roles of these names, without the namespaces and
// names that limit them, which an audited request may not have.
func rightsInRoles(t *testing.T, all []*resource.Resource, roles []string) []string {
	t.Helper()
	var rights []string
	found := map[string]bool{}
	for _, r := range all {
		if kind := r.GetKind(); kind != "ClusterRole" && kind != "Role" || !slices.Contains(roles, r.GetName()) {
			continue
		}
		found[r.GetName()] = true
		content, err := r.AsYAML()
		if err != nil {
			t.Fatal(err)
		}
		var role rbacv1.ClusterRole
		if err := yaml.Unmarshal(content, &role); err != nil {
			t.Fatal(err)
		}
		for _, rule := range role.Rules {
			rule.ResourceNames = nil
			for _, right := range rightsOf(rule, "") {
				rights = append(rights, right.String())
			}
		}
	}
	if len(found) != len(roles) {
		t.Fatalf("found the roles %v, want %v", found, roles)
	}
	return rights
}

// node returns a node of so many CPUs.
func node(name, cpu string) corev1.Node {
	n := framework.Node(name, nil)
	for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
		list[corev1.ResourceCPU] = apiresource.MustParse(cpu)
	}
	return n
}
