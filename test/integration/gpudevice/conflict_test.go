// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestTwoSchedulersOnOnePool does what the README says not to do. The Binding of
// one scheduler is held back until the other one has given away the same device:
// both see the conflict and say so, and the device takes nothing new.
func TestTwoSchedulersOnOnePool(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{gpuNode("gpu", "NVIDIA-A100", 1, 40960)}})
	c.ApplyManifests(t, "manifests/base")
	held, release := make(chan struct{}), make(chan struct{})
	proxy := startProxy(t, c, func(n int64) treatment {
		if n == 0 {
			close(held)
			<-release
		}
		return pass
	})
	first := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	second := c.StartBerthScheduler(t, renamed(t, "second"), framework.SchedulerOptions{Kubeconfig: proxy.kubeconfig(t, c)})

	slow := sharePod("slow", "600")
	slow.Spec.SchedulerName = "second"
	create(t, c, slow)
	<-held
	if got := place(t, c, sharePod("fast", "600")); got != "gpu/0" {
		t.Errorf("the pod of the first scheduler went to %s", got)
	}
	close(release)
	if got := placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "slow")); got != "gpu/0" {
		t.Errorf("the pod of the second scheduler went to %s: there is no conflict", got)
	}

	for _, pod := range []string{"slow", "fast"} {
		framework.WaitForCondition(t, framework.WaitTimeout, "the event about the conflict on "+pod, func() (bool, error) {
			events, err := c.Client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{
				FieldSelector: "involvedObject.name=" + pod + ",reason=GPUDeviceConflict",
			})
			if err != nil || len(events.Items) == 0 {
				return false, err
			}
			message := events.Items[0].Message
			if !strings.Contains(message, "default/slow") || !strings.Contains(message, "default/fast") {
				return false, fmt.Errorf("the event does not name both pods: %s", message)
			}
			return true, nil
		})
	}
	for name, scheduler := range map[string]*framework.Scheduler{"first": first, "second": second} {
		framework.WaitForCondition(t, framework.WaitTimeout, "the conflict in the metrics of the "+name, func() (bool, error) {
			return strings.Contains(scheduler.Metrics(t), "berth_gpudevice_assignment_conflicts_total 1"), nil
		})
	}
	// Nothing new fits there, until one of the two is gone.
	create(t, c, sharePod("third", "1"))
	expectEvent(t, c, "third", "node(s) didn't have enough free device share")
	c.Kubectl(t, "delete", "pod", "slow", "--wait=true")
	if got := placement(c.WaitForPodScheduled(t, metav1.NamespaceDefault, "third")); got != "gpu/0" {
		t.Errorf("the third pod went to %s", got)
	}
}

// renamed is the shipped profile under another name.
func renamed(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(framework.Root(), gpuProfile))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profile.yaml")
	text := strings.ReplaceAll(string(content), "schedulerName: "+names.Scheduler, "schedulerName: "+name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
