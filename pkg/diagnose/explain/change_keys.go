// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/registry"
	"github.com/berth-scheduler/berth/pkg/scheduler/unknownkeys"
)

// proposeKeys proposes the names that annotations are meant to have: the current ones, or
// those that they are a typo of. An annotation that is also there under its right name is
// removed.
func proposeKeys(s *situation) []*Change {
	var changes []*Change
	var all *Change // as several may be needed: each alone is rejected
	keys := registry.PodKeys()
	for _, key := range slices.Sorted(maps.Keys(s.pod.Annotations)) {
		meant := unknownkeys.Meant(keys, key)
		if meant == "" {
			continue
		}
		if _, both := s.pod.Annotations[meant]; both {
			changes = append(changes, removeAnnotations(0.8, key))
			continue
		}
		change := &Change{
			Who: OnPod, Kind: "annotation", cost: 0.7, fields: []string{key}, Text: fmt.Sprintf("rename the annotation %s to %s", key, meant),
			pod: func(pod *corev1.Pod) {
				pod.Annotations = maps.Clone(pod.Annotations)
				pod.Annotations[meant] = pod.Annotations[key]
				delete(pod.Annotations, key)
			},
		}
		if s.in.Of == "" && len(s.pods) == 1 {
			change.Command = fmt.Sprintf("kubectl -n %s annotate pod %s %s %s", s.pod.Namespace, s.pod.Name, output.ShellWord(key+"-"), output.ShellWord(meant+"="+s.pod.Annotations[key]))
		}
		changes = append(changes, change)
		if all == nil {
			all = change
		} else {
			all = both(all, change)
			changes = append(changes, all)
		}
	}
	return changes
}
