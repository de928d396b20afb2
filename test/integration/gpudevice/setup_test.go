// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package gpudevice shows what the plugin of that name does on a real API server,
// in a berth-scheduler process with the shipped profile and roles. Devices exist
// as labels of nodes alone: what a container sees of them, only a real node shows.
package gpudevice

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// gpuProfile is the shipped profile.
const gpuProfile = "config/berth-scheduler/gpu.yaml"

// writes returns what the scheduler wrote to pods of the default namespace, as
// "verb resource/subresource" by the name of the pod.
func writes(t *testing.T, c *framework.Cluster) map[string][]string {
	t.Helper()
	got := map[string][]string{}
	for _, event := range c.AuditEvents(t, framework.WritesToPods(names.Scheduler, metav1.NamespaceDefault)) {
		ref := event.ObjectRef
		got[ref.Name] = append(got[ref.Name], event.Verb+" "+ref.Resource+"/"+ref.Subresource)
	}
	return got
}
