// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
)

// probe is a plugin that does at each extension point what a test wants.
type probe struct {
	handle fwk.Handle

	filter     func(node string) *fwk.Status
	postFilter func(p *probe, pod *corev1.Pod)
	reserve    *fwk.Status
	permit     *fwk.Status
	bind       *fwk.Status
	calls      []string
}

func (p *probe) Name() string { return "Probe" }

func (p *probe) Filter(_ context.Context, _ fwk.CycleState, _ *corev1.Pod, node fwk.NodeInfo) *fwk.Status {
	if p.filter == nil {
		return nil
	}
	return p.filter(node.Node().Name)
}

func (p *probe) PostFilter(_ context.Context, _ fwk.CycleState, pod *corev1.Pod, _ fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	p.calls = append(p.calls, "postFilter")
	if p.postFilter != nil {
		p.postFilter(p, pod)
	}
	return nil, fwk.NewStatus(fwk.Unschedulable)
}

func (p *probe) Reserve(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status {
	p.calls = append(p.calls, "reserve")
	return p.reserve
}

func (p *probe) Unreserve(context.Context, fwk.CycleState, *corev1.Pod, string) {
	p.calls = append(p.calls, "unreserve")
}

func (p *probe) Permit(context.Context, fwk.CycleState, *corev1.Pod, string) (*fwk.Status, time.Duration) {
	return p.permit, time.Minute
}

func (p *probe) Bind(context.Context, fwk.CycleState, *corev1.Pod, string) *fwk.Status { return p.bind }

func (p *probe) PostBind(context.Context, fwk.CycleState, *corev1.Pod, string) {
	p.calls = append(p.calls, "postBind")
}

// newProbed builds an engine with stock's profile and the probe, on one node.
func newProbed(t *testing.T, p *probe) *Engine {
	t.Helper()
	if p.bind == nil {
		p.bind = fwk.NewStatus(fwk.Skip)
	}
	c := loadProfile(t, stockProfile)
	plugins := c.Profiles[0].Plugins
	plugins.MultiPoint.Enabled = append([]schedconfig.Plugin{{Name: p.Name()}}, plugins.MultiPoint.Enabled...)
	return newEngine(t, Options{Config: c, SchedulerName: "default-scheduler", extra: frameworkruntime.Registry{
		p.Name(): func(_ context.Context, _ runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			p.handle = handle
			return p, nil
		},
	}}, makeCluster(t, makeNode("n", 4)))
}

// TestPluginsThatFail names the plugin and leaves nothing behind: the node is free
// for the next pod.
func TestPluginsThatFail(t *testing.T) {
	broken := errors.New("broken")
	tests := []struct {
		name      string
		probe     probe
		wantErr   string
		wantCause string
		wantCalls string
	}{
		{
			name: "filter", probe: probe{filter: func(string) *fwk.Status { return fwk.AsStatus(broken) }},
			wantErr: `pod default/p: node "n": running "Probe" filter plugin: broken`,
		},
		{
			name: "reserve refuses", probe: probe{reserve: fwk.NewStatus(fwk.Unschedulable, "taken meanwhile")},
			wantCause: "0/1 nodes are available: 1 taken meanwhile.", wantCalls: "reserve unreserve",
		},
		{
			name: "reserve", probe: probe{reserve: fwk.AsStatus(broken)},
			wantErr: `pod default/p: node "n": running Reserve plugin "Probe": broken`, wantCalls: "reserve unreserve",
		},
		{
			name: "permit refuses", probe: probe{permit: fwk.NewStatus(fwk.Unschedulable, "not now")},
			wantCause: "0/1 nodes are available: 1 not now.", wantCalls: "reserve unreserve",
		},
		{
			name: "permit waits", probe: probe{permit: fwk.NewStatus(fwk.Wait)},
			wantErr: `pod default/p: node "n": plugin(s) [Probe] let pods wait in Permit for each other, which cannot be simulated`, wantCalls: "reserve unreserve",
		},
		{
			name: "bind", probe: probe{bind: fwk.AsStatus(broken)},
			wantErr: `pod default/p: binding to node "n": running Bind plugin "Probe": broken`, wantCalls: "reserve unreserve",
		},
		{
			name: "bind that sends nothing", probe: probe{bind: fwk.NewStatus(fwk.Success)},
			wantErr: `pod default/p: binding to node "n": the Bind plugins sent 0 Bindings instead of this one`, wantCalls: "reserve unreserve",
		},
		{name: "none", wantCalls: "reserve postBind"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &tt.probe
			e := newProbed(t, p)
			r, err := e.Schedule(t.Context(), makePod("p", "cpu", "4"))
			switch {
			case tt.wantErr != "":
				if err == nil || err.Error() != tt.wantErr {
					t.Errorf("Unexpected error:\n got %v\nwant %s", err, tt.wantErr)
				}
			case err != nil:
				t.Fatal(err)
			case r.Message != tt.wantCause || (r.Node != "") != (tt.wantCause == ""):
				t.Errorf("Unexpected result %q: %s", r.Node, r.Message)
			}
			if got := strings.Join(p.calls, " "); got != tt.wantCalls {
				t.Errorf("Unexpected calls %q, want %q", got, tt.wantCalls)
			}
			if r.Node != "" {
				return
			}
			*p = probe{handle: p.handle, bind: fwk.NewStatus(fwk.Skip)}
			if r := schedule(t, e, makePod("next", "cpu", "4")); r.Node != "n" {
				t.Errorf("The next pod finds the node taken: %s", r.Message)
			}
		})
	}
}

// TestPodBeingDeleted is not scheduled, as kube-scheduler has it.
func TestPodBeingDeleted(t *testing.T) {
	pod := makePod("p")
	pod.DeletionTimestamp = new(metav1.Now())
	if r := schedule(t, newProbed(t, &probe{}), pod); r.Node != "" || r.Message != "the pod is being deleted" {
		t.Errorf("It is on %q: %s", r.Node, r.Message)
	}
}

// TestActivated has a plugin that refuses a pod the first time and sends it back
// to the queue: the same call tries it again, and no longer than is reasonable.
func TestActivated(t *testing.T) {
	again := func(p *probe, pod *corev1.Pod) {
		p.handle.Activate(klog.Background(), map[string]*corev1.Pod{"default/" + pod.Name: pod})
	}
	refusals := func(n int) func(string) *fwk.Status {
		return func(string) *fwk.Status {
			if n--; n >= 0 {
				return fwk.NewStatus(fwk.Unschedulable, "not yet")
			}
			return nil
		}
	}
	tests := []struct {
		name       string
		refusals   int
		postFilter func(*probe, *corev1.Pod)
		wantNode   string
		wantCalls  int
	}{
		{name: "sent back", refusals: 1, postFilter: again, wantNode: "n", wantCalls: 1},
		{name: "not sent back", refusals: 1, wantCalls: 1},
		{name: "another pod sent back", refusals: 1, postFilter: func(p *probe, _ *corev1.Pod) { again(p, makePod("other")) }, wantCalls: 1},
		{name: "every time", refusals: 1000, postFilter: again, wantCalls: maxAttempts},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := &probe{filter: refusals(tt.refusals), postFilter: tt.postFilter}
			if r := schedule(t, newProbed(t, p), makePod("p")); r.Node != tt.wantNode {
				t.Errorf("It is on %q, want %q: %s", r.Node, tt.wantNode, r.Message)
			}
			calls := 0
			for _, call := range p.calls {
				if call == "postFilter" {
					calls++
				}
			}
			if calls != tt.wantCalls {
				t.Errorf("PostFilter was called %d times, want %d", calls, tt.wantCalls)
			}
		})
	}
}
