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
// beginning. Three things keep equivalent orders from being executed twice:
//
//   - What a watch delivers is delivered late (world.next). It changes nothing but the process that it is delivered to,
//     so it commutes with all steps of others. Of equivalent orders that one is executed in which the process does something
//     with it before others do anything. To a process that does nothing any more
//     before the end, everything is delivered at once, for the same reason; that puts off nothing that others get.
//   - States: an order that leads to a state that was reached before is not continued. States are compared by what they contain (contents): the store; the requests on their way
//     with what is in them; of each process its informers, what these have not delivered yet, the scheduler's cache,
//     the plugin's ledger and the views of nodes that it would take for valid; and of each goroutine that waits for more than its first
//     answer a digest of what it has read. Of the ledger every field is read, by reflection, but those in
//     the list unread: a new field is part of the state unless somebody adds it there. Resource versions are counted back from
//     the newest one of their object, because no code compares those of two objects, but for the position of a watch, which is part
//     of the state by what is left to deliver, and for a restore of etcd: the scenario "restore" has versions as they are.
//     A goroutine that fences a pod has no such digest of what it reads, but of the errors: what it makes of the rest is in its next
//     request, which is in the state. The 25 ms of a look (bounds.looks) count for a goroutine that waits for time, and for no other: all
//     looks of an order together are shorter than any timeout.
//   - Names: pods that differ in their names alone (scenario.alike) are put into an order of what is said of
//     them before two states are compared. Where that leaves two equal, equal states may count as two, never the reverse.
//
// There are no sleep sets (Godefroid, 1996). They leave out executions and no states: of "two pods in an overlap" they left out
// 2300 of 20300 executions, but 666 states too. So not every pair of steps that was taken to commute led to equal texts of the state.
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
//   - TLA+ (TLC) or Spin would explore far more states, of a model. The defects of the past were not in the
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
// right, which test/integration and test/failure show on the real one; claims of DRA. A process that goes on although
// it lost its lease may bind a pod that was created after the fence (see the package comment of gpudevice): the
// scenario "overlap" has pods from before only.
//
// # Mutants
//
// TestMutants takes one mend after another out of the product and requires that a scenario finds it; the table
// mutants has them. After how many orders, and seconds, of a depth-first exploration and of random orders, as measured on
// 2026-11-24 on a machine with two cores that had other work; random orders had a minute. Depth first changes the end of an order
// before its beginning, so each way finds what the other does not.
//
//	mutant                                             depth first       random
//	the ledger forgets what it has assumed             3, 0.02 s         3, 0.02 s
//	G1 a device plugin's pods do not count             2, 0.01 s         1, 0.01 s
//	G1 shares do not keep a device plugin's pods away  6, 0.02 s         not found
//	G2 devices by index                                16, 0.05 s        47, 0.3 s
//	G5 unreserved counts as unrecorded                 23, 0.06 s        11, 0.02 s
//	G7 derived memory is frozen                        16, 0.02 s        3, 0.01 s
//	G8 no fence                                        31, 0.03 s        17, 0.02 s
//	G11 a 4xx is taken for no                          916, 0.7 s        19, 0.02 s
//	G12 Reserve reads the snapshot alone               1, 0.01 s         2, 0.01 s
//	D1 Reserve chooses without nominated pods          1, 0.01 s         1, 0.01 s
//	D2 a later process's token is not heeded           2341, 2.2 s       4, 0.01 s
//	a Binding is sent again after a fence              2540, 2.9 s       44, 0.1 s
//	a Binding is for any version                       300, 0.2 s        38, 0.05 s
//	a lost answer is taken for no                      121, 0.1 s        16, 0.02 s
//	a pod without a record uses nothing                4472, 2.8 s       6, 0.01 s
//	pods known meanwhile are not fenced                445, 0.3 s        276, 0.3 s
//	a Binding in doubt is given up without a fence     691, 0.6 s        25206, 35 s
//	a standby trusts its informer                      342, 0.3 s        1001, 1.6 s
//	the start prepares nothing                         19, 0.03 s        6, 0.01 s
//	the first cycle trusts its snapshot                2978, 2.7 s       4, 0.01 s
//	pods that are kept back take nothing               31484, 39 s       4, 0.01 s
//	Unreserve takes nothing back                       1, 0.01 s         2, 0.01 s
//
// # How far it goes
//
// As measured on 2026-11-24 on two cores (BERTH_LONG=1 go test ./test/interleaving -run TestOrders, 9 min 34 s), with two
// processes where nothing else is said. To the end, with the number of states:
//
//	two pods in an overlap      9318      given up              198      sharing begins           92
//	restart                    15372      denied                 62      sharing ends            743
//	slow handlers              13377      stale standby        1754      less memory             112
//	overlap                    17404      lists anew           9475      UUIDs                   163
//	foreign                     3546      restore              4758      list of devices        7755
//	lost answers                3226      handover              872      all kinds               844
//	too large                   7381      group                  42      nominated                 4
//
// Not to the end, within the time that each has, and therefore with random orders beside them: three pods after a handover (38473
// states in two minutes), three pods in an overlap (54981 in two minutes), one process (49402 in 45 s), not fenced (22300 in 45 s).
// How many states these have is not known: two processes, three pods and two devices are not complete.
package interleaving
