// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"

	"sigs.k8s.io/yaml"
)

// numbers is an indented array of numbers. A line feed within a string is escaped,
// so it never matches one.
var numbers = regexp.MustCompile(`\[\n[-+.0-9eE,\s]+\]`)

// WriteYAML writes what [Report.WriteJSON] writes, as YAML.
func (r *Report) WriteYAML(w io.Writer) error {
	content, err := yaml.Marshal(r)
	if err != nil {
		return err
	}
	_, err = w.Write(content)
	return err
}

// WriteJSON writes the report as one JSON object. The keys are those of the types
// of this package and of [Metrics]; keys may be added, and [FormatVersion] changes
// when one goes. Equal reports are equal bytes.
func (r *Report) WriteJSON(w io.Writer) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r); err != nil {
		return err
	}
	// A curve is a line, not a page.
	_, err := w.Write(numbers.ReplaceAllFunc(out.Bytes(), func(array []byte) []byte {
		return bytes.Join(bytes.Fields(array), nil)
	}))
	return err
}
