// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxModels bounds the work of matching one node.
const maxModels = 32

// Models is a list of patterns for device models. The zero value accepts every
// node, also one whose model is unknown; any other value needs a known model.
type Models struct {
	// patterns are in lower case.
	patterns []string
}

// ParseModels parses a comma-separated list of patterns, such as
// "NVIDIA-A100*,NVIDIA-H100*". A * stands for any run of characters. The rest
// must be characters of a label value, since that is where models come from.
func ParseModels(list string) (Models, error) {
	if strings.TrimSpace(list) == "" {
		return Models{}, errors.New("is empty: list model patterns separated by commas, or remove it")
	}
	parts := strings.Split(list, ",")
	if len(parts) > maxModels {
		return Models{}, fmt.Errorf("has %d patterns: list at most %d", len(parts), maxModels)
	}
	patterns := make([]string, 0, len(parts))
	for _, part := range parts {
		pattern := strings.ToLower(strings.TrimSpace(part))
		if pattern == "" {
			return Models{}, errors.New("has an empty pattern: remove the spare comma")
		}
		if i := strings.IndexFunc(pattern, notInModel); i >= 0 {
			return Models{}, fmt.Errorf("has the character %s, which no model contains: use letters, digits, '-', '_', '.' and '*'", strconv.QuoteRune([]rune(pattern[i:])[0]))
		}
		patterns = append(patterns, pattern)
	}
	return Models{patterns: patterns}, nil
}

// notInModel reports whether r can stand neither in a label value nor for a run
// of characters.
func notInModel(r rune) bool {
	switch {
	case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_', r == '.', r == '*':
		return false
	default:
		return true
	}
}

// Any reports whether every model is accepted.
func (m Models) Any() bool {
	return len(m.patterns) == 0
}

// String returns the patterns in lower case, separated by commas. Two lists with
// the same String accept the same models.
func (m Models) String() string {
	return strings.Join(m.patterns, ",")
}

// Match reports whether the model, in lower case as Node.Model is kept, is
// accepted. It allocates nothing.
func (m Models) Match(model string) bool {
	if len(m.patterns) == 0 {
		return true
	}
	if model == "" {
		return false
	}
	for _, pattern := range m.patterns {
		if matchPattern(pattern, model) {
			return true
		}
	}
	return false
}

// Widened returns the first of the patterns that matches the model if a * is put behind
// it, or on both sides of it, with the * that it takes; or "".
func (m Models) Widened(model string) string {
	for _, pattern := range m.patterns {
		for _, wider := range []string{pattern + "*", "*" + pattern + "*"} {
			if model != "" && matchPattern(wider, model) {
				return wider
			}
		}
	}
	return ""
}

// matchPattern matches with one point of return: after a mismatch only the last
// * has to take one more character, so the work is bounded by the product of
// both lengths.
func matchPattern(pattern, s string) bool {
	p, i := 0, 0
	star, mark := -1, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			mark++
			p, i = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
