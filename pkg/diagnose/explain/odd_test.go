// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
)

// TestOddObjects explains pods of clusters in which objects lack what they mostly have,
// and of gangs whose members are not alike.
func TestOddObjects(t *testing.T) {
	for _, tt := range []struct {
		file, pod string
		state     explain.State
		// not is what no change may say.
		not string
	}{
		{file: "nolabel", pod: "p"},
		{file: "nostatus", pod: "p"},
		{file: "alloconly", pod: "p"},
		{file: "extreq", pod: "p"},
		{file: "gang-aff", pod: "launcher"},
		{file: "gang-podaff", pod: "launcher"},
		{file: "gang-spread", pod: "launcher"},
		{file: "gang-ext", pod: "launcher"},
		{file: "gang-model", pod: "launcher"},
		{file: "gang-share", pod: "launcher"},
		{file: "gangmin1", pod: "a", state: explain.Unschedulable},
		{file: "gangown", pod: "w1", not: "w0"},
		{file: "sibling", pod: "web-2", not: "web-1"},
	} {
		t.Run(tt.file, func(t *testing.T) {
			inputs, err := source.Read(t.Context(), &source.Options{
				Namespace: corev1.NamespaceDefault, Pod: tt.pod, Snapshots: []string{"testdata/odd/" + tt.file + ".yaml"},
				Config: profilesFile, Now: time.Unix(0, 0),
			})
			if err != nil {
				t.Fatal(err)
			}
			x, err := explain.Explain(t.Context(), inputs[0])
			if err != nil {
				t.Fatal(err)
			}
			if tt.state != "" && x.State != tt.state {
				t.Errorf("the pod is %s, want %s: %s", x.State, tt.state, x.Answer)
			}
			for _, change := range x.Changes {
				if tt.not != "" && strings.Contains(change.Text, tt.not) {
					t.Errorf("proposed: %s", change.Text)
				}
			}
			if x.Answer == "" {
				t.Error("there is no answer")
			}
		})
	}
}
