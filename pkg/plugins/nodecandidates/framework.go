// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package nodecandidates

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	"github.com/berth-scheduler/berth/pkg/plugins/internal/candidates"
)

// What the plugin relies on beyond what the framework promises its plugins stands in this
// file, and framework_test.go fails where a release of Kubernetes changes it.

// profileHandle is what the handle of a plugin can do beside fwk.Handle.
type profileHandle interface {
	// RunPreFilterPlugins runs all PreFilter plugins, this one among them.
	RunPreFilterPlugins(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) (*fwk.PreFilterResult, *fwk.Status, sets.Set[string])
	// ListPlugins returns what the profile runs, in its order, once it is built.
	ListPlugins() *schedconfig.Plugins
	// PercentageOfNodesToScore returns what the profile sets, and not what the
	// configuration sets for all.
	PercentageOfNodesToScore() *int32
}

const (
	// minNodes is the number of nodes up to which the scheduler looks at all of them
	// anyway (schedule_one.go, minFeasibleNodesToFind).
	minNodes = 100
	// defaultPreemption is the name of the plugin that evicts pods in PostFilter.
	defaultPreemption = "DefaultPreemption"
)

// profile is what the plugin learns about its profile at the first cycle: when the plugin is
// built, the profile is not.
type profile struct {
	load   sync.Once
	handle profileHandle // nil if the plugin cannot work in it
	err    error
	// weights are those of the plugins that score, by name, and total is their sum.
	weights map[string]int64
	total   int64
	// percentage is percentageOfNodesToScore, 0 to 100; 0 if the scheduler chooses it.
	percentage int
}

// loadProfile fills in pl.profile, once.
func (pl *NodeCandidates) loadProfile() {
	p := &pl.profile
	handle, ok := pl.handle.(profileHandle)
	if !ok {
		p.err = fmt.Errorf("%s: the framework is not kube-scheduler's", Name)
		return
	}
	running := handle.ListPlugins()
	if p.err = CheckOrder(field.NewPath("plugins"), running).ToAggregate(); p.err != nil {
		return
	}
	p.weights = map[string]int64{}
	for _, plugin := range running.Score.Enabled {
		p.weights[plugin.Name] = int64(plugin.Weight)
		p.total += int64(plugin.Weight)
	}
	if own := handle.PercentageOfNodesToScore(); own != nil {
		p.percentage = int(*own)
	}
	p.handle = handle
}

// CheckOrder returns what keeps the plugin from working in a profile that runs it, whose
// plugins are at path. PreFilter has to be the last, to see what all others have found; and
// PostFilter has to come before preemption, which ends PostFilter when it finds victims.
// multiPoint alone puts the default plugins first.
func CheckOrder(path *field.Path, running *schedconfig.Plugins) field.ErrorList {
	var errs field.ErrorList
	if list := running.PreFilter.Enabled; list[len(list)-1].Name != Name {
		errs = append(errs, field.Invalid(path.Child("preFilter", "enabled"), list[len(list)-1].Name, fmt.Sprintf(
			"runs after %s, which must see the results of all other plugins: list %s last under multiPoint.enabled", Name, Name)))
	}
	at := func(name string) int {
		return slices.IndexFunc(running.PostFilter.Enabled, func(p schedconfig.Plugin) bool { return p.Name == name })
	}
	if own, preemption := at(Name), at(defaultPreemption); preemption >= 0 && (own < 0 || preemption < own) {
		errs = append(errs, field.Invalid(path.Child("postFilter", "enabled"), defaultPreemption, fmt.Sprintf(
			"runs before %s, and would evict pods for a pod that may fit without eviction: list %s under postFilter.enabled as well as under multiPoint.enabled, before %s",
			Name, Name, defaultPreemption)))
	}
	return errs
}

// maxOffered returns how many of so many nodes are offered at most: all that the scheduler
// looks for in the least sample that it takes of any number of nodes; more if the profile
// sets a percentageOfNodesToScore that asks for more (numFeasibleNodesToFind).
func (p *profile) maxOffered(nodes int) int {
	return max(nodes*p.percentage/100, minNodes)
}

// dryRun tries nodes before the framework does.
type dryRun struct {
	handle fwk.Handle
	pod    *corev1.Pod
	state  *candidates.DryRunState
	// allowed are the nodes that other plugins' PreFilter leaves; nil for all.
	allowed sets.Set[string]
}

// newDryRun prepares all plugins for a dry run, and returns nil if the attempt is going to
// fail anyway.
//
// What a Filter needs, PreFilter has prepared, and which plugins have no Filter to run for
// this pod, the framework reports to none of them before all of PreFilter is done. So PreFilter
// of all plugins runs once more, in a copy of the state, within this one's.
func (pl *NodeCandidates) newDryRun(ctx context.Context, state fwk.CycleState, pod *corev1.Pod) *dryRun {
	run := &dryRun{handle: pl.handle, pod: pod, state: candidates.NewDryRun(state)}
	result, status, _ := pl.profile.handle.RunPreFilterPlugins(ctx, run.state, pod)
	if !status.IsSuccess() {
		return nil
	}
	if !result.AllNodes() {
		run.allowed = result.NodeNames
	}
	return run
}

// allows reports whether other plugins' PreFilter leaves the node.
func (d *dryRun) allows(node fwk.NodeInfo) bool {
	return d.allowed == nil || d.allowed.Has(node.Node().Name)
}

// fits reports whether the pod passes the filters of all plugins on the node, which is allowed.
func (d *dryRun) fits(ctx context.Context, node fwk.NodeInfo) bool {
	return d.handle.RunFilterPluginsWithNominatedPods(ctx, d.state, d.pod, node).IsSuccess()
}
