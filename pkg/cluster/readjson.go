// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// readJSON reads objects one after the other. The items of a list stay where they are in
// the content: nothing of a large list is copied.
func (s *source) readJSON(content []byte) error {
	if ok, err := s.readList(content); ok {
		return err
	}
	return s.readDocuments(content)
}

// readDocuments is readJSON for any content.
func (s *source) readDocuments(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	for {
		begin := decoder.InputOffset()
		d, err := nextDocument(decoder, content)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.jsonError(err)
		}
		if err := s.addDocument(d, item{json: content[begin:decoder.InputOffset()]}, nil); err != nil {
			return err
		}
	}
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

// nextDocument reads the next object of the content, or returns io.EOF.
func nextDocument(decoder *json.Decoder, content []byte) (*document, error) {
	begin, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if begin != json.Delim('{') {
		return nil, errors.New("want a Kubernetes object, with kind and apiVersion")
	}
	d := &document{}
	for decoder.More() {
		key, err := decoder.Token()
		if err == nil {
			err = d.read(fmt.Sprint(key), decoder, content)
		}
		if err != nil {
			return nil, unexpected(err)
		}
	}
	_, err = decoder.Token()
	return d, unexpected(err)
}

// read reads the value of a key.
func (d *document) read(key string, decoder *json.Decoder, content []byte) error {
	var err error
	switch key {
	case "kind":
		err = decoder.Decode(&d.Kind)
	case "apiVersion":
		err = decoder.Decode(&d.APIVersion)
	case "items":
		return d.Items.read(decoder, content)
	default:
		return decoder.Decode(&skipped{})
	}
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	return nil
}

// read reads a list without decoding its items.
func (i *items) read(decoder *json.Decoder, content []byte) error {
	i.present = true
	switch begin, err := decoder.Token(); {
	case err != nil:
		return err
	case begin == nil:
		return nil
	case begin != json.Delim('['):
		return fmt.Errorf("items: want a list, not %v", begin)
	}
	for decoder.More() {
		begin := decoder.InputOffset()
		if err := decoder.Decode(&skipped{}); err != nil {
			return err
		}
		i.values = append(i.values, bytes.TrimLeft(content[begin:decoder.InputOffset()], ", \t\r\n"))
	}
	_, err := decoder.Token()
	return err
}

// unexpected is an error within an object, whose text must not end there.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// skipped is a value that is not looked at.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }
