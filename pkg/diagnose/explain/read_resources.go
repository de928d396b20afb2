// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strings"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

func detailResources(s *situation, v engine.Verdict, n fwk.NodeInfo) string {
	var texts []string
	for _, shortage := range shortfall.Shortages(s.pod, v.Reasons, n) {
		texts = append(texts, shortage.String())
	}
	return strings.Join(texts, ", ")
}
