// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
)

// How many changes are returned: in all, of a kind, and by who makes them.
const (
	maxChanges = 8
	maxOfKind  = 2
	maxOfWho   = 4
)

// Bounds of the search. A trial costs in proportion to the nodes.
const (
	leastTrials, mostTrials = 60, 400
	nodesTried              = 400_000
	// combined is how many of the proposed changes are tried together.
	combined = 24
)

// changes returns what helps, single changes first, the smallest first. Where no single
// one helps, pairs and then triples are tried.
func (s *situation) changes(ctx context.Context) ([]Change, error) {
	proposed := s.proposed(proposers()...)
	for i, change := range proposed {
		change.last, change.like = i, s.pod
	}
	trials := min(mostTrials, max(leastTrials, nodesTried/max(1, s.total)))
	found, err := s.tryEach(ctx, proposed, &trials)
	if err != nil || len(found) > 0 {
		return found, err
	}
	proposed = proposed[:min(len(proposed), combined)]
	pairs := pairsOf(proposed, proposed)
	if found, err = s.tryEach(ctx, sorted(pairs), &trials); err != nil || len(found) > 0 {
		return found, err
	}
	return s.tryEach(ctx, sorted(pairsOf(pairs, proposed)), &trials)
}

// sorted sorts changes by their cost.
func sorted(changes []*Change) []*Change {
	slices.SortStableFunc(changes, func(a, b *Change) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.Text, b.Text)) })
	return changes
}

// pairsOf combines changes of different kinds.
func pairsOf(a, b []*Change) []*Change {
	var pairs []*Change
	for _, one := range a {
		for _, other := range b {
			if one.last < other.last && goTogether(one, other) {
				pairs = append(pairs, both(one, other))
			}
		}
	}
	return pairs
}

// goTogether reports whether two changes may help together that do not alone. Two of
// one kind are two ways to the same end, unless they set different fields of the pod, and
// so are changes of two nodes.
func goTogether(a, b *Change) bool {
	sameField := func(field string) bool { return slices.Contains(a.fields, field) }
	if slices.ContainsFunc(b.fields, sameField) || len(b.fields) == 0 && slices.Contains(strings.Split(a.Kind, "+"), b.Kind) {
		return false
	}
	for _, one := range a.edits {
		for _, other := range b.edits {
			if fmt.Sprintf("%T", one.object) == fmt.Sprintf("%T", other.object) && keyOf(one.object) != keyOf(other.object) {
				return false
			}
		}
	}
	return true
}

// tryEach tries changes in their order and returns those that help, up to the bounds above.
func (s *situation) tryEach(ctx context.Context, changes []*Change, trials *int) ([]Change, error) {
	var found []Change
	ofKind, ofWho := map[string]int{}, map[Who]int{}
	for _, change := range changes {
		if len(found) >= maxChanges || *trials <= 0 {
			break
		}
		if ofKind[change.Kind] >= maxOfKind || ofWho[change.Who] >= maxOfWho {
			continue
		}
		*trials--
		node, err := s.try(ctx, change)
		if err != nil {
			return found, err
		}
		if node == "" {
			continue
		}
		change.Node = node
		ofKind[change.Kind]++
		ofWho[change.Who]++
		found = append(found, *change)
	}
	return found, nil
}
