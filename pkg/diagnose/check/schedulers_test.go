// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestSchedulerContainer(t *testing.T) {
	label := map[string]string{"app.kubernetes.io/name": "berth-scheduler"}
	tests := []struct {
		name   string
		image  string
		args   []string
		labels map[string]string
		want   bool
	}{
		{name: "by the image", image: "localhost/berth-scheduler:v0.1.0", want: true},
		{name: "of a registry with a port, by digest", image: "r.example.com:5000/x/berth-scheduler@sha256:0", want: true},
		{name: "renamed", image: "r.example.com/scheduler:1", args: []string{"--config=/etc/x.yaml"}, labels: label, want: true},
		{name: "a sidecar", image: "r.example.com/proxy:1", labels: label},
		{name: "another scheduler", image: "registry.k8s.io/kube-scheduler:v1", args: []string{"--config", "/etc/x.yaml"}},
		{name: "a name that only begins so", image: "r.example.com/berth-scheduler-test:1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			spec := &corev1.PodSpec{Containers: []corev1.Container{{Image: tt.image, Args: tt.args}}}
			if got := schedulerContainer(tt.labels, spec) != nil; got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
