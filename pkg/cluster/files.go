// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// StandardInput is the name of the file that is read from the standard input.
const StandardInput = "-"

// ReadFile is [Reader.Read] of a file of that name, of those in a folder whose name ends
// in .yaml, .yml or .json, or of stdin if the name is [StandardInput].
func (r *Reader) ReadFile(name string, stdin io.Reader) error {
	if name == StandardInput {
		content, err := io.ReadAll(stdin)
		if err != nil {
			return fmt.Errorf("reading the standard input: %w", err)
		}
		return r.Read(name, content)
	}
	files, err := Files(name)
	if err != nil {
		return err
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := r.Read(file, content); err != nil {
			return err
		}
	}
	return nil
}

// Files returns the name of a file as it is, and of a folder the files of objects in it,
// sorted. Folders in it are left out, as kubectl leaves them out.
func Files(name string) ([]string, error) {
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return []string{name}, nil //nolint:nilerr // reading it says what is wrong with it
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(name, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s: no file in this folder ends in .yaml, .yml or .json", name)
	}
	return files, nil
}
