// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"context"
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// result is what an exploration found.
type result struct {
	// orders is how many complete orders were executed, states how many states were reached,
	// runs how many executions it took, and steps how many steps those took.
	orders, states, runs, steps int
	// again is how often a state was reached that was reached before.
	again int
	took  time.Duration
	// complete is whether all was explored, within the bounds.
	complete bool
	// wrong is what was found, "" for nothing, and order the steps that lead there.
	wrong    string
	order    []string
	coverage map[string]int
}

// transitions returns how often an allocation of a ledger went from one phase to another within a step.
func (r *result) transitions() map[string]int {
	taken := maps.Clone(r.coverage)
	maps.DeleteFunc(taken, func(what string, _ int) bool { return !strings.Contains(what, " -> ") })
	return taken
}

func (r *result) String() string {
	end := "to the end"
	if !r.complete {
		end = "not to the end"
	}
	return fmt.Sprintf("%d states (%d times again), %d orders, %d steps in %d runs, %v, %s", r.states, r.again, r.orders, r.steps, r.runs, r.took.Round(time.Millisecond), end)
}

// history returns the order as a text for people.
func (r *result) history() string {
	var b strings.Builder
	for i, label := range r.order {
		fmt.Fprintf(&b, "%3d  %s\n", i+1, label)
	}
	return b.String() + "     " + strings.ReplaceAll(r.wrong, "\n", "\n     ")
}

// testCase returns the order as an entry of the table of regressions.
func (r *result) testCase(s *scenario) string {
	var b strings.Builder
	fmt.Fprintf(&b, "{scenario: %q, order: []string{\n", s.name)
	for _, label := range r.order {
		fmt.Fprintf(&b, "\t%q,\n", label)
	}
	return b.String() + "}},"
}

// choice is a state of the order that is executed: what may happen there, in the order in which it is
// explored, and which of it is being explored.
type choice struct {
	steps  []step
	chosen int
}

// explorer explores the orders of a scenario depth first. It executes one order from the beginning to
// its end, and for each further one repeats the steps up to where that differs.
type explorer struct {
	t        *testing.T
	scenario *scenario
	result   result
	// seen are the states that were reached.
	seen   map[uint64]struct{}
	stack  []*choice
	budget time.Duration
	seed   maphash.Seed
}

// explore explores all orders of a scenario, or as many as runs and budget allow.
func explore(t *testing.T, s *scenario, runs int, budget time.Duration) *result {
	t.Helper()
	e := &explorer{t: t, scenario: s, seen: map[uint64]struct{}{}, budget: budget, seed: maphash.MakeSeed(), result: result{coverage: map[string]int{}}}
	start := time.Now()
	ended := false
	for {
		e.run()
		if e.result.wrong != "" || time.Since(start) > budget || e.result.runs >= runs {
			break
		}
		if ended = !e.next(); ended {
			break
		}
	}
	e.result.complete = ended
	e.result.states = len(e.seen)
	e.result.took = time.Since(start)
	return &e.result
}

// run executes the order on the stack, and goes on from its end to one that is new.
func (e *explorer) run() {
	e.result.runs++
	inBubble(e.t, e.scenario, e.result.coverage, func(w *world) {
		for i, c := range e.stack {
			w.known = i < len(e.stack)-1 // it was well the last time
			if !e.do(w, c.steps[c.chosen].label) {
				return
			}
		}
		for {
			steps, more := w.next()
			if len(steps) == 0 && more {
				return // nobody does anything with what was delivered last
			}
			if len(steps) == 0 {
				e.end(w)
				return
			}
			c := e.arrive(w, steps)
			if c == nil {
				return
			}
			e.stack = append(e.stack, c)
			if !e.do(w, c.steps[c.chosen].label) {
				return
			}
		}
	})
}

// end lets everything go on, once for each state in which an order ends.
func (e *explorer) end(w *world) {
	key := e.key(w)
	if _, again := e.seen[key]; again {
		e.result.again++
		return
	}
	e.seen[key] = struct{}{}
	e.result.orders++
	if wrong := w.complete(); wrong != "" {
		e.found(wrong)
	}
}

// do takes one step, and reports whether all is well after it.
func (e *explorer) do(w *world, label string) bool {
	e.result.steps++
	if err := w.take(label); err != nil {
		e.t.Fatalf("an order cannot be repeated: %v\n%s", err, strings.Join(labels(e.stack), "\n"))
	}
	if wrong := w.check(); wrong != "" {
		e.found(wrong)
		return false
	}
	return true
}

func (e *explorer) found(wrong string) {
	e.result.wrong, e.result.order = wrong, labels(e.stack)
}

func labels(stack []*choice) []string {
	var order []string
	for _, c := range stack {
		order = append(order, c.steps[c.chosen].label)
	}
	return order
}

// arrive returns what is to be explored from the state that the order on the stack leads to, nil if
// nothing is.
func (e *explorer) arrive(w *world, steps []step) *choice {
	for i := range steps {
		steps[i].do = nil // it is of this execution
	}
	key := e.key(w)
	if _, again := e.seen[key]; again {
		e.result.again++
		return nil
	}
	e.seen[key] = struct{}{}
	return &choice{steps: steps}
}

// key is a number for the state.
func (e *explorer) key(w *world) uint64 { return maphash.String(e.seed, w.state()) }

// next moves the stack on to the next order, and reports whether there is one.
func (e *explorer) next() bool {
	for len(e.stack) > 0 {
		c := e.stack[len(e.stack)-1]
		if c.chosen++; c.chosen < len(c.steps) {
			return true
		}
		e.stack = e.stack[:len(e.stack)-1]
	}
	return false
}

// take takes the step of that label.
func (w *world) take(label string) error {
	steps := w.steps()
	i := slices.IndexFunc(steps, func(s step) bool { return s.label == label })
	if i < 0 {
		var possible []string
		for _, s := range steps {
			possible = append(possible, s.label)
		}
		return fmt.Errorf("%q is not possible, only %q", label, possible)
	}
	// What a process is told that does nothing any more puts no other off: see world.next.
	idle := steps[i].deliver && slices.ContainsFunc(w.processes, func(p *process) bool { return steps[i].touches.processes == 1<<p.index && p.isIdle() })
	steps[i].do()
	w.settle()
	for _, p := range w.processes {
		p.phaseChanges()
		p.forgetThreads()
	}
	if idle {
		return nil
	}
	if steps[i].deliver {
		w.delivered |= steps[i].touches.processes
	} else {
		w.delivered = 0
	}
	return nil
}

// replay executes an order and lets everything go on to the end. It returns what is wrong.
func replay(t *testing.T, s *scenario, order []string) (wrong string) {
	t.Helper()
	inBubble(t, s, map[string]int{}, func(w *world) {
		for _, label := range order {
			if err := w.take(label); err != nil {
				wrong = err.Error()
				return
			}
			if wrong = w.check(); wrong != "" {
				return
			}
		}
		wrong = w.complete()
	})
	return wrong
}

// shorten leaves out of the order what the violation does not need: each step, and all that is not
// possible without it.
func (r *result) shorten(t *testing.T, s *scenario) {
	t.Helper()
	for shorter := true; shorter; {
		shorter = false
		for i := range slices.Backward(r.order) {
			order, wrong := tryOrder(t, s, slices.Delete(slices.Clone(r.order), i, i+1))
			if wrong != "" && len(order) < len(r.order) {
				r.order, r.wrong, shorter = order, wrong, true
				break
			}
		}
	}
}

// tryOrder executes those steps of an order that are possible, and returns them and what is wrong.
func tryOrder(t *testing.T, s *scenario, order []string) (taken []string, wrong string) {
	t.Helper()
	inBubble(t, s, map[string]int{}, func(w *world) {
		for _, label := range order {
			if w.take(label) != nil {
				continue
			}
			taken = append(taken, label)
			if wrong = w.check(); wrong != "" {
				return
			}
		}
		wrong = w.complete()
	})
	return taken, wrong
}

// changePoints is at how many steps of a random order who is first becomes last.
const changePoints = 3

// walk executes random orders: runs of them. What belongs together (a process's cycles, its informers,
// its requests) has a priority that is drawn for each order; of the steps that are possible one of those with the
// highest is taken, and at a few random moments who has it falls back behind all others. A defect that
// takes few such changes is found sooner than by choosing each step evenly
// (Burckhardt et al., A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs, 2010).
func walk(t *testing.T, s *scenario, seed uint64, runs int, budget time.Duration) *result {
	t.Helper()
	e := &explorer{t: t, scenario: s, result: result{coverage: map[string]int{}}}
	random, start := rand.New(rand.NewPCG(seed, 1)), time.Now()
	for e.result.runs < runs && time.Since(start) < budget && e.result.wrong == "" {
		e.result.runs++
		e.stack = nil
		inBubble(t, s, e.result.coverage, func(w *world) { e.walkOnce(w, random) })
	}
	e.result.took = time.Since(start)
	return &e.result
}

func (e *explorer) walkOnce(w *world, random *rand.Rand) {
	priorities := map[string]float64{}
	changes := map[int]bool{}
	for range changePoints {
		changes[random.IntN(30)] = true
	}
	for {
		steps := w.steps()
		if len(steps) == 0 {
			e.result.orders++
			if wrong := w.complete(); wrong != "" {
				e.found(wrong)
			}
			return
		}
		priority := func(s step) float64 {
			if _, known := priorities[s.actor()]; !known {
				priorities[s.actor()] = random.Float64()
			}
			return priorities[s.actor()]
		}
		random.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		c := &choice{steps: steps}
		for i := range steps {
			if priority(steps[i]) > priority(steps[c.chosen]) {
				c.chosen = i
			}
		}
		if changes[len(e.stack)] {
			priorities[steps[c.chosen].actor()] = -float64(len(e.stack))
		}
		e.stack = append(e.stack, c)
		if !e.do(w, steps[c.chosen].label) {
			return
		}
	}
}

// actor is what a step belongs to.
func (s step) actor() string {
	words := strings.Fields(strings.TrimPrefix(s.label, "late "))
	if s.touches.fault || s.touches.all || len(words) < 3 || !strings.HasPrefix(words[0], "P") {
		return s.label
	}
	return words[0] + words[1]
}

// inBubble executes a scenario with a clock of its own. Everything that it has started ends with it.
func inBubble(t *testing.T, s *scenario, coverage map[string]int, do func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		do(newWorld(ctx, t, s, coverage))
	})
}
