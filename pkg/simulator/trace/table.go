// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
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

// maxAmount is the largest CPU or memory of a row: its bytes still fit into 63
// bits.
const maxAmount = 1 << 40

// byteOrderMark is what spreadsheets let a file begin with.
const byteOrderMark = "\ufeff"

// column is a column of a table, and how it becomes a part of a row of type T.
type column[T any] struct {
	name string
	// optional is whether a table may lack it.
	optional bool
	// set parses the field; nil for a column that is not used. An error says what is
	// wrong, and begins with the name of the column.
	set func(row *T, name, text string) error
}

// table is a CSV file that is being read.
type table struct {
	file   string
	csv    *csv.Reader
	header []string
}

// newTable reads the header.
func newTable(file string, content []byte) (*table, error) {
	content = bytes.TrimPrefix(content, []byte(byteOrderMark))
	if n := bytes.LastIndexByte(content, '\n') + 1; n < len(content) {
		return nil, &Error{File: file, Line: bytes.Count(content, []byte("\n")) + 1, Column: len(content) - n + 1, Err: errors.New(
			"the file ends within this line: it was cut off, or its last line lacks a line feed")}
	}
	t := &table{file: file, csv: csv.NewReader(bytes.NewReader(content))}
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Err: errors.New("is empty: want a header and rows")}
	}
	if err != nil {
		return nil, t.readError(header, err)
	}
	t.header = slices.Clone(header)
	for i, name := range t.header {
		if slices.Index(t.header, name) < i {
			return nil, t.errorAt(i, fmt.Errorf("column %q is given more than once", name))
		}
	}
	return t, nil
}

// rows calls each with every row of the table and the line at which it begins. What
// each refuses is the first of the columns.
func rows[T any](t *table, columns []column[T], each func(row *T, line int) error) error {
	type field struct {
		column[T]
		index int // in the file
	}
	var fields []field
	var names []string
	for _, column := range columns {
		names = append(names, column.name)
		if i := slices.Index(t.header, column.name); i >= 0 {
			fields = append(fields, field{column, i})
		} else if !column.optional {
			return &Error{File: t.file, Line: 1, Column: 1, Err: fmt.Errorf("column %q is missing: the header is %q", column.name, strings.Join(t.header, ","))}
		}
	}
	for i, name := range t.header {
		if !slices.Contains(names, name) {
			return t.errorAt(i, fmt.Errorf("unknown column %q: want %s", name, strings.Join(names, ", ")))
		}
	}
	for count := 0; ; count++ {
		values, err := t.csv.Read()
		switch {
		case errors.Is(err, io.EOF) && count == 0:
			return &Error{File: t.file, Err: errors.New("has a header and no row")}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return t.readError(values, err)
		}
		var row T
		// In the order of columns: what a field may be can depend on those before it.
		for i := range fields {
			if fields[i].set == nil {
				continue
			}
			if err := fields[i].set(&row, fields[i].name, values[fields[i].index]); err != nil {
				return t.errorAt(fields[i].index, err)
			}
		}
		line, _ := t.csv.FieldPos(0)
		if err := each(&row, line); err != nil {
			return t.errorAt(fields[0].index, err)
		}
	}
}

// readError puts the position into what the CSV reader reports.
func (t *table) readError(row []string, err error) error {
	parse, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return &Error{File: t.file, Err: err}
	}
	cause := parse.Err
	if errors.Is(cause, csv.ErrFieldCount) {
		cause = fmt.Errorf("the row has %d fields, and the header %d columns", len(row), len(t.header))
	}
	return &Error{File: t.file, Line: parse.Line, Column: max(1, parse.Column), Err: cause}
}

// errorAt is an error in a field of the current row.
func (t *table) errorAt(field int, err error) error {
	line, column := t.csv.FieldPos(field)
	return &Error{File: t.file, Line: line, Column: column, Err: err}
}

// integer parses a field as a whole number from 0 to limit.
func integer(name, text string, limit int64) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
		return 0, fmt.Errorf("%s is empty: want a whole number", name)
	case errors.Is(err, strconv.ErrRange):
		return 0, fmt.Errorf("%s: %s is out of range: want 0 to %d", name, abbreviate(text), limit)
	case err != nil:
		return 0, fmt.Errorf("%s: %q is not a whole number", name, abbreviate(text))
	case n < 0:
		return 0, fmt.Errorf("%s: %d is negative", name, n)
	case n > limit:
		return 0, fmt.Errorf("%s: %d is out of range: want 0 to %d", name, n, limit)
	}
	return n, nil
}

// integerColumn is a column of whole numbers up to limit.
func integerColumn[T any](name string, limit int64, of func(*T) *int64) column[T] {
	return column[T]{name: name, set: func(row *T, name, text string) (err error) {
		*of(row), err = integer(name, text, limit)
		return err
	}}
}

// nameColumn is a column of the names of objects.
func nameColumn[T any](name string, of func(*T) *string) column[T] {
	return column[T]{name: name, set: func(row *T, name, text string) error {
		if text == "" {
			return fmt.Errorf("%s: is empty: want a name", name)
		}
		if problems := validation.IsDNS1123Subdomain(text); len(problems) > 0 {
			return fmt.Errorf("%s: %q is not the name of an object: %s", name, abbreviate(text), problems[0])
		}
		*of(row) = strings.Clone(text) // the text may share the memory of its row
		return nil
	}}
}

// timeColumn is a column of times in seconds, which are checked and not used. They
// may be empty: a pod that was never scheduled has no scheduled_time.
func timeColumn[T any](name string) column[T] {
	return column[T]{name: name, optional: true, set: func(_ *T, name, text string) (err error) {
		if text != "" {
			_, err = integer(name, text, math.MaxInt64)
		}
		return err
	}}
}

// checkModel says what is wrong with a model, which becomes the value of a label.
func checkModel(model string) error {
	if model == "" {
		return errors.New("a model is empty")
	}
	if problems := validation.IsValidLabelValue(model); len(problems) > 0 {
		return fmt.Errorf("%q is not a device model, which is the value of a label: %s", abbreviate(model), problems[0])
	}
	return nil
}

// abbreviate keeps the text of an error readable.
func abbreviate(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
