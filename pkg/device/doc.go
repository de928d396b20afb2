// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package device is the model behind GPUDevice: what pods ask of devices, what
// nodes have, which pod fits where, and how well. It is pure. It knows API objects
// as values and nothing of a scheduler, a client, a clock or a source of
// randomness of its own, so the plugin, the simulator and tests compute alike. All that it
// keeps between calls are the lists of models that pods ask for, one of each (Models).
//
// # From a pod and a node to a placement
//
//	pod  -- ParsePod  --> Request --+
//	                                +--> Node.Admits         fits, or a Reason
//	node -- ParseNode --> Node -----+--> Strategy.Score      how good
//	           |                    +--> Assign         --> Assignment
//	       Node.Usage                                         |        |
//	           |                                     .Annotations   .PodUsage
//	           v                                              |        |
//	         Usage  <--- Add, Remove -------------------------|--------+
//	           ^                                              v
//	           +---- PodUsage <-- Allocation.On <-- ParseAllocation (bound pods)
//
// What a bound pod was given is its Allocation. Which of the node's devices that are, and
// how much of them, depends on the node as it is now: devices that were given by UUID are
// looked up in its list, and what a share's request left out is defaulted by its memory
// (Allocation.On).
//
// A Request is parsed once per pod and a Node once per change of its object. The
// Usage of a node starts as Node.Usage, and is added what every bound or assumed pod
// uses. It says whether there is room for another (Usage.Fits), or what is lacking.
//
// # Devices and shares
//
// A device has 1000 thousandths (milli) of compute, and memory. A Share takes some
// of both; if a container asks for one of them, the other is defaulted in proportion
// to the device, rounded down and at least 1 (ContainerRequest.On). Since both are always
// counted, neither can be overcommitted. All devices of a node are of one model,
// as the labels of GPU feature discovery have it, and a node has at most
// MaxDevices of them. A cordoned device is unschedulable: it takes nothing new.
//
// # The life of a pod
//
// Every container is given devices of its own. A pod uses of each device the most
// that its containers use at one time, the rule by which the scheduler counts CPU:
// sidecars and main containers at the end, or one ordinary init container beside
// the sidecars before it (Assignment.PodUsage). So that this is little, init
// containers go where the main containers will be. How the search works, and why
// Fits and Assign always agree, is said at placer.
//
// # Strategies
//
// A Strategy scores nodes and picks devices within one. The four here have a file each
// (scorer_*.go); what they are compared with, the policy of the fragmentation paper
// (FGD, ATC'23) for example, is in package yardsticks of the simulator.
// FragmentationGradient needs a Workload, the pods that are expected, as it looks to
// nodes of one kind (Workload.For): given, or learned by a Histogram. What fragmentation
// is, case by case, is said at NodeWorkload.Fragmentation.
//
// # FragmentationGradient
//
// The paper asks how much idle compute becomes useless to the next pod. This
// strategy asks what a node is worth to all that will come, and takes the placement
// that costs least. With the classes m of the expected workload, c the node's free
// CPU and g its devices' free compute, a node is worth
//
//	worth = sum over m of: p(m) * sqrt(all devices / devices that m accepts) *
//	                       min(U(m), 5/3 * c/cpu(m) * d(m)) if one such pod fits
//	      + 10 * sum over devices of: v(g)
//
// where p(m) is the part of m among the pods with devices, d(m) the compute that
// such a pod takes and U(m) what is free on devices with room for it; of a class that
// takes several devices, of complete sets of them. A placement has the cost
//
//	cost = worth before - worth after
//	     + s(model) for each device that is taken, if the pod accepts every model
//	     + 3/100 * (CPU left / largest CPU + devices left / devices of the node)
//
// all in devices. So there are five reasons to prefer a node:
//
//   - Use, the first sum. It is the paper's gradient but for three things. Devices
//     count only as far as the node's CPU can serve pods of the class, with 5/3 for
//     others that need less of it; with the paper, a node with the CPU for one more
//     pod is as good as one with the CPU for eight. And devices that are over beside
//     complete sets count nothing: with the paper, a node with seven free devices is
//     worth seven to pods of four, and shares break one with eight to spare one with
//     four.
//   - What is rare: a class that accepts a hundredth of the devices counts ten
//     times as much there.
//   - Packing, v(g): the shadow price of a gap (packingValues). It knows that shares
//     of 470 go in pairs, and that beside one of 810 nothing fits that comes often.
//   - Scarcity, s(model): what pods that require the model ask of it, in relation
//     to what there is (Workload.WithSupply), so that others leave it to them.
//   - Best-fit, for what is alike in all of this: it keeps whole nodes free for what
//     is not expected, and does not care how large the node is.
//
// Gaps come from the sizes that are expected, and scarcity from who accepts what:
// no model, no size and no shape of a cluster is known beforehand. What the parts
// are good for, and how the constants were chosen, is measured in DESIGN.md of the
// plugin.
//
// # Exactness
//
// Scores are computed in integers, so a difference of two states is exact, and the
// same on every architecture. Floats are used where a workload is compiled, once in
// a few hundred pods (WithSupply, On).
//
// # Errors
//
// What a pod asks for and nobody can serve, and what makes a node unfit for shares, is
// an InvalidError; why a pod does not fit a node is a Reason. Each has a cause from a
// closed list, and the first names the field and what to do. Nothing here panics on any object, and nothing that an annotation says
// is believed unless it agrees with the pod (ParseAssignment).
//
// # Cost
//
// Admits, Fits, Score and Assign allocate nothing. Scores of a workload cost time in
// proportion to the classes that differ on one kind of node, and to the devices.
// The benchmarks in this package say what they take.
package device
