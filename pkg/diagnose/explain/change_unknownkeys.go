// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
)

// proposeKeys proposes the names that annotations are meant to have: the current ones, or
// those that they are a typo of. An annotation that is also there under its right name is
// removed.
func proposeKeys(s *situation, add func(*Change)) {
	var all *Change // as several may be needed: each alone is rejected
	keys := registry.PodKeys()
	for _, key := range slices.Sorted(maps.Keys(s.pod.Annotations)) {
		meant := unknownkeys.Meant(keys, key)
		if meant == "" {
			continue
		}
		if _, both := s.pod.Annotations[meant]; both {
			add(removeAnnotations(0.8, key))
			continue
		}
		change := s.annotating(podChange("annotation", 0.7, func(pod *corev1.Pod) {
			pod.Annotations[meant] = pod.Annotations[key]
			delete(pod.Annotations, key)
		}, "rename the annotation %s to %s", key, meant), key, key+"-", meant+"="+s.pod.Annotations[key])
		add(change)
		if all == nil {
			all = change
		} else {
			all = both(all, change)
			add(all)
		}
	}
}

// annotating is a change of an annotation, with the command for it if one pod is explained.
func (s *situation) annotating(change *Change, key string, words ...string) *Change {
	change.fields = []string{key}
	if s.in.Of != "" || len(s.pods) != 1 {
		return change
	}
	for i, word := range words {
		words[i] = output.ShellWord(word)
	}
	return change.by("kubectl -n %s annotate pod %s %s", s.pod.Namespace, s.pod.Name, strings.Join(words, " "))
}

// setAnnotation proposes a value of an annotation.
func setAnnotation(s *situation, cost float64, key, value, why string) *Change {
	change := podChange("annotation", cost, func(pod *corev1.Pod) { pod.Annotations[key] = value }, "set the annotation %s to %q%s", key, value, why)
	return s.annotating(change, key, "--overwrite", key+"="+value)
}

// removeAnnotations proposes to remove annotations.
func removeAnnotations(cost float64, keys ...string) *Change {
	what := "annotation"
	if len(keys) > 1 {
		what = "annotations"
	}
	change := podChange("annotation", cost, func(pod *corev1.Pod) {
		maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return slices.Contains(keys, key) })
	}, "remove the %s %s", what, strings.Join(keys, " and "))
	change.fields = keys
	return change
}
