// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package example

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

var (
	openNode   = st.MakeNode().Name("open").Obj()
	closedNode = st.MakeNode().Name("closed").Label(ClosedLabel, "").Obj()
)

// newProfile builds a real framework with the plugin.
func newProfile(tb testing.TB, nodes ...*corev1.Node) *schedtest.Profile {
	tb.Helper()
	profile, err := schedtest.NewProfile(tb.Context(), tb, Name, New, nil, schedtest.Options{Nodes: nodes})
	if err != nil {
		tb.Fatal(err)
	}
	return profile
}

func TestFilter(t *testing.T) {
	profile := newProfile(t, openNode, closedNode)
	got, status := profile.Filter(t.Context(), t, st.MakePod().Name("p").Obj())
	if !status.IsSuccess() {
		t.Fatal(status)
	}
	want := map[string]string{"open": "", "closed": reasonClosed}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reasons (-want,+got):\n%s", diff)
	}
}

func TestQueueingHint(t *testing.T) {
	tests := []struct {
		name     string
		old, new any
		want     fwk.QueueingHint
		wantErr  bool
	}{
		{name: "an open node is added", new: openNode, want: fwk.Queue},
		{name: "a closed node is added", new: closedNode, want: fwk.QueueSkip},
		{name: "a node is opened", old: closedNode, new: openNode, want: fwk.Queue},
		{name: "a node is closed", old: openNode, new: closedNode, want: fwk.QueueSkip},
		{name: "a node stays open", old: openNode, new: openNode, want: fwk.QueueSkip},
		{name: "no node", new: st.MakePod().Obj(), want: fwk.Queue, wantErr: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := (&Example{}).isSchedulableAfterNodeChange(klog.FromContext(t.Context()), st.MakePod().Name("p").Obj(), tt.old, tt.new)
			if (err != nil) != tt.wantErr {
				t.Errorf("unexpected error %v", err)
			}
			if got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestNewTakesNoArgs(t *testing.T) {
	if _, err := New(t.Context(), openNode, nil); err == nil {
		t.Error("args were accepted")
	}
}

func BenchmarkFilter(b *testing.B) {
	profile := newProfile(b, openNode)
	nodes := profile.Nodes(b)
	pl := &Example{}
	b.ReportAllocs()
	for b.Loop() {
		if status := pl.Filter(b.Context(), nil, nil, nodes[0]); status != nil {
			b.Fatal(status)
		}
	}
}
