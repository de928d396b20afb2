// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// TestFlagsOfTheRunningScheduler: what the flags of a scheduler's container make of its file
// counts as it does for the process.
func TestFlagsOfTheRunningScheduler(t *testing.T) {
	content, err := os.ReadFile("../../../config/berth-scheduler/tenancy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		args    []string
		want    string
		notSeen string
	}{
		{name: "the file alone"},
		{name: "a flag that makes no difference", args: []string{"--leader-elect=true"}},
		{name: "a flag that the file does not go with", args: []string{"--leader-elect=false"}, want: "with --leader-elect=false: leaderElection.leaderElect"},
		{name: "an unknown flag", args: []string{"--no-such-flag"}, notSeen: "the flags of container scheduler: unknown flag: --no-such-flag"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			client := fake.NewClientset(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "berth-system", Name: "profile"}, Data: map[string]string{"profile.yaml": string(content)},
			})
			spec := &corev1.PodSpec{
				Containers: []corev1.Container{{
					Name: "scheduler", Args: append([]string{"--config=/etc/berth/profile.yaml"}, tt.args...),
					VolumeMounts: []corev1.VolumeMount{{Name: "profile", MountPath: "/etc/berth"}},
				}},
				Volumes: []corev1.Volume{{Name: "profile", VolumeSource: corev1.VolumeSource{
					ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "profile"}},
				}}},
			}
			s := &Schedulers{}
			if err := s.readPod(t.Context(), client, "berth-system", spec, nil); err != nil {
				t.Fatal(err)
			}
			_, serves, err := s.Find("berth-tenancy")
			switch {
			case tt.want == "" && (err != nil || !serves):
				t.Error(err, serves)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("got error %v, want one with %q", err, tt.want)
			}
			if seen := strings.Join(s.NotSeen, "\n"); !strings.Contains(seen, tt.notSeen) || tt.notSeen == "" && seen != "" {
				t.Errorf("got not seen %q, want %q", seen, tt.notSeen)
			}
		})
	}
}
