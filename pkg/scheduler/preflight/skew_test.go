// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

// That real API servers are recognised is shown in test/integration/skew.

type served struct {
	info version.Info
	err  error
}

func (s served) ServerVersion() (*version.Info, error) { return &s.info, s.err }

func TestNotNewer(t *testing.T) {
	for _, tt := range []struct {
		name        string
		served      served
		wantProblem string
		wantErr     string
	}{
		{name: "the same", served: served{info: version.Info{Major: "1", Minor: "37"}}},
		{name: "newer", served: served{info: version.Info{Major: "1", Minor: "38"}}},
		{name: "with the plus sign of a provider", served: served{info: version.Info{Major: "1", Minor: "37+"}}},
		{name: "older", served: served{info: version.Info{Major: "1", Minor: "36"}}, wantProblem: "serves Kubernetes 1.36, and this build of Berth is for 1.37"},
		{name: "older by more than a digit", served: served{info: version.Info{Major: "1", Minor: "9"}}, wantProblem: "serves Kubernetes 1.9, and"},
		{
			name:        "emulates an older one",
			served:      served{info: version.Info{Major: "1", Minor: "37", EmulationMajor: "1", EmulationMinor: "36", GitVersion: "v1.37.1"}},
			wantProblem: "serves Kubernetes 1.36 (v1.37.1 with --emulated-version), and",
		},
		{name: "no answer", served: served{err: errors.New("refused")}, wantErr: "asking the API server for its version: refused"},
		{name: "no version", served: served{info: version.Info{}}, wantErr: `the API server's version "."`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			problem, err := NotNewer(tt.served, "1.37")
			for _, got := range []struct {
				err  error
				want string
			}{{problem, tt.wantProblem}, {err, tt.wantErr}} {
				if (got.err == nil) != (got.want == "") || got.err != nil && !strings.Contains(got.err.Error(), got.want) {
					t.Errorf("got %v, want %q", got.err, got.want)
				}
			}
			if problem != nil && !strings.Contains(problem.Error(), "make K8S=1.") {
				t.Errorf("no way out in %q", problem)
			}
		})
	}
}
