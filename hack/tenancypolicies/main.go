// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command tenancypolicies generates manifests/components/tenancy from a profile file
// with tenancy, which defines the labels, the taint, the exempt namespaces and the
// profile names. Run it in the root of the repository after you change the file:
//
//	go run ./hack/tenancypolicies [-profile FILE] [-out FOLDER]
package main

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"text/template"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/registry"
)

//go:embed templates/*.tmpl
var templates embed.FS

func main() {
	profile := flag.String("profile", "config/berth-scheduler/tenancy.yaml", "the KubeSchedulerConfiguration to read")
	out := flag.String("out", "manifests/components/tenancy", "the folder to write")
	flag.Parse()
	if err := run(*profile, *out); err != nil {
		fmt.Fprintf(os.Stderr, "tenancypolicies: %v\n", err)
		os.Exit(1)
	}
}

// run writes the files that the profile file makes into the folder out.
func run(profile, out string) error {
	content, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	files, err := generate(profile, content)
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil { //nolint:gosec // manifests are for everybody
			return err
		}
	}
	return nil
}

// statement is what the templates repeat of the profile file, and the names that
// are not in it.
type statement struct {
	Source            string // the profile file
	ConfigArgument    string // with which the Deployment's pod reads it
	Profiles          []string
	NodeLabelKey      string
	NodeTaintKey      string
	NamespaceLabelKey string
	ExemptNamespaces  []string
	Namespace         string
	Scheduler         string
	Suffix            string
	Group             string // of the right to assign tenants
}

// generate returns the files of the component by name. source is the path of the
// profile file, content what it says. It refuses what berth-scheduler refuses, a
// file without tenancy, and names of profiles that a scheduler without tenancy
// could serve.
func generate(source string, content []byte) (map[string][]byte, error) {
	said, err := read(source, content)
	if err != nil {
		return nil, err
	}
	parsed, err := template.New("").Funcs(template.FuncMap{"cel": cel, "celList": celList, "flow": flow}).ParseFS(templates, "templates/*.tmpl")
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, t := range parsed.Templates() {
		if !strings.HasSuffix(t.Name(), ".tmpl") {
			continue
		}
		var b bytes.Buffer
		if err := t.Execute(&b, said); err != nil {
			return nil, err
		}
		files[strings.TrimSuffix(t.Name(), ".tmpl")] = b.Bytes()
	}
	return files, nil
}

func read(source string, content []byte) (*statement, error) {
	loaded, err := registry.LoadConfiguration(source, content)
	if err != nil {
		return nil, err
	}
	said := &statement{
		Source:         filepath.ToSlash(source),
		ConfigArgument: "--config=/etc/berth-scheduler/" + path.Base(filepath.ToSlash(source)),
		Namespace:      names.Namespace,
		Scheduler:      names.Scheduler,
		Suffix:         names.TenancySuffix,
		Group:          names.Domain,
	}
	var tenancy *config.LabelPresenceTenancy
	for i := range loaded.Profiles {
		profile := &loaded.Profiles[i]
		if !strings.HasSuffix(profile.SchedulerName, names.TenancySuffix) {
			return nil, fmt.Errorf("%s: profiles[%d].schedulerName: is %q, must end in %q: the policies trust only such names",
				source, i, profile.SchedulerName, names.TenancySuffix)
		}
		said.Profiles = append(said.Profiles, profile.SchedulerName)
		for _, pc := range profile.PluginConfig {
			// All profiles have the same tenancy, or the file would not have loaded.
			if args, ok := pc.Args.(*config.LabelPresenceArgs); ok && args.Tenancy != nil {
				tenancy = args.Tenancy
			}
		}
	}
	if tenancy == nil {
		return nil, errors.New(source + ": no profile has tenancy")
	}
	said.NodeLabelKey, said.NodeTaintKey, said.NamespaceLabelKey = tenancy.NodeLabelKey, tenancy.NodeTaintKey, tenancy.NamespaceLabelKey
	said.ExemptNamespaces = tenancy.ExemptNamespaces
	return said, nil
}

// cel returns a string literal of the Common Expression Language.
func cel(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`, "\n", `\n`).Replace(s) + "'"
}

// celList returns a list of string literals.
func celList(list []string) string {
	var literals []string
	for _, s := range list {
		literals = append(literals, cel(s))
	}
	return "[" + strings.Join(literals, ", ") + "]"
}

// flow returns a value in the flow style of YAML, which JSON is.
func flow(value any) (string, error) {
	b, err := json.Marshal(value)
	return string(b), err
}
