// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	spdx "github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// unknown is SPDX's word for a value that is not given.
const unknown = "NOASSERTION"

// billOfMaterials lists, in SPDX 2.3, what Go noted in a binary that it compiled: its
// modules, replacements under their own names, and the standard library.
func billOfMaterials(file, name, version string, created time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	digest := sum(content)
	binary := spdxPackage("Binary", info.Main.Path, version)
	binary.PackageName, binary.PackageDownloadLocation, binary.PackageLicenseDeclared = info.Path, "git+"+repository, "Apache-2.0"
	binary.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: digest}}
	document := spdx.Document{
		SPDXVersion:       spdx.Version,
		DataLicense:       spdx.DataLicense,
		SPDXIdentifier:    "DOCUMENT",
		DocumentName:      name,
		DocumentNamespace: repository + "/spdx/" + name + "-" + digest,
		CreationInfo:      &spdx.CreationInfo{Created: created.Format(time.RFC3339), Creators: []common.Creator{{CreatorType: "Tool", Creator: "berth-release"}}},
		Packages:          []*spdx.Package{binary},
		Relationships:     []*spdx.Relationship{related("DOCUMENT", common.TypeRelationshipDescribe, "Binary")},
	}
	contains := func(path, version, comment string) {
		module := spdxPackage(common.ElementID(fmt.Sprintf("Module-%d", len(document.Packages))), path, version)
		module.PackageComment = comment
		document.Packages = append(document.Packages, module)
		document.Relationships = append(document.Relationships, related("Binary", common.TypeRelationshipContains, module.PackageSPDXIdentifier))
	}
	contains("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "Go's standard library")
	for _, module := range info.Deps {
		module, comment := effective(module)
		contains(module.Path, module.Version, comment)
	}
	return json.MarshalIndent(document, "", " ")
}

// spdxPackage describes a Go module, with its package URL for scanners.
func spdxPackage(id common.ElementID, path, version string) *spdx.Package {
	return &spdx.Package{
		PackageSPDXIdentifier: id, PackageName: path, PackageVersion: version, PackageDownloadLocation: unknown,
		PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown, PackageCopyrightText: unknown,
		PackageExternalReferences: []*spdx.PackageExternalReference{
			{Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL, Locator: "pkg:golang/" + path + "@" + version},
		},
	}
}

// related says what the package b is to a.
func related(a common.ElementID, relationship string, b common.ElementID) *spdx.Relationship {
	return &spdx.Relationship{RefA: common.DocElementID{ElementRefID: a}, RefB: common.DocElementID{ElementRefID: b}, Relationship: relationship}
}

// effective returns the module that is compiled in where another is named, and says so.
func effective(module *debug.Module) (*debug.Module, string) {
	if module.Replace == nil {
		return module, ""
	}
	if module.Replace.Path == module.Path {
		return module.Replace, ""
	}
	return module.Replace, "replaces " + module.Path
}
