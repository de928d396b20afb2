// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

func TestSignPod(t *testing.T) {
	daemon := makePod("daemon")
	daemon.OwnerReferences = makeOwner("apps/v1", "DaemonSet")
	forbid := gpuArgs(withNonGPUPods(config.NonGPUPodsForbid))
	tests := []struct {
		name string
		args *config.GPUDeviceArgs
		pod  *corev1.Pod
		// want is the fragment's value as it enters the signature.
		want string
	}{
		{"no device", gpuArgs(), daemon, `{}`},
		{"no device, where that makes a difference", forbid, makePod("p"), `{}`},
		{"a DaemonSet, where that makes a difference", forbid, daemon, `{"daemon":true}`},
		{"a share", gpuArgs(), sharePod("p", 500), `{"request":"1 0:1:500:0"}`},
		{"a constrained share", gpuArgs(), annotated(annotated(sharePod("p", 500), names.GPUModelAnnotation, "A*"), names.GPUMinMemoryAnnotation, "1Gi"), `{"request":"1 0:1:500:0","models":"a*","minMemoryMiB":1024}`},
		{"devices of the device plugin", gpuArgs(), makePod("p", "nvidia.com/gpu", "2"), `{"request":"2 0:2:1000:0"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			profile, pl := newProfile(t, tt.args, schedtest.Options{})
			fragments, status := pl.SignPod(t.Context(), tt.pod)
			if !status.IsSuccess() || len(fragments) != 1 || fragments[0].Key != names.GPUDeviceFragment {
				t.Fatalf("want one fragment, got %v (%v)", fragments, status)
			}
			got, err := json.Marshal(fragments[0].Value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("Unexpected fragment (-want,+got):\n%s", diff)
			}
			// One plugin that does not sign would switch batching off.
			if profile.SignPod(t.Context(), tt.pod) == nil {
				t.Error("the profile does not sign the pod")
			}
		})
	}
	profile, _ := newProfile(t, gpuArgs(), schedtest.Options{})
	if signature := profile.SignPod(t.Context(), sharePod("p", 1500)); signature != nil {
		t.Errorf("a malformed share is signed: %s", signature)
	}
}
