// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"
)

// ScheduleAll lets pods arrive in the order of the slice, and tries those that were
// refused again, in the same order, as long as a round places another pod: what a
// scheduler comes to in the end, whose queue wakes a refused pod when something
// changes in its favour (a peer that it waits for has a node). It tries more often
// than the queue does, since it asks no plugin whether a change could help, and
// never less often.
//
// It yields one Result for each pod: for one that is bound at the attempt that
// placed it, and for the others, in their order, when nothing helps any more. An
// error ends it.
func (e *Engine) ScheduleAll(ctx context.Context, pods []*corev1.Pod) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		for progress := true; progress && len(pods) > 0; {
			progress = false
			var refused []*corev1.Pod
			var results []Result
			for _, pod := range pods {
				result, err := e.Schedule(ctx, pod)
				if err != nil {
					yield(Result{}, err)
					return
				}
				if result.Outcome != Bound {
					refused, results = append(refused, pod), append(results, result)
					continue
				}
				progress = true
				if !yield(result, nil) {
					return
				}
			}
			if pods = refused; progress {
				continue
			}
			for i := range results {
				if !yield(results[i], nil) {
					return
				}
			}
		}
	}
}
