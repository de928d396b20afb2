// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/check"
)

// TestCheckFiles: before a release is installed, "kubectl berth check -f" finds nothing in
// what the chart renders and, where an object is left out, what keeps it from working, with
// what somebody does about it who has the chart.
func TestCheckFiles(t *testing.T) {
	h := newHelm(t, "3", "")
	const (
		feature = "set features.tenancy=true, and tenancy among policies.create, in the values of helm -n team upgrade east"
		upgrade = "run helm -n team upgrade east, which brings back what the chart has"
	)
	text, err := h.template(t, "east", "team", features("labelPresence", "gpu", "colocation", "tenancy"))
	if err != nil {
		t.Fatal(err)
	}
	text += "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"
	for _, tt := range []struct {
		name    string
		leftOut string
		want    *check.Finding
	}{
		{name: "as it is rendered"},
		{name: "without its ClusterRole", leftOut: "kind: ClusterRole\n", want: &check.Finding{
			Severity: check.Error, Object: "User system:serviceaccount:team:east", Message: "may not list pods: pods are what is scheduled", WayOut: upgrade,
		}},
		{name: "without a policy", leftOut: "name: berth-tenancy-pods\n", want: &check.Finding{
			Severity: check.Error, Object: "ValidatingAdmissionPolicy berth-tenancy-pods", Message: "is not installed", WayOut: feature,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var kept []string
			for document := range strings.SplitSeq(text, "\n---\n") {
				if tt.leftOut == "" || !strings.Contains(document, tt.leftOut) {
					kept = append(kept, document)
				}
			}
			files := check.NewFiles("default")
			if err := files.Read("-", strings.NewReader(strings.Join(kept, "\n---\n"))); err != nil {
				t.Fatal(err)
			}
			report, err := check.Cluster(t.Context(), check.Options{Files: files, Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			found := tt.want == nil && len(report.Findings) == 0
			for _, f := range report.Findings {
				if w := tt.want; w != nil && f.Severity == w.Severity && f.Object == w.Object && f.Field == w.Field && strings.Contains(f.Message, w.Message) && f.WayOut == w.WayOut {
					found = true
				}
			}
			if !found {
				t.Errorf("want %+v, got\n%+v\nnot seen: %s", tt.want, report.Findings, strings.Join(report.NotSeen, "\n"))
			}
		})
	}
}
