// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"cmp"
	"slices"
)

// packingValues says what each amount of free compute on one device is worth to
// packing, from 0 to valueUnit for a whole device.
//
// The values are shadow prices of bin packing. If every size s that is expected
// had a value y(s), such that no set of sizes that fits one device is worth more
// than 1, then the values of all that is expected, summed, would be a lower bound
// for the number of devices that it needs. The values that give the largest such
// bound are the prices, and a gap is worth the most valuable set that fits into
// it. Of shares of 810, 470 and few of 160 thousandths, 810 is worth 1 and 470
// worth 1/2: nothing that comes often fits beside the first, and only another one
// of the second. A gap of 190 is worth nothing then, and one of 530 half a device.
// So a share loses nothing where it goes beside its complement, and what it breaks
// elsewhere is told by this table and not by how many thousandths are left.
type packingValues [MilliPerDevice + 1]int64

// packedSize is a size of shares and how often it is expected.
type packedSize struct {
	milli  int64
	demand float64
}

// maxPackedSizes bounds the work of a solution. The heaviest sizes stand for all.
const maxPackedSizes = 32

// newPackingValues returns the values for a distribution of sizes, 1 to
// MilliPerDevice each; nil if it is empty.
func newPackingValues(sizes []packedSize) *packingValues {
	sizes = mergeSizes(sizes)
	if len(sizes) == 0 {
		return nil
	}
	p := newPacking(sizes)
	p.solve()
	// A solution that was not finished is too dear by what the best pattern is
	// worth, and in that proportion still a bound.
	p.fill()
	whole := p.value[MilliPerDevice]
	values := &packingValues{}
	for gap := range values {
		values[gap] = int64(float64(p.value[gap]/whole)*valueUnit + 0.5)
	}
	return values
}

// mergeSizes adds up equal sizes and returns the heaviest, the smallest first.
func mergeSizes(sizes []packedSize) []packedSize {
	sizes = slices.Clone(sizes)
	slices.SortFunc(sizes, func(a, b packedSize) int { return cmp.Compare(a.milli, b.milli) })
	merged := sizes[:0]
	for _, size := range sizes {
		if n := len(merged); n > 0 && merged[n-1].milli == size.milli {
			merged[n-1].demand += size.demand
		} else {
			merged = append(merged, size)
		}
	}
	if len(merged) > maxPackedSizes {
		slices.SortStableFunc(merged, func(a, b packedSize) int { return cmp.Compare(b.demand, a.demand) })
		merged = merged[:maxPackedSizes]
		slices.SortFunc(merged, func(a, b packedSize) int { return cmp.Compare(a.milli, b.milli) })
	}
	return merged
}

// packing is the linear programme of packingValues, solved by generating patterns
// (Gilmore and Gomory, 1961): the prices of the patterns at hand are the question
// for which pattern would be worth more than a device, and its answer joins them.
// A few dozen sizes take a few dozen rounds.
type packing struct {
	sizes []packedSize
	// inverse is that of the matrix of patterns in use, one column each; amount is
	// how many devices follow each of them, and cost is 1, or 0 for a column that
	// only says that more of a size is packed than is asked for.
	inverse [][]float64
	amount  []float64
	cost    []float64
	price   []float64

	// value is the knapsack by the prices, and last the size that is taken last
	// in the best way to fill a gap, or one of the two below.
	value [MilliPerDevice + 1]float64
	last  [MilliPerDevice + 1]int16
}

const (
	noSize     = -1 // noAllocation is taken
	oneLess    = -2 // as for a gap smaller by one
	packingEps = 1e-9
)

// newPacking starts with patterns of one size each.
func newPacking(sizes []packedSize) *packing {
	n := len(sizes)
	p := &packing{sizes: sizes, amount: make([]float64, n), cost: make([]float64, n), price: make([]float64, n)}
	for i, size := range sizes {
		fits := float64(MilliPerDevice / size.milli)
		row := make([]float64, n)
		row[i] = 1 / fits
		p.inverse = append(p.inverse, row)
		p.amount[i], p.cost[i], p.price[i] = size.demand/fits, 1, 1/fits
	}
	return p
}

// solve improves the prices until no pattern is worth more than a device. The
// bound on its rounds is far above what it takes; it ends cycles.
func (p *packing) solve() {
	n := len(p.sizes)
	column, direction := make([]float64, n), make([]float64, n)
	for range 20 * n {
		cost, found := p.enter(column)
		if !found {
			break
		}
		leaving := p.leave(column, direction)
		if leaving < 0 {
			break
		}
		p.pivot(leaving, direction, cost)
	}
	for i := range p.price {
		p.price[i] = max(0, p.price[i])
	}
}

// enter writes the column that improves the solution: a size with a negative
// price, of which more may be packed than is asked for, or else the most valuable
// pattern, if that is worth more than a device.
func (p *packing) enter(column []float64) (cost float64, found bool) {
	clear(column)
	lowest := 0
	for i, price := range p.price {
		if price < p.price[lowest] {
			lowest = i
		}
	}
	if p.price[lowest] < -packingEps {
		column[lowest] = -1
		return 0, true
	}
	p.fill()
	if p.value[MilliPerDevice] <= 1+1e-6 {
		return 0, false
	}
	for gap := int64(MilliPerDevice); gap > 0 && p.last[gap] != noSize; {
		if p.last[gap] == oneLess {
			gap--
			continue
		}
		column[p.last[gap]]++
		gap -= p.sizes[p.last[gap]].milli
	}
	return 1, true
}

// fill computes what is the best for each gap by the prices.
func (p *packing) fill() {
	p.value[0], p.last[0] = 0, noSize
	for gap := int64(1); gap <= MilliPerDevice; gap++ {
		best, last := p.value[gap-1], int16(oneLess)
		for i := range p.sizes {
			milli := p.sizes[i].milli
			if milli > gap {
				break
			}
			if value := p.value[gap-milli] + p.price[i]; value > best+1e-12 {
				best, last = value, int16(i) //nolint:gosec // below maxPackedSizes
			}
		}
		p.value[gap], p.last[gap] = best, last
	}
}

// leave returns the pattern that is the first to be used up when the column
// comes in, and writes how each is used less.
func (p *packing) leave(column, direction []float64) int {
	leaving, least := -1, 0.0
	for i := range direction {
		sum := 0.0
		for j, count := range column {
			sum += float64(p.inverse[i][j] * count)
		}
		direction[i] = sum
		if sum <= packingEps {
			continue
		}
		if ratio := p.amount[i] / sum; leaving < 0 || ratio < least {
			leaving, least = i, ratio
		}
	}
	return leaving
}

// pivot exchanges a pattern for the one that came in, and computes the prices.
// The conversions keep products and sums apart: fused, they would be rounded in
// another way on some architectures.
func (p *packing) pivot(leaving int, direction []float64, cost float64) {
	row := p.inverse[leaving]
	by := direction[leaving]
	for j := range row {
		row[j] /= by
	}
	p.amount[leaving] /= by
	for i := range p.inverse {
		if i == leaving || direction[i] == 0 {
			continue
		}
		for j := range row {
			p.inverse[i][j] -= float64(direction[i] * row[j])
		}
		p.amount[i] -= float64(direction[i] * p.amount[leaving])
	}
	p.cost[leaving] = cost
	for j := range p.price {
		sum := 0.0
		for i := range p.inverse {
			sum += float64(p.cost[i] * p.inverse[i][j])
		}
		p.price[j] = sum
	}
}
