// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

func TestSplitWayOut(t *testing.T) {
	tests := []struct{ name, text, message, wayOut string }{
		{"with a way out", `"x" is a share: remove it`, `"x" is a share`, "remove it"},
		{"a colon within the way out", "b is wrong: set a: true", "b is wrong: set a: true", "otherwise"},
		{"none", "must be 1 to 64", "must be 1 to 64", "otherwise"},
		{"what follows explains", "is the same level: profiles[0] has it", "is the same level: profiles[0] has it", "otherwise"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			message, wayOut := splitWayOut(tt.text, "otherwise")
			if message != tt.message || wayOut != tt.wayOut {
				t.Errorf("got %q and %q, want %q and %q", message, wayOut, tt.message, tt.wayOut)
			}
		})
	}
}

// TestProfileReport takes what is wrong with a file apart, by field.
func TestProfileReport(t *testing.T) {
	const file = "../../../cmd/berth-scheduler/testdata/wrong/several-errors.yaml"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	profile, err := settings.Load(t.Context(), "file", content, nil)
	r := ProfileReport("file", profile, err)
	var fields []string
	for _, f := range r.Findings {
		fields = append(fields, strings.TrimPrefix(f.Field, "profiles[0].pluginConfig[LabelPresence].args."))
	}
	if diff := cmp.Diff([]string{"rules[0].presence", "rules[1].labels"}, fields); diff != "" {
		t.Errorf("fields (-want,+got):\n%s", diff)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), "\n"); got != len(fields)+1 {
		t.Errorf("the table has %d lines:\n%s", got, table.String())
	}
}

func TestSortAndSeverity(t *testing.T) {
	r := &Report{Findings: []Finding{
		{Severity: Warning, Object: "a", WayOut: "x"}, {Severity: Error, Object: "b", WayOut: "x"}, {Severity: Warning, Object: "a", WayOut: "x"}, {Severity: Error, Object: "a", WayOut: "x"},
	}}
	r.sort()
	order := func() string {
		var text strings.Builder
		for _, f := range r.Findings {
			fmt.Fprintf(&text, "%s %s, ", f.Severity, f.Object)
		}
		return text.String()
	}
	if got, want := order(), "Error a, Error b, Warning a, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.AtLeast(Error)
	if got, want := order(), "Error a, Error b, "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestShippedPolicies: each component that guards a feature has policies to look for.
func TestShippedPolicies(t *testing.T) {
	for _, feature := range guardedFeatures() {
		shipped, err := shippedPolicies(feature.component)
		if err != nil || len(shipped.policies) == 0 || len(shipped.policies) != len(shipped.bindings) {
			t.Errorf("%s: %v, %v", feature.component, shipped, err)
		}
	}
	shipped, _ := shippedPolicies("components/tenancy")
	for _, name := range []string{tenancyPods, tenancyBindings, tenancyNamespaces, tenancyNodes} {
		if shipped.policies[policyKey{validating, name}] == nil {
			t.Errorf("components/tenancy has no policy %s: %v", name, shipped.keys())
		}
	}
	if shipped, _ := shippedPolicies("components/gpu"); shipped.policies[policyKey{validating, gpuDevices}] == nil {
		t.Errorf("components/gpu has no policy %s: %v", gpuDevices, shipped.keys())
	}
}
