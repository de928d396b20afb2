// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"testing"

	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"

	_ "github.com/berth-scheduler/berth/pkg/apis/config/scheme" // LabelPresenceArgs
)

// decodeProfile loads a file of config/berth-scheduler as the scheduler does.
func decodeProfile(t *testing.T, file string) *schedconfig.KubeSchedulerConfiguration {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	decoded, err := options.LoadConfigFromFile(logger, file)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return decoded
}
