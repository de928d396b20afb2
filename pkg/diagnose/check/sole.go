// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// NeverHeld is why a scheduler does not serve default-scheduler where nobody has ever
// held the lease of the cluster's own scheduler. That the two share it is what keeps them
// from placing the same pods, and one that runs with --leader-elect=false never takes it.
// err is lease.ErrNeverHeld, and names the lease.
func NeverHeld(err error) error {
	return fmt.Errorf("leaderElection.resourceName: %w, and a scheduler that serves %s with --leader-elect=false would go on placing the same pods: let the cluster's own scheduler run with leader election first, or, if there is none or the lease was deleted, say so with --%s",
		err, corev1.DefaultSchedulerName, settings.SoleFlag)
}
