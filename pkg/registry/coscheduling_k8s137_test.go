// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !k8s136

package registry

import "testing"

// TestCoschedulingSaysWhatTakesItsPlace: who brings a profile from Kubernetes 1.36 is told
// what to do instead of that a plugin is unknown.
func TestCoschedulingSaysWhatTakesItsPlace(t *testing.T) {
	file := profilesDir + "/gpu-gang.yaml"
	if _, err := LoadConfiguration(file, []byte(read(t, file))); err != nil {
		t.Fatalf("the profile does not decode: %v", err)
	}
	const want = "Coscheduling is in Berth's build for Kubernetes 1.36 alone: remove it from the profile and place gangs by " +
		"PodGroups of scheduling.k8s.io (manifests/README.md, Gangs), or run that build"
	if _, err := New()[GangPlugin](t.Context(), nil, nil); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
