// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulervalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/registry"
)

// root is the repository's.
const root = "../../../.."

// document is one YAML document in the repository and where it stands.
type document struct {
	where string
	text  string
}

// Every KubeSchedulerConfiguration under config/ and in a README loads, strictly,
// and is valid: what we show must work.
func TestDocumentsDecode(t *testing.T) {
	sources := []struct {
		name string
		docs []document
	}{
		{"config", profilesIn(t, filepath.Join(root, "config"))},
		{"README", examplesIn(t)},
	}
	for _, source := range sources {
		t.Run(source.name, func(t *testing.T) {
			if len(source.docs) == 0 {
				t.Fatal("found no KubeSchedulerConfiguration: the test looks in the wrong place")
			}
			for _, doc := range source.docs {
				t.Run(doc.where, func(t *testing.T) { checkDocument(t, doc) })
			}
		})
	}
}

func checkDocument(t *testing.T, doc document) {
	t.Helper()
	obj, _, err := schedulerscheme.Codecs.UniversalDecoder().Decode([]byte(doc.text), nil, nil)
	if err != nil {
		t.Fatalf("decoding: %v", err)
	}
	cfg, ok := obj.(*schedulerconfig.KubeSchedulerConfiguration)
	if !ok {
		t.Fatalf("it is a %T", obj)
	}
	if err := schedulervalidation.ValidateKubeSchedulerConfiguration(cfg); err != nil {
		t.Errorf("validating: %v", err)
	}
	// Profiles for the simulator may name its yardsticks, and TestShippedProfiles of its
	// engine validates them.
	if err := registry.ValidateArgs(cfg); err != nil && !strings.HasPrefix(doc.where, "config/simulator/") {
		t.Errorf("validating the args of our plugins: %v", err)
	}
	for _, profile := range cfg.Profiles {
		for _, plugin := range profile.PluginConfig {
			if _, unknown := plugin.Args.(*runtime.Unknown); unknown {
				t.Errorf("profile %s: the args of %s are of no registered kind", profile.SchedulerName, plugin.Name)
			}
		}
	}
}

// files returns the files below dir that accept names, by their path from root.
func files(t *testing.T, dir string, accept func(name string) bool) []document {
	t.Helper()
	var found []document
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		// Hidden folders (.git) and what a build leaves behind are not ours.
		if entry.IsDir() && path != dir && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "bin" || entry.Name() == "_output") {
			return filepath.SkipDir
		}
		if entry.IsDir() || !accept(entry.Name()) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		where, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		found = append(found, document{where: where, text: string(text)})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// profilesIn returns the configurations in the YAML files below dir.
func profilesIn(t *testing.T, dir string) []document {
	t.Helper()
	var profiles []document
	isYAML := func(name string) bool { return strings.HasSuffix(name, ".yaml") || strings.HasSuffix(name, ".yml") }
	for _, file := range files(t, dir, isYAML) {
		for i, text := range strings.Split(file.text, "\n---\n") {
			doc := document{where: file.where, text: text}
			if i > 0 {
				doc.where += "#" + strconv.Itoa(i)
			}
			if isSchedulerConfiguration(t, doc) {
				profiles = append(profiles, doc)
			}
		}
	}
	return profiles
}

// examplesIn returns the configurations in the fenced yaml blocks of every
// README of the repository.
func examplesIn(t *testing.T) []document {
	t.Helper()
	var examples []document
	isREADME := func(name string) bool { return name == "README.md" }
	for _, file := range files(t, root, isREADME) {
		var block []string
		inBlock := false
		for i, line := range strings.Split(file.text, "\n") {
			switch {
			case !inBlock && strings.HasPrefix(strings.TrimSpace(line), "```yaml"):
				inBlock, block = true, nil
			case inBlock && strings.TrimSpace(line) == "```":
				inBlock = false
				doc := document{where: file.where + ":" + strconv.Itoa(i+1), text: strings.Join(block, "\n")}
				if isSchedulerConfiguration(t, doc) {
					examples = append(examples, doc)
				}
			case inBlock:
				block = append(block, line)
			}
		}
	}
	return examples
}

func isSchedulerConfiguration(t *testing.T, doc document) bool {
	t.Helper()
	if !strings.Contains(doc.text, "kind: KubeSchedulerConfiguration") {
		return false
	}
	var object struct {
		Kind string `json:"kind"`
	}
	if err := yaml.Unmarshal([]byte(doc.text), &object); err != nil {
		// A manifest with a configuration inside a template, say. If it is meant
		// to be a configuration, it must parse.
		t.Errorf("%s: %v", doc.where, err)
		return false
	}
	return object.Kind == "KubeSchedulerConfiguration"
}
