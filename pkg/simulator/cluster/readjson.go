// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// readJSON reads objects one after the other. The items of a list are decoded as
// they come.
func (s *source) readJSON(in io.Reader) error {
	decoder := json.NewDecoder(in)
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return s.jsonError(decoder, err)
		}
		if token != json.Delim('{') {
			return s.jsonError(decoder, fmt.Errorf("want an object, found %v", token))
		}
		if err := s.readJSONObject(decoder); err != nil {
			return err
		}
	}
}

// readJSONObject reads the rest of an object whose brace has been read.
func (s *source) readJSONObject(decoder *json.Decoder) error {
	fields := map[string]json.RawMessage{}
	isList := false
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return s.jsonError(decoder, err)
		}
		name, ok := token.(string)
		if !ok {
			return s.jsonError(decoder, fmt.Errorf("want the name of a field, found %v", token))
		}
		if name == "items" {
			isList = true
			if err := s.readJSONItems(decoder, listMeta(fields)); err != nil {
				return err
			}
			continue
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return s.jsonError(decoder, err)
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil { // the closing brace
		return s.jsonError(decoder, err)
	}
	if isList {
		return s.endList(listMeta(fields), 0)
	}
	object, err := json.Marshal(fields)
	if err != nil {
		return s.jsonError(decoder, err)
	}
	return s.add(item{json: object})
}

// readJSONItems reads the items of a list.
func (s *source) readJSONItems(decoder *json.Decoder, list metav1.TypeMeta) error {
	token, err := decoder.Token()
	if err != nil {
		return s.jsonError(decoder, err)
	}
	if token == nil {
		return nil // "items": null
	}
	if token != json.Delim('[') {
		return s.jsonError(decoder, fmt.Errorf("items: want a list, found %v", token))
	}
	for number := 1; decoder.More(); number++ {
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return s.jsonError(decoder, err)
		}
		if err := s.add(item{number: number, list: list, json: value}); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil { // the closing bracket
		return s.jsonError(decoder, err)
	}
	return nil
}

// listMeta returns the version and kind among the fields, as far as they are
// there.
func listMeta(fields map[string]json.RawMessage) metav1.TypeMeta {
	var meta metav1.TypeMeta
	// What is no string is found when the object itself is decoded.
	_ = json.Unmarshal(fields["kind"], &meta.Kind)
	_ = json.Unmarshal(fields["apiVersion"], &meta.APIVersion)
	return meta
}

// jsonError puts an error to the byte at which the decoder stands.
func (s *source) jsonError(decoder *json.Decoder, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("the file ends within an object: it is cut off")
	}
	return &Error{File: s.file, Err: fmt.Errorf("byte %d: %w", decoder.InputOffset(), err)}
}
