// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"weak"
)

const (
	// maxModels bounds the patterns of a list.
	maxModels = 32
	// maxModelLength bounds a pattern: a model is the value of a label, which has at most so
	// many characters.
	maxModelLength = 63
	// maxModelsLength bounds a list before it is read: each pattern with a comma and a space.
	maxModelsLength = maxModels * (maxModelLength + 2)
	// maxKnownModels bounds the models for which a list remembers whether it accepts them. A
	// cluster has a handful.
	maxKnownModels = 64
)

// Models is a list of patterns for device models. The zero value accepts every
// node, also one whose model is unknown; any other value needs a known model. Equal
// values are lists with the same text.
type Models struct{ list *modelList }

// modelLists are the lists in use, by their text: there is one of each, so that Models can be
// compared. A list leaves with the last pod that asks for it.
var modelLists = struct {
	mu     sync.Mutex
	byText map[string]weak.Pointer[modelList]
}{byText: map[string]weak.Pointer[modelList]{}}

// modelList is a list of patterns, which its copies share.
type modelList struct {
	// patterns are in lower case, and text is all of them.
	patterns []string
	text     string
	// known says which models are accepted, as far as they were asked for: the patterns are
	// matched once for each model of a cluster, and not for each node. Replaced, not changed.
	known atomic.Pointer[map[string]bool]
}

// ParseModels parses a comma-separated list of patterns, such as
// "NVIDIA-A100*,NVIDIA-H100*". A * stands for any run of characters. The rest
// must be characters of a label value, since that is where models come from. A list has at
// most 32 patterns, of at most 63 characters each, and 2080 characters in all.
func ParseModels(list string) (Models, error) {
	if len(list) > maxModelsLength {
		return Models{}, fmt.Errorf("has %d characters: list at most %d patterns of at most %d characters each", len(list), maxModels, maxModelLength)
	}
	if strings.TrimSpace(list) == "" {
		return Models{}, errors.New("is empty: list model patterns separated by commas, or remove it")
	}
	parts := strings.Split(list, ",")
	if len(parts) > maxModels {
		return Models{}, fmt.Errorf("has %d patterns: list at most %d", len(parts), maxModels)
	}
	patterns := make([]string, 0, len(parts))
	for _, part := range parts {
		pattern := collapseStars(strings.ToLower(strings.TrimSpace(part)))
		if pattern == "" {
			return Models{}, errors.New("has an empty pattern: remove the spare comma")
		}
		if i := strings.IndexFunc(pattern, notInModel); i >= 0 {
			return Models{}, fmt.Errorf("has the character %s, which no model contains: use letters, digits, '-', '_', '.' and '*'", strconv.QuoteRune([]rune(pattern[i:])[0]))
		}
		if len(pattern) > maxModelLength {
			return Models{}, fmt.Errorf("has a pattern of %d characters: a model has at most %d", len(pattern), maxModelLength)
		}
		patterns = append(patterns, pattern)
	}
	return newModels(patterns...), nil
}

// newModels returns the list of the patterns, which are as ParseModels leaves them.
func newModels(patterns ...string) Models {
	if len(patterns) == 0 {
		return Models{}
	}
	text := strings.Join(patterns, ",")
	modelLists.mu.Lock()
	defer modelLists.mu.Unlock()
	if list := modelLists.byText[text].Value(); list != nil {
		return Models{list: list}
	}
	list := &modelList{patterns: patterns, text: text}
	modelLists.byText[text] = weak.Make(list)
	runtime.AddCleanup(list, forgetModels, text)
	return Models{list: list}
}

// forgetModels forgets a list that is no longer in use, unless it is again.
func forgetModels(text string) {
	modelLists.mu.Lock()
	defer modelLists.mu.Unlock()
	if modelLists.byText[text].Value() == nil {
		delete(modelLists.byText, text)
	}
}

// collapseStars returns the pattern with one * for each run of them, which matches the same.
func collapseStars(pattern string) string {
	for strings.Contains(pattern, "**") {
		pattern = strings.ReplaceAll(pattern, "**", "*")
	}
	return pattern
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
	return m.list == nil
}

// String returns the patterns in lower case, separated by commas. Two lists with
// the same String accept the same models.
func (m Models) String() string {
	if m.list == nil {
		return ""
	}
	return m.list.text
}

// MarshalText returns the same, for the signature of a pod.
func (m Models) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// Match reports whether the model, in lower case as Node.Model is kept, is
// accepted. It allocates nothing for a model that it was asked for before.
func (m Models) Match(model string) bool {
	switch {
	case m.list == nil:
		return true
	case model == "":
		return false
	}
	known := m.list.known.Load()
	if known != nil {
		if accepted, ok := (*known)[model]; ok {
			return accepted
		}
	}
	accepted := slices.ContainsFunc(m.list.patterns, func(pattern string) bool { return matchPattern(pattern, model) })
	if known == nil {
		m.list.known.CompareAndSwap(nil, &map[string]bool{model: accepted})
	} else if len(*known) < maxKnownModels {
		more := maps.Clone(*known)
		more[model] = accepted
		m.list.known.CompareAndSwap(known, &more) // or another goroutine has added one, and this one is asked for again
	}
	return accepted
}

// Widened returns the first of the patterns that matches the model if a * is put behind
// it, or on both sides of it, with the * that it takes; or "".
func (m Models) Widened(model string) string {
	if m.list == nil {
		return ""
	}
	for _, pattern := range m.list.patterns {
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
