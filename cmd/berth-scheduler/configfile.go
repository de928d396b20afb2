// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"sigs.k8s.io/yaml"
)

// withKubeconfigFlag makes --kubeconfig count beside --config, where upstream
// ignores it without a word: it returns the path of a changed copy of the file, and
// a function that gives the copy up. A kubeconfig in the file has precedence.
// Without the flag it returns the file itself.
func withKubeconfigFlag(file, kubeconfig string) (path string, done func(), err error) {
	if kubeconfig == "" || file == "" {
		return file, func() {}, nil
	}
	return withConnection(file, func(connection map[string]any) {
		if set, ok := connection["kubeconfig"].(string); !ok || set == "" {
			connection["kubeconfig"] = kubeconfig
		}
	})
}

// withConnection returns the path of a copy of file whose clientConnection is
// changed, and a function that gives the copy up. The copy is a pipe, which can be
// read once, as upstream does: it leaves nothing behind however the process ends,
// and needs no folder that can be written to.
func withConnection(file string, change func(connection map[string]any)) (path string, done func(), err error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", nil, fmt.Errorf("--config: %w", err)
	}
	config := map[string]any{}
	if err := yaml.Unmarshal(content, &config); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	connection, ok := config["clientConnection"].(map[string]any)
	if !ok {
		connection = map[string]any{}
		config["clientConnection"] = connection
	}
	change(connection)
	if content, err = yaml.Marshal(config); err != nil {
		return "", nil, fmt.Errorf("%s: %w", file, err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		return "", nil, fmt.Errorf("--kubeconfig beside --config: %w", err)
	}
	go func() {
		// A pipe holds less than a large file has. Who gives it up unread ends the write.
		_, _ = writer.Write(content)
		_ = writer.Close()
	}()
	return fmt.Sprintf("/dev/fd/%d", reader.Fd()), func() { _ = reader.Close() }, nil
}
