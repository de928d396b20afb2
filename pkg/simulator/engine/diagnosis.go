// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// Verdict is why a plugin rejects a pod, on one node or on all.
type Verdict = shortfall.Verdict

// NodeDiagnosis is what keeps a pod from one node.
type NodeDiagnosis struct {
	// Node is the node with the pods on it. It is the engine's and must not be changed.
	Node fwk.NodeInfo
	// Verdicts are those of the plugins that reject the node, in the order of the
	// profile; none if the node can take the pod.
	Verdicts []Verdict
}

// Diagnosis is what keeps a pod from each node.
type Diagnosis struct {
	// Gates are the PreEnqueue plugins that keep the pod out of the queue.
	Gates []Verdict
	// Refusals are of the plugins that refused the pod before any node was looked at.
	// What such a plugin would say of single nodes is not known.
	Refusals []Verdict
	// Nodes are all nodes in the order of the snapshot.
	Nodes []NodeDiagnosis
	// Measures are by plugin of those that measure nodes themselves, and are good until the
	// engine changes.
	Measures map[string]shortfall.Measure
}

// nominatedPods is the name under which a Diagnosis has that a node is kept for pods
// that preemption has made room for.
const nominatedPods = "NominatedPods"

// Diagnose returns what every plugin of the pod's profile says of every node. Schedule
// stops at the first plugin that rejects a node, as the scheduler does; here each
// is asked, and a plugin whose PreFilter refuses the pod does not end it. A pod that is
// not known yet is created, pending.
func (e *Engine) Diagnose(ctx context.Context, pod *corev1.Pod) (*Diagnosis, error) {
	fw, err := e.frameworkFor(pod)
	if err != nil {
		return nil, err
	}
	if err := e.needs[fw.ProfileName()].checkPod(pod); err != nil {
		return nil, err
	}
	if pod, err = e.create(ctx, pod); err != nil {
		return nil, err
	}
	d := &Diagnosis{}
	for _, plugin := range fw.PreEnqueuePlugins() {
		if status := plugin.PreEnqueue(ctx, pod); status.IsRejected() {
			d.Gates = append(d.Gates, verdict(plugin.Name(), status))
		}
	}
	if err := e.cache.UpdateSnapshot(klog.FromContext(ctx), e.snapshot); err != nil {
		return nil, err
	}
	all, err := e.snapshot.ListNodesInPlacement()
	if err != nil {
		return nil, err
	}
	return d, e.diagnoseNodes(ctx, fw, pod, all, d)
}

// diagnoseNodes fills in what PreFilter and Filter plugins say.
func (e *Engine) diagnoseNodes(ctx context.Context, fw framework.Framework, pod *corev1.Pod, nodes []fwk.NodeInfo, d *Diagnosis) error {
	state := framework.NewCycleState()
	state.Write(framework.PodsToActivateKey, framework.NewPodsToActivate())
	plugins, skipped := e.instances[fw.ProfileName()], sets.New[string]()
	effective := fw.ListPlugins()
	for _, enabled := range effective.PreFilter.Enabled {
		plugin, ok := plugins[enabled.Name].(fwk.PreFilterPlugin)
		if !ok {
			continue
		}
		// Filter also rejects the nodes that a PreFilterResult leaves out for good:
		// nominated nodes pass by it.
		_, status := plugin.PreFilter(ctx, state, pod, nodes)
		switch {
		case status.IsSkip():
			skipped.Insert(enabled.Name)
		case status.IsRejected():
			d.Refusals = append(d.Refusals, verdict(enabled.Name, status))
			skipped.Insert(enabled.Name)
		case !status.IsSuccess():
			return fmt.Errorf("pod %s: running PreFilter plugin %q: %w", klog.KObj(pod), enabled.Name, status.AsError())
		}
	}
	state.SetSkipFilterPlugins(skipped)
	d.Measures = measuresOf(plugins, pod)
	d.Nodes = make([]NodeDiagnosis, 0, len(nodes))
	for _, node := range nodes {
		n := NodeDiagnosis{Node: node}
		for _, enabled := range effective.Filter.Enabled {
			plugin, ok := plugins[enabled.Name].(fwk.FilterPlugin)
			if !ok || skipped.Has(enabled.Name) {
				continue
			}
			status := plugin.Filter(ctx, state, pod, node)
			if status.IsRejected() {
				n.Verdicts = append(n.Verdicts, verdict(enabled.Name, status))
			} else if !status.IsSuccess() {
				return fmt.Errorf("pod %s: running Filter plugin %q on node %q: %w", klog.KObj(pod), enabled.Name, node.Node().Name, status.AsError())
			}
		}
		if len(n.Verdicts) == 0 && len(e.nominator.NominatedPodsForNode(node.Node().Name)) > 0 {
			if status := fw.RunFilterPluginsWithNominatedPods(ctx, state, pod, node); status.IsRejected() {
				n.Verdicts = append(n.Verdicts, Verdict{Plugin: nominatedPods, Reasons: []string{"node(s) were kept for pods that preemption has made room for"}})
			}
		}
		d.Nodes = append(d.Nodes, n)
	}
	return nil
}

// measuresOf returns how the plugins measure nodes for the pod, by their names.
func measuresOf(plugins map[string]fwk.Plugin, pod *corev1.Pod) map[string]shortfall.Measure {
	measures := map[string]shortfall.Measure{}
	for name, plugin := range plugins {
		if measuring, ok := plugin.(shortfall.Plugin); ok {
			if measure := measuring.NearMiss(pod); measure != nil {
				measures[name] = measure
			}
		}
	}
	return measures
}

func verdict(plugin string, status *fwk.Status) Verdict {
	return Verdict{Plugin: plugin, Reasons: status.Reasons(), Resolvable: status.Code() == fwk.Unschedulable}
}
