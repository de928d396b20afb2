// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/kustomize/api/resmap"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// auditOf reads what the API server answered to one user.
func auditOf(t *testing.T, file, user string) []auditv1.Event {
	t.Helper()
	log, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	var events []auditv1.Event
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if event.User.Username == user {
			events = append(events, event)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

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

// node returns a node that kwok makes ready.
func node(name, cpu string) corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse(cpu),
		corev1.ResourceMemory: resource.MustParse("32Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Capacity: capacity, Allocatable: capacity},
	}
}
