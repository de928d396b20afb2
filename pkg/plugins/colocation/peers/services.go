// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// service is what the index knows of a Service.
type service struct {
	name     string
	selector []labelPair
	// external is whether the Service is a name for something outside: whatever
	// else it says, no pod is behind it.
	external bool
	// annotation is what consent was read from.
	annotation string
	consent    Consent
	// group counts the peers; nil until the first Lookup, and again from when what
	// is behind the Service changed until the next.
	group *group
}

// SyncService takes over the Service of this name as the store has it.
func (x *Index) SyncService(namespace, name string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	var s *service
	if ns := x.namespaces[namespace]; ns != nil {
		s = ns.services[name]
	}
	object := x.store.Service(namespace, name)
	if object == nil {
		if s != nil {
			ns := x.namespaces[namespace]
			x.unwatch(ns, s)
			delete(ns.services, name)
			x.release(ns)
		}
		return
	}
	ns := x.namespaceOf(namespace)
	if s == nil {
		s = &service{name: name}
		ns.services[name] = s
	}
	if annotation := object.Annotations[names.AllowColocationFromAnnotation]; annotation != s.annotation {
		s.annotation = annotation
		s.consent, _ = ParseConsent(annotation)
	}
	selector, external := newSelector(object.Spec.Selector), object.Spec.Type == corev1.ServiceTypeExternalName
	if external != s.external || !slices.Equal(selector, s.selector) {
		// Nothing that was counted is worth keeping. Whoever asks next has it
		// counted anew; nobody may.
		x.unwatch(ns, s)
	}
	s.selector, s.external = selector, external
}

// allowed returns the Service if pods of requesterNamespace may be near it, or nil.
func (x *Index) allowed(requesterNamespace, serviceNamespace, name string) *service {
	ns := x.namespaces[serviceNamespace]
	if ns == nil {
		return nil
	}
	s := ns.services[name]
	if s == nil || requesterNamespace != serviceNamespace && !s.consent.To(requesterNamespace) {
		return nil
	}
	return s
}
