// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestFirstShareInABusyCluster has a cluster in which other things than pods are
// written all the time: the version of the store is always ahead of the pod
// informer's. The first share must neither wait for the bookmark that comes once a
// minute, nor be given away before it is clear that no pod was missed.
func TestFirstShareInABusyCluster(t *testing.T) {
	c := framework.Start(t, framework.Options{Nodes: []corev1.Node{framework.GPUNode("gpu", "NVIDIA-A100", 1, 40960)}})
	c.ApplyManifests(t, "manifests/base")
	scheduler := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})

	busy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "busy", Namespace: metav1.NamespaceDefault}}
	if _, err := c.Client.CoreV1().ConfigMaps(busy.Namespace).Create(t.Context(), busy, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			patch := fmt.Appendf(nil, `{"data":{"i":"%d"}}`, i)
			if _, err := c.Client.CoreV1().ConfigMaps(busy.Namespace).Patch(t.Context(), busy.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
				return // the test has ended
			}
		}
	}()
	if got := c.PlacePod(t, framework.SharePod("first", "500")); got != "gpu/0" {
		t.Errorf("the first share went to %s", got)
	}
	close(stop)
	<-stopped
	_, line, found := strings.Cut(scheduler.Output(), "Every pod with a share of a device is known")
	if !found {
		t.Fatal("the scheduler did not say that it waited")
	}
	line, _, _ = strings.Cut(line, "\n")
	t.Logf("the first share: %s", line)
}
