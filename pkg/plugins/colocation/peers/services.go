// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// service is what the index knows of a Service.
type service struct {
	version  version
	name     string
	selector []labelPair
	// external is whether the Service is a name for something outside: whatever
	// else it says, no pod is behind it.
	external bool
	// allowed are the namespaces whose pods may be near the peers, beside the
	// Service's own; "*" is every one.
	allowed []string
	// group counts the peers; nil until the first Lookup, and again from when what
	// is behind the Service changed until the next.
	group *group
}

// ApplyService takes over a change of a Service from old to updated, either nil.
// It may be told the same change any number of times and changes in any order:
// what is older than what it knows, it ignores.
func (x *Index) ApplyService(old, updated *corev1.Service) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if old != nil && (updated == nil || old.UID != updated.UID) {
		x.buryService(old)
	}
	if updated != nil {
		x.observeService(updated)
	}
}

func (x *Index) observeService(object *corev1.Service) {
	s := x.service(object)
	if !x.goneServices.admit(object, s.known()) {
		return
	}
	ns := x.namespaceOf(object.Namespace)
	if s == nil {
		s = &service{name: object.Name}
		ns.services[object.Name] = s
	}
	s.version = versionOf(object)
	s.allowed = parseAllowed(object.Annotations[names.AllowColocationFromAnnotation])
	selector, external := newSelector(object.Spec.Selector), object.Spec.Type == corev1.ServiceTypeExternalName
	if external != s.external || !slices.Equal(selector, s.selector) {
		// Nothing that was counted is worth keeping. Whoever asks next has it
		// counted anew; nobody may.
		x.unwatch(ns, s)
	}
	s.selector, s.external = selector, external
}

func (x *Index) buryService(object *corev1.Service) {
	s := x.service(object)
	if !x.goneServices.bury(object, s.known()) {
		return
	}
	ns := x.namespaces[object.Namespace]
	x.unwatch(ns, s)
	delete(ns.services, object.Name)
	x.release(ns)
}

// service returns the Service of the object's name, or nil.
func (x *Index) service(object *corev1.Service) *service {
	if ns := x.namespaces[object.Namespace]; ns != nil {
		return ns.services[object.Name]
	}
	return nil
}

func (s *service) known() *version {
	if s == nil {
		return nil
	}
	return &s.version
}

// Allows reports whether a Service lets pods of a namespace near it: those of its
// own, and those that its annotation names.AllowColocationFromAnnotation names.
func Allows(object *corev1.Service, namespace string) bool {
	if namespace == object.Namespace {
		return true
	}
	s := service{allowed: parseAllowed(object.Annotations[names.AllowColocationFromAnnotation])}
	return s.consents(namespace)
}

// Allows reports whether the Service exists and lets pods of requesterNamespace near
// it, as Lookup would, without beginning to watch it.
func (x *Index) Allows(requesterNamespace, serviceNamespace, name string) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.allowed(requesterNamespace, serviceNamespace, name) != nil
}

// allowed returns the Service if pods of requesterNamespace may be near it, or nil.
func (x *Index) allowed(requesterNamespace, serviceNamespace, name string) *service {
	ns := x.namespaces[serviceNamespace]
	if ns == nil {
		return nil
	}
	s := ns.services[name]
	if s == nil || requesterNamespace != serviceNamespace && !s.consents(requesterNamespace) {
		return nil
	}
	return s
}

// consents reports whether pods of another namespace may be near the peers.
func (s *service) consents(namespace string) bool {
	return slices.Contains(s.allowed, namespace) || slices.Contains(s.allowed, "*")
}

// parseAllowed splits a list of namespaces. What is no namespace's name allows
// nobody: a wildcard stands alone, it is no part of a name.
func parseAllowed(list string) []string {
	var allowed []string
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			allowed = append(allowed, name)
		}
	}
	return allowed
}
