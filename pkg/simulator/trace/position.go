// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"fmt"
	"io"
)

// Error is what is wrong with a file, and where.
type Error struct {
	// File is the name that the file was read under.
	File string
	// Line and Column count from 1, the column in bytes. Both are 0 if the error
	// is about the file as a whole.
	Line, Column int
	// Err says what is wrong and what would be right.
	Err error
}

// Error implements error, in the form that editors and terminals can jump to.
func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %v", e.File, e.Err)
	}
	return fmt.Sprintf("%s:%d:%d: %v", e.File, e.Line, e.Column, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// maxLine is the length of the longest line in bytes. The longest of the trace
// has about a hundred.
const maxLine = 64 << 10

var errLongLine = errors.New("the line is longer than 64 KiB: is this a CSV file?")

// lineReader passes a file on, as long as its lines are short enough to be those
// of a table, and remembers how it ended.
type lineReader struct {
	in io.Reader
	// line is the current line, from 1, and length what of it was read.
	line, length int
	// inLine is whether the last byte read was not a line feed.
	inLine bool
}

// Read implements io.Reader.
func (r *lineReader) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	for _, b := range p[:n] {
		if b == '\n' {
			r.line++
			r.length, r.inLine = 0, false
			continue
		}
		r.length++
		r.inLine = true
		if r.length > maxLine {
			return 0, errLongLine
		}
	}
	return n, err
}
