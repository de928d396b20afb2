// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package output

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// File is a file that does not exist yet.
type File struct {
	// Name is within the folder that [WriteFiles] is given.
	Name    string
	Content []byte
}

// WriteFiles writes files into dir, which it makes if need be, and replaces those
// that are there. Every file reaches the disk under a temporary name before the
// first one gets its own: when there is no room for all of them, the error names
// the file, the old ones stay as they were, and nothing new is left behind.
func WriteFiles(dir string, files ...File) (err error) {
	_, statErr := os.Stat(dir)
	isNew := errors.Is(statErr, fs.ErrNotExist)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // results are no secret
		return unwritable(dir, err)
	}
	var temporaries []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range temporaries {
			// Those that have been renamed are gone, and that is all that can be done.
			_ = os.Remove(path)
		}
		if isNew {
			_ = os.Remove(dir) // refused if another one put something there
		}
	}()
	for _, file := range files {
		temporary, err := os.CreateTemp(dir, "."+file.Name+".*")
		if err != nil {
			return unwritable(filepath.Join(dir, file.Name), err)
		}
		temporaries = append(temporaries, temporary.Name())
		if err := fill(temporary, file.Content); err != nil {
			return unwritable(filepath.Join(dir, file.Name), err)
		}
	}
	for i, file := range files {
		path := filepath.Join(dir, file.Name)
		if err := os.Rename(temporaries[i], path); err != nil {
			return unwritable(path, err)
		}
	}
	return nil
}

// fill writes all of content to the disk itself, and closes the file: a file whose
// bytes are still in memory is not written.
func fill(file *os.File, content []byte) error {
	_, err := file.Write(content)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// unwritable names the file that was meant, not the temporary one.
func unwritable(path string, err error) error {
	if pathError := (*fs.PathError)(nil); errors.As(err, &pathError) {
		err = pathError.Err
	} else if linkError := (*os.LinkError)(nil); errors.As(err, &linkError) {
		err = linkError.Err
	}
	return fmt.Errorf("cannot write %s: %w", path, err)
}
