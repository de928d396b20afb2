// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command release makes the files of a release from binaries that have been built:
//
//	release image …  a container image, without a container engine
//	release files …  archives, bills of materials, the manifest for krew, checksums
//
// The output depends on the arguments and files alone, and all times in it are
// SOURCE_DATE_EPOCH: two builds of a commit are equal to the last byte.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "release: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return errors.New("want a command: image or files")
	}
	created, err := sourceDate()
	if err != nil {
		return err
	}
	switch args[0] {
	case "image":
		return runImage(args[1:], created)
	case "files":
		return runFiles(args[1:], created)
	}
	return fmt.Errorf("unknown command %q: want image or files", args[0])
}

// sourceDate is the time that every file and image carries: SOURCE_DATE_EPOCH, in
// seconds since 1970, as https://reproducible-builds.org/specs/source-date-epoch has it.
func sourceDate() (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH: got %q, want the commit's seconds since 1970 (git log -1 --format=%%ct)", text)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// tarFile is a file of an archive.
type tarFile struct {
	content []byte
	mode    int64
}

// tarArchive returns files by path, and the folders above them, in a tar archive,
// ordered by path. They belong to root.
func tarArchive(files map[string]tarFile, modified time.Time) ([]byte, error) {
	folders := map[string]bool{}
	for name := range files {
		for folder := path.Dir(name); folder != "."; folder = path.Dir(folder) {
			folders[folder+"/"] = true
		}
	}
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		if err := writer.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755, ModTime: modified}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(file.content)), Mode: file.mode, ModTime: modified}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// compress returns content compressed by gzip, without a name or a time.
func compress(content []byte) ([]byte, error) {
	var out bytes.Buffer
	writer := gzip.NewWriter(&out)
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	if err := writer.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
