// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package skew runs the build for one minor release of Kubernetes against the control plane
// of the other.
package skew

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const gpuProfile = "config/berth-scheduler/gpu.yaml"

// TestNewerScheduler: a scheduler that is newer than its API server ends at once, and says
// which build to take; also where the API server emulates the older release.
func TestNewerScheduler(t *testing.T) {
	if compat.Release == "1.36" {
		t.Skip("there is no older build than this one")
	}
	for _, tt := range []struct {
		name    string
		options func(*testing.T) framework.Options
		want    string
	}{
		{"an older API server", func(t *testing.T) framework.Options {
			return framework.Options{Executable: framework.BinaryOf(t, "1.36", framework.BerthLocal)}
		}, "the API server serves Kubernetes 1.36, and this build of Berth is for " + compat.Release},
		{"an API server that emulates it", func(*testing.T) framework.Options {
			return framework.Options{APIServerArgs: []string{"--emulated-version=1.36"}}
		}, "the API server serves Kubernetes 1.36 (" + framework.KubernetesVersion(t) + " with --emulated-version), and this build of Berth is for " + compat.Release},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := framework.Start(t, tt.options(t))
			c.ApplyManifests(t, "manifests/base")
			scheduler := c.LaunchScheduler(t, framework.BerthScheduler, gpuProfile, framework.SchedulerOptions{
				Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler),
			})
			if code := scheduler.Wait(t, framework.WaitTimeout); code == 0 {
				t.Error("the scheduler ended as if all was well")
			}
			for _, want := range []string{tt.want, "Run Berth's build for 1.36", "make K8S=1.36 build"} {
				if !strings.Contains(scheduler.Output(), want) {
					t.Errorf("the scheduler did not say %q", want)
				}
			}
		})
	}
}

// TestOlderScheduler: the build for 1.36 serves an API server of 1.37, with devices and
// their admission policies.
func TestOlderScheduler(t *testing.T) {
	if compat.Release != "1.36" {
		t.Skip("there is no newer API server than this build")
	}
	c := framework.Start(t, framework.Options{
		Executable: framework.BinaryOf(t, "1.37", framework.BerthLocal),
		Nodes:      []corev1.Node{framework.GPUNode("gpu", "NVIDIA-A100-SXM4-40GB", 2, 40960)},
	})
	c.ApplyManifests(t, "manifests/overlays/gpu")
	// The policy gives it to every pod with a share; the GPU operator installs it.
	c.Apply(t, `
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: nvidia}
handler: nvidia
`)
	c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{
		Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler),
	})
	for name, milli := range map[string]string{"half": "500", "whole": "1000"} {
		pod := framework.SharePod(name, milli)
		if _, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := framework.Placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, name)); !strings.HasPrefix(got, "gpu/") {
			t.Errorf("pod %s is at %q", name, got)
		}
	}
}
