// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/discovery"
)

// NotNewer returns a problem if a scheduler that is built on this minor release of
// Kubernetes, such as "1.37", is newer than the API server: it would wait indefinitely for
// what is not served there yet (https://kubernetes.io/releases/version-skew-policy/). What an
// API server emulates counts, not what it is. The error is that it could not be asked, or
// that its answer is no version.
func NotNewer(client discovery.ServerVersionInterface, release string) (problem, err error) {
	info, err := client.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("asking the API server for its version: %w", err)
	}
	// Some providers append a plus sign to the minor version.
	served := cmp.Or(info.EmulationMajor, info.Major) + "." + strings.TrimSuffix(cmp.Or(info.EmulationMinor, info.Minor), "+")
	theirs, err := version.ParseGeneric(served)
	if err != nil {
		return nil, fmt.Errorf("the API server's version %q: %w", served, err)
	}
	ours, err := version.ParseGeneric(release)
	if err != nil {
		return nil, fmt.Errorf("the version of this build: %w", err)
	}
	if !theirs.LessThan(ours) {
		return nil, nil
	}
	what := "serves Kubernetes " + served
	if info.EmulationMinor != "" && info.EmulationMinor != info.Minor {
		what += " (" + info.GitVersion + " with --emulated-version)"
	}
	return fmt.Errorf("the API server %s, and this build of Berth is for %s: a scheduler must not be newer than its API server: it would wait for APIs that are not served there, and schedule nothing. "+
		"Run Berth's build for %s: the image whose tag ends in -k8s%s, or what \"make K8S=%s build\" makes", what, release, served, served, served), nil
}
