// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// must ends the test at an error.
func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// generator draws nodes, states and requests for the property tests. It leans to
// what is hard: small nodes that are nearly full, and equal or complementary
// amounts.
type generator struct {
	*rand.Rand
}

func newGenerator(seed uint64) generator {
	return generator{rand.New(rand.NewPCG(seed, 7))}
}

// oneOf draws one of the values.
func (g generator) oneOf(values ...int64) int64 {
	return values[g.IntN(len(values))]
}

// node draws a shared node of up to maxDevices.
func (g generator) node(maxDevices int) *Node {
	n := &Node{
		Kind:      NodeShared,
		Devices:   1 + g.IntN(maxDevices),
		MemoryMiB: g.oneOf(1, 3, 999, 15109, 16384, 81920, MaxMemoryMiB),
	}
	if g.IntN(4) == 0 {
		n.Cordoned = SetOf(g.IntN(n.Devices))
	}
	return n
}

// state draws what is free on the node. One in eight devices is overcommitted.
func (g generator) state(n *Node) Usage {
	s := usageOf(n)
	for d := range n.Devices {
		switch g.IntN(8) {
		case 0, 1:
		case 2:
			s.Take(d, s.capacity)
		case 3:
			s.Take(d, Share{Milli: 1001, MemoryMiB: 1})
		default:
			s.Take(d, Share{Milli: g.milli(), MemoryMiB: g.Int64N(n.MemoryMiB + 1)})
		}
	}
	return s
}

// milli draws the thousandths of a share.
func (g generator) milli() int64 {
	if g.IntN(2) == 0 {
		return g.oneOf(1, 100, 250, 300, 333, 400, 500, 501, 600, 999)
	}
	return 1 + g.Int64N(999)
}

// ask draws what one container asks for.
func (g generator) container(n *Node) ContainerRequest {
	container := ContainerRequest{Devices: 1}
	switch g.IntN(6) {
	case 0:
		container.Milli, container.Devices = MilliPerDevice, 1+g.IntN(3)
	case 1:
		container.MemoryMiB = 1 + g.Int64N(n.MemoryMiB)
	case 2:
		container.Milli, container.MemoryMiB = g.milli(), 1+g.Int64N(n.MemoryMiB)
	default:
		container.Milli = g.milli()
	}
	return container
}

// request draws a pod of 1 to maxAsks containers.
func (g generator) request(n *Node, maxAsks int) *Request {
	r := &Request{Kind: RequestShares}
	containers := 1 + g.IntN(maxAsks)
	inits := g.IntN(containers + 1)
	for i := range containers {
		container := g.container(n)
		container.Container = fmt.Sprintf("c%d", i)
		if i < inits {
			container.Kind = ContainerKind(1 + g.IntN(2)) //nolint:gosec // Init or Sidecar
		}
		r.Containers = append(r.Containers, container)
	}
	return r
}

// workload draws an expected workload.
func (g generator) workload(n *Node) *Workload {
	var classes []Class
	for range 1 + g.IntN(12) {
		c := Class{Weight: 1 + g.Int64N(50), Shape: Shape{CPUMilli: g.Int64N(32) * 1000}}
		if g.IntN(5) > 0 {
			container := g.container(n)
			c.Devices, c.Milli, c.MemoryMiB = container.Devices, container.Milli, container.MemoryMiB
		}
		if g.IntN(6) == 0 {
			c.Models = newModels("another")
		}
		classes = append(classes, c)
	}
	w, err := NewWorkload(classes)
	if err != nil {
		panic(err)
	}
	return w
}

// usageOf is the usage of a node of which nobody uses anything.
func usageOf(n *Node) Usage {
	u, _ := n.Usage()
	return u
}

// check is everything that a filter asks.
func check(n *Node, u *Usage, r *Request) Reason {
	if reason := n.Admits(r); reason != Fits || r.Kind != RequestShares || u.Fits(r) {
		return reason
	}
	return u.Lacks(r)
}
