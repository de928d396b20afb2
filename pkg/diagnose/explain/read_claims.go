// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

// claimRequest is a request of a ResourceClaim that the pod has no devices for yet.
type claimRequest struct {
	// owner is the template of the claim, or the claim that the pod names, and index the place
	// of the request in it.
	owner runtime.Object
	index int
	name  string
	exact *resourcev1.ExactDeviceRequest
}

// claimRequests returns the requests of the pod's claims that are not allocated. Those with
// alternatives are left out: none of them alone keeps the pod waiting.
func (s *situation) claimRequests() []claimRequest {
	var requests []claimRequest
	add := func(owner runtime.Object) {
		for i, request := range requestsOf(owner) {
			if request.Exactly != nil {
				requests = append(requests, claimRequest{owner, i, request.Name, request.Exactly})
			}
		}
	}
	for i := range s.pod.Spec.ResourceClaims {
		podClaim := &s.pod.Spec.ResourceClaims[i]
		for _, template := range others[*resourcev1.ResourceClaimTemplate](s.in) {
			if template.Namespace == s.pod.Namespace && template.Name == ptr.Deref(podClaim.ResourceClaimTemplateName, "") {
				add(template)
			}
		}
		for _, claim := range others[*resourcev1.ResourceClaim](s.in) {
			if claim.Namespace == s.pod.Namespace && claim.Name == ptr.Deref(podClaim.ResourceClaimName, "") && claim.Status.Allocation == nil {
				add(claim)
			}
		}
	}
	return requests
}

// requestsOf returns the requests of a template or a claim.
func requestsOf(owner runtime.Object) []resourcev1.DeviceRequest {
	switch owner := owner.(type) {
	case *resourcev1.ResourceClaimTemplate:
		return owner.Spec.Spec.Devices.Requests
	case *resourcev1.ResourceClaim:
		return owner.Spec.Devices.Requests
	}
	return nil
}

// publishedDevice is a device that a driver publishes for a node, and what is used of it.
type publishedDevice struct {
	*resourcev1.Device
	driver, pool string
	// taints are its own and those of DeviceTaintRules, and rules are the names of those.
	taints []resourcev1.DeviceTaint
	rules  []string
	// claims are those that have it or a part of it, and consumed is what they have together.
	claims   []*resourcev1.ResourceClaim
	consumed map[resourcev1.QualifiedName]resource.Quantity
}

// publishedOn returns the devices of the node, of the newest generation of each pool. Devices
// that are not of one node are left out.
func (s *situation) publishedOn(node string) []publishedDevice {
	var devices []publishedDevice
	rules, users := s.in.Objects.DeviceTaintRules(), s.claimsByDevice()
	for _, slice := range cluster.CurrentSlices(others[*resourcev1.ResourceSlice](s.in)) {
		if ptr.Deref(slice.Spec.NodeName, "") != node {
			continue
		}
		for i := range slice.Spec.Devices {
			d := publishedDevice{Device: &slice.Spec.Devices[i], driver: slice.Spec.Driver, pool: slice.Spec.Pool.Name, taints: slices.Clone(slice.Spec.Devices[i].Taints)}
			for _, rule := range rules {
				if rule.Selects(d.driver, d.pool, d.Name) {
					d.taints, d.rules = append(d.taints, rule.Taint), append(d.rules, rule.Name)
				}
			}
			d.addUsers(users[deviceKey{d.driver, d.pool, d.Name}])
			devices = append(devices, d)
		}
	}
	return devices
}

// deviceKey names a device, and deviceUser is a claim that has it or a part of it.
type (
	deviceKey  struct{ driver, pool, device string }
	deviceUser struct {
		claim    *resourcev1.ResourceClaim
		consumed map[resourcev1.QualifiedName]resource.Quantity
	}
)

// claimsByDevice returns the claims that have each device.
func (s *situation) claimsByDevice() map[deviceKey][]deviceUser {
	users := map[deviceKey][]deviceUser{}
	for _, claim := range others[*resourcev1.ResourceClaim](s.in) {
		if claim.Status.Allocation == nil {
			continue
		}
		for _, result := range claim.Status.Allocation.Devices.Results {
			if key := (deviceKey{result.Driver, result.Pool, result.Device}); !ptr.Deref(result.AdminAccess, false) {
				users[key] = append(users[key], deviceUser{claim, result.ConsumedCapacity})
			}
		}
	}
	return users
}

// addUsers adds the claims that have the device.
func (d *publishedDevice) addUsers(users []deviceUser) {
	d.consumed = map[resourcev1.QualifiedName]resource.Quantity{}
	for _, user := range users {
		d.claims = append(d.claims, user.claim)
		for name, amount := range user.consumed {
			sum := d.consumed[name]
			sum.Add(amount)
			d.consumed[name] = sum
		}
	}
}

// publishers are the names of the nodes for which drivers publish devices.
func (s *situation) publishers() sets.Set[string] {
	nodes := sets.New[string]()
	for _, slice := range others[*resourcev1.ResourceSlice](s.in) {
		if len(slice.Spec.Devices) > 0 {
			nodes.Insert(ptr.Deref(slice.Spec.NodeName, ""))
		}
	}
	return nodes
}

// selector returns the first selector, of the class or of the request, that does not match
// the device; "" if all do.
func (s *situation) selector(request *resourcev1.ExactDeviceRequest, d *publishedDevice) string {
	var selectors []resourcev1.DeviceSelector
	for _, class := range others[*resourcev1.DeviceClass](s.in) {
		if class.Name == request.DeviceClassName {
			selectors = append(selectors, class.Spec.Selectors...)
		}
	}
	for _, selector := range append(selectors, request.Selectors...) {
		if selector.CEL == nil {
			continue
		}
		compiled := cel.GetCompiler(cel.Features{EnableConsumableCapacity: true}).CompileCELExpression(selector.CEL.Expression, cel.Options{DisableCostEstimation: true})
		if compiled.Error != nil {
			return selector.CEL.Expression
		}
		matches, _, err := compiled.DeviceMatches(context.Background(), cel.Device{
			Driver: d.driver, AllowMultipleAllocations: d.AllowMultipleAllocations, Attributes: d.Attributes, Capacity: d.Capacity,
		})
		if err != nil || !matches {
			return selector.CEL.Expression
		}
	}
	return ""
}

// untolerated returns the taints of the device that keep the request from it.
func (d *publishedDevice) untolerated(request *resourcev1.ExactDeviceRequest) []resourcev1.DeviceTaint {
	return slices.DeleteFunc(slices.Clone(d.taints), func(taint resourcev1.DeviceTaint) bool {
		if taint.Effect != resourcev1.DeviceTaintEffectNoSchedule && taint.Effect != resourcev1.DeviceTaintEffectNoExecute {
			return true
		}
		return slices.ContainsFunc(request.Tolerations, func(t resourcev1.DeviceToleration) bool { return resourceclaim.ToleratesTaint(t, taint) })
	})
}

// free returns what is left of the capacity.
func (d *publishedDevice) free(name resourcev1.QualifiedName) resource.Quantity {
	free := d.Capacity[name].Value.DeepCopy()
	free.Sub(d.consumed[name])
	return free
}

// isTaken reports whether the claims on the device leave too little for the request.
func (d *publishedDevice) isTaken(request *resourcev1.ExactDeviceRequest) bool {
	if !ptr.Deref(d.AllowMultipleAllocations, false) {
		return len(d.claims) > 0
	}
	for name, capacity := range d.Capacity {
		asked := capacity.Value
		if capacity.RequestPolicy != nil && capacity.RequestPolicy.Default != nil {
			asked = *capacity.RequestPolicy.Default
		}
		if request.Capacity != nil {
			if amount, ok := request.Capacity.Requests[name]; ok {
				asked = amount
			}
		}
		if free := d.free(name); len(d.claims) > 0 && free.Cmp(asked) < 0 {
			return true
		}
	}
	return false
}

// lacksCapacity reports whether even the whole device is too small for the request.
func (d *publishedDevice) lacksCapacity(request *resourcev1.ExactDeviceRequest) bool {
	if request.Capacity == nil {
		return false
	}
	for name, amount := range request.Capacity.Requests {
		if capacity, ok := d.Capacity[name]; !ok || capacity.Value.Cmp(amount) < 0 {
			return true
		}
	}
	return false
}

// exhausted returns the claims that use counters which the device would consume, if too
// little is left of one.
func (s *situation) exhausted(d *publishedDevice, all []publishedDevice) []*resourcev1.ResourceClaim {
	for _, consumption := range d.ConsumesCounters {
		left := s.counters(d, consumption.CounterSet)
		var users []*resourcev1.ResourceClaim
		for i := range all {
			other := &all[i]
			if other.driver != d.driver || other.pool != d.pool || len(other.claims) == 0 {
				continue
			}
			for _, used := range other.ConsumesCounters {
				if used.CounterSet != consumption.CounterSet {
					continue
				}
				users = append(users, other.claims...)
				for name, counter := range used.Counters {
					amount := left[name]
					amount.Sub(counter.Value)
					left[name] = amount
				}
			}
		}
		for name, counter := range consumption.Counters {
			if amount := left[name]; amount.Cmp(counter.Value) < 0 {
				return users
			}
		}
	}
	return nil
}

// counters returns the counters of a set in the pool of the device.
func (s *situation) counters(d *publishedDevice, set string) map[string]resource.Quantity {
	counters := map[string]resource.Quantity{}
	for _, slice := range others[*resourcev1.ResourceSlice](s.in) {
		if slice.Spec.Driver != d.driver || slice.Spec.Pool.Name != d.pool {
			continue
		}
		for i := range slice.Spec.SharedCounters {
			if slice.Spec.SharedCounters[i].Name == set {
				for name, counter := range slice.Spec.SharedCounters[i].Counters {
					counters[name] = counter.Value.DeepCopy()
				}
			}
		}
	}
	return counters
}

// detailClaims says what becomes of the devices of the node for the first request that it
// cannot serve.
func (s *situation) detailClaims(_ engine.Verdict, n fwk.NodeInfo) string {
	devices := s.publishedOn(n.Node().Name)
	for _, request := range s.claimRequests() {
		count := request.exact.Count
		if request.exact.AllocationMode == resourcev1.DeviceAllocationModeAll {
			continue
		}
		free, causes := s.causes(&request, devices)
		if int64(free) >= count {
			continue
		}
		text := fmt.Sprintf("request %s asks for %s of class %s, and the node has ", request.name, output.Count(int(count), "device"), request.exact.DeviceClassName)
		if len(devices) == 0 {
			return text + "none"
		}
		return fmt.Sprintf("%s%d free: of %s, %s", text, free, output.Count(len(devices), "device"), strings.Join(causes, "; "))
	}
	return ""
}

// causes counts the devices that are free for the request, and says why the others are not.
func (s *situation) causes(request *claimRequest, devices []publishedDevice) (free int, causes []string) {
	count, users := map[string]int{}, map[string][]string{}
	note := func(cause string, claims ...*resourcev1.ResourceClaim) {
		count[cause]++
		for _, claim := range claims {
			for _, user := range usersOf(claim) {
				if !slices.Contains(users[cause], user) {
					users[cause] = append(users[cause], user)
				}
			}
		}
	}
	for i := range devices {
		d := &devices[i]
		selector, taints := s.selector(request.exact, d), d.untolerated(request.exact)
		switch {
		case selector != "":
			note("not selected by " + selector)
		case len(taints) > 0:
			cause := fmt.Sprintf("tainted with %s:%s", taintText(taints[0]), taints[0].Effect)
			if len(d.rules) > 0 {
				cause += " (DeviceTaintRule " + strings.Join(d.rules, ", ") + ")"
			}
			note(cause)
		case d.lacksCapacity(request.exact):
			note("too small")
		case d.isTaken(request.exact):
			note("allocated to", d.claims...)
		default:
			if claims := s.exhausted(d, devices); claims != nil {
				note("without the counters that are allocated to", claims...)
				continue
			}
			free++
		}
	}
	order := slices.SortedFunc(maps.Keys(count), func(a, b string) int { return cmp.Or(cmp.Compare(count[a], count[b]), cmp.Compare(a, b)) })
	for _, cause := range order {
		slices.Sort(users[cause])
		causes = append(causes, strings.TrimSpace(fmt.Sprintf("%d %s %s", count[cause], cause, output.List(users[cause], maxListed))))
	}
	return free, causes
}

func taintText(taint resourcev1.DeviceTaint) string {
	return strings.TrimSuffix(taint.Key+"="+taint.Value, "=")
}

// usersOf names the pods that use the claim or, without any, the claim.
func usersOf(claim *resourcev1.ResourceClaim) []string {
	var users []string
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.APIGroup == "" && consumer.Resource == "pods" {
			users = append(users, claim.Namespace+"/"+consumer.Name)
		}
	}
	if len(users) == 0 {
		users = []string{"ResourceClaim " + claim.Namespace + "/" + claim.Name}
	}
	return users
}

// claimHolders returns sets of pods of a node with claims: single ones, the first few, all.
func claimHolders(movable []*corev1.Pod) [][]*corev1.Pod {
	holders := slices.DeleteFunc(slices.Clone(movable), func(pod *corev1.Pod) bool { return len(cluster.ClaimsOf(pod)) == 0 })
	var found [][]*corev1.Pod
	const single, together = 6, 4
	for i := range min(single, len(holders)) {
		found = append(found, holders[i:i+1:i+1])
	}
	for i := 2; i <= min(together, len(holders)); i++ {
		found = append(found, holders[:i:i])
	}
	return append(found, holders)
}
