// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// TestPodsThatAnExtenderBinds: upstream gives a pod to an extender that binds what the pod
// also asks for, before any plugin. A share must not get there.
func TestPodsThatAnExtenderBinds(t *testing.T) {
	const other = "example.com/other"
	extender := func(config schedconfig.Extender) fwk.Extender {
		config.URLPrefix = "http://127.0.0.1:1"
		made, err := scheduler.NewHTTPExtender(&config)
		must(t, err)
		return made
	}
	managed := []schedconfig.ExtenderManagedResource{{Name: other}}
	profile, _ := startProfile(t, gpuArgs(), schedtest.Options{
		Nodes: []*corev1.Node{gpuNode("n", 1)},
		Extenders: []fwk.Extender{
			extender(schedconfig.Extender{FilterVerb: "filter"}),
			extender(schedconfig.Extender{BindVerb: "bind", ManagedResources: managed}),
		},
	})
	both := sharePod("both", 500)
	both.Spec.Containers = append(both.Spec.Containers, corev1.Container{Name: "other", Resources: corev1.ResourceRequirements{
		Limits: corev1.ResourceList{other: resource.MustParse("1")},
	}})
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), both); status.Code() != fwk.UnschedulableAndUnresolvable || status.Message() != reasonOtherBinder {
		t.Errorf("a pod with a share and a resource of the extender: %v", status)
	}
	if _, status, _ := profile.RunPreFilterPlugins(t.Context(), framework.NewCycleState(), sharePod("share", 500)); !status.IsSuccess() {
		t.Errorf("a pod with a share: %v", status)
	}
}
