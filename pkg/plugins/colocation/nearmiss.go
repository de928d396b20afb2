// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

var _ shortfall.Plugin = &Colocation{}

// NearMiss returns how far nodes are for a pod that requires peers; nil for others, and
// where there is no such peer yet.
func (pl *Colocation) NearMiss(pod *corev1.Pod) shortfall.Measure {
	r, err := pl.requestOf(pod)
	if err != nil || len(r.terms) == 0 {
		return nil
	}
	found := lookUp(pl.instance.index, pod, &r)
	s := newPreFilterState(found.targets)
	if !s.filters || len(found.waits)+len(found.emptyRequirements) > 0 {
		return nil
	}
	return &nearMiss{s}
}

// nearMiss measures nodes for one pod.
type nearMiss struct {
	state *preFilterState
}

// Distance implements shortfall.Measure.
func (m *nearMiss) Distance(nodeInfo fwk.NodeInfo) (rank int, gap float64) {
	if why, _ := m.state.check(nodeInfo.Node().Labels); why != nodeFits {
		return shortfall.Other, 0
	}
	return 0, 0
}

// Describe implements shortfall.Measure.
func (m *nearMiss) Describe(nodeInfo fwk.NodeInfo) string {
	why, i := m.state.check(nodeInfo.Node().Labels)
	if why == nodeFits {
		return ""
	}
	reason := m.state.targets[i].noPeer
	if why == nodeUnlabeled {
		reason = m.state.targets[i].noLabel
	}
	return "which " + strings.TrimPrefix(reason, "node(s) ")
}
