// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interleaving executes GPUDevice in every order of events that a small cluster allows, and
// checks after each step that no device is given twice. Faults at random moments, as
// in test/integration/gpuchaos and test/failure, do not find what takes a rare order: each of the last
// readings of the code found one that tens of thousands of kills had missed.
//
// # What is executed
//
// The code of pkg/plugins/gpudevice, through the framework's interface, in one process: New, Prepare,
// PreEnqueue, PreFilter, Filter, Reserve, Bind, Unreserve and the event handlers, with kube-scheduler's
// own cache and snapshot. Around it are models, which are small and do what follows:
//
//   - The API server (server): a store with one sequence of versions, in which each write takes place at
//     once; Bindings with their preconditions as BindingREST checks them; patches of a pod's status;
//     consistent reads; a log of changes that each watch reads at its own pace, and of which it
//     misses a part if it has to list anew; a restore of older state.
//   - The network (network): a request takes effect at one moment and is answered at a later one; either
//     may be lost; one that nobody waits for any more, because its process was killed or gave up, may take effect at
//     any time after that.
//   - The informers (informer): the store changes first, and each handler is told later, at its own pace. Pods and
//     nodes are two watches, so that either may be ahead of the other.
//   - The scheduler (process): one scheduling cycle at a time, in up to three steps, with a binding cycle for each
//     pod beside it; a process may be killed, stand by, start again. One that is not chosen for a while is
//     one that is stopped.
//
// Time is that of testing/synctest: it passes only where the explorer says so, and synctest.Wait tells
// when all goroutines wait for a request or for time, which is what makes an order repeatable: the
// only freedom left is which step comes next, and the explorer chooses it. Where goroutines run at once
// within a step (the writes of the fence), nothing but the number in a token depends on their order.
//
// # How orders are enumerated
//
// Depth first. An order is a sequence of labels. A process cannot be copied, so each further order is executed from the
// beginning. Two things keep equivalent orders from being executed twice:
//
//   - Sleep sets (Godefroid, 1996): where two steps commute, one of their two orders is left out. Two steps
//     commute if no process takes part in both, if not both take from the budget of faults, and if
//     none of the two writes to the store what the other reads or writes there; time that passes
//     commutes with nothing. This is what touches says of each step. It is sound because a step of a process
//     reads nothing but its own state, what was delivered to it and, if it says so, the store; and because
//     whether it is possible depends on the same things.
//   - States: an order that leads to a state that was reached before is not continued, but for steps
//     that slept at the time. Two states are the same if the store, the requests on their way (with what is in them)
//     and what has reached each process so far, in order, are the same: a process is deterministic, so
//     its state is a function of that. No field of the plugin is read, so the comparison cannot forget one.
//     A killed process has no past, only what it has sent.
//
// What is bounded is in bounds: how often a pod is tried, how many faults there are, how far time goes. The log of
// the test says of each scenario whether it was explored to the end. Where it was not, random
// orders stand beside the exploration (walk), which repeat with their seed.
//
// A violation is printed as a history without the steps that it does not need, and as an entry for
// the table of TestFormerOrders, which executes it again.
//
// # What is checked
//
// After each write, by pkg/oracle, from the API's objects alone: no device above its capacity by the records of
// bound pods, no pod with a node and without a record. At the end of each order faults stop, everything goes on in
// a fair order, and it is checked that every pod that fits is bound; then that nothing is taken any more when all pods are
// gone: a pod that asks for all devices of a node is bound. Never is a pod taken for one without a record.
//
// # Why so, and not otherwise
//
//   - TLA+ or Spin would explore far more states, of a model. The defects of the past were not in the
//     protocol (versions as preconditions, one fence) but in what its code reads in which moment: Reserve read the
//     snapshot alone (G12), Unreserve came between a snapshot and its Filter (G5), heedToken compared a token with
//     itself (D2). A model has these only if its author has thought of them. Trace validation ties the model to the code, but only on
//     the traces that somebody produces: it needs this explorer anyway.
//   - porcupine decides whether a history of answers is linearisable. Here every write goes to one store that is
//     linearisable by construction, and the question is whether what was written keeps an invariant.
//     The oracle answers it in microseconds.
//   - Real processes, API server and etcd included, are what gpuchaos and test/failure have. A second there is one order;
//     here it is some hundred.
//
// # What it cannot find
//
// What depends on the order of instructions within a step (data races: make test-race); what the models leave out: preemption, other
// plugins, DRA, the order of the queue; wrong reading of requests and records (the unit tests); whether the model of the API server is
// right, which test/integration and test/failure show on the real one. A process that goes on although
// it lost its lease may bind a pod that was created after the fence (see the package comment of gpudevice): the
// scenario "overlap" has pods from before only.
//
// # Mutants
//
// TestMutants takes one mend after another out of the product and requires that a scenario finds it; the table
// mutants has them.
package interleaving
