// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/podphase"
)

// tenancyMonitor finds the pods that are on a node where tenancy does not allow
// them. Berth does not put them there; but another scheduler may, or a pod's
// author with spec.nodeName, or a node or namespace gets another tenant while
// pods run. Each such pod is reported once, and counted until it is gone or
// allowed:
//
//	         pod gets a node          not allowed (report)
//	unwatched ──────────────> watched <────────────────────────> violating
//	    ^                        │        allowed                   │
//	    └────────────────────────┴──── gone, terminated ────────────┘
//
// What tenancy says of a pod depends on the label and the taint of one node and on the label of
// one namespace, so it is
// computed when a pod gets its node, and again for the pods of a node or a
// namespace whose tenant changes: never for all pods. They are read at
// that moment, from the informers' stores; an event only says
// that it is time to look, so the order of events does not matter, and each
// change of a label or taint is followed by an event. What is not known (a node
// or namespace that has not arrived, or is gone, or whose node it is) violates
// nothing.
//
// Memory is one small record per pod with a node, outside exempt namespaces.
type tenancyMonitor struct {
	tenancy    *tenancy
	namespaces *namespaceFactsReader
	nodes      corelisters.NodeLister
	// report informs the owner of the pod. It is called without a lock held.
	report func(violation)
	gauge  metrics.GaugeMetric

	// mu guards the fields below; the handlers of three informers write them.
	mu          sync.Mutex
	pods        map[types.UID]*watchedPod
	byNode      podGroups
	byNamespace podGroups
	violating   int
}

// watchedPod is a pod that has a node and has not terminated.
type watchedPod struct {
	pod *corev1.Pod
	// violation is what tenancy says against the pod, nil if nothing.
	violation *rejection
}

// violation is a pod that is where it must not be.
type violation struct {
	pod    *corev1.Pod
	node   *corev1.Node
	reason *rejection
}

// podGroups are pods by the name of something that they share.
type podGroups map[string]map[types.UID]*watchedPod

func (g podGroups) insert(name string, w *watchedPod) {
	if g[name] == nil {
		g[name] = map[types.UID]*watchedPod{}
	}
	g[name][w.pod.UID] = w
}

func (g podGroups) remove(name string, uid types.UID) {
	delete(g[name], uid)
	if len(g[name]) == 0 {
		delete(g, name)
	}
}

func newTenancyMonitor(t *tenancy, namespaces *namespaceFactsReader, nodes corelisters.NodeLister, gauge metrics.GaugeMetric, report func(violation)) *tenancyMonitor {
	gauge.Set(0)
	return &tenancyMonitor{
		tenancy:     t,
		namespaces:  namespaces,
		nodes:       nodes,
		report:      report,
		gauge:       gauge,
		pods:        map[types.UID]*watchedPod{},
		byNode:      podGroups{},
		byNamespace: podGroups{},
	}
}

// startTenancyMonitor builds the monitor and adds its handlers to the informers
// of pods and nodes. The namespaces' handler is that of namespaceWatch.
func (pl *LabelPresence) startTenancyMonitor(ctx context.Context, namespaces *namespaceFactsReader) (*tenancyMonitor, error) {
	core := pl.handle.SharedInformerFactory().Core().V1()
	m := newTenancyMonitor(pl.policy.tenancy, namespaces, core.Nodes().Lister(),
		tenancyViolations.WithLabelValues(pl.handle.ProfileName()), pl.reportViolation)

	logger := klog.FromContext(ctx)
	options := cache.HandlerOptions{Logger: &logger}
	if _, err := core.Pods().Informer().AddEventHandlerWithOptions(m.podHandler(), options); err != nil {
		return nil, err
	}
	if _, err := core.Nodes().Informer().AddEventHandlerWithOptions(m.nodeHandler(), options); err != nil {
		return nil, err
	}
	return m, nil
}

func (m *tenancyMonitor) podHandler() cache.ResourceEventHandler {
	return plugin.EventHandler(func(old, pod *corev1.Pod) {
		if pod == nil {
			m.podDeleted(old)
			return
		}
		m.podChanged(pod)
	})
}

func (m *tenancyMonitor) nodeHandler() cache.ResourceEventHandler {
	return plugin.EventHandler(func(old, node *corev1.Node) {
		switch {
		case node == nil:
			m.nodeChanged(old.Name)
		// Nodes are updated all the time, their tenant hardly ever.
		case old == nil || m.tenancy.ownershipOf(old) != m.tenancy.ownershipOf(node):
			m.nodeChanged(node.Name)
		}
	})
}

// podChanged takes note of a pod that is new or changed.
func (m *tenancyMonitor) podChanged(pod *corev1.Pod) {
	if pod.Spec.NodeName == "" || !m.tenancy.appliesTo(pod.Namespace) {
		return
	}
	if podphase.IsTerminated(pod) {
		m.podDeleted(pod)
		return
	}
	m.recheck(func() podSet {
		if w, watched := m.pods[pod.UID]; watched {
			// A pod's node and namespace never change.
			w.pod = pod
			return nil
		}
		w := &watchedPod{pod: pod}
		m.pods[pod.UID] = w
		m.byNode.insert(pod.Spec.NodeName, w)
		m.byNamespace.insert(pod.Namespace, w)
		return podSet{pod.UID: w}
	})
}

// podDeleted forgets a pod.
func (m *tenancyMonitor) podDeleted(pod *corev1.Pod) {
	m.recheck(func() podSet {
		w, watched := m.pods[pod.UID]
		if !watched {
			return nil
		}
		if w.violation != nil {
			m.violating--
		}
		delete(m.pods, pod.UID)
		m.byNode.remove(w.pod.Spec.NodeName, pod.UID)
		m.byNamespace.remove(w.pod.Namespace, pod.UID)
		return nil
	})
}

// nodeChanged looks again at the pods of a node.
func (m *tenancyMonitor) nodeChanged(name string) {
	m.recheck(func() podSet { return m.byNode[name] })
}

// namespaceChanged looks again at the pods of a namespace.
func (m *tenancyMonitor) namespaceChanged(name string) {
	m.recheck(func() podSet { return m.byNamespace[name] })
}

// podSet is a set of watched pods.
type podSet = map[types.UID]*watchedPod

// recheck runs update with mu held, computes what tenancy says of the pods that it
// returns, and reports those that are in the wrong now.
func (m *tenancyMonitor) recheck(update func() podSet) {
	for _, v := range m.findViolations(update) {
		m.report(v)
	}
}

func (m *tenancyMonitor) findViolations(update func() podSet) []violation {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []violation
	for _, w := range update() {
		node, reason := m.check(w.pod)
		if reason == w.violation {
			continue
		}
		if w.violation != nil {
			m.violating--
		}
		w.violation = reason
		if reason != nil {
			m.violating++
			found = append(found, violation{pod: w.pod, node: node, reason: reason})
		}
	}
	m.gauge.Set(float64(m.violating))
	return found
}

// check returns what tenancy says against the pod being where it is, nil if
// nothing, and the node.
func (m *tenancyMonitor) check(pod *corev1.Pod) (*corev1.Node, *rejection) {
	facts, known := m.namespaces.get(pod.Namespace)
	if !known {
		return nil, nil
	}
	node, err := m.nodes.Get(pod.Spec.NodeName)
	if err != nil {
		return nil, nil // the lister's only error is that the node is not there
	}
	return node, m.tenancy.violation(node, facts.tenant)
}

const (
	// reasonTenancyViolation is the reason of the event on a pod that is on a node
	// where tenancy does not allow it.
	reasonTenancyViolation = "TenancyViolation"
	// actionTenancyCheck is the event's action: what the scheduler was doing.
	actionTenancyCheck = "CheckingTenancy"
)

// reportViolation records the event on the pod. The recorder takes it without
// waiting and may drop it under load; the gauge is complete in any case.
func (pl *LabelPresence) reportViolation(v violation) {
	recorder := pl.handle.EventRecorder()
	if recorder == nil {
		return // a simulation
	}
	note := violationNote(pl.policy.tenancy, v)
	recorder.Eventf(v.pod, v.node, corev1.EventTypeWarning, reasonTenancyViolation, actionTenancyCheck, "%s", note)
}

// violationNote says what is wrong and what can be done. Like the reasons, it
// does not tell the name of another tenant to the pod's namespace.
func violationNote(t *tenancy, v violation) string {
	return messages.Cut(t.describe(v.reason, v.node.Name, v.pod.Namespace) + ". The pod keeps running: delete it so that its replacement is placed again, correct the label that is wrong, or exempt the namespace in LabelPresenceArgs.tenancy.exemptNamespaces.")
}

// describe says of a pod on a node why it must not be there.
func (t *tenancy) describe(reason *rejection, node, namespace string) string {
	switch reason {
	case t.noTenant:
		return fmt.Sprintf("Node %q belongs to a tenant (label %q or taint %q), and namespace %q has none (no label %q)",
			node, t.nodeLabelKey, t.nodeTaintKey, namespace, t.namespaceLabelKey)
	case t.otherTenant:
		return fmt.Sprintf("Node %q belongs to another tenant (label %q) than namespace %q (label %q)",
			node, t.nodeLabelKey, namespace, t.namespaceLabelKey)
	}
	return fmt.Sprintf("Node %q belongs to no tenant (no label %q), and namespace %q does (label %q)",
		node, t.nodeLabelKey, namespace, t.namespaceLabelKey)
}
