// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"

	"github.com/berth-scheduler/berth/pkg/output"
)

// Names of the files that [WriteFiles] writes.
const (
	FileJSON = "report.json"
	FileHTML = "report.html"
)

// WriteFiles writes report.json and report.html into dir, which it makes if need be.
// Either both are written as a whole, or none: an error, of a full disk for
// instance, names the file, and leaves what was there before as it was.
func WriteFiles(dir string, r *Report) error {
	var object, page bytes.Buffer
	if err := WriteJSON(&object, r); err != nil {
		return err
	}
	if err := WriteHTML(&page, r); err != nil {
		return err
	}
	return output.WriteFiles(dir, output.File{Name: FileJSON, Content: object.Bytes()}, output.File{Name: FileHTML, Content: page.Bytes()})
}
