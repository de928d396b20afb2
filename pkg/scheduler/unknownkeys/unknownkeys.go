// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unknownkeys warns the owner of a pod whose labels or annotations have no
// effect: a key in Berth's domain with a typo, one in a domain like it, one that
// stands among the labels and is an annotation, or one that only a plugin reads
// which the pod's profile does not run. All of it would otherwise be silent,
// because the API server accepts any key and no plugin looks at it.
package unknownkeys

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/messages"
)

const (
	// Reason is the reason of the Warning event about keys that mean nothing where
	// they stand, under any profile.
	Reason = "UnknownBerthKey"
	// ReasonIgnored is the reason of the Warning event about keys that mean nothing
	// under the pod's profile.
	ReasonIgnored = "KeyIgnored"
	action        = "Scheduling"
)

// Key is a label or annotation of a pod that means something.
type Key struct {
	Name string
	// Label is false for an annotation.
	Label bool
	// Plugin is the name of the only plugin that reads it, empty if it means
	// something under every profile.
	Plugin string
	// Former is the name that the key has now, where it was renamed: the plugin rejects a
	// pod with the old one and says so. It is never proposed.
	Former string
}

// Profile is the profile that serves a pod.
type Profile struct {
	Name     string
	Recorder events.EventRecorder
	// Runs reports whether the profile runs a plugin.
	Runs func(plugin string) bool
}

// Watch adds a handler to the pod informer of factory that records a Warning event
// for each pending pod with keys that have no effect, when the pod is first seen
// and when an update adds another such key. keys are those that mean something;
// profiles are those that serve a schedulerName here.
//
// Call it before the factory is started. It returns an error only if the informer
// was stopped. With two replicas each records the event: the handler runs before
// leader election, and a warning too many does no harm.
func Watch(factory informers.SharedInformerFactory, keys []Key, profiles map[string]*Profile) error {
	k := newKnown(keys)
	warn := func(old, pod *corev1.Pod) {
		if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Labels)+len(pod.Annotations) == 0 {
			return
		}
		p, ours := profiles[pod.Spec.SchedulerName]
		if !ours {
			return
		}
		unknown, ignored := k.findings(pod, p)
		var oldUnknown, oldIgnored []string
		if old != nil {
			oldUnknown, oldIgnored = k.findings(old, p)
		}
		if len(unknown) > 0 && !slices.Equal(unknown, oldUnknown) {
			p.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, Reason, action, "%s", note(unknown))
		}
		if len(ignored) > 0 && !slices.Equal(ignored, oldIgnored) {
			p.Recorder.Eventf(pod, nil, corev1.EventTypeWarning, ReasonIgnored, action, "%s", note(ignored))
		}
	}
	_, err := factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) {
			if pod, ok := obj.(*corev1.Pod); ok {
				warn(nil, pod)
			}
		},
		UpdateFunc: func(oldObj, newObj any) {
			old, ok := oldObj.(*corev1.Pod)
			if !ok {
				return
			}
			if pod, ok := newObj.(*corev1.Pod); ok {
				warn(old, pod)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watching pods for unknown %s keys: %w", names.Domain, err)
	}
	return nil
}

// known are the keys that mean something.
type known struct {
	byName map[string]Key
	names  []string
}

func newKnown(keys []Key) *known {
	k := &known{byName: map[string]Key{}}
	for _, key := range keys {
		k.byName[key.Name] = key
		if key.Former == "" {
			k.names = append(k.names, key.Name)
		}
	}
	return k
}

// Meant returns the key that an annotation of a pod stands for, if it has no effect or was
// renamed: the new name, or the one that it is a typo of; "" for any other.
func Meant(keys []Key, annotation string) string {
	k := newKnown(keys)
	key, found := k.byName[annotation]
	meant := key.Former
	switch {
	case found:
	case strings.HasPrefix(annotation, names.Prefix):
		meant = messages.Nearest(annotation, k.names)
	default:
		meant = k.inLikeDomain(annotation)
	}
	if k.byName[meant].Label {
		return ""
	}
	return meant
}

// Findings says of each key of the pod that has no effect under the profile why it has
// none, sorted. The profile needs no Recorder.
func Findings(keys []Key, pod *corev1.Pod, profile *Profile) []string {
	unknown, ignored := newKnown(keys).findings(pod, profile)
	return slices.Concat(unknown, ignored)
}

// findings says of each key of the pod that has no effect why it has none: those
// that have none anywhere, and those that have none under this profile.
func (k *known) findings(pod *corev1.Pod, profile *Profile) (unknown, ignored []string) {
	for name := range pod.Labels {
		_, both := pod.Annotations[name]
		k.check(name, true, both, profile, &unknown, &ignored)
	}
	for name := range pod.Annotations {
		_, both := pod.Labels[name]
		k.check(name, false, both, profile, &unknown, &ignored)
	}
	slices.Sort(unknown)
	slices.Sort(ignored)
	return slices.Compact(unknown), slices.Compact(ignored)
}

// check is about one key. both says that it is a label and an annotation.
func (k *known) check(name string, label, both bool, profile *Profile, unknown, ignored *[]string) {
	key, found := k.byName[name]
	switch {
	case found && key.Label != label:
		if !both { // else it means something where it also stands
			*unknown = append(*unknown, misplaced(key))
		}
	case found && key.Plugin != "" && !profile.Runs(key.Plugin):
		*ignored = append(*ignored, fmt.Sprintf("%s has no effect: the scheduler's profile %q does not run %s", name, profile.Name, key.Plugin))
	case found:
	case strings.HasPrefix(name, names.Prefix):
		*unknown = append(*unknown, k.misspelled(name))
	default:
		if meant := k.inLikeDomain(name); meant != "" {
			*unknown = append(*unknown, fmt.Sprintf("unknown key %s; did you mean %s?", name, meant))
		}
	}
}

func misplaced(key Key) string {
	if key.Label {
		return key.Name + " is read as a label: move it to metadata.labels"
	}
	return key.Name + " is read as an annotation: move it to metadata.annotations"
}

// misspelled is about a key in Berth's domain.
func (k *known) misspelled(name string) string {
	if meant := messages.Nearest(name, k.names); meant != "" {
		return fmt.Sprintf("no plugin reads %s; did you mean %s?", name, meant)
	}
	return fmt.Sprintf("no plugin reads %s: correct the spelling, or remove it", name)
}

// inLikeDomain returns the key, or the domain, that is meant by a key in a domain
// that only looks like Berth's, or "". A domain that differs in more than its case is somebody's,
// and a key of it is a typo only if its name is that of a key of ours.
func (k *known) inLikeDomain(name string) string {
	domain, rest, qualified := strings.Cut(name, "/")
	if !qualified || domain == names.Domain {
		return ""
	}
	if folded := strings.ToLower(domain); folded != names.Domain {
		first, _, _ := strings.Cut(names.Domain, ".")
		alike := strings.HasPrefix(folded, first+".") && strings.Count(folded, ".") == 1
		if !alike && messages.Distance(folded, names.Domain, messages.Typo) > messages.Typo {
			return ""
		}
		if _, ours := k.byName[names.Prefix+rest]; !ours {
			return ""
		}
		return names.Prefix + rest
	}
	if meant := messages.Nearest(names.Prefix+rest, k.names); meant != "" {
		return meant
	}
	return names.Domain
}

// note joins what is found, as much as an event has room for.
func note(findings []string) string {
	return messages.Cut("metadata: " + strings.Join(findings, "; "))
}
