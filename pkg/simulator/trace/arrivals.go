// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand"
	"slices"
)

// MaxTargetLoad is the largest target load of [Arrivals], so that a slip of the
// pen does not fill the memory.
const MaxTargetLoad = 100

// maxArrivals is how long a list may get by copies.
const maxArrivals = 5_000_000

// Arrivals returns the pods in the order in which they arrive in the experiment of
// the fragmentation paper (FGD, USENIX ATC'23), which a seed determines: a random
// permutation of the list, brought to a target load. The same seed gives the order
// in which the simulator published with the paper schedules them; only which pods
// leave a list that asks for too much are others, as many.
//
// targetLoad is what the pods are to ask for in all, as a multiple of capacityMilli,
// the devices of the cluster in thousandths; 0 leaves the list as it is. If the
// list asks for more, pods drawn at random leave it until it does not. If it asks
// for less, pods drawn from it with replacement are appended, with the suffix
// -tuned-N in their names, until the next one would be too much. That a pod with
// several devices then counts as one with one device is the paper's rule; such a
// list ends above its target.
func Arrivals(pods []Pod, capacityMilli int64, targetLoad float64, seed int64) ([]Pod, error) {
	if math.IsNaN(targetLoad) || targetLoad < 0 || targetLoad > MaxTargetLoad {
		return nil, fmt.Errorf("the target load is %v: want 0, for the list as it is, to %d", targetLoad, MaxTargetLoad)
	}
	sorted := slices.SortedFunc(slices.Values(pods), func(a, b Pod) int { return cmp.Compare(a.Name, b.Name) })
	var total int64
	for i := range sorted {
		total += sorted[i].DeviceMilli()
	}
	target := int64(math.Round(targetLoad * float64(capacityMilli)))
	if targetLoad > 0 && (capacityMilli <= 0 || total == 0) {
		return nil, errors.New("no load to aim at: the nodes have no devices, or no pod asks for one; a target load of 0 takes the list as it is")
	}

	random := rand.New(rand.NewSource(seed))
	random.Int() // the paper's program prints one number first
	order := slices.Clone(sorted)
	random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	switch {
	case targetLoad == 0:
		return order, nil
	case total > target:
		return thinned(order, total, target, random), nil
	}
	return inflated(order, sorted, total, target, random)
}

// thinned removes pods at random until the rest, which keeps its order, asks for no
// more than target.
func thinned(order []Pod, total, target int64, random *rand.Rand) []Pod {
	left := make([]int, len(order))
	for i := range left {
		left[i] = i
	}
	removed := make([]bool, len(order))
	for total > target {
		i, last := random.Intn(len(left)), len(left)-1
		removed[left[i]] = true
		total -= order[left[i]].DeviceMilli()
		left[i], left = left[last], left[:last]
	}
	kept := order[:0]
	for i := range order {
		if !removed[i] {
			kept = append(kept, order[i])
		}
	}
	return kept
}

// inflated appends copies of pods until the next one would exceed target.
func inflated(order, sorted []Pod, total, target int64, random *rand.Rand) ([]Pod, error) {
	taken := make(map[string]struct{}, len(sorted))
	for i := range sorted {
		taken[sorted[i].Name] = struct{}{}
	}
	for n := 0; ; n++ {
		pod := sorted[random.Intn(len(sorted))]
		if total+pod.Milli > target {
			return order, nil
		}
		if n >= maxArrivals {
			return nil, fmt.Errorf("%d more pods drawn from the list do not reach the target load: too few of them ask for devices", n)
		}
		total += pod.DeviceMilli()
		pod.Name = tunedName(pod.Name, n, taken)
		order = append(order, pod)
	}
}

// tunedName names a copy as no other pod is named.
func tunedName(name string, n int, taken map[string]struct{}) string {
	tuned := fmt.Sprintf("%s-tuned-%d", name, n)
	for {
		if _, ok := taken[tuned]; !ok {
			taken[tuned] = struct{}{}
			return tuned
		}
		tuned += "-x"
	}
}
