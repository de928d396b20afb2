// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command berth-scheduler is kube-scheduler with Berth's plugins compiled in.
//
// It takes kube-scheduler's flags and KubeSchedulerConfiguration. On top of
// that it refuses to start, with a message that names the field or the right,
// where the configuration or the credential could not work: arguments that a
// plugin does not understand, a profile whose parts do not fit together, a
// lease that the cluster's own scheduler holds, a missing RBAC rule.
package main

import (
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo" // rest_client_* and workqueue_* metrics
	_ "k8s.io/component-base/metrics/prometheus/version"  // kubernetes_build_info
)

func main() {
	if err := cli.RunNoErrOutput(newCommand()); err != nil {
		// Not through the log, which would put an error of several lines on one.
		fmt.Fprintf(os.Stderr, "%s: %v\n", program, err)
		os.Exit(1)
	}
}
