// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// columnGap stands between two columns.
const columnGap = "   "

// Table is rows of cells, which are written in columns.
type Table struct {
	// Header is the first row; without one there is none.
	Header []string
	Rows   [][]string
	// Indent stands before every row.
	Indent string
	// Numbers aligns all columns but the first to the right.
	Numbers bool
}

// NewTable returns a table without rows.
func NewTable(header ...string) *Table { return &Table{Header: header} }

// Add adds a row, with cells as fmt.Sprint writes them.
func (t *Table) Add(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.Rows = append(t.Rows, row)
}

// Write writes the table. Each cell becomes a line ([Line]), and an empty one, but for
// those of the header, a dash.
func (t *Table) Write(w io.Writer) error {
	var rows [][]string
	if len(t.Header) > 0 {
		rows = append(rows, t.Header)
	}
	for _, row := range t.Rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(Line(cell), "-")
		}
		rows = append(rows, cells)
	}
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var out strings.Builder
	for _, row := range rows {
		var line strings.Builder
		line.WriteString(t.Indent)
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			switch {
			case i == 0:
				line.WriteString(cell + padding)
			case t.Numbers:
				line.WriteString(columnGap + padding + cell)
			default:
				line.WriteString(columnGap + cell + padding)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
