// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// readYAML reads documents separated by "---".
func (s *source) readYAML(content []byte) error {
	begin, offset, first, number := 0, 0, 1, 0
	for line := range bytes.Lines(content) {
		number++
		offset += len(line)
		rest, ok := bytes.CutPrefix(line, []byte("---"))
		switch {
		case string(bytes.TrimSpace(line)) == "...":
			rest = nil
		case !ok || len(rest) > 0 && !bytes.ContainsAny(rest[:1], " \r\n"):
			continue
		}
		if err := s.addYAML(content[begin:offset-len(line)], first); err != nil {
			return err
		}
		// What follows the dashes belongs to the document.
		begin, first = offset-len(rest), number
	}
	return s.addYAML(content[begin:], first)
}

// addYAML adds the document that begins at the line.
func (s *source) addYAML(text []byte, line int) error {
	trimmed := bytes.TrimLeft(text, "\r\n")
	line += bytes.Count(text[:len(text)-len(trimmed)], []byte("\n"))
	rest, items := cutItems(trimmed, line)
	it := item{line: line}
	var err error
	if it.json, err = (&yamlItem{line: line, text: rest}).toJSON(); err != nil {
		return s.errorAt(it, "", err)
	}
	if bytes.Equal(it.json, []byte("null")) {
		return nil // comments alone
	}
	var d document
	if bytes.HasPrefix(it.json, []byte("{")) {
		if err := json.Unmarshal(it.json, &d); err != nil {
			return s.errorAt(it, "", err)
		}
	}
	return s.addDocument(&d, it, items)
}

// yamlItem is text that is parsed alone, and the line at which it begins.
type yamlItem struct {
	line int
	text []byte
}

// cutItems cuts the items of a list out of its text by their indentation, so that
// they are parsed one by one: a parser that builds the tree of a list of 200 MB
// needs more memory than most machines have. In block style, which kubectl prints,
// an item begins with a dash at the indentation of the first, and the list ends at
// the next key of the document. A list in flow style is parsed as a whole.
func cutItems(text []byte, number int) (rest []byte, items []yamlItem) {
	indent, offset, begin, inItems := -1, 0, 0, false
	for line := range bytes.Lines(text) {
		content := bytes.TrimLeft(line, " ")
		isDash := bytes.HasPrefix(content, []byte("- ")) || string(bytes.TrimSpace(content)) == "-"
		inItems = inItems && bytes.ContainsAny(line[:1], " -#\r\n")
		switch {
		case inItems && isDash && (indent < 0 || indent == len(line)-len(content)):
			indent, begin = len(line)-len(content), offset
			items = append(items, yamlItem{line: number})
			fallthrough
		case inItems && len(items) > 0:
			items[len(items)-1].text = text[begin : offset+len(line)]
		default:
			rest = append(rest, line...)
			key, value, _ := strings.Cut(string(line), ":")
			value = strings.TrimSpace(value)
			inItems = inItems || key == "items" && (value == "" || value[0] == '#')
		}
		offset += len(line)
		number++
	}
	for i := range items { // the dash becomes a blank, which keeps the columns
		items[i].text = bytes.Replace(items[i].text, []byte("-"), []byte(" "), 1)
	}
	return rest, items
}

// toJSON converts the text.
func (it *yamlItem) toJSON() ([]byte, error) {
	content, err := yaml.YAMLToJSON(it.text)
	if err == nil {
		return content, nil
	}
	// Once more with as many empty lines in front: the parser counts from there.
	if _, counted := yaml.YAMLToJSON(append(bytes.Repeat([]byte("\n"), it.line-1), it.text...)); counted != nil {
		err = counted
	}
	if strings.Contains(err.Error(), "unknown anchor") {
		err = fmt.Errorf("%w: items are read one by one, so an alias cannot refer to another item: write out what it stands for", err)
	}
	return nil, err
}
