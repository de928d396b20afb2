// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"cmp"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
)

// installation is how a scheduler came into the cluster, which decides what its admin does
// about a finding. The zero value is kubectl or kustomize with the files of manifests/.
type installation struct {
	// release and namespace are those of the Helm release; empty without one.
	release, namespace string
}

// installationOf tells it by what Helm, and the chart, write on a Deployment.
func installationOf(d *appsv1.Deployment) installation {
	if d.Labels["app.kubernetes.io/managed-by"] != "Helm" && d.Labels["helm.sh/chart"] == "" {
		return installation{}
	}
	return installation{
		release:   cmp.Or(d.Annotations["meta.helm.sh/release-name"], d.Labels["app.kubernetes.io/instance"], d.Name),
		namespace: cmp.Or(d.Annotations["meta.helm.sh/release-namespace"], d.Namespace),
	}
}

// or returns what to do with the files of manifests/, or with a release of the chart.
func (i installation) or(files, chart string) string {
	if i.release == "" {
		return files
	}
	return chart
}

// upgrade says to upgrade the release, with values if any are told.
func (i installation) upgrade(values string) string {
	command := fmt.Sprintf("helm -n %s upgrade %s", i.namespace, i.release)
	if values == "" {
		return "run " + command + ", which brings back what the chart has"
	}
	return fmt.Sprintf("set %s in the values of %s", values, command)
}

// installation returns that of the first scheduler that is one of the chart, and the zero
// value if none is.
func (c *checker) installation() installation {
	for _, s := range c.schedulers {
		if s.by != (installation{}) {
			return s.by
		}
	}
	return installation{}
}
