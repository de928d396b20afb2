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

// krewPlugin is the manifest by which krew finds and installs a plugin of kubectl. See
// https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest.
type krewPlugin struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   krewMetadata `json:"metadata"`
	Spec       krewSpec     `json:"spec"`
}

// krewMetadata names a plugin.
type krewMetadata struct {
	Name string `json:"name"`
}

// krewSpec is what krew shows and where it looks.
type krewSpec struct {
	Version          string         `json:"version"`
	Homepage         string         `json:"homepage"`
	ShortDescription string         `json:"shortDescription"`
	Description      string         `json:"description"`
	Platforms        []krewPlatform `json:"platforms"`
}

// krewPlatform is the archive for a platform. All of its files are installed.
type krewPlatform struct {
	Selector krewSelector `json:"selector"`
	URI      string       `json:"uri"`
	SHA256   string       `json:"sha256"`
	// Bin is the plugin's path in the archive.
	Bin string `json:"bin"`
}

// krewSelector selects by the labels os and arch.
type krewSelector struct {
	MatchLabels map[string]string `json:"matchLabels"`
}

// krewManifest returns the manifest of a version, with these archives of kubectl-berth.
func krewManifest(version string, archives []archive) ([]byte, error) {
	manifest := krewPlugin{
		APIVersion: "krew.googlecontainertools.github.com/v1alpha2",
		Kind:       "Plugin",
		Metadata:   krewMetadata{Name: "berth"},
		Spec: krewSpec{
			Version:          version,
			Homepage:         repository,
			ShortDescription: "Explain, check and simulate Berth's scheduling",
			Description: "Berth is a second scheduler with shares of GPUs, label rules and co-location.\n" +
				"This plugin says why a pod is Pending and what would help, who holds which\n" +
				"device, what is wrong with an installation, whether pods would fit, and what\n" +
				"schedulers are worth on the same pods. It reads the API and writes nothing,\n" +
				"but for the benchmark, which makes nodes and pods of its own.\n",
		},
	}
	for _, a := range archives {
		manifest.Spec.Platforms = append(manifest.Spec.Platforms, krewPlatform{
			Selector: krewSelector{MatchLabels: map[string]string{"os": a.os, "arch": a.architecture}},
			URI:      downloads + version + "/" + a.file, SHA256: a.sha256, Bin: plugin,
		})
	}
	return yaml.Marshal(manifest)
}
