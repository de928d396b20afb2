// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantity is an amount of a resource, such as 4, 500m or 16Gi. A malformed one is
// kept as it was written until it is validated, so that the error names its field.
type Quantity struct {
	resource.Quantity

	// malformed is what was written, where that is no quantity.
	malformed string
}

// UnmarshalJSON reads a string or a number. It never fails.
func (q *Quantity) UnmarshalJSON(raw []byte) error {
	*q = Quantity{}
	if q.Quantity.UnmarshalJSON(raw) != nil {
		q.malformed = written(raw)
	}
	return nil
}

// Duration is a duration such as 30s or 5m. A malformed one is kept as it was
// written until it is validated, so that the error names its field.
type Duration struct {
	time.Duration

	// malformed is what was written, where that is no duration.
	malformed string
}

// UnmarshalJSON reads a string. It never fails.
func (d *Duration) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		return nil
	}
	*d = Duration{}
	var text string
	err := json.Unmarshal(raw, &text)
	if err == nil {
		d.Duration, err = time.ParseDuration(text)
	}
	if err != nil {
		d.malformed = written(raw)
	}
	return nil
}

// written is a JSON value as its author wrote it, more or less.
func written(raw []byte) string {
	if text := strings.Trim(string(raw), `"`); text != "" {
		return text
	}
	return string(raw)
}
