// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"regexp"
	"strings"
)

// driverEquals is a comparison of a device's driver with a literal, in either order.
var driverEquals = regexp.MustCompile(`^(?:device\.driver\s*==\s*("[^"\\]*"|'[^'\\]*')|("[^"\\]*"|'[^'\\]*')\s*==\s*device\.driver)$`)

// maxNesting is how deep in parentheses a driver is looked for.
const maxNesting = 8

// rareInSelectors are what outermost has no eye for: escapes, long strings and comments.
var rareInSelectors = [...]string{`\`, `""`, "''", "//"}

// onlyDriver returns the driver whose devices alone the CEL expression of a selector lets
// through, or "" if it does not say so plainly: it is a conjunction, and one part of it equates
// device.driver with a literal. No expression is evaluated, and one that is not understood may
// let any device through.
func onlyDriver(expression string) string {
	for _, rare := range rareInSelectors {
		if strings.Contains(expression, rare) {
			return ""
		}
	}
	return driverOf(expression, maxNesting)
}

// driverOf is onlyDriver for an expression with nothing rare in it.
func driverOf(expression string, nesting int) string {
	for _, part := range conjuncts(expression) {
		if inner, ok := withoutParentheses(part); ok && nesting > 0 {
			if driver := driverOf(inner, nesting-1); driver != "" {
				return driver
			}
		} else if match := driverEquals.FindStringSubmatch(part); match != nil {
			return strings.Trim(match[1]+match[2], `"'`)
		}
	}
	return ""
}

// outermost calls visit for each character that stands outside of quotes and parentheses, and
// for the closing one of each outermost pair, until it returns false.
func outermost(expression string, visit func(at int) bool) {
	depth := 0
	var quote byte
	for i := range len(expression) {
		switch c := expression[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
			continue
		case c == '"' || c == '\'':
			quote = c
			continue
		case strings.IndexByte("([{", c) >= 0:
			depth++
		case strings.IndexByte(")]}", c) >= 0:
			depth--
		}
		if depth == 0 && !visit(i) {
			return
		}
	}
}

// conjuncts splits an expression at its outermost &&. It is nil if the expression has another
// operator there that binds less.
func conjuncts(expression string) []string {
	var parts []string
	start, other := 0, false
	outermost(expression, func(i int) bool {
		switch {
		case expression[i] == '?' || strings.HasPrefix(expression[i:], "||"):
			other = true
		case strings.HasPrefix(expression[i:], "&&"):
			parts = append(parts, strings.TrimSpace(expression[start:i]))
			start = i + 2
		}
		return !other
	})
	if other {
		return nil
	}
	return append(parts, strings.TrimSpace(expression[start:]))
}

// withoutParentheses returns what stands in the parentheses that enclose the whole expression,
// and whether there are such.
func withoutParentheses(expression string) (string, bool) {
	last := len(expression) - 1
	if last < 1 || expression[0] != '(' {
		return "", false
	}
	closed := -1 // where the first pair ends
	outermost(expression, func(i int) bool {
		closed = i
		return false
	})
	if closed != last {
		return "", false
	}
	return expression[1:last], true
}
