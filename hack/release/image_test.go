// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// epoch is the time of the commit that the tests release.
const epoch = "1795384246"

// untar returns the regular files of an archive by name, with their content, and all
// entries' headers.
func untar(t *testing.T, archive []byte) (map[string][]byte, []*tar.Header) {
	t.Helper()
	files := map[string][]byte{}
	var headers []*tar.Header
	reader := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files, headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
		if header.Typeflag == tar.TypeReg {
			if files[header.Name], err = io.ReadAll(reader); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// unpack returns what gzip compressed.
func unpack(t *testing.T, content []byte) []byte {
	t.Helper()
	reader, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return unpacked
}

// makeImage runs `release image` on two binaries, and returns the file that it wrote.
func makeImage(t *testing.T, version string) []byte {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	folder := t.TempDir()
	for _, architecture := range []string{"amd64", "arm64"} {
		if err := os.MkdirAll(filepath.Join(folder, "linux_"+architecture), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "linux_"+architecture, "berth-scheduler"), []byte("for "+architecture), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output := filepath.Join(folder, "image.tar")
	if err := run([]string{
		"image", "-name", "localhost/berth-scheduler:" + version, "-binary", folder + "/{os}_{arch}/berth-scheduler",
		"-platforms", "linux/amd64 linux/arm64", "-label", "org.opencontainers.image.revision=abc", "-label", "org.opencontainers.image.version=" + version, "-output", output,
	}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestImage reads an image as a registry's tools do: all digests are right, each platform
// has its binary, and there is nothing else than what a scheduler needs.
func TestImage(t *testing.T) {
	archive := makeImage(t, "v9.8.7")
	files, _ := untar(t, archive)
	folder := t.TempDir()
	for name, content := range files {
		if err := os.MkdirAll(filepath.Join(folder, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Contains(files["oci-layout"], []byte(`"imageLayoutVersion": "1.0.0"`)) {
		t.Errorf("oci-layout: %s", files["oci-layout"])
	}
	root, err := layout.ImageIndexFromPath(folder)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(root); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	named, err := root.IndexManifest()
	if err != nil || len(named.Manifests) != 1 || named.Manifests[0].Annotations["org.opencontainers.image.ref.name"] != "v9.8.7" {
		t.Fatalf("index.json: %v (%v)", named, err)
	}
	index, err := root.ImageIndex(named.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantLabels, manifest.Annotations); diff != "" {
		t.Errorf("annotations of the index (-want,+got):\n%s", diff)
	}
	var platforms []string
	for _, descriptor := range manifest.Manifests {
		platforms = append(platforms, descriptor.Platform.String())
		image, err := index.Image(descriptor.Digest)
		if err != nil {
			t.Fatal(err)
		}
		checkPlatform(t, image, descriptor.Platform.Architecture)
	}
	if diff := cmp.Diff([]string{"linux/amd64", "linux/arm64"}, platforms); diff != "" {
		t.Errorf("platforms (-want,+got):\n%s", diff)
	}

	// What a container engine loads.
	opener := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
	tag, err := name.NewTag("localhost/berth-scheduler:v9.8.7")
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := tarball.Image(opener, &tag)
	if err != nil {
		t.Fatal(err)
	}
	checkPlatform(t, loaded, runtime.GOARCH)
}

// wantLabels are the labels that makeImage asks for.
var wantLabels = map[string]string{"org.opencontainers.image.revision": "abc", "org.opencontainers.image.version": "v9.8.7"}

// checkPlatform checks the configuration and the files of an image for an architecture.
func checkPlatform(t *testing.T, image v1.Image, architecture string) {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	want := v1.Config{
		User: "65532:65532", Entrypoint: []string{"/usr/local/bin/berth-scheduler"}, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: wantLabels,
	}
	if diff := cmp.Diff(want, config.Config); diff != "" {
		t.Errorf("config (-want,+got):\n%s", diff)
	}
	if config.OS != "linux" || config.Architecture != architecture || config.Created.Unix() != 1795384246 {
		t.Errorf("config: for %s/%s, of %s; want linux/%s", config.OS, config.Architecture, config.Created, architecture)
	}
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers (%v), want 1", len(layers), err)
	}
	reader, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	layer, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	checkLayer(t, layer, architecture)
}

// checkLayer looks at the files of an image for an architecture.
func checkLayer(t *testing.T, layer []byte, architecture string) {
	t.Helper()
	content, headers := untar(t, layer)
	modes := map[string]int64{}
	for _, header := range headers {
		modes[header.Name] = header.Mode
		if header.Uid != 0 || header.Gid != 0 || header.ModTime.Unix() != 1795384246 {
			t.Errorf("%s: of user %d, group %d, from %s", header.Name, header.Uid, header.Gid, header.ModTime)
		}
	}
	if diff := cmp.Diff(map[string]int64{
		"etc/": 0o755, "etc/ssl/": 0o755, "etc/ssl/certs/": 0o755, "etc/ssl/certs/ca-certificates.crt": 0o644,
		"usr/": 0o755, "usr/local/": 0o755, "usr/local/bin/": 0o755, "usr/local/bin/berth-scheduler": 0o755,
	}, modes); diff != "" {
		t.Errorf("files (-want,+got):\n%s", diff)
	}
	if got := string(content["usr/local/bin/berth-scheduler"]); got != "for "+architecture {
		t.Errorf("the image for %s has the binary %s", architecture, got)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(content["etc/ssl/certs/ca-certificates.crt"]) {
		t.Error("no certificate authorities")
	}
}

// TestImageIsReproducible: nothing of when and where gets into an image.
func TestImageIsReproducible(t *testing.T) {
	first := makeImage(t, "v9.8.7")
	defer func(zone *time.Location) { time.Local = zone }(time.Local)
	time.Local = time.FixedZone("elsewhere", 3600)
	if !bytes.Equal(first, makeImage(t, "v9.8.7")) {
		t.Error("two images of the same files differ")
	}
	if bytes.Equal(first, makeImage(t, "v9.8.8")) {
		t.Error("images of two versions are equal")
	}
}

func TestMistakes(t *testing.T) {
	folder := t.TempDir()
	for _, tt := range []struct {
		name, epoch string
		args        []string
		want        string
	}{
		{"no command", epoch, nil, "want a command"},
		{"unknown command", epoch, []string{"push"}, `unknown command "push"`},
		{"no date", "", []string{"image"}, `SOURCE_DATE_EPOCH: got ""`},
		{"no tag", epoch, []string{"image", "-name", "localhost:5000/x", "-binary", "x", "-output", "y"}, `--name: got "localhost:5000/x"`},
		{"no binary", epoch, []string{"image", "-name", "x:y", "-output", "z"}, "--binary and --output"},
		{"platform", epoch, []string{"image", "-name", "x:y", "-binary", "b", "-output", "z", "-platforms", "linux"}, `--platforms: got "linux"`},
		{"no platform", epoch, []string{"image", "-name", "x:y", "-binary", "b", "-output", "z", "-platforms", ""}, "at least one"},
		{"label", epoch, []string{"image", "-label", "x"}, "want KEY=VALUE"},
		{"missing binary", epoch, []string{"image", "-name", "x:y", "-binary", folder + "/b", "-output", "z"}, "reading the binary for linux/amd64"},
		{"no version", epoch, []string{"files", "-build", "x", "-krew-k8s", "1.37", "-out", "y"}, "--version is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SOURCE_DATE_EPOCH", tt.epoch)
			if err := run(tt.args); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}
