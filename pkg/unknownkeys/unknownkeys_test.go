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
	"github.com/berth-scheduler/berth/pkg/eventnote"
)

// That the event reaches the pod is shown on a real API server, in
// test/integration/scheduler.

func TestUnknown(t *testing.T) {
	typo := names.Domain + "/gpu-modell"
	tests := []struct {
		name string
		meta metav1.ObjectMeta
		want []string
	}{
		{name: "no keys"},
		{name: "keys of others", meta: metav1.ObjectMeta{Labels: map[string]string{"app": "x", "kubernetes.io/name": "y"}}},
		{name: "a domain that only ends like ours", meta: metav1.ObjectMeta{Labels: map[string]string{"not" + names.Domain + "/x": ""}}},
		{name: "as label", meta: metav1.ObjectMeta{Labels: map[string]string{typo: ""}}, want: []string{typo}},
		{
			name: "as label and annotation, named once",
			meta: metav1.ObjectMeta{Labels: map[string]string{typo: ""}, Annotations: map[string]string{typo: "", names.Domain + "/a": ""}},
			want: []string{names.Domain + "/a", typo},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, unknown(&corev1.Pod{ObjectMeta: tt.meta})); diff != "" {
				t.Errorf("unexpected keys (-want,+got):\n%s", diff)
			}
		})
	}
}

// A label key has up to 317 bytes, and a pod any number of them; the API server
// refuses an event with a longer note.
func TestMessageFitsAnEvent(t *testing.T) {
	var keys []string
	for i := range 20 {
		keys = append(keys, fmt.Sprintf("%s/%02d-%s", names.Domain, i, strings.Repeat("x", 60)))
	}
	got := message(keys)
	if len(got) > eventnote.Limit {
		t.Errorf("the note has %d bytes, want at most %d", len(got), eventnote.Limit)
	}
	for _, want := range []string{keys[0], "correct the spelling"} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in %q", want, got)
		}
	}
}
