// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package unknownkeys

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/messages"
)

// That the events reach the pod is shown on a real API server, in
// test/integration/scheduler.

func TestFindings(t *testing.T) {
	const (
		read    = names.Domain + "/read"    // an annotation of a plugin that runs
		unread  = names.Domain + "/unread"  // an annotation of a plugin that does not run
		foreign = "scheduling.example/gang" // a label of a plugin that does not run
		mark    = names.Domain + "/mark"    // a label of nobody's
	)
	k := known{byName: map[string]Key{
		read: {Name: read, Plugin: "Runs"}, unread: {Name: unread, Plugin: "Rests"},
		foreign: {Name: foreign, Label: true, Plugin: "Rests"}, mark: {Name: mark, Label: true},
	}, names: []string{read, unread, foreign, mark}}
	profile := &Profile{Name: "berth", Runs: func(plugin string) bool { return plugin == "Runs" }}

	one := func(key string) map[string]string { return map[string]string{key: ""} }
	tests := []struct {
		name        string
		meta        metav1.ObjectMeta
		wantUnknown []string
		wantIgnored []string
	}{
		{name: "no keys"},
		{name: "keys of others", meta: metav1.ObjectMeta{Labels: map[string]string{"app": "x", "kubernetes.io/name": "y"}}},
		{name: "keys that mean something", meta: metav1.ObjectMeta{Annotations: one(read), Labels: one(mark)}},
		{name: "a domain that only ends like ours", meta: metav1.ObjectMeta{Labels: one("not" + read)}},
		{
			name: "misspelled, as label and as annotation", meta: metav1.ObjectMeta{Labels: one(names.Domain + "/raed"), Annotations: one(names.Domain + "/raed")},
			wantUnknown: []string{"no plugin reads " + names.Domain + "/raed; did you mean " + read + "?"},
		},
		{
			name: "unlike any", meta: metav1.ObjectMeta{Annotations: one(names.Domain + "/something-else")},
			wantUnknown: []string{"no plugin reads " + names.Domain + "/something-else: correct the spelling, or remove it"},
		},
		{
			name: "an annotation as a label", meta: metav1.ObjectMeta{Labels: one(read)},
			wantUnknown: []string{read + " is read as an annotation: move it to metadata.annotations"},
		},
		{
			name: "a label as an annotation", meta: metav1.ObjectMeta{Annotations: one(foreign)},
			wantUnknown: []string{foreign + " is read as a label: move it to metadata.labels"},
		},
		{name: "in both places", meta: metav1.ObjectMeta{Labels: one(read), Annotations: one(read)}},
		{
			name: "of plugins that the profile does not run", meta: metav1.ObjectMeta{Labels: one(foreign), Annotations: one(unread)},
			wantIgnored: []string{
				unread + ` has no effect: the scheduler's profile "berth" does not run Rests`,
				foreign + ` has no effect: the scheduler's profile "berth" does not run Rests`,
			},
		},
		{
			name: "another ending", meta: metav1.ObjectMeta{Annotations: one("berth.io/read")},
			wantUnknown: []string{"unknown key berth.io/read; did you mean " + read + "?"},
		},
		{
			name: "another ending with a name of somebody's", meta: metav1.ObjectMeta{Annotations: one("berth.io/dock")},
		},
		{
			name: "a misspelled domain", meta: metav1.ObjectMeta{Labels: one("bert.dev/mark")},
			wantUnknown: []string{"unknown key bert.dev/mark; did you mean " + mark + "?"},
		},
		{
			name: "capitals", meta: metav1.ObjectMeta{Annotations: map[string]string{"Berth.dev/raed": "", "BERTH.dev/other": ""}},
			wantUnknown: []string{
				"unknown key BERTH.dev/other; did you mean " + names.Domain + "?",
				"unknown key Berth.dev/raed; did you mean " + read + "?",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			unknown, ignored := k.findings(&corev1.Pod{ObjectMeta: tt.meta}, profile)
			if diff := cmp.Diff(tt.wantUnknown, unknown); diff != "" {
				t.Errorf("without meaning (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.wantIgnored, ignored); diff != "" {
				t.Errorf("without effect (-want,+got):\n%s", diff)
			}
		})
	}
}

// A label key has up to 317 bytes, and a pod any number of them; the API server
// refuses an event with a longer note.
func TestNoteFitsAnEvent(t *testing.T) {
	k := known{}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}}
	for i := range 20 {
		pod.Labels[fmt.Sprintf("%s/%02d-%s", names.Domain, i, strings.Repeat("x", 60))] = ""
	}
	unknown, _ := k.findings(pod, &Profile{})
	got := note(unknown)
	if len(got) > messages.Limit {
		t.Errorf("the note has %d bytes, want at most %d", len(got), messages.Limit)
	}
	for _, want := range []string{names.Domain + "/00-x", "correct the spelling"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}
