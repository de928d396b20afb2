// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"sigs.k8s.io/yaml"
)

const (
	// repository is where the project is, and its releases below it.
	repository = "https://github.com/berth-scheduler/berth"
	// downloads is where the files of a release are.
	downloads = repository + "/releases/download/"
)

// krewManifest returns the manifest by which krew finds and installs a plugin of kubectl
// (https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest): of a version, with these
// archives of kubectl-berth.
func krewManifest(version string, archives []archive) ([]byte, error) {
	var platforms []any
	for _, a := range archives {
		platforms = append(platforms, map[string]any{
			"selector": map[string]any{"matchLabels": map[string]string{"os": a.os, "arch": a.architecture}},
			"uri":      downloads + version + "/" + a.file,
			"sha256":   a.sha256,
			"bin":      plugin, // in the archive, all of which is installed
		})
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
		"kind":       "Plugin",
		"metadata":   map[string]string{"name": "berth"},
		"spec": map[string]any{
			"version":          version,
			"homepage":         repository,
			"shortDescription": "Explain, check and simulate Berth's scheduling",
			"description": "Berth is a second scheduler with shares of GPUs, label rules and co-location.\n" +
				"This plugin says why a pod is Pending and what would help, who holds which\n" +
				"device, what is wrong with an installation, whether pods would fit, and what\n" +
				"schedulers are worth on the same pods. It reads the API and writes nothing,\n" +
				"but for the benchmark, which makes nodes and pods of its own.\n",
			"platforms": platforms,
		},
	})
}
