// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/messages"
	"github.com/berth-scheduler/berth/pkg/output"
)

// proposeDeviceRequests proposes other requests in the pod's ResourceClaims.
func proposeDeviceRequests(s *situation, add func(*Change)) {
	for _, request := range s.claimRequests() {
		proposeDeviceClass(s, &request, add)
		if request.exact.AllocationMode == resourcev1.DeviceAllocationModeExactCount {
			for count := request.exact.Count - 1; count > 0; count-- {
				add(request.change(3+0.01*float64(request.exact.Count-count), func(r *resourcev1.ExactDeviceRequest) { r.Count = count },
					"ask for %s instead of %d", output.Count(int(count), "device"), request.exact.Count))
			}
		}
		for i, selector := range request.exact.Selectors {
			if selector.CEL != nil {
				add(request.change(4, func(r *resourcev1.ExactDeviceRequest) { r.Selectors = slices.Delete(r.Selectors, i, i+1) }, "remove the selector %s", selector.CEL.Expression))
			}
		}
		for _, n := range s.near() {
			devices := s.publishedOn(n.node().Name)
			proposeDeviceToleration(&request, devices, add)
			s.proposeLessCapacity(&request, devices, add)
		}
	}
}

// change returns a change of the request, as it is written into a template or, because the
// spec of a claim never changes, into a new claim.
func (r *claimRequest) change(cost float64, edits func(*resourcev1.ExactDeviceRequest), format string, args ...any) *Change {
	where := "in ResourceClaimTemplate"
	if _, isClaim := r.owner.(*resourcev1.ResourceClaim); isClaim {
		where = "recreate ResourceClaim"
	}
	name := ""
	if accessor, err := meta.Accessor(r.owner); err == nil {
		name = klog.KRef(accessor.GetNamespace(), accessor.GetName()).String()
	}
	return &Change{
		Who: OnPod, Kind: "device-request", cost: cost, Text: fmt.Sprintf("%s %s, request %s: %s", where, name, r.name, fmt.Sprintf(format, args...)),
		edits: []edit{{object: r.owner, change: func(object runtime.Object) {
			edits(requestsOf(object)[r.index].Exactly)
		}}},
	}
}

// proposeDeviceClass proposes other classes for one that is not there.
func proposeDeviceClass(s *situation, request *claimRequest, add func(*Change)) {
	var classes []string
	for _, class := range others[*resourcev1.DeviceClass](s.in) {
		classes = append(classes, class.Name)
	}
	if slices.Contains(classes, request.exact.DeviceClassName) {
		return
	}
	meant := messages.Nearest(request.exact.DeviceClassName, classes)
	for _, class := range classes {
		cost := 2.0
		if class == meant {
			cost = 1
		}
		add(request.change(cost, func(r *resourcev1.ExactDeviceRequest) { r.DeviceClassName = class }, "write deviceClassName: %s, which exists; %s does not", class, request.exact.DeviceClassName))
	}
}

// proposeDeviceToleration proposes to tolerate the taints of devices.
func proposeDeviceToleration(request *claimRequest, devices []publishedDevice, add func(*Change)) {
	for i := range devices {
		for _, taint := range devices[i].untolerated(request.exact) {
			toleration := resourcev1.DeviceToleration{Key: taint.Key, Operator: resourcev1.DeviceTolerationOpEqual, Value: taint.Value, Effect: taint.Effect}
			add(request.change(3.5, func(r *resourcev1.ExactDeviceRequest) { r.Tolerations = append(r.Tolerations, toleration) }, "tolerate the taint %s:%s of devices", taintText(taint), taint.Effect))
		}
	}
}

// proposeLessCapacity proposes as much of a shared device as is free of one that the request
// selects: of the one with most.
func (s *situation) proposeLessCapacity(request *claimRequest, devices []publishedDevice, add func(*Change)) {
	if request.exact.Capacity == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(request.exact.Capacity.Requests)) {
		asked := request.exact.Capacity.Requests[name]
		var amounts []resource.Quantity
		for i := range devices {
			d := &devices[i]
			if free := d.free(name); s.selector(request.exact, d) == "" && free.Sign() > 0 && free.Cmp(asked) < 0 {
				amounts = append(amounts, free)
			}
		}
		slices.SortFunc(amounts, func(a, b resource.Quantity) int { return cmp.Compare(0, a.Cmp(b)) })
		for _, amount := range amounts[:min(len(amounts), 2)] {
			add(request.change(3, func(r *resourcev1.ExactDeviceRequest) { r.Capacity.Requests[name] = amount }, "ask for %s of %s instead of %s", amount.String(), name, asked.String()))
		}
	}
}
