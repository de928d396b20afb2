// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

// MaxGradientScore is the largest score of FragmentationGradient, a placement
// that costs nothing.
const MaxGradientScore = 1<<28 - 1

// FragmentationGradient prefers the placement that takes least from what the free
// devices are worth to the expected workload.
type FragmentationGradient struct{}

// String returns the name.
func (FragmentationGradient) String() string { return "FragmentationGradient" }

// Score is MaxGradientScore less what the placement costs, where the
// cost, in 1/2^18 of a device, is the sum of
//
//  1. the worth that the node loses to the expected classes (NodeWorkload.value),
//  2. the worth that its devices lose to packing (packingValues), 10 times,
//  3. for a pod that accepts every model, the price of the devices that it takes
//     of a kind that others require (Workload.scarcityPrice), and
//  4. what is left over of the node's CPU and devices, 3/100 of each: best-fit,
//     for what is alike to the others.
//
// A single share takes the device where the cost is least; any other pod is
// placed as Assign would.
func (FragmentationGradient) Score(node CandidateNode, pod PodRequest) int64 {
	e, s := node.Workload, node.Usage
	cost := leftoverCost(node, pod)
	if e != nil {
		loss, ok := placementLoss(node, pod)
		if !ok {
			return 0
		}
		cost += loss
		if r := pod.Request; e.scarcity > 0 && !r.Constrained() {
			cost += e.scarcity * r.AtPeak(s.capacity.MemoryMiB).Milli / MilliPerDevice
		}
	}
	return MaxGradientScore - min(max(0, cost), MaxGradientScore)
}

// placementLoss returns what the node is worth less after the placement; false if
// there is no room.
func placementLoss(node CandidateNode, pod PodRequest) (int64, bool) {
	e, s := node.Workload, node.Usage
	cpuAfter := node.CPUMilli - pod.CPUMilli
	after := *s
	switch containers := pod.Request.Containers; {
	case len(containers) == 0:
	case len(containers) == 1:
		share, ok := containers[0].On(s.capacity.MemoryMiB)
		candidates := s.Fitting(share)
		if !ok || candidates.Len() < containers[0].Devices {
			return 0, false
		}
		if share.Milli < MilliPerDevice {
			_, loss := e.leastLoss(s, candidates, share, node.CPUMilli, cpuAfter)
			return loss, true
		}
		for d := range candidates.lowest(containers[0].Devices).All() {
			after.Take(d, share)
		}
	default:
		assignment, ok := Assign(FragmentationGradient{}, node, pod)
		if !ok {
			return 0, false
		}
		used := assignment.PodUsage(containers)
		after.Add(&used)
	}
	return e.loss(s, &after, node.CPUMilli, cpuAfter), true
}

// leastLoss returns the candidate from which the share is taken at the least
// loss, the tightest among equals. There is at least one, and each has room.
func (e *NodeWorkload) leastLoss(s *Usage, candidates Set, share Share, cpuBefore, cpuAfter int64) (device int, loss int64) {
	var distinct Set
	for rest := candidates; rest != 0; rest &= rest - 1 {
		if d := rest.Lowest(); !anyAlike(s, distinct, d) {
			distinct = distinct.With(d)
		}
	}
	var losses [MaxDevices]int64
	e.shareLosses(s, distinct, share, cpuBefore, cpuAfter, &losses)
	device = distinct.Lowest()
	for d := range distinct.All() {
		if losses[d] < losses[device] || losses[d] == losses[device] && less(s.free[d], s.free[device]) {
			device = d
		}
	}
	return device, losses[device]
}

// anyAlike reports whether one of the devices has as much free as device d.
func anyAlike(s *Usage, devices Set, d int) bool {
	for rest := devices; rest != 0; rest &= rest - 1 {
		if s.free[rest.Lowest()] == s.free[d] {
			return true
		}
	}
	return false
}

// leftoverCost is the part of best-fit. What is left of the devices counts as a
// part of the node's own, so that a small node that nobody uses is no better than a
// large one: best-fit by the largest node would fill the models that come in small
// nodes first, whoever may require them later. What is left of the CPU is in
// relation to the largest node, because much CPU beside few devices is of use to
// those that need it.
func leftoverCost(node CandidateNode, pod PodRequest) int64 {
	cpuScale, _ := node.MaxNode.OrOne()
	gpuScale := max(1, int64(node.Usage.devices)*MilliPerDevice)
	cpuLeft := min(max(0, node.CPUMilli-pod.CPUMilli), cpuScale)
	gpuLeft := min(max(0, node.Usage.IdleMilli()-pod.Request.AtPeak(node.Usage.capacity.MemoryMiB).Milli), gpuScale)
	return constants.Leftover*cpuLeft/(2*cpuScale) + constants.Leftover*gpuLeft/(2*gpuScale)
}

// Pick picks the device with the least loss.
func (FragmentationGradient) Pick(node CandidateNode, pod PodRequest, left Usage, candidates Set, share Share) int {
	if node.Workload == nil {
		return BestFit{}.Pick(node, pod, left, candidates, share)
	}
	device, _ := node.Workload.leastLoss(&left, candidates, share, node.CPUMilli, node.CPUMilli-pod.CPUMilli)
	return device
}
