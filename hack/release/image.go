// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// user is the user of a container whose pod names none. It is numeric, so that a kubelet
// can see that it is not root.
const user = "65532:65532"

// certificates is where Go and most other programs look for certificate authorities.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// labels is a flag that is repeated for each label.
type labels map[string]string

// String implements flag.Value.
func (l labels) String() string { return "" }

// Set implements flag.Value.
func (l labels) Set(text string) error {
	key, value, found := strings.Cut(text, "=")
	if !found || key == "" {
		return errors.New("want KEY=VALUE")
	}
	l[key] = value
	return nil
}

// runImage writes an image with one static binary per platform: the binary, certificate
// authorities, a numeric user, and nothing else. The file is an OCI image layout, for
// tools that copy images to a registry. Container engines can load the image for the
// architecture of this machine from the same file. runImage prints the name and digest.
func runImage(args []string, created time.Time) error {
	flags := flag.NewFlagSet("release image", flag.ContinueOnError)
	spec := image{Created: created, Labels: map[string]string{}}
	flags.StringVar(&spec.Reference, "name", "", "name and tag of the image (registry.example.com/berth-scheduler:v1.0.0)")
	flags.Var(labels(spec.Labels), "label", "a label, KEY=VALUE (repeatable)")
	binary := flags.String("binary", "", "path of the binary; {os} and {arch} in it are replaced by the platform's")
	platforms := flags.String("platforms", "linux/amd64", "platforms of the image, separated by spaces")
	output := flags.String("output", "", "the tar archive to write")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case flags.NArg() > 0:
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case tagOf(spec.Reference) == "":
		return fmt.Errorf("--name: got %q, want a name and a tag", spec.Reference)
	case *binary == "" || *output == "":
		return errors.New("--binary and --output are required")
	}
	for platform := range strings.FieldsSeq(*platforms) {
		system, architecture, found := strings.Cut(platform, "/")
		if !found || system == "" || architecture == "" {
			return fmt.Errorf("--platforms: got %q, want OS/ARCHITECTURE", platform)
		}
		file := strings.NewReplacer("{os}", system, "{arch}", architecture).Replace(*binary)
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("reading the binary for %s: %w", platform, err)
		}
		spec.Binaries = append(spec.Binaries, platformBinary{OS: system, Architecture: architecture, Name: path.Base(file), Content: content})
	}
	if len(spec.Binaries) == 0 {
		return errors.New("--platforms: want at least one")
	}
	archive, digest, err := spec.archive()
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Reference, err)
	}
	if err := write(*output, archive); err != nil {
		return err
	}
	fmt.Printf("%s@%s\n", spec.Reference, digest)
	return nil
}

// tagOf returns the tag of an image's name, empty if it has none.
func tagOf(reference string) string {
	name, tag, _ := strings.Cut(path.Base(reference), ":")
	if name == "" {
		return ""
	}
	return tag
}

// image is what goes into an image.
type image struct {
	// Reference is the image's name and tag.
	Reference string
	// Created is the time of the image and all its files.
	Created time.Time
	// Labels are those of the image, and annotations of its index.
	Labels map[string]string
	// Binaries has one for each platform.
	Binaries []platformBinary
}

// platformBinary is a static binary for a platform, named as Go names it.
type platformBinary struct {
	OS, Architecture string
	// Name is the file's name in the image, below /usr/local/bin.
	Name    string
	Content []byte
}

// archive returns the image as a tar archive with an OCI image layout, and the digest of
// its index.
func (i image) archive() ([]byte, v1.Hash, error) {
	index := mutate.Annotations(empty.Index, i.Labels).(v1.ImageIndex)
	var engines tarball.Manifest
	for _, binary := range i.Binaries {
		made, err := i.forPlatform(binary)
		if err != nil {
			return nil, v1.Hash{}, fmt.Errorf("%s/%s: %w", binary.OS, binary.Architecture, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: made, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: binary.OS, Architecture: binary.Architecture}},
		})
		if binary.OS != "linux" || binary.Architecture != runtime.GOARCH {
			continue
		}
		manifest, err := made.Manifest()
		if err != nil {
			return nil, v1.Hash{}, err
		}
		engines = append(engines, tarball.Descriptor{
			Config: blobPath(manifest.Config.Digest), RepoTags: []string{i.Reference}, Layers: []string{blobPath(manifest.Layers[0].Digest)},
		})
	}
	digest, err := index.Digest()
	if err != nil {
		return nil, v1.Hash{}, err
	}
	files, err := i.layout(index)
	if err != nil {
		return nil, v1.Hash{}, err
	}
	if engines != nil { // what `docker load` reads
		content, err := json.Marshal(engines)
		if err != nil {
			return nil, v1.Hash{}, err
		}
		files["manifest.json"] = tarFile{content: content, mode: 0o644}
	}
	archive, err := tarArchive(files, i.Created)
	return archive, digest, err
}

// forPlatform returns the image of one platform.
func (i image) forPlatform(binary platformBinary) (v1.Image, error) {
	roots, err := certificateAuthorities()
	if err != nil {
		return nil, err
	}
	content, err := tarArchive(map[string]tarFile{
		certificates: {content: roots, mode: 0o644}, "usr/local/bin/" + binary.Name: {content: binary.Content, mode: 0o755},
	}, i.Created)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
		tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
	if err != nil {
		return nil, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	configured, err := mutate.ConfigFile(base, &v1.ConfigFile{
		Created: v1.Time{Time: i.Created}, OS: binary.OS, Architecture: binary.Architecture, RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User: user, Entrypoint: []string{"/usr/local/bin/" + binary.Name}, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: i.Labels,
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.Append(configured, mutate.Addendum{Layer: layer, History: v1.History{Created: v1.Time{Time: i.Created}, CreatedBy: "make image"}})
}

// layout returns the files of an OCI image layout that holds the index under the tag.
func (i image) layout(index v1.ImageIndex) (map[string]tarFile, error) {
	folder, err := os.MkdirTemp("", "berth-release-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(folder) }() // a temporary folder
	written, err := layout.Write(folder, empty.Index)
	if err != nil {
		return nil, err
	}
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": tagOf(i.Reference)})); err != nil {
		return nil, err
	}
	files := map[string]tarFile{}
	root := os.DirFS(folder)
	return files, fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, name)
		files[name] = tarFile{content: content, mode: 0o644}
		return err
	})
}

// blobPath is the path of a blob in an OCI image layout.
func blobPath(of v1.Hash) string { return path.Join("blobs", of.Algorithm, of.Hex) }
