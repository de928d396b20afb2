// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/compat"
)

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

func TestReleaseIsLinkedLikeTheBinaries(t *testing.T) {
	var got [3]string
	for i, args := range [][]string{{"build"}, {"build-binary", "BINARY=berth-scheduler"}, {"release-binaries", "PLATFORM=linux/arm64"}} {
		commands := makeDryRun(t, append(args, "VERSION=v9.8.7")...)
		match := linkerFlags.FindStringSubmatch(commands)
		if match == nil {
			t.Fatalf("make %s: no linker flags with our version in:\n%s", args[0], commands)
		}
		got[i] = match[1]
		if i > 0 {
			if diff := cmp.Diff(got[0], got[i]); diff != "" {
				t.Errorf("linker flags (-build,+%s):\n%s", args[0], diff)
			}
		}
	}
	if !strings.Contains(got[0], "version.gitVersion=v1.") || !strings.Contains(got[0], "pkg/version.version=v9.8.7") {
		t.Errorf("linker flags lack the version of Kubernetes or of Berth: %s", got[0])
	}
}

// TestReleaseIsBuiltWithTheModulesGo: the version of Go that builds releases is a patch
// release of the one that go.mod names.
func TestReleaseIsBuiltWithTheModulesGo(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(t), "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	want := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(content)
	got := regexp.MustCompile(`GOTOOLCHAIN=go(\d+\.\d+)\.\d+ `).FindStringSubmatch(makeDryRun(t, "release-binaries", "PLATFORM=linux/amd64"))
	if want == nil || got == nil || got[1] != string(want[1]) {
		t.Errorf("releases are built with %q, go.mod names %q", got, want)
	}
}

// TestImagesAreReproducible makes the images as a release does, once here and once in a
// copy of this tree elsewhere with an empty build cache, and runs one of their binaries.
func TestImagesAreReproducible(t *testing.T) {
	if os.Getenv("BERTH_LONG") != "1" {
		t.Skip("compiles two binaries twice, once without a cache: only with BERTH_LONG=1")
	}
	elsewhere := t.TempDir()
	copyTree(t, root(t), elsewhere)
	var digests [2]string
	for i, source := range []string{root(t), elsewhere} {
		out := t.TempDir()
		build := exec.CommandContext(t.Context(), "make", "--no-print-directory", "image", "ENGINE=", "VERSION=v9.8.7", "IMAGE_OUT="+out, "BUILD_OUT="+out+"/build")
		build.Dir = source
		build.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1795384246", "K8S="+compat.Release, "MAKEFLAGS=", "MAKEOVERRIDES=")
		if source == elsewhere {
			build.Env = append(build.Env, "GOCACHE="+t.TempDir())
		}
		var stderr strings.Builder
		build.Stderr = &stderr
		printed, err := build.Output()
		if err != nil {
			t.Fatalf("make image in %s: %v\n%s", source, err, stderr.String())
		}
		digests[i] = strings.Join(regexp.MustCompile(`\S+-scheduler:\S+@sha256:[0-9a-f]{64}`).FindAllString(string(printed), -1), "\n")
		if strings.Count(digests[i], "@") != 2 {
			t.Fatalf("make image printed no digests:\n%s", printed)
		}
		if source == elsewhere {
			for _, binary := range []string{"berth-scheduler", "random-scheduler"} {
				checkStatic(t, filepath.Join(out, "build", "k8s"+compat.Release+"_linux_"+runtime.GOARCH, binary))
			}
		}
	}
	if diff := cmp.Diff(digests[0], digests[1]); diff != "" {
		t.Errorf("digests of the images (-here,+elsewhere):\n%s", diff)
	}
	t.Log(digests[0])
}

// checkStatic runs a binary that shall need nothing but the kernel.
func checkStatic(t *testing.T, file string) {
	t.Helper()
	executable, err := elf.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer executable.Close()
	for _, segment := range executable.Progs {
		if segment.Type == elf.PT_INTERP {
			t.Errorf("%s is linked dynamically; the image has no libc", file)
		}
	}
	out, err := exec.CommandContext(t.Context(), file, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "v9.8.7") {
		t.Errorf("%s --version: %v, %q does not name the version it was built with", file, err, out)
	}
}

// copyTree copies what git tracks, and what is new and not ignored, as it is on disk.
func copyTree(t *testing.T, source, target string) {
	t.Helper()
	list := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	list.Dir = source
	names, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(names), "\x00"), "\x00") {
		from, to := filepath.Join(source, name), filepath.Join(target, name)
		info, err := os.Lstat(from)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Deleted, and not committed yet.
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			link, err := os.Readlink(from)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(link, to); err != nil {
				t.Fatal(err)
			}
			continue
		}
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, content, info.Mode()); err != nil {
			t.Fatal(err)
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
	commands := makeDryRun(t, "image-files", "VERSION=v9.8.7-3-gabcdef0-dirty")
	suffix := map[string]string{"1.36": "-k8s1.36"}[compat.Release]
	for _, want := range []string{
		"$binary:v9.8.7-3-gabcdef0-dirty" + suffix + " ", "org.opencontainers.image.version=v9.8.7-3-gabcdef0-dirty",
		"org.opencontainers.image.revision=", "org.opencontainers.image.title=$binary", "org.opencontainers.image.licenses=Apache-2.0",
	} {
		if !strings.Contains(commands, want) {
			t.Errorf("make image: want %q in\n%s", want, commands)
		}
	}
}

// TestManifestsUseTheImages compares the images in manifests/ with the names that
// make image gives.
func TestManifestsUseTheImages(t *testing.T) {
	commands := makeDryRun(t, "image-files", "IMAGE_TAG="+release(t))
	tag := regexp.MustCompile(`-name (\S+)\$binary:(\S+)`).FindStringSubmatch(commands)
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
