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
func proposeColocation(s *situation) []*Change {
	with, ok := s.pod.Annotations[names.ColocateWithAnnotation]
	required := s.pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation]
	if !ok && required == "" || !s.runs(colocation.Name) {
		return nil
	}
	var changes []*Change
	if err := colocation.CheckAnnotations(s.pod); err != nil {
		keys := []string{names.ColocateWithAnnotation, names.ColocateTopologyKeysAnnotation, names.ColocateRequiredTopologyKeyAnnotation, names.FormerColocatePreferAnnotation, names.FormerColocateRequireWithinAnnotation}
		keys = slices.DeleteFunc(keys, func(key string) bool {
			_, has := s.pod.Annotations[key]
			return !has
		})
		changes = append(changes, removeAnnotations(3.7, keys...))
	}
	changes = append(changes, otherServices(s, with)...)
	if required == "" {
		return changes
	}
	return append(changes, otherLevels(s, required)...)
}

// otherServices proposes existing Services in place of misspelt ones.
func otherServices(s *situation, with string) []*Change {
	var changes []*Change
	var services []string
	for _, service := range others[*corev1.Service](s.in) {
		if service.Namespace == s.pod.Namespace {
			services = append(services, service.Name)
		}
	}
	items := strings.Split(with, ",")
	for i, item := range items {
		name, weight, weighted := strings.Cut(strings.TrimSpace(item), "=")
		if sets.New(services...).Has(name) || strings.Contains(name, "/") {
			continue
		}
		meant := messages.Nearest(name, services)
		if meant == "" {
			continue
		}
		list := append([]string{}, items...)
		list[i] = meant
		if weighted {
			list[i] += "=" + weight
		}
		changes = append(changes, setAnnotation(s, 0.9, names.ColocateWithAnnotation, strings.Join(list, ","), fmt.Sprintf(": Service %s exists, and %s does not", meant, name)))
	}
	return changes
}

// otherLevels proposes another topology key than the required one, or none.
func otherLevels(s *situation, required string) []*Change {
	var changes []*Change
	keys := sets.New[string]()
	for i := range s.nodes {
		keys.Insert(sets.List(sets.KeySet(s.nodes[i].node().Labels))...)
	}
	if meant := messages.Nearest(required, sets.List(keys)); meant != "" && !keys.Has(required) {
		changes = append(changes, setAnnotation(s, 0.9, names.ColocateRequiredTopologyKeyAnnotation, meant, ", which nodes have"))
	}
	for i, wider := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		if required != wider && keys.Has(wider) {
			changes = append(changes, setAnnotation(s, 2.5+0.1*float64(i), names.ColocateRequiredTopologyKeyAnnotation, wider, ", if that is near enough"))
		}
	}
	prefer := removeAnnotations(3, names.ColocateRequiredTopologyKeyAnnotation)
	prefer.Text += ": to be near the Services is then preferred, not required"
	return append(changes, prefer)
}
