// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	imagespec "github.com/opencontainers/image-spec/specs-go/v1"
)

// user is who a container of the image runs as, where its pod does not say: numeric, so
// that a kubelet sees that it is not root.
const user = "65532:65532"

// certificates is where Go, and most other things, look for certificate authorities.
const certificates = "etc/ssl/certs/ca-certificates.crt"

// labels is a flag that is given once a label.
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

// runImage writes an image of one static binary a platform: the binary, certificate
// authorities, a numeric user, and nothing else. The file is an OCI image layout, for
// tools that copy images to a registry; where it holds an image for the architecture
// that this program runs on, container engines load that one from the same file. It
// prints the image's name and digest.
func runImage(args []string, created time.Time) error {
	flags := flag.NewFlagSet("release image", flag.ContinueOnError)
	spec := image{Created: created, Labels: map[string]string{}}
	flags.StringVar(&spec.Reference, "name", "", "the image's name and tag (registry.example.com/berth-scheduler:v1.0.0)")
	flags.Var(labels(spec.Labels), "label", "a label, KEY=VALUE; repeatable")
	binary := flags.String("binary", "", "the file with the binary; {os} and {arch} in it stand for the platform's")
	platforms := flags.String("platforms", "linux/amd64", "the image's platforms, separated by spaces")
	output := flags.String("output", "", "the file to write, a tar archive")
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
	layout, of, err := spec.layout()
	if err != nil {
		return fmt.Errorf("image %s: %w", spec.Reference, err)
	}
	if err := os.WriteFile(*output, layout, 0o644); err != nil { //nolint:gosec // An image is for everybody to read.
		return err
	}
	fmt.Printf("%s@%s\n", spec.Reference, of)
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
	// Binaries are the image's, one a platform.
	Binaries []platformBinary
}

// platformBinary is a static binary for a platform, named as Go names it.
type platformBinary struct {
	OS, Architecture string
	// Name is the file's name in the image, below /usr/local/bin.
	Name    string
	Content []byte
}

// engineImage is an element of manifest.json, by which container engines load what
// `docker save` wrote.
type engineImage struct {
	// Config and Layers are paths in the archive.
	Config   string
	RepoTags []string
	Layers   []string
}

// layout returns the image as a tar archive with an OCI image layout, and the digest of
// its index. See https://github.com/opencontainers/image-spec/blob/v1.1.1/image-layout.md.
func (i image) layout() ([]byte, digest.Digest, error) {
	blobs := blobs{}
	index := imagespec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagespec.MediaTypeImageIndex, Annotations: i.Labels,
	}
	for _, binary := range i.Binaries {
		manifest, engine, err := i.addPlatform(blobs, binary)
		if err != nil {
			return nil, "", fmt.Errorf("%s/%s: %w", binary.OS, binary.Architecture, err)
		}
		index.Manifests = append(index.Manifests, manifest)
		if binary.OS == "linux" && binary.Architecture == runtime.GOARCH {
			if _, err := blobs.addJSON("manifest.json", "", []engineImage{engine}); err != nil {
				return nil, "", err
			}
		}
	}
	whole, err := blobs.addJSON("", imagespec.MediaTypeImageIndex, index)
	if err != nil {
		return nil, "", err
	}
	named := whole
	named.Annotations = map[string]string{imagespec.AnnotationRefName: tagOf(i.Reference)}
	if _, err := blobs.addJSON(imagespec.ImageIndexFile, "", imagespec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagespec.MediaTypeImageIndex, Manifests: []imagespec.Descriptor{named},
	}); err != nil {
		return nil, "", err
	}
	if _, err := blobs.addJSON(imagespec.ImageLayoutFile, "", imagespec.ImageLayout{Version: imagespec.ImageLayoutVersion}); err != nil {
		return nil, "", err
	}
	archive, err := tarArchive(blobs, i.Created)
	return archive, whole.Digest, err
}

// addPlatform adds the image of one platform to blobs.
func (i image) addPlatform(blobs blobs, binary platformBinary) (imagespec.Descriptor, engineImage, error) {
	roots, err := certificateAuthorities()
	if err != nil {
		return imagespec.Descriptor{}, engineImage{}, err
	}
	unpacked, err := tarArchive(map[string]tarFile{
		certificates: {content: roots, mode: 0o644}, "usr/local/bin/" + binary.Name: {content: binary.Content, mode: 0o755},
	}, i.Created)
	if err != nil {
		return imagespec.Descriptor{}, engineImage{}, err
	}
	packed, err := compress(unpacked)
	if err != nil {
		return imagespec.Descriptor{}, engineImage{}, err
	}
	layer := blobs.add("", imagespec.MediaTypeImageLayerGzip, packed)
	platform := imagespec.Platform{OS: binary.OS, Architecture: binary.Architecture}
	config, err := blobs.addJSON("", imagespec.MediaTypeImageConfig, imagespec.Image{
		Created:  &i.Created,
		Platform: platform,
		Config: imagespec.ImageConfig{
			User: user, Entrypoint: []string{"/usr/local/bin/" + binary.Name}, Env: []string{"PATH=/usr/local/bin"}, WorkingDir: "/", Labels: i.Labels,
		},
		RootFS:  imagespec.RootFS{Type: "layers", DiffIDs: []digest.Digest{digest.FromBytes(unpacked)}},
		History: []imagespec.History{{Created: &i.Created, CreatedBy: "make image"}},
	})
	if err != nil {
		return imagespec.Descriptor{}, engineImage{}, err
	}
	manifest, err := blobs.addJSON("", imagespec.MediaTypeImageManifest, imagespec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: imagespec.MediaTypeImageManifest,
		Config: config, Layers: []imagespec.Descriptor{layer},
	})
	manifest.Platform = &platform
	return manifest, engineImage{
		Config: blobPath(config.Digest), RepoTags: []string{i.Reference}, Layers: []string{blobPath(layer.Digest)},
	}, err
}

// blobs are the files of a layout, by path.
type blobs map[string]tarFile

// add adds a file, by its digest if it has no name, and returns what points to it.
func (b blobs) add(name, mediaType string, content []byte) imagespec.Descriptor {
	of := digest.FromBytes(content)
	if name == "" {
		name = blobPath(of)
	}
	b[name] = tarFile{content: content, mode: 0o644}
	return imagespec.Descriptor{MediaType: mediaType, Digest: of, Size: int64(len(content))}
}

// addJSON is add for content that is written as JSON.
func (b blobs) addJSON(name, mediaType string, content any) (imagespec.Descriptor, error) {
	encoded, err := json.Marshal(content)
	if err != nil {
		return imagespec.Descriptor{}, err
	}
	return b.add(name, mediaType, encoded), nil
}

// blobPath is where a blob stands in a layout.
func blobPath(of digest.Digest) string {
	return path.Join(imagespec.ImageBlobsDir, of.Algorithm().String(), of.Encoded())
}
