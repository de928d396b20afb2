// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// maxObject bounds the text of one object, in bytes; the API server's own bound on
// what it stores is 1.5 MiB.
const maxObject = 32 << 20

// readYAML reads documents separated by "---".
//
// The items of a list are cut out of its text by their indentation and parsed one
// by one: a parser that builds the tree of a list of 200 MB needs more memory
// than most machines have. In block style, which kubectl prints, an item begins
// with a dash at the indentation of the first, and everything else of it is
// indented more. A list in flow style is parsed as a whole.
func (s *source) readYAML(in *bufio.Reader) error {
	d := document{source: s}
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			if err := d.line(number, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return d.end()
		}
		if err != nil {
			return &Error{File: s.file, Line: number, Err: err}
		}
	}
}

// document is a YAML document that is being read.
type document struct {
	source *source

	// rest is the text without the items that were cut out, and restLine where it
	// begins.
	rest     bytes.Buffer
	restLine int

	// inItems is set below the top-level key items.
	inItems bool
	// indent is the indentation of the dashes, or -1 before the first.
	indent int
	// isList is set once an item was cut out or the key items was seen.
	isList bool
	number int

	// current is the text of the item that is being read, and line where it began.
	current     bytes.Buffer
	currentLine int
}

// line takes one line of the file.
func (d *document) line(number int, line []byte) error {
	text := strings.TrimRight(string(line), "\r\n")
	if text == "---" || strings.HasPrefix(text, "--- ") || text == "..." {
		if err := d.end(); err != nil {
			return err
		}
		if text = strings.TrimSpace(strings.TrimPrefix(text, "---")); text == "" || text == "..." || strings.HasPrefix(text, "#") {
			return nil
		}
		line = []byte(text + "\n") // what follows the dashes belongs to the document
	}
	if d.inItems {
		taken, err := d.itemLine(number, line, text)
		if err != nil || taken {
			return err
		}
		d.inItems = false
	}
	if key, value, ok := strings.Cut(text, ":"); ok && key == "items" && isBlank(value) {
		d.inItems, d.isList, d.indent = true, true, -1
		return nil
	}
	if d.rest.Len() == 0 {
		d.restLine = number
	}
	d.rest.Write(line)
	return d.checkSize(number, &d.rest)
}

// isBlank reports whether there is nothing but white space or a comment.
func isBlank(text string) bool {
	text = strings.TrimSpace(text)
	return text == "" || strings.HasPrefix(text, "#")
}

// itemLine takes a line if it belongs to the items.
func (d *document) itemLine(number int, line []byte, text string) (taken bool, err error) {
	content := strings.TrimLeft(text, " ")
	indent := len(text) - len(content)
	isDash := content == "-" || strings.HasPrefix(content, "- ")
	switch {
	case d.indent < 0 && isDash:
		d.indent = indent
		d.beginItem(number, line)
	case isDash && indent == d.indent:
		if err := d.endItem(); err != nil {
			return true, err
		}
		d.beginItem(number, line)
	case d.indent >= 0 && indent > d.indent, content == "":
		d.current.Write(line)
	case isBlank(content):
		// A comment between two items.
	default:
		return false, d.endItem()
	}
	return true, d.checkSize(number, &d.current)
}

// beginItem starts an item. Its dash becomes a blank, which keeps the columns.
func (d *document) beginItem(number int, line []byte) {
	d.number++
	d.currentLine = number
	d.current.Write(bytes.Replace(line, []byte("-"), []byte(" "), 1))
}

// endItem adds the item that was read, if there is one.
func (d *document) endItem() error {
	if d.currentLine == 0 {
		return nil
	}
	it := item{line: d.currentLine, number: d.number}
	text := d.current.Bytes()
	d.currentLine = 0
	defer d.current.Reset()
	var err error
	if it.json, err = toJSON(text, it.line); err != nil {
		if strings.Contains(err.Error(), "unknown anchor") {
			err = fmt.Errorf("%w: items are read one by one, so an alias cannot refer to another item: write out what it stands for", err)
		}
		return d.source.errorAt(it, "", err)
	}
	return d.source.add(it)
}

// end adds what is left of the document and begins another.
func (d *document) end() error {
	if err := d.endItem(); err != nil {
		return err
	}
	text, line, isList := d.rest.Bytes(), d.restLine, d.isList
	s := d.source
	defer func() { *d = document{source: s} }()
	if isList {
		list := metav1.TypeMeta{}
		if err := yaml.Unmarshal(text, &list); err != nil {
			return &Error{File: s.file, Line: line, Err: err}
		}
		return s.endList(list, line)
	}
	content, err := toJSON(text, line)
	if err != nil {
		return &Error{File: s.file, Line: line, Err: err}
	}
	if bytes.Equal(content, []byte("null")) {
		return nil // comments alone
	}
	return s.addDocument(content, line)
}

// addDocument adds a document that was parsed as a whole: an object, or a list in
// flow style.
func (s *source) addDocument(content []byte, line int) error {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Items           *[]json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(content, &list); err != nil || list.Items == nil {
		return s.add(item{line: line, json: content})
	}
	for i, value := range *list.Items {
		if err := s.add(item{line: line, number: i + 1, list: list.TypeMeta, json: value}); err != nil {
			return err
		}
	}
	return s.endList(list.TypeMeta, line)
}

// endList checks what a list said of itself. An empty one still says that there
// are no objects of its kind.
func (s *source) endList(list metav1.TypeMeta, line int) error {
	kind, ok := strings.CutSuffix(list.Kind, "List")
	if !ok {
		return &Error{File: s.file, Line: line, Err: fmt.Errorf("kind: is %q, but the document has items: want List", list.Kind)}
	}
	s.objects++
	for i := range supported {
		if supported[i].Kind == kind && supported[i].GroupVersion().String() == list.APIVersion {
			s.reader.cluster.has(supported[i].Resource)
		}
	}
	return nil
}

// toJSON converts the text of one object that begins at the line.
func toJSON(text []byte, line int) ([]byte, error) {
	content, err := yaml.YAMLToJSON(text)
	if err != nil && line > 1 {
		// Once more with as many empty lines in front: the parser counts from there.
		if _, err := yaml.YAMLToJSON(append(bytes.Repeat([]byte("\n"), line-1), text...)); err != nil {
			return nil, err
		}
	}
	return content, err
}

func (d *document) checkSize(number int, text *bytes.Buffer) error {
	if text.Len() <= maxObject {
		return nil
	}
	return &Error{File: d.source.file, Line: number, Err: fmt.Errorf("an object of more than %d MiB: no API server stores one", maxObject>>20)}
}
