// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// plugin is the binary that users run, on any platform; it has archives of its own.
const plugin = "kubectl-berth"

// checksums is the name of the file with the SHA-256 of all others, as sha256sum reads it.
const checksums = "SHA256SUMS"

// buildFolder is the name of a folder of binaries: the minor release of Kubernetes that
// is compiled in, the operating system and the architecture.
var buildFolder = regexp.MustCompile(`^k8s(1\.\d+)_([a-z0-9]+)_([a-z0-9]+)$`)

// archive is a compressed tar archive of binaries for one platform.
type archive struct {
	file                           string
	minorRelease, os, architecture string
	sha256                         string
}

// runFiles makes of each folder of binaries an archive with kubectl-berth, and one with
// the others; a list of what is compiled into each binary; the manifest for krew; and
// the checksums of these and of what is in the folder already.
func runFiles(args []string, created time.Time) error {
	flags := flag.NewFlagSet("release files", flag.ContinueOnError)
	version := flags.String("version", "", "the release's version, with v in front")
	build := flags.String("build", "", "the folder with a folder of binaries for each minor release and platform: k8s1.37_linux_amd64")
	license := flags.String("license", "LICENSE", "the licence, which is in every archive")
	krewMinor := flags.String("krew-k8s", "", "the minor release of Kubernetes of the kubectl-berth that krew installs")
	out := flags.String("out", "", "the folder to write to")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	for name, value := range map[string]string{"--version": *version, "--build": *build, "--krew-k8s": *krewMinor, "--out": *out} {
		if value == "" {
			return fmt.Errorf("%s is required", name)
		}
	}
	text, err := os.ReadFile(*license)
	if err != nil {
		return err
	}
	folders, err := os.ReadDir(*build)
	if err != nil {
		return err
	}
	var plugins []archive
	for _, folder := range folders {
		parts := buildFolder.FindStringSubmatch(folder.Name())
		if parts == nil {
			return fmt.Errorf("%s: %s is not named as k8s1.37_linux_amd64 is", *build, folder.Name())
		}
		made, err := archivesOf(filepath.Join(*build, folder.Name()), *out, *version, text, created)
		if err != nil {
			return fmt.Errorf("%s: %w", folder.Name(), err)
		}
		if found, ok := made[plugin]; ok && parts[1] == *krewMinor {
			found.minorRelease, found.os, found.architecture = parts[1], parts[2], parts[3]
			plugins = append(plugins, found)
		}
	}
	if len(plugins) == 0 {
		return fmt.Errorf("%s: no %s for Kubernetes %s", *build, plugin, *krewMinor)
	}
	manifest, err := krewManifest(*version, plugins)
	if err != nil {
		return fmt.Errorf("the manifest for krew: %w", err)
	}
	if err := write(filepath.Join(*out, "krew-berth.yaml"), manifest); err != nil {
		return err
	}
	return writeChecksums(*out)
}

// archivesOf makes the archives of one folder of binaries, and the list of what is in
// each binary. It returns the archives by what they hold.
func archivesOf(folder, out, version string, license []byte, created time.Time) (map[string]archive, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	suffix := "_" + version + "_" + filepath.Base(folder)
	contents := map[string]map[string]tarFile{}
	for _, entry := range entries {
		name := entry.Name()
		holds := "berth"
		if name == plugin {
			holds = plugin
		}
		content, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		if contents[holds] == nil {
			contents[holds] = map[string]tarFile{"LICENSE": {content: license, mode: 0o644}}
		}
		contents[holds][name] = tarFile{content: content, mode: 0o755}

		bill, err := billOfMaterials(filepath.Join(folder, name), name+suffix, version, created)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := write(filepath.Join(out, name+suffix+".spdx.json"), bill); err != nil {
			return nil, err
		}
	}
	if len(contents) == 0 {
		return nil, errors.New("no binaries")
	}
	made := map[string]archive{}
	for holds, files := range contents {
		unpacked, err := tarArchive(files, created)
		if err != nil {
			return nil, err
		}
		packed, err := compress(unpacked)
		if err != nil {
			return nil, err
		}
		file := holds + suffix + ".tar.gz"
		if err := write(filepath.Join(out, file), packed); err != nil {
			return nil, err
		}
		made[holds] = archive{file: file, sha256: sum(packed)}
	}
	return made, nil
}

// writeChecksums writes the checksums of all other files of a folder.
func writeChecksums(folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var lines []string
	for _, entry := range entries {
		if entry.Name() == checksums {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		lines = append(lines, sum(content)+"  "+entry.Name()+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[2*sha256.Size:], b[2*sha256.Size:]) })
	return write(filepath.Join(folder, checksums), []byte(strings.Join(lines, "")))
}

// sum is the SHA-256 of content, in hexadecimal digits.
func sum(content []byte) string {
	of := sha256.Sum256(content)
	return hex.EncodeToString(of[:])
}

// write writes a file that everybody may read.
func write(file string, content []byte) error {
	return os.WriteFile(file, content, 0o644) //nolint:gosec // A release is for everybody to read.
}
