// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// metricsReader may read a scheduler's metrics, and nothing else.
const metricsReader = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: metrics-reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: metrics-reader}
rules: [{nonResourceURLs: [/metrics], verbs: [get]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: metrics-reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: metrics-reader}
subjects: [{kind: ServiceAccount, name: metrics-reader, namespace: default}]
`

// MetricsToken creates an account that may read /metrics, as an administrator
// would for a monitoring system, and returns a token of it.
func MetricsToken(tb testing.TB, c *framework.Cluster) string {
	tb.Helper()
	c.Apply(tb, metricsReader)
	return strings.TrimSpace(c.Kubectl(tb, "create", "token", "-n", "default", "metrics-reader"))
}
