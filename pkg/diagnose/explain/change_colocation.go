// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation"
)

// proposeColocation proposes existing Services and topology keys, or to prefer what is
// required.
func proposeColocation(s *situation, add func(*Change)) {
	with, ok := s.pod.Annotations[names.ColocateWithAnnotation]
	required := s.pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation]
	if !ok && required == "" || !s.runs(colocation.Name) {
		return
	}
	if err := colocation.CheckAnnotations(s.pod); err != nil {
		keys := []string{names.ColocateWithAnnotation, names.ColocateTopologyKeysAnnotation, names.ColocateRequiredTopologyKeyAnnotation, names.FormerColocatePreferAnnotation, names.FormerColocateRequireWithinAnnotation}
		add(removeAnnotations(3.7, slices.DeleteFunc(keys, func(key string) bool {
			_, has := s.pod.Annotations[key]
			return !has
		})...))
	}
	proposeServices(s, with, add)
	if required != "" {
		proposeLevels(s, required, add)
	}
}

// proposeServices proposes existing Services in place of misspelled ones.
func proposeServices(s *situation, with string, add func(*Change)) {
	services := namesOf[*corev1.Service](s)
	items := strings.Split(with, ",")
	for i, item := range items {
		name, weight, weighted := strings.Cut(strings.TrimSpace(item), "=")
		if slices.Contains(services, name) || strings.Contains(name, "/") {
			continue
		}
		meant := messages.Nearest(name, services)
		if meant == "" {
			continue
		}
		list := slices.Clone(items)
		list[i] = meant
		if weighted {
			list[i] += "=" + weight
		}
		add(setAnnotation(s, 0.9, names.ColocateWithAnnotation, strings.Join(list, ","), fmt.Sprintf(": Service %s exists, and %s does not", meant, name)))
	}
}

// proposeLevels proposes another topology key than the required one, or none.
func proposeLevels(s *situation, required string, add func(*Change)) {
	keys := s.labelKeys()
	if meant := messages.Nearest(required, sets.List(keys)); meant != "" && !keys.Has(required) {
		add(setAnnotation(s, 0.9, names.ColocateRequiredTopologyKeyAnnotation, meant, ", which nodes have"))
	}
	for i, wider := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if required != wider && keys.Has(wider) {
			add(setAnnotation(s, 2.5+0.1*float64(i), names.ColocateRequiredTopologyKeyAnnotation, wider, ", if that is near enough"))
		}
	}
	prefer := removeAnnotations(3, names.ColocateRequiredTopologyKeyAnnotation)
	prefer.Text += ": to be near the Services is then preferred, not required"
	add(prefer)
}

// labelKeys returns the keys of the labels of all nodes that cannot take the pod.
func (s *situation) labelKeys() sets.Set[string] {
	keys := sets.New[string]()
	for i := range s.nodes {
		keys = keys.Union(sets.KeySet(s.nodes[i].node().Labels))
	}
	return keys
}
