// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/colocation/peers"
)

// hostilePlan is that of the shipped workload.
func hostilePlan(t *testing.T) (*Plan, *HostilePlan) {
	t.Helper()
	w, err := Read(folder + "/hostile-neighbour.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := w.Plan(Shares)
	if err != nil {
		t.Fatal(err)
	}
	if plan.Hostile == nil {
		t.Fatal("hostile-neighbour.yaml has no hostile namespace")
	}
	return plan, plan.Hostile
}

// TestHostileIsValid: the API server takes all of it, and it is the worst that it takes.
func TestHostileIsValid(t *testing.T) {
	plan, h := hostilePlan(t)
	seen := map[string]bool{}
	check := func(pod *corev1.Pod) {
		t.Helper()
		if seen[pod.Name] {
			t.Errorf("pod %s is there twice", pod.Name)
		}
		seen[pod.Name] = true
		if errs := validation.ValidatePodCreate(internal(t, pod, &core.Pod{}), validation.PodValidationOptions{}); len(errs) > 0 {
			t.Errorf("pod %s would be refused: %v", pod.Name, errs.ToAggregate())
		}
	}
	for _, pods := range [][]corev1.Pod{h.Bound, h.Waiting, h.Gated, {h.Forger}} {
		for i := range pods {
			check(&pods[i])
		}
	}
	if len(h.Waiting) != 100 || len(h.Services) != 32 || len(h.Gated) == 0 {
		t.Errorf("%d waiting pods, %d Services and %d gated pods, want 100, 32 and some", len(h.Waiting), len(h.Services), len(h.Gated))
	}
	for i := range h.Services {
		service := h.Services[i].DeepCopy()
		service.Spec.ClusterIPs = []string{service.Spec.ClusterIP} // the API server fills it in
		if errs := validation.ValidateServiceCreate(internal(t, service, &core.Service{})); len(errs) > 0 {
			t.Errorf("Service %s would be refused: %v", service.Name, errs.ToAggregate())
		}
		// One in four is longer than Colocation reads; of the others it reads all.
		list := service.Annotations[names.AllowColocationFromAnnotation]
		consent, err := peers.ParseConsent(list)
		if i%4 == 3 {
			if len(list) < 249<<10 || len(list) > 250<<10 {
				t.Errorf("the list of namespaces of Service %s has %d bytes, want 250 KiB", service.Name, len(list))
			}
		} else if err != nil || len(list) < peers.MaxConsentBytes-1 || consent.To(AccompliceNamespace) != (i%2 == 0) {
			t.Errorf("the list of namespaces of Service %s has %d bytes and lets the accomplice near: %t (%v); want the longest that is read, and that of every other one",
				service.Name, len(list), consent.To(AccompliceNamespace), err)
		}
		if named := strings.Count(h.Waiting[0].Annotations[names.ColocateWithAnnotation], "/"+service.Name+"="); named != 1 || len(service.Name) != 63 {
			t.Errorf("Service %s, of %d characters, is named %d times by a waiting pod", service.Name, len(service.Name), named)
		}
	}
	// On each node with devices a pod asks for none of them with a limit of zero.
	zero := 0
	for i := range h.Bound {
		if _, limited := h.Bound[i].Spec.Containers[0].Resources.Limits[names.GPUMilliResource]; limited {
			zero++
		}
	}
	if zero != 20 {
		t.Errorf("%d bound pods have a limit of zero, want one on each of 20 nodes with devices", zero)
	}
	records, err := device.ParseRecords(h.Forger.Annotations[names.GPUAssignedAnnotation])
	if err != nil || len(records) != 1 {
		t.Errorf("the forged record is %v, %v: want one that could be true", records, err)
	}
	for i, peer := range h.Bound[:2] {
		if h.Waiting[0].Spec.NodeSelector[corev1.LabelHostname] == peer.Spec.NodeName {
			t.Errorf("the waiting pods may go where peer %d is", i)
		}
	}
	if len(plan.Arrivals) != 1000 {
		t.Errorf("%d ordinary pods, want 1000", len(plan.Arrivals))
	}
}

// TestHostileWrites: every write changes something, whenever its turn comes.
func TestHostileWrites(t *testing.T) {
	_, h := hostilePlan(t)
	type object struct {
		kind  HostileWriteKind
		index int
	}
	values := map[object]string{}
	for i := range h.Services {
		values[object{FlapConsent, i}] = h.Services[i].Annotations[names.AllowColocationFromAnnotation]
	}
	for i := range h.Waiting {
		values[object{RewriteTerms, i}] = h.Waiting[i].Annotations[names.ColocateWithAnnotation]
	}
	values[object{FlipPeer, 1}] = h.Bound[1].Labels[appLabel]
	gated, forged := map[int]string{}, false
	written := map[object]int{}
	for number := range 5000 {
		write := h.Write(number)
		at := object{write.Kind, write.Index}
		written[at]++
		switch write.Kind {
		case FlapConsent, FlipPeer, RewriteTerms:
			before, there := values[at]
			if !there || write.Value == before || write.Key == "" {
				t.Fatalf("write %d: %v to object %d changes nothing", number, write.Kind, write.Index)
			}
			values[at] = write.Value
		case Ungate, DeleteUngated, Regate:
			if want := map[HostileWriteKind]string{Ungate: "", DeleteUngated: "ungated", Regate: "deleted"}[write.Kind]; gated[write.Index] != want {
				t.Fatalf("write %d: %v to pod %d, which is %q", number, write.Kind, write.Index, gated[write.Index])
			}
			gated[write.Index] = map[HostileWriteKind]string{Ungate: "ungated", DeleteUngated: "deleted", Regate: ""}[write.Kind]
		case Forge, Unforge:
			if forged == (write.Kind == Forge) {
				t.Fatalf("write %d: %v, and the forger is there: %t", number, write.Kind, forged)
			}
			forged = !forged
		default:
			t.Fatalf("write %d has the kind %v", number, write.Kind)
		}
	}
	for at := range values {
		if written[at] == 0 {
			t.Errorf("object %d is never written by %v", at.index, at.kind)
		}
	}
}
