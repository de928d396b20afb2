// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// CheckClaims returns what claims have that the ResourceSlices of DRA drivers do not publish, or have more of: a
// device that two claims have and that is not shared, more of a shared device than its capacity, more of a counter
// than there is, and a device that is missing. Claims with admin access take nothing (KEP-5018).
func CheckClaims(slices []resourcev1.ResourceSlice, claims []resourcev1.ResourceClaim) []Violation {
	t := taken{devices: map[deviceID]*resourcev1.Device{}, left: map[deviceID]map[string]resource.Quantity{}, holder: map[deviceID]string{}}
	for s := range slices {
		slice := &slices[s]
		for i := range slice.Spec.Devices {
			d := &slice.Spec.Devices[i]
			id := deviceID{slice.Spec.Driver, slice.Spec.Pool.Name, d.Name}
			t.devices[id] = d
			if ptr.Deref(d.AllowMultipleAllocations, false) {
				t.left[id] = map[string]resource.Quantity{}
				for name, capacity := range d.Capacity {
					t.left[id][string(name)] = capacity.Value.DeepCopy()
				}
			}
		}
		for _, set := range slice.Spec.SharedCounters {
			id := deviceID{slice.Spec.Driver, slice.Spec.Pool.Name, counterSet + set.Name}
			t.left[id] = map[string]resource.Quantity{}
			for name, counter := range set.Counters {
				t.left[id][name] = counter.Value.DeepCopy()
			}
		}
	}
	for c := range claims {
		claim := &claims[c]
		if claim.Status.Allocation == nil {
			continue
		}
		for i := range claim.Status.Allocation.Devices.Results {
			t.add(claim.Namespace+"/"+claim.Name, &claim.Status.Allocation.Devices.Results[i])
		}
	}
	return t.violations
}

type deviceID struct{ driver, pool, name string }

// counterSet stands before the name of a set, which may be that of a device; no name has a slash.
const counterSet = "counters/"

// taken is what claims have left.
type taken struct {
	devices map[deviceID]*resourcev1.Device
	// left is by counter set, and by shared device.
	left map[deviceID]map[string]resource.Quantity
	// holder has the claims of devices that are not shared.
	holder     map[deviceID]string
	violations []Violation
}

func (t *taken) add(claim string, r *resourcev1.DeviceRequestAllocationResult) {
	if ptr.Deref(r.AdminAccess, false) {
		return
	}
	id := deviceID{r.Driver, r.Pool, r.Device}
	violate := func(kind Kind, format string, args ...any) {
		t.violations = append(t.violations, Violation{Kind: kind, Object: id.driver + "/" + id.pool + "/" + id.name, Detail: "claim " + claim + ": " + fmt.Sprintf(format, args...)})
	}
	d := t.devices[id]
	if d == nil {
		violate(Missing, "no driver publishes the device")
		return
	}
	if shared := t.left[id]; shared != nil {
		for name, amount := range r.ConsumedCapacity {
			if rest := subtract(shared, string(name), amount); rest.Sign() < 0 {
				violate(Overcommitted, "%s of %s are left", rest.String(), name)
			}
		}
	} else if other, ok := t.holder[id]; ok {
		violate(Overcommitted, "claim %s has it as well", other)
		return
	}
	if t.left[id] == nil {
		t.holder[id] = claim
	}
	for _, consumption := range d.ConsumesCounters {
		set := t.left[deviceID{r.Driver, r.Pool, counterSet + consumption.CounterSet}]
		for name, counter := range consumption.Counters {
			if rest := subtract(set, name, counter.Value); rest.Sign() < 0 {
				violate(Overcommitted, "%s of counter %s of %s are left", rest.String(), name, consumption.CounterSet)
			}
		}
	}
}

// subtract takes an amount from what is left, and returns the rest.
func subtract(left map[string]resource.Quantity, name string, amount resource.Quantity) resource.Quantity {
	rest := left[name]
	rest.Sub(amount)
	if left != nil {
		left[name] = rest
	}
	return rest
}
