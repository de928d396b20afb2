// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/simulator/trace"
)

// claims are nodes and pods with a DRA driver: each node publishes its devices, and each pod has a
// claim of a template.
type claims struct {
	layout draslices.Layout
	// shared are the DeviceClasses and the templates.
	shared []runtime.Object
}

// memoryMiB is the memory of every device. The trace knows none.
const memoryMiB = 16000

// newClaims returns the form for the pods of the trace.
func newClaims(layout draslices.Layout, tr *trace.Trace) *claims {
	c := &claims{layout: layout}
	for _, class := range layout.Classes() {
		c.shared = append(c.shared, class)
	}
	made := map[string]bool{}
	for i := range tr.Pods {
		p := &tr.Pods[i]
		if p.Devices == 0 || made[template(p)] {
			continue
		}
		made[template(p)] = true
		t := makeTemplate(template(p), layout.Classes()[0].Name, func(r *resourcev1.ExactDeviceRequest) {
			r.Count = int64(p.Devices)
			if layout == draslices.HAMi && p.Milli < 1000 {
				r.Capacity = &resourcev1.CapacityRequirements{Requests: map[resourcev1.QualifiedName]resource.Quantity{
					"cores": *resource.NewQuantity(p.Milli, resource.DecimalSI), "memory": *resource.NewQuantity(memoryMiB/1000*p.Milli<<20, resource.BinarySI),
				}}
			}
			if p.Models != "" {
				r.Selectors = []resourcev1.DeviceSelector{{CEL: &resourcev1.CELDeviceSelector{Expression: fmt.Sprintf(
					"device.attributes['%s'].productName.lowerAscii() in ['%s']", layout.Driver(), strings.ReplaceAll(strings.ToLower(p.Models), "|", "', '"))}}}
			}
		})
		t.Namespace = trace.Namespace
		c.shared = append(c.shared, t)
	}
	return c
}

func template(p *trace.Pod) string {
	return strings.ToLower(strings.NewReplacer("|", "-", " ", "-").Replace(fmt.Sprintf("t-%d-%d-%s", p.Devices, p.Milli, p.Models)))
}

func (c *claims) objects() []runtime.Object { return c.shared }

func (c *claims) node(n *trace.Node) []runtime.Object {
	node := n.Object()
	node.Labels = map[string]string{corev1.LabelHostname: n.Name}
	objects := []runtime.Object{node}
	if n.Devices == 0 {
		return objects
	}
	model := draslices.T4()
	model.ProductName, model.MemoryMiB = n.Model, memoryMiB
	for _, slice := range c.layout.Slices(n.Name, n.Devices, model) {
		if c.layout == draslices.HAMi {
			for i := range slice.Spec.Devices {
				// The trace has thousandths of a device.
				whole := resource.NewQuantity(1000, resource.DecimalSI)
				slice.Spec.Devices[i].Capacity["cores"] = resourcev1.DeviceCapacity{Value: *whole, RequestPolicy: &resourcev1.CapacityRequestPolicy{
					Default: whole, ValidRange: &resourcev1.CapacityRequestPolicyRange{Min: resource.NewQuantity(1, resource.DecimalSI), Max: whole, Step: resource.NewQuantity(1, resource.DecimalSI)},
				}}
			}
		}
		objects = append(objects, slice)
	}
	return objects
}

func (c *claims) pod(p *trace.Pod, schedulerName string) *corev1.Pod {
	pod := p.Object(schedulerName)
	delete(pod.Annotations, names.GPUModelAnnotation)
	for i := range pod.Spec.Containers {
		for _, list := range []corev1.ResourceList{pod.Spec.Containers[i].Resources.Limits, pod.Spec.Containers[i].Resources.Requests} {
			delete(list, names.GPUMilliResource)
		}
	}
	if p.Devices == 0 {
		return pod
	}
	return claiming(pod, template(p))
}

// TestOpenbAsClaims runs the fragmentation paper's experiment with claims, of parts of devices and
// of whole ones, with stock's plugin and with DeviceClaims: up to as much as the devices have.
func TestOpenbAsClaims(t *testing.T) {
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("places 60,000 pods on 1,200 nodes: set BERTH_LONG=1")
	}
	for _, layout := range []draslices.Layout{draslices.HAMi, draslices.Whole} {
		tr := readOpenb(t, "default")
		if layout == draslices.Whole {
			for i := range tr.Pods {
				tr.Pods[i].Milli = 1000
			}
		}
		as := newClaims(layout, tr)
		allocated := map[string]float64{}
		for _, profile := range []string{claimsProfile, stockProfile} {
			config := loadProfile(t, profile)
			if profile == stockProfile {
				config.Profiles[0].PercentageOfNodesToScore = ptr.To[int32](100) // no sample: NodeCandidates takes none
			}
			allocated[profile] = replayOpenb(t, tr, as, config, 1.03, 42)
			t.Logf("layout %s, %s: %.2f %% allocated", layout, profile, allocated[profile])
		}
		if allocated[claimsProfile] < 95.5 || allocated[claimsProfile] < allocated[stockProfile] {
			t.Errorf("layout %s: allocated %.2f %%, stock %.2f %%; want at least 95.5, and no less than stock", layout, allocated[claimsProfile], allocated[stockProfile])
		}
	}
}
