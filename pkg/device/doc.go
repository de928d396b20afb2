// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package device is the model behind GPUDevice: what pods ask of devices, what
// nodes have, which pod fits where, and how well. It is pure. It knows API objects
// as values and nothing of a scheduler, a client, a clock or a source of
// randomness of its own, so the plugin, the simulator and tests compute alike.
//
// # From a pod and a node to a placement
//
//	pod  -- ParsePod  --> Request --+
//	                                +--> Node.Check          fits, or a Rejection
//	node -- ParseNode --> Node -----+--> Policy.Score        how good
//	           |                    +--> Policy.Assign  --> Assignment
//	       Node.State                                         |        |
//	           |                                     .Annotations   .Holding
//	           v                                              |        |
//	         State  <--- TakeAll, ReleaseAll -----------------|--------+
//	           ^                                              v
//	           +---- Holding <-- Assignment <-- ParseAssignment (bound pods)
//
// A Request is parsed once per pod and a Node once per change of its object. The
// State of a node is what is free: it starts as Node.State, and takes what every
// bound or reserved pod holds.
//
// # Devices and shares
//
// A device has 1000 thousandths (milli) of compute, and memory. A Share takes some
// of both; if a container asks for one of them, the other is derived in proportion
// to the device, rounded down and at least 1 (Ask.On). Since both are always
// counted, neither can be overcommitted. All devices of a node are of one model,
// as the labels of GPU feature discovery have it, and a node has at most
// MaxDevices of them. A cordoned device takes nothing new.
//
// # The life of a pod
//
// Every container is given devices of its own. A pod holds of each device the most
// that its containers use at one time, the rule by which the scheduler counts CPU:
// sidecars and main containers at the end, or one ordinary init container beside
// the sidecars before it (Assignment.Holding). So that this is little, init
// containers go where the main containers will be. How the search works, and why
// Fits and Assign always agree, is said at placer.
//
// # Strategies
//
// Six strategies score nodes and choose devices within one, each in a file of its
// own (scorer_*.go) as pure functions. FragmentationGradient needs a Workload, the
// pods that are expected, as it looks to nodes of one kind (Workload.On). What
// fragmentation is, case by case, is said at Expected.Fragmentation.
//
// Fragmentation is computed in integers up to its last step, the division by the
// weight of the workload: a difference of two states is exact, and a placement that
// changes nothing scores exactly 50. Floats enter with the sigmoid (Expected.points)
// and with DotProduct.
//
// # Errors
//
// What a pod asks for and nobody can serve is a *RequestError; what makes a node
// unfit for shares is its Refusal; why a pod does not fit a node is a Rejection.
// Each has a cause from a closed list, and the first two name the field and the
// way out. Nothing here panics on any object, and nothing that an annotation says
// is believed unless it agrees with the pod (ParseAssignment).
//
// # Cost
//
// Check, Score and Assign allocate nothing. The benchmarks in this package say
// what they take.
package device
