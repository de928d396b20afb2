// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers knows where the pods behind each Service are: how many of them
// there are on each node, and on the nodes of each value of a topology key. It is
// pure: it sees neither the scheduler nor a client, and is told of everything.
//
//	pods, Services, EndpointSlices, nodes ── Apply… ──┐
//	                                                  ├─> Index ── Lookup ──> View
//	the scheduler's promises ── Reserve, Unreserve ───┘
//
// # What it guarantees
//
//   - A View equals what a count of all objects would give, with the newest version
//     of each that the index was told of. Neither the order of the news matters, nor
//     how often they come: a queueing hint can pass on its event before it answers,
//     ahead of the informer's handlers or behind them.
//   - A View never changes. A scheduling cycle that takes one for each Service when
//     it begins decides all of its nodes by the same counts.
//   - Nothing is counted twice: a pod moves from its promise to its node.
//
// # Who is behind a Service
//
// The pods of its namespace that its selector matches, whether the Service is
// headless or not, and ready or not. Of a Service without a selector, the pods
// that its EndpointSlices name, and the endpoints that name no pod but a node.
// Nobody behind an ExternalName. View says which of them are peers.
//
// # What it costs
//
// Lookup takes a lock and, if nothing has changed since the last call, returns the
// last View; otherwise it puts a new one together from one pointer for each
// topology key. No count is copied, because counts are persistent tries: a change
// copies the path to one number, O(log n) of n distinct values, and leaves what
// Views refer to alone. The alternatives were worse. A read lock held for a cycle
// would keep events waiting while plugins that are not ours run, and a cycle has
// no end that a plugin is told of. Maps that are copied when they change after
// somebody has looked cost a copy of all nodes with peers for every pod that is
// placed, 5,000 entries where a path has three nodes. Counters with a version each
// would make readers search, and need to be told which versions are still read.
//
// Within is a hash and about log32(n) steps, without a lock and without
// allocating.
//
// A pod event costs a look at each of the pod's labels and at the groups that
// stand under them, not at all Services of the namespace. A Service's peers are
// counted when somebody asks for it first, and again after what is behind it has
// changed, by a look at the pods of its namespace; Services that nobody asks for
// cost nothing.
//
// # What it remembers
//
// A few words for each pod, node, Service and endpoint, and for each Service that
// was asked for the counts by node and by the values of MaxTopologyKeys topology
// keys, or as many as one Lookup names if that is more: whoever writes a pod may
// name any key, and cannot make the index keep more. Beside that the last
// deletions, of which there is a fixed number.
package peers
