// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"fmt"
	"os"
)

// checkAuditLog says before the API server does whether the file can be written.
func checkAuditLog(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("--audit-log %s: cannot write the file: %w: name one in a folder that exists and that you can write to", path, err)
	}
	return file.Close()
}
