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
)

// unknown is SPDX's word for what is not said.
const unknown = "NOASSERTION"

// spdxDocument is a software bill of materials: what is compiled into one binary. See
// https://spdx.github.io/spdx-spec/v2.3.
type spdxDocument struct {
	SPDXVersion       string             `json:"spdxVersion"`
	DataLicense       string             `json:"dataLicense"`
	SPDXID            string             `json:"SPDXID"`
	Name              string             `json:"name"`
	DocumentNamespace string             `json:"documentNamespace"`
	CreationInfo      spdxCreationInfo   `json:"creationInfo"`
	Packages          []spdxPackage      `json:"packages"`
	Relationships     []spdxRelationship `json:"relationships"`
}

// spdxCreationInfo says when and by what a document was made.
type spdxCreationInfo struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

// spdxPackage is a Go module, Go's standard library, or the binary itself.
type spdxPackage struct {
	SPDXID           string          `json:"SPDXID"`
	Name             string          `json:"name"`
	VersionInfo      string          `json:"versionInfo"`
	DownloadLocation string          `json:"downloadLocation"`
	FilesAnalyzed    bool            `json:"filesAnalyzed"`
	Comment          string          `json:"comment,omitempty"`
	LicenseConcluded string          `json:"licenseConcluded"`
	LicenseDeclared  string          `json:"licenseDeclared"`
	CopyrightText    string          `json:"copyrightText"`
	Checksums        []spdxChecksum  `json:"checksums,omitempty"`
	ExternalRefs     []spdxReference `json:"externalRefs,omitempty"`
}

// spdxChecksum is the checksum of a binary.
type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

// spdxReference is a package's name for scanners.
type spdxReference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

// spdxRelationship says what a package is to another.
type spdxRelationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

// billOfMaterials lists what Go noted in a binary that it compiled: its modules, those
// that replaced others under their own names, and the standard library.
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
	document := spdxDocument{
		SPDXVersion:       "SPDX-2.3",
		DataLicense:       "CC0-1.0",
		SPDXID:            "SPDXRef-DOCUMENT",
		Name:              name,
		DocumentNamespace: repository + "/spdx/" + name + "-" + digest,
		CreationInfo:      spdxCreationInfo{Created: created.Format(time.RFC3339), Creators: []string{"Tool: berth-release"}},
		Relationships:     []spdxRelationship{{Element: "SPDXRef-DOCUMENT", Type: "DESCRIBES", Related: "SPDXRef-Binary"}},
	}
	binary := spdxPackage{
		SPDXID: "SPDXRef-Binary", Name: info.Path, VersionInfo: version,
		DownloadLocation: "git+" + repository, LicenseConcluded: unknown, LicenseDeclared: "Apache-2.0", CopyrightText: unknown,
		Checksums:    []spdxChecksum{{Algorithm: "SHA256", Value: digest}},
		ExternalRefs: purl(info.Main.Path, version),
	}
	document.Packages = append(document.Packages, binary)
	contains := func(path, version, comment string) {
		id := fmt.Sprintf("SPDXRef-Module-%d", len(document.Packages))
		document.Packages = append(document.Packages, spdxPackage{
			SPDXID: id, Name: path, VersionInfo: version, Comment: comment, DownloadLocation: unknown,
			LicenseConcluded: unknown, LicenseDeclared: unknown, CopyrightText: unknown, ExternalRefs: purl(path, version),
		})
		document.Relationships = append(document.Relationships, spdxRelationship{Element: "SPDXRef-Binary", Type: "CONTAINS", Related: id})
	}
	contains("stdlib", strings.TrimPrefix(info.GoVersion, "go"), "Go's standard library")
	for _, module := range info.Deps {
		module, comment := effective(module)
		contains(module.Path, module.Version, comment)
	}
	return json.MarshalIndent(document, "", " ")
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

// purl is the package URL of a Go module.
func purl(path, version string) []spdxReference {
	return []spdxReference{{Category: "PACKAGE-MANAGER", Type: "purl", Locator: "pkg:golang/" + path + "@" + version}}
}
