// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	kjson "sigs.k8s.io/json"
)

// readJSON reads objects one after the other. The items of one list stay where they are in
// the content: nothing of a large list is copied.
func (s *source) readJSON(content []byte) error {
	var d document
	rest, values, ok := splitList(content)
	if !ok || kjson.UnmarshalCaseSensitivePreserveInts(rest, &d) != nil || !d.Items.present {
		return s.readDocuments(content)
	}
	d.Items.values = values
	err := s.addDocument(&d, item{}, nil)
	if err == nil {
		return nil
	}
	// An item that is no JSON is named by its place in the file.
	if _, invalid := nextDocument(json.NewDecoder(bytes.NewReader(content))); invalid != nil {
		return s.jsonError(invalid)
	}
	return err
}

// readDocuments is readJSON for any content.
func (s *source) readDocuments(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		text, err := nextDocument(decoder)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var d document
		if err == nil {
			err = kjson.UnmarshalCaseSensitivePreserveInts(text, &d)
		}
		if err != nil {
			return s.jsonError(err)
		}
		if err := s.addDocument(&d, item{json: text}, nil); err != nil {
			return err
		}
	}
}

// nextDocument returns the text of the next object, or io.EOF.
func nextDocument(decoder *json.Decoder) (json.RawMessage, error) {
	var text json.RawMessage
	if err := decoder.Decode(&text); err != nil {
		return nil, err
	}
	if text[0] != '{' {
		return nil, errors.New("want a Kubernetes object, with kind and apiVersion")
	}
	return text, nil
}

// jsonError says where the file is no JSON.
func (s *source) jsonError(err error) error {
	syntax, ok := errors.AsType[*json.SyntaxError](err)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{File: s.file, Err: errors.New("the file ends within an object: it is cut off")}
	case ok:
		return &Error{File: s.file, Err: fmt.Errorf("byte %d: %w", syntax.Offset, err)}
	}
	return &Error{File: s.file, Err: err}
}
