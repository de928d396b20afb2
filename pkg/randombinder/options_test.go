// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWatchIsAsNarrowAsTheFitAllows: with many pods of other schedulers, what is
// watched decides how much memory the binder takes.
func TestWatchIsAsNarrowAsTheFitAllows(t *testing.T) {
	tests := []struct {
		name       string
		fit        Fit
		namespaces []string
		selector   string
		want       []string
	}{
		{"all namespaces", FitConstraints, nil, "spec.nodeName=,spec.schedulerName=random-scheduler,status.phase!=Failed,status.phase!=Succeeded", []string{""}},
		{"two namespaces", FitNone, []string{"a", "b"}, "spec.nodeName=,spec.schedulerName=random-scheduler,status.phase!=Failed,status.phase!=Succeeded", []string{"a", "b"}},
		{"resources need every pod that has a node", FitResources, []string{"a"}, "status.phase!=Failed,status.phase!=Succeeded", []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := testOptions(FitConstraints)
			o.Fit, o.Namespaces = tt.fit, tt.namespaces
			if diff := cmp.Diff(tt.want, o.watchedNamespaces()); diff != "" {
				t.Errorf("namespaces (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.selector, o.podSelector()); diff != "" {
				t.Errorf("selector (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestRightsFollowTheOptions(t *testing.T) {
	rights := func(change func(*Options)) []string {
		o := testOptions(FitConstraints)
		change(o)
		var texts []string
		for _, r := range o.rights() {
			texts = append(texts, r.String())
		}
		return texts
	}
	want := []string{
		"list nodes", "watch nodes", "list pods", "watch pods",
		"create pods/binding", "patch pods/status",
		"create events.events.k8s.io", "patch events.events.k8s.io",
	}
	if diff := cmp.Diff(want, rights(func(*Options) {})); diff != "" {
		t.Errorf("by default (-want,+got):\n%s", diff)
	}
	limited := func(o *Options) { o.Namespaces = []string{"a"} }
	want = []string{
		"list nodes", "watch nodes", `list pods in namespace "a"`, `watch pods in namespace "a"`,
		`create pods/binding in namespace "a"`, `patch pods/status in namespace "a"`,
		`create events.events.k8s.io in namespace "a"`, `patch events.events.k8s.io in namespace "a"`,
	}
	if diff := cmp.Diff(want, rights(limited)); diff != "" {
		t.Errorf("with one namespace (-want,+got):\n%s", diff)
	}
	want[2], want[3] = "list pods", "watch pods"
	if diff := cmp.Diff(want, rights(func(o *Options) { limited(o); o.Fit = FitResources })); diff != "" {
		t.Errorf("with one namespace and --fit=resources (-want,+got):\n%s", diff)
	}
}
