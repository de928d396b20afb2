// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package tenancy

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// violationsMetric is the series that counts the pods on wrong nodes.
const violationsMetric = `berth_labelpresence_tenancy_violations{profile="` + names.TenancyScheduler + `"}`

// violationsAreReported: without the policy, another scheduler and
// spec.nodeName do get a pod onto a tenant's node. Each such pod has a Warning
// event and counts in the metric, for as long as it is there.
func violationsAreReported(t *testing.T) {
	c, scheduler := start(t, node("b1", "b"))
	addNamespace(t, c, "team-a", "a")
	addNamespace(t, c, "team-b", "b")
	addNamespace(t, c, "no-tenant", "")
	c.Kubectl(t, "delete", "validatingadmissionpolicybinding", "berth-tenancy-pods", "berth-tenancy-bindings")
	framework.StartProcess(t, framework.KubeScheduler, "--kubeconfig="+c.StockSchedulerKubeconfig(t), "--secure-port=0")

	waitForViolations(t, scheduler, 0)
	rightful := newPod("team-b", "rightful")
	rightful.Spec.Tolerations = tolerateTenants
	c.CreatePod(t, rightful)
	c.WaitForPodRunning(t, "team-b", "rightful")

	violations := []struct {
		name      string
		namespace string
		arm       func(*corev1.Pod)
		why       string
	}{
		{
			name:      "other-scheduler",
			namespace: "team-a",
			arm: func(pod *corev1.Pod) {
				pod.Spec.SchedulerName = corev1.DefaultSchedulerName
				pod.Spec.Tolerations = tolerateAll
			},
			why: "belongs to another tenant",
		},
		{
			name:      "node-name",
			namespace: "no-tenant",
			arm:       func(pod *corev1.Pod) { pod.Spec.NodeName = "b1" },
			why:       "belongs to a tenant",
		},
	}
	for i, tt := range violations {
		t.Run(tt.name, func(t *testing.T) {
			pod := newPod(tt.namespace, tt.name)
			tt.arm(pod)
			// The policy's end takes effect with a delay.
			framework.WaitForCondition(t, framework.WaitTimeout, "pod "+tt.name+" to be let in", func() (bool, error) {
				_, err := c.Client.CoreV1().Pods(tt.namespace).Create(t.Context(), pod, metav1.CreateOptions{})
				return err == nil, err
			})
			c.WaitForPodRunning(t, tt.namespace, tt.name)
			c.WaitForEvent(t, tt.namespace, tt.name, "TenancyViolation", tt.why)
			waitForViolations(t, scheduler, i+1)
		})
	}

	t.Run("a pod that goes no longer counts", func(t *testing.T) {
		c.Kubectl(t, "delete", "pod", "-n", "no-tenant", "node-name")
		waitForViolations(t, scheduler, 1)
	})
	t.Run("a namespace that changes its tenant is judged anew", func(t *testing.T) {
		c.Kubectl(t, "label", "--overwrite", "namespace", "team-a", names.TenantLabel+"=b")
		waitForViolations(t, scheduler, 0)
		c.Kubectl(t, "label", "--overwrite", "namespace", "team-b", names.TenantLabel+"=c")
		c.WaitForEvent(t, "team-b", "rightful", "TenancyViolation", "belongs to another tenant")
		waitForViolations(t, scheduler, 1)
	})
}

// waitForViolations waits until the metric has the value.
func waitForViolations(t *testing.T, scheduler *framework.Scheduler, want int) {
	t.Helper()
	framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("%s to be %d", violationsMetric, want), func() (bool, error) {
		for line := range strings.Lines(scheduler.Metrics(t)) {
			if value, found := strings.CutPrefix(line, violationsMetric+" "); found {
				got, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
				if err == nil && got != float64(want) {
					err = fmt.Errorf("it is %v", got)
				}
				return err == nil, err
			}
		}
		return false, errors.New("no such series")
	})
}
