// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version tells which Berth a binary is, and which Kubernetes is
// compiled into it. The two are separate: k8s.io/component-base/version must
// stay a plain Kubernetes version, because clients parse what the API server of
// berth-local reports, and feature gates derive their defaults from it.
package version

import (
	"fmt"
	"io"

	kubeversion "k8s.io/component-base/version"
)

// version is set by the linker: -X <this package>.version=v0.1.0.
var version = "v0.0.0-unset"

// String returns Berth's version, such as "v0.1.0" or, between releases, what
// git describe says. A binary built without the Makefile reports v0.0.0-unset.
func String() string { return version }

// Print writes the one line that --version shows: the program, Berth's version,
// and the versions of Kubernetes, of Go and the platform it was built for.
func Print(w io.Writer, program string) {
	k := kubeversion.Get()
	fmt.Fprintf(w, "%s %s (Kubernetes %s, %s, %s)\n", program, version, k.GitVersion, k.GoVersion, k.Platform)
}
