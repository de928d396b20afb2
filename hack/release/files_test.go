// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdxlib"
	"sigs.k8s.io/yaml"
)

// TestFiles makes a release of this test's own binary, for a Mac and a Linux machine,
// and uses each file as its reader would.
func TestFiles(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", epoch)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	binary, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	build, out := t.TempDir(), t.TempDir()
	for _, name := range []string{
		"k8s1.37_linux_amd64/berth-scheduler", "k8s1.37_linux_amd64/kubectl-berth", "k8s1.37_darwin_arm64/kubectl-berth", "k8s1.36_linux_amd64/kubectl-berth",
	} {
		if err := os.MkdirAll(filepath.Join(build, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(build, name), binary, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "manifests-base.yaml"), []byte("a: b\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{"files", "-version", "v9.8.7", "-build", build, "-license", "../../LICENSE", "-krew-k8s", "1.37", "-out", out}); err != nil {
		t.Fatal(err)
	}

	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	if diff := cmp.Diff([]string{
		"SHA256SUMS",
		"berth-scheduler_v9.8.7_k8s1.37_linux_amd64.spdx.json",
		"berth_v9.8.7_k8s1.37_linux_amd64.tar.gz",
		"krew-berth.yaml",
		"kubectl-berth_v9.8.7_k8s1.36_linux_amd64.spdx.json", "kubectl-berth_v9.8.7_k8s1.36_linux_amd64.tar.gz",
		"kubectl-berth_v9.8.7_k8s1.37_darwin_arm64.spdx.json", "kubectl-berth_v9.8.7_k8s1.37_darwin_arm64.tar.gz",
		"kubectl-berth_v9.8.7_k8s1.37_linux_amd64.spdx.json", "kubectl-berth_v9.8.7_k8s1.37_linux_amd64.tar.gz",
		"manifests-base.yaml",
	}, names); diff != "" {
		t.Errorf("files (-want,+got):\n%s", diff)
	}

	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", checksums)
	check.Dir = out
	if output, err := check.CombinedOutput(); err != nil || strings.Count(string(output), ": OK") != len(names)-1 {
		t.Errorf("sha256sum --check: %v\n%s", err, output)
	}
	checkKrew(t, out)
	checkBill(t, filepath.Join(out, "kubectl-berth_v9.8.7_k8s1.37_linux_amd64.spdx.json"), sum(binary))
}

// checkKrew follows the manifest as krew does: it takes the archive for a platform, looks
// at its checksum, and expects the plugin in it.
func checkKrew(t *testing.T, out string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(out, "krew-berth.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct { // of krew's Plugin, what is written
		APIVersion, Kind string
		Metadata         struct{ Name string }
		Spec             struct {
			Version, Homepage, ShortDescription, Description string
			Platforms                                        []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || manifest.Kind != "Plugin" ||
		manifest.Metadata.Name != "berth" || manifest.Spec.Version != "v9.8.7" || len(manifest.Spec.ShortDescription) > 50 {
		t.Errorf("manifest for krew:\n%s", content)
	}
	var platforms []map[string]string
	for _, platform := range manifest.Spec.Platforms {
		platforms = append(platforms, platform.Selector.MatchLabels)
		file, found := strings.CutPrefix(platform.URI, "https://github.com/berth-scheduler/berth/releases/download/v9.8.7/")
		if !found {
			t.Errorf("uri %s", platform.URI)
		}
		archive, err := os.ReadFile(filepath.Join(out, file))
		if err != nil {
			t.Fatal(err)
		}
		if sum(archive) != platform.SHA256 {
			t.Errorf("%s: another checksum than the manifest's", file)
		}
		files, headers := untar(t, unpack(t, archive))
		if files[platform.Bin] == nil || files["LICENSE"] == nil || len(files) != 2 {
			t.Errorf("%s: want %s and LICENSE", file, platform.Bin)
		}
		for _, header := range headers {
			if header.Name == platform.Bin && header.Mode != 0o755 {
				t.Errorf("%s: mode %o", header.Name, header.Mode)
			}
		}
	}
	if diff := cmp.Diff([]map[string]string{{"os": "darwin", "arch": "arm64"}, {"os": "linux", "arch": "amd64"}}, platforms); diff != "" {
		t.Errorf("platforms (-want,+got):\n%s", diff)
	}
}

// checkBill reads a bill of materials as SPDX's own library does, and looks for what is
// certainly compiled into this test.
func checkBill(t *testing.T, file, digest string) {
	t.Helper()
	content, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	bill, err := spdxjson.Read(content)
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(bill); err != nil {
		t.Error(err)
	}
	ids, locators := map[common.ElementID]bool{}, map[string]bool{}
	for _, element := range bill.Packages {
		if ids[element.PackageSPDXIdentifier] {
			t.Errorf("two elements are %s", element.PackageSPDXIdentifier)
		}
		ids[element.PackageSPDXIdentifier] = true
		for _, reference := range element.PackageExternalReferences {
			locators[reference.Locator[:strings.LastIndex(reference.Locator, "@")]] = true
		}
	}
	if len(bill.Relationships) != len(bill.Packages) {
		t.Errorf("%d relationships of %d packages, want one each", len(bill.Relationships), len(bill.Packages))
	}
	for _, module := range []string{"stdlib", "sigs.k8s.io/yaml", "github.com/google/go-containerregistry", "golang.org/x/crypto/x509roots/fallback"} {
		if !locators["pkg:golang/"+module] {
			t.Errorf("no %s among %d modules", module, len(bill.Packages))
		}
	}
	if got := bill.Packages[0].PackageChecksums[0].Value; got != digest {
		t.Errorf("the binary's checksum: got %s, want %s", got, digest)
	}
}
