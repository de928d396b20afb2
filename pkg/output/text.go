// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
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

// ShellWord quotes an argument for a shell, where it needs that.
func ShellWord(arg string) string {
	if arg == "" || strings.ContainsFunc(arg, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=/.,:@%+", r)
	}) {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return arg
}
