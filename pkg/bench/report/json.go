// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"io"
	"slices"

	kjson "sigs.k8s.io/json"

	"github.com/berth-scheduler/berth/pkg/output"
)

// WriteJSON writes the report as one JSON object, with the keys that the package's
// documentation lists. Equal reports are equal bytes. A report that [Report.Validate]
// refuses is not written.
func WriteJSON(w io.Writer, r *Report) error {
	if err := r.Validate(); err != nil {
		return err
	}
	return output.WriteJSON(w, r.complete())
}

// complete returns the report with an empty list or map where a key is always
// there: a reader never meets null.
func (r *Report) complete() *Report {
	whole := *r
	whole.Schedulers = append([]Scheduler{}, r.Schedulers...)
	for i := range whole.Schedulers {
		s := &whole.Schedulers[i]
		s.Rounds = append([]Round{}, s.Rounds...)
		if s.Summary == nil {
			s.Summary = map[Phase]map[string]Spread{}
		}
		for k := range s.Rounds {
			round := &s.Rounds[k]
			round.BoundPerSecond = append([]int{}, round.BoundPerSecond...)
			if round.Metrics == nil {
				round.Metrics = map[string]float64{}
			}
		}
	}
	return &whole
}

// ReadJSON reads what [WriteJSON] wrote. It is strict: a key that is unknown, there
// twice or in other letters is an error that names it, and so is everything that
// [Report.Validate] refuses.
func ReadJSON(in io.Reader) (*Report, error) {
	content, err := io.ReadAll(in)
	if err != nil {
		return nil, err
	}
	r := &Report{}
	strict, err := kjson.UnmarshalStrict(content, r)
	if err != nil {
		return nil, fmt.Errorf("not a report.json: %w", err)
	}
	// The version first: what another version calls its keys is no mistake of a user's.
	if r.FormatVersion != FormatVersion {
		return nil, fmt.Errorf("formatVersion: Invalid value: %d: only version %d is known here: read it with the kubectl-berth that wrote it", r.FormatVersion, FormatVersion)
	}
	if err := errors.Join(append(slices.Clip(strict), r.Validate())...); err != nil {
		return nil, err
	}
	return r, nil
}
