// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/lease"
)

// keep takes the objects that no plugin reads and that say who schedules, and in gangs
// of how many.
func (f *found) keep(kind schema.GroupVersionKind, object []byte) (bool, error) {
	switch kind.GroupKind() {
	case podGroups.Kind:
		group, err := podGroupOf(object, f.namespace)
		f.in.PodGroups = append(f.in.PodGroups, group)
		return true, err
	case schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}:
		l := &coordinationv1.Lease{}
		err := json.Unmarshal(object, l)
		f.addLease(l)
		return true, err
	case schema.GroupKind{Kind: "ConfigMap"}:
		m := &corev1.ConfigMap{}
		err := json.Unmarshal(object, m)
		f.addConfigMap(m)
		return true, err
	}
	return false, nil
}

// podGroupOf reads a PodGroup of Coscheduling.
func podGroupOf(object []byte, namespace string) (explain.PodGroup, error) {
	var group struct {
		Metadata struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			MinMember int `json:"minMember"`
		} `json:"spec"`
	}
	err := json.Unmarshal(object, &group)
	return explain.PodGroup{Namespace: cmp.Or(group.Metadata.Namespace, namespace, corev1.NamespaceDefault), Name: group.Metadata.Name, MinMember: group.Spec.MinMember}, err
}

// addLease takes note of who holds a lease, if that says whom it serves, or is a
// scheduler's by its name.
func (f *found) addLease(l *coordinationv1.Lease) {
	s := explain.Server{Names: lease.ServedBy(l), Lease: l.Namespace + "/" + l.Name, Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
	s.Renewed, s.Duration = lease.Term(l)
	if s.Renewed.After(f.newest) {
		f.newest = s.Renewed
	}
	if len(s.Names) > 0 {
		f.in.Servers = append(f.in.Servers, s)
	}
}

// addConfigMap takes the KubeSchedulerConfigurations of a ConfigMap.
func (f *found) addConfigMap(m *corev1.ConfigMap) {
	for _, name := range slices.Sorted(maps.Keys(m.Data)) {
		var meta struct {
			Kind string `json:"kind"`
		}
		if yaml.Unmarshal([]byte(m.Data[name]), &meta) == nil && meta.Kind == "KubeSchedulerConfiguration" {
			f.addConfiguration(m, name, []byte(m.Data[name]), nil)
		}
	}
}

// addConfiguration takes what a ConfigMap has under a key; names are the schedulerNames
// that its scheduler is known to serve.
func (f *found) addConfiguration(m *corev1.ConfigMap, key string, content []byte, names []string) {
	f.configs = append(f.configs, configuration{source: "ConfigMap " + m.Namespace + "/" + m.Name + ", " + key, content: content, names: names})
}
