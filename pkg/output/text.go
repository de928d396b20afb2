// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line makes one line of a text that came from elsewhere: runs of white space become
// a space, and what a terminal would act on, or a reader not see, is written as Go
// writes it in a string.
func Line(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, string(utf8.RuneError))), " ")
	if strings.IndexFunc(s, isUnseen) < 0 {
		return s
	}
	var line []byte
	for _, r := range s {
		if !isUnseen(r) {
			line = utf8.AppendRune(line, r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		line = append(line, quoted[1:len(quoted)-1]...)
	}
	return string(line)
}

// isUnseen finds control characters, and those that turn or hide other text.
func isUnseen(r rune) bool { return !unicode.IsGraphic(r) }

// columnGap stands between two columns.
const columnGap = 3

// ShellWord quotes an argument for a shell, where it needs that.
func ShellWord(arg string) string {
	if arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/.,:@%+", r)
	}) {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}

// WriteColumns writes rows of cells, each a line (Line), in columns: the first one
// aligned to the left, the others, numbers mostly, to the right.
func WriteColumns(w io.Writer, rows [][]string) error {
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
		for i, cell := range row {
			padding := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString(cell + padding)
			} else {
				line.WriteString(strings.Repeat(" ", columnGap) + padding + cell)
			}
		}
		out.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}
