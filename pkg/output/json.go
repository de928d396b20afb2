// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"bytes"
	"encoding/json"
	"io"
	"regexp"
)

// numbers is an indented array of numbers. A line feed within a string is escaped,
// so it never matches one.
var numbers = regexp.MustCompile(`\[\n[-+.0-9eE,\s]+\]`)

// WriteJSON writes a value as indented JSON, an array of numbers in one line: a
// curve is a line, not a page. Equal values are equal bytes. Nothing is written if
// the value cannot be.
func WriteJSON(w io.Writer, value any) error {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return err
	}
	_, err := w.Write(numbers.ReplaceAllFunc(out.Bytes(), func(array []byte) []byte {
		return bytes.Join(bytes.Fields(array), nil)
	}))
	return err
}
