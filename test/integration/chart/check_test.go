// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/diagnose/check"
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
			Severity: check.Error, Object: "User system:serviceaccount:team:east", Message: "has no permission to list pods: pods are what is scheduled", WayOut: upgrade,
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

// TestCheckFindsOnePool: two instances that share the devices of one pool are found by their
// profiles, however they were installed; those with a pool each, or without shares, are not.
func TestCheckFindsOnePool(t *testing.T) {
	h := newHelm(t, "4", "")
	render := func(release string, v values) string {
		t.Helper()
		text, err := h.template(t, release, release, v)
		if err != nil {
			t.Fatal(err)
		}
		return text + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: " + release + "}\n---\n"
	}
	inPool := func(pool string) values {
		v := features("gpu")
		v["gpu"] = values{"pool": pool}
		v["policies"] = values{"create": []any{}}
		return v
	}
	base := yamlOf(t, "base") + "---\n"
	for _, tt := range []struct {
		name, files, want string
	}{
		{name: "both in the pool without a name", files: render("east", inPool("")) + render("west", inPool("")), want: `is "", the same as in Deployment east/east: both allocate shares of the same devices`},
		{name: "both in a pool", files: render("east", inPool("a")) + render("west", inPool("a")), want: `is "a", the same as in Deployment east/east: both allocate shares of the same devices`},
		{name: "by kustomize and by the chart", files: base + render("west", inPool("")), want: `is "", the same as in Deployment berth-system/berth-scheduler: both allocate shares of the same devices`},
		{name: "a pool each", files: base + render("east", inPool("a")) + render("west", inPool("b"))},
		{name: "one without shares", files: render("east", features("colocation")) + render("west", inPool(""))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := check.NewFiles("default")
			if err := files.Read("-", strings.NewReader(tt.files)); err != nil {
				t.Fatal(err)
			}
			report, err := check.Cluster(t.Context(), check.Options{Files: files, Now: time.Now()})
			if err != nil {
				t.Fatal(err)
			}
			var found []string
			for _, f := range report.Findings {
				if strings.Contains(f.Message, "both allocate shares") {
					found = append(found, f.Message)
					if f.Severity != check.Error || f.Field != "profiles[].pluginConfig[GPUDevice].args.pool" || !strings.Contains(f.WayOut, "gpu.pool in the values of helm -n west upgrade west") {
						t.Errorf("got %+v", f)
					}
				}
			}
			if got := strings.Join(found, "; "); got != tt.want {
				t.Errorf("want %q, got %q of\n%+v", tt.want, got, report.Findings)
			}
		})
	}
}
