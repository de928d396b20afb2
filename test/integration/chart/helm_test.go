// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const chartPath = "manifests/chart"

// helm is one version of Helm.
type helm struct {
	binary     string
	home       string
	kubeconfig string
}

// newHelm makes the binary of a major version, where it is not there yet, as
// hack/tools/helm pins it. kubeconfig may be empty for what needs no cluster.
func newHelm(tb testing.TB, major, kubeconfig string) *helm {
	tb.Helper()
	return &helm{binary: framework.Tool(tb, "helm"+major), home: tb.TempDir(), kubeconfig: kubeconfig}
}

// run runs Helm in the repository's root and returns its standard output. The error has
// what it wrote to standard error.
func (h *helm) run(tb testing.TB, args ...string) (string, error) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), h.binary, args...)
	cmd.Dir = framework.Root()
	cmd.Env = append(os.Environ(), "KUBECONFIG="+h.kubeconfig,
		"HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home, "KUBECACHEDIR="+h.home)
	return process.Output(cmd)
}

// must is run for what has to succeed.
func (h *helm) must(tb testing.TB, args ...string) string {
	tb.Helper()
	output, err := h.run(tb, args...)
	if err != nil {
		tb.Fatalf("helm %s: %v", strings.Join(args, " "), err)
	}
	return output
}

// values are a values file.
type values map[string]any

// file writes the values and returns the path.
func (v values) file(tb testing.TB) string {
	tb.Helper()
	content, err := yaml.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "values.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// features returns values with these features on and all others off.
func features(on ...string) values {
	all := map[string]any{}
	for _, name := range []string{"labelPresence", "gpu", "gang", "colocation", "tenancy", "randomScheduler"} {
		all[name] = false
	}
	for _, name := range on {
		all[name] = true
	}
	return values{"features": all}
}

// template renders a release without a cluster.
func (h *helm) template(tb testing.TB, release, namespace string, v values, flags ...string) (string, error) {
	tb.Helper()
	return h.run(tb, slices.Concat([]string{"template", release, chartPath, "--namespace=" + namespace, "--values=" + v.file(tb)}, flags)...)
}

// render is template for what has to render, for a cluster of Kubernetes 1.37 if flags name
// no other, with hooks left out.
func (h *helm) render(tb testing.TB, release, namespace string, v values, flags ...string) []unstructured.Unstructured {
	tb.Helper()
	text, err := h.template(tb, release, namespace, v, append([]string{"--kube-version=1.37.0"}, flags...)...)
	if err != nil {
		tb.Fatal(err)
	}
	var objects []unstructured.Unstructured
	for _, object := range decode(tb, text) {
		if object.GetAnnotations()["helm.sh/hook"] == "" {
			objects = append(objects, object)
		}
	}
	return objects
}

// decode reads a stream of documents, strictly.
func decode(tb testing.TB, text string) []unstructured.Unstructured {
	tb.Helper()
	var objects []unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader([]byte(text))))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		var object unstructured.Unstructured
		if err == nil {
			err = yaml.UnmarshalStrict(document, &object.Object)
		}
		if err != nil {
			tb.Fatalf("%v\n%s", err, document)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// find returns the one object of a kind with a name.
func find(tb testing.TB, objects []unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	tb.Helper()
	for i := range objects {
		if objects[i].GetKind() == kind && objects[i].GetName() == name {
			return &objects[i]
		}
	}
	tb.Fatalf("no %s %q is rendered", kind, name)
	return nil
}

// profile returns the profile that a release has.
func profile(tb testing.TB, objects []unstructured.Unstructured, release string) string {
	tb.Helper()
	text, _, _ := unstructured.NestedString(find(tb, objects, "ConfigMap", release+"-config").Object, "data", "profile.yaml")
	return text
}
