// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"debug/elf"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/minor"
)

// dockerfile is the recipe of both images. No container engine is needed here:
// the tests follow the recipe with the tools that it calls.
const dockerfile = "hack/image/Dockerfile"

// instructions returns the Dockerfile's instructions, one a line, without
// comments.
func instructions(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), dockerfile))
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(content), "\\\n", " ")
	var lines []string
	for line := range strings.Lines(joined) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines
}

// makeDryRun returns the commands that make would run.
func makeDryRun(t *testing.T, args ...string) string {
	t.Helper()
	dryRun := exec.CommandContext(t.Context(), "make", append([]string{"--dry-run", "--no-print-directory"}, args...)...)
	dryRun.Dir = root(t)
	// This test may run below make; the outer one's flags are not ours.
	dryRun.Env = append(os.Environ(), "MAKEFLAGS=", "MAKEOVERRIDES=")
	out, err := dryRun.CombinedOutput()
	if err != nil {
		t.Fatalf("make --dry-run %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// linkerFlags matches the flags of a go build of our own commands.
var linkerFlags = regexp.MustCompile(`-ldflags '([^']*pkg/version\.version=[^']*)'`)

func TestImageIsLinkedLikeTheBinaries(t *testing.T) {
	var got [2]string
	for i, target := range []string{"build", "build-binary"} {
		commands := makeDryRun(t, target, "BINARY=berth-scheduler", "VERSION=v9.8.7")
		match := linkerFlags.FindStringSubmatch(commands)
		if match == nil {
			t.Fatalf("make %s: no linker flags with our version in:\n%s", target, commands)
		}
		got[i] = match[1]
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" {
		t.Errorf("linker flags (-build,+build-binary):\n%s", diff)
	}
	if !strings.Contains(got[0], "version.gitVersion=v1.") || !strings.Contains(got[0], "pkg/version.version=v9.8.7") {
		t.Errorf("linker flags lack the version of Kubernetes or of Berth: %s", got[0])
	}
}

// TestImageBuilds follows the build stage for each of the two schedulers, in a
// folder that holds what the recipe copies and nothing else.
func TestImageBuilds(t *testing.T) {
	if os.Getenv("BERTH_LONG") != "1" {
		t.Skip("compiles two binaries again, elsewhere: only with BERTH_LONG=1")
	}
	source := root(t)
	context := t.TempDir()
	var build string
	lines := instructions(t)
	for _, line := range lines {
		fields := strings.Fields(line)
		switch {
		case fields[0] == "COPY" && !strings.HasPrefix(fields[1], "--from"):
			for _, name := range fields[1 : len(fields)-1] {
				copyInto(t, source, context, name)
			}
		case fields[0] == "RUN":
			if _, arguments, found := strings.Cut(line, " make "); found {
				build = "make " + arguments
			}
		}
	}
	if build == "" {
		t.Fatalf("%s: no RUN make …", dockerfile)
	}
	for _, binary := range []string{"berth-scheduler", "random-scheduler"} {
		t.Run(binary, func(t *testing.T) {
			if !slices.Contains(lines, `ENTRYPOINT ["`+binary+`"]`) {
				t.Errorf("%s: no entry point for %s", dockerfile, binary)
			}
			run := exec.CommandContext(t.Context(), "sh", "-c", build)
			run.Dir = context
			run.Env = append(os.Environ(), "BINARY="+binary, "VERSION=v9.8.7", "K8S="+minor.Release, "MAKEFLAGS=", "MAKEOVERRIDES=")
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", build, err, out)
			}
			built := filepath.Join(context, "bin", binary)
			if !slices.Contains(lines, "COPY --from=build /src/bin/${BINARY} /usr/local/bin/${BINARY}") {
				t.Errorf("%s does not copy bin/%s, where make puts it", dockerfile, binary)
			}
			executable, err := elf.Open(built)
			if err != nil {
				t.Fatal(err)
			}
			defer executable.Close()
			for _, segment := range executable.Progs {
				if segment.Type == elf.PT_INTERP {
					t.Errorf("%s is linked dynamically; the image has no libc", binary)
				}
			}
			out, err := exec.CommandContext(t.Context(), built, "--version").CombinedOutput()
			if err != nil || !strings.Contains(string(out), "v9.8.7") {
				t.Errorf("%s --version: %v, %q does not name the version it was built with", binary, err, out)
			}
		})
	}
}

// copyInto copies a file or a folder of the repository, as the .dockerignore lets
// the builder see it.
func copyInto(t *testing.T, source, target, name string) {
	t.Helper()
	ignore, err := os.ReadFile(filepath.Join(source, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Split(string(ignore), "\n"), "!"+strings.TrimPrefix(name, "./")) {
		t.Errorf(".dockerignore hides %s, which %s copies", name, dockerfile)
	}
	err = fs.WalkDir(os.DirFS(source), name, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		copied := filepath.Join(target, name)
		if err := os.MkdirAll(filepath.Dir(copied), 0o755); err != nil {
			return err
		}
		if entry.Type() == fs.ModeSymlink {
			to, err := os.Readlink(filepath.Join(source, name))
			if err != nil {
				return err
			}
			return os.Symlink(to, copied)
		}
		content, err := os.ReadFile(filepath.Join(source, name))
		if err != nil {
			return err
		}
		return os.WriteFile(copied, content, 0o600)
	})
	if err != nil {
		t.Fatalf("%s copies %s: %v", dockerfile, name, err)
	}
}

func TestImageIsRestricted(t *testing.T) {
	defaults := map[string]string{}
	for _, line := range instructions(t) {
		fields := strings.Fields(line)
		if name, value, found := strings.Cut(fields[1], "="); fields[0] == "ARG" && found && strings.HasSuffix(name, "_IMAGE") {
			defaults["${"+name+"}"] = value
		}
		if fields[0] != "FROM" {
			continue
		}
		image := fields[1]
		if value, found := defaults[image]; found {
			image = value
		}
		switch {
		case strings.HasPrefix(image, "golang:"):
			content, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
			if err != nil {
				t.Fatal(err)
			}
			if minor := strings.TrimPrefix(image, "golang:"); !regexp.MustCompile(`(?m)^go ` + regexp.QuoteMeta(minor) + `(\.\d+)?$`).Match(content) {
				t.Errorf("%s builds with Go %s, go.mod names another", dockerfile, minor)
			}
		case image == "entry-${BINARY}":
		case !strings.HasSuffix(image, ":nonroot"):
			t.Errorf("%s: FROM %s: want an image that does not run as root", dockerfile, image)
		}
	}
}

// release is the version that this tree leads to, and whose images manifests/ name.
func release(t *testing.T) string {
	t.Helper()
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^RELEASE := (\S+)$`).FindSubmatch(makefile)
	if match == nil {
		t.Fatal("Makefile: no RELEASE")
	}
	return string(match[1])
}

// TestImageSaysWhatIsInIt: two trees never give two images of one name.
func TestImageSaysWhatIsInIt(t *testing.T) {
	commands := makeDryRun(t, "image", "VERSION=v9.8.7-3-gabcdef0-dirty")
	for _, want := range []string{
		"$binary:v9.8.7-3-gabcdef0-dirty ", "org.opencontainers.image.version=v9.8.7-3-gabcdef0-dirty",
		"org.opencontainers.image.revision=", "org.opencontainers.image.title=$binary", "org.opencontainers.image.licenses=Apache-2.0",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("make image: want %q in\n%s", want, commands)
		}
	}
	if pinned := makeDryRun(t, "image", "IMAGE_FLAGS=--build-arg BASE_IMAGE=example.com/base@sha256:0"); !strings.Contains(pinned, "--build-arg BASE_IMAGE=example.com/base@sha256:0") {
		t.Errorf("IMAGE_FLAGS are not passed on:\n%s", pinned)
	}
}

// TestManifestsUseTheImages compares the images in manifests/ with the names that
// make image gives.
func TestManifestsUseTheImages(t *testing.T) {
	commands := makeDryRun(t, "image", "IMAGE_TAG="+release(t))
	tag := regexp.MustCompile(`--tag (\S+)\$binary:(\S+)`).FindStringSubmatch(commands)
	if tag == nil {
		t.Fatalf("make image names no image:\n%s", commands)
	}
	image := regexp.MustCompile(`(?m)^\s*(?:- )?image: *["']?([^\s"']*(?:berth|random)-scheduler[^\s"']*)`)
	want := []string{tag[1] + "berth-scheduler:" + tag[2], tag[1] + "random-scheduler:" + tag[2]}
	found := map[string]bool{}
	files(t, os.DirFS(filepath.Join(root(t), "manifests")), func(name string, content []byte) {
		for _, match := range image.FindAllSubmatch(content, -1) {
			got := string(match[1])
			found[got] = true
			if !slices.Contains(want, got) {
				t.Errorf("manifests/%s: image %s, make image builds %s", name, got, strings.Join(want, " and "))
			}
		}
	})
	for _, name := range want {
		if !found[name] {
			t.Errorf("manifests/: nothing uses %s", name)
		}
	}
}
