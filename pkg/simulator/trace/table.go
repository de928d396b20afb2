// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// maxAmount is the largest CPU or memory of a row: its bytes still fit into 63
// bits.
const maxAmount = 1 << 40

// byteOrderMark is what spreadsheets let a file begin with.
const byteOrderMark = "\ufeff"

// table reads a CSV file row by row.
type table struct {
	file  string
	lines *lineReader
	csv   *csv.Reader
	// header are the columns of the file.
	header []string
	// row is the current row, valid until the next one is read.
	row []string
}

// newTable reads the header.
func newTable(in io.Reader, file string) (*table, error) {
	buffered := bufio.NewReader(in)
	if start, _ := buffered.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // what was peeked at is there
	}
	t := &table{file: file, lines: &lineReader{in: buffered, line: 1}}
	t.csv = csv.NewReader(t.lines)
	t.csv.ReuseRecord = true
	header, err := t.csv.Read()
	if errors.Is(err, io.EOF) {
		return nil, &Error{File: file, Err: errors.New("is empty: want a header and rows")}
	}
	if err != nil {
		return nil, t.readError(err)
	}
	t.header = slices.Clone(header)
	for i, column := range t.header {
		if j := slices.Index(t.header, column); j < i {
			return nil, t.at(i, fmt.Errorf("column %q stands twice", column))
		}
	}
	return t, nil
}

// resolve returns at which index each column stands, -1 for an optional one that
// is not there. Any other column of the file is an error.
func (t *table) resolve(required, optional []string) (map[string]int, error) {
	index := map[string]int{}
	for _, column := range optional {
		index[column] = slices.Index(t.header, column)
	}
	for _, column := range required {
		i := slices.Index(t.header, column)
		if i < 0 {
			return nil, &Error{File: t.file, Line: 1, Column: 1, Err: fmt.Errorf("column %q is missing: the header is %q", column, strings.Join(t.header, ","))}
		}
		index[column] = i
	}
	for i, column := range t.header {
		if _, known := index[column]; !known {
			return nil, t.at(i, fmt.Errorf("unknown column %q: want %s", column, strings.Join(slices.Concat(required, optional), ", ")))
		}
	}
	return index, nil
}

// next reads a row. It is false at the end of the file.
func (t *table) next() (bool, error) {
	row, err := t.csv.Read()
	switch {
	case errors.Is(err, io.EOF):
		if t.lines.inLine {
			return false, &Error{File: t.file, Line: t.lines.line, Column: t.lines.length + 1, Err: errors.New(
				"the file ends within this line: it was cut off, or its last line lacks a line feed")}
		}
		return false, nil
	case err != nil:
		t.row = row
		return false, t.readError(err)
	}
	t.row = row
	return true, nil
}

// readError puts the position into what the CSV reader, or the file, reports.
func (t *table) readError(err error) error {
	if errors.Is(err, errLongLine) {
		return &Error{File: t.file, Line: t.lines.line, Column: maxLine, Err: errLongLine}
	}
	parse, ok := errors.AsType[*csv.ParseError](err)
	if !ok {
		return &Error{File: t.file, Line: t.lines.line, Column: t.lines.length + 1, Err: fmt.Errorf("reading: %w", err)}
	}
	cause := parse.Err
	if errors.Is(cause, csv.ErrFieldCount) {
		cause = fmt.Errorf("the row has %d fields, and the header %d columns", len(t.row), len(t.header))
	}
	return &Error{File: t.file, Line: parse.Line, Column: max(1, parse.Column), Err: cause}
}

// at is an error in a field of the current row.
func (t *table) at(field int, err error) error {
	line, column := t.csv.FieldPos(field)
	return &Error{File: t.file, Line: line, Column: column, Err: err}
}

// line returns the number of the line at which the current row begins.
func (t *table) line() int {
	line, _ := t.csv.FieldPos(0)
	return line
}

// integer parses a field as a whole number from 0 to limit.
func (t *table) integer(field int, limit int64) (int64, error) {
	text, column := t.row[field], t.header[field]
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case text == "":
		return 0, t.at(field, fmt.Errorf("%s is empty: want a whole number", column))
	case errors.Is(err, strconv.ErrRange):
		return 0, t.at(field, fmt.Errorf("%s: %s is out of range: want 0 to %d", column, abbreviate(text), limit))
	case err != nil:
		return 0, t.at(field, fmt.Errorf("%s: %q is not a whole number", column, abbreviate(text)))
	case n < 0:
		return 0, t.at(field, fmt.Errorf("%s: %d is negative", column, n))
	case n > limit:
		return 0, t.at(field, fmt.Errorf("%s: %d is out of range: want 0 to %d", column, n, limit))
	}
	return n, nil
}

// abbreviate keeps the text of an error readable.
func abbreviate(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
