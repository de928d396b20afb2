// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package peers knows where the pods behind each Service are: how many of them
// there are on each node, and on the nodes of each value of a topology key. It sees
// neither the scheduler nor a client, and reads objects where the informers keep
// them (Stores).
//
//	Stores ── Sync… (of what changed) ─┐
//	                                   ├─> Index ── Lookup ──> View
//	the scheduler's Reserve, Unreserve ┘
//
// index.go has what the index keeps and answers, sync.go what it takes over, group.go
// how the peers behind one Service are counted, view.go the counts, and consent.go who
// may ask.
//
// # What it guarantees
//
//   - What the index knows of an object is what the store had at the last Sync of
//     the object's name, and no earlier event can undo a later one: Sync reads the
//     store while the index is locked, and takes no object from its caller. So it
//     does not matter who passes on an event, the informer's handler or a queueing
//     hint ahead of it or long behind it, in which order, or how often; and nothing
//     needs resource versions, which begin anew when etcd is restored, or a memory of
//     what was deleted.
//   - After Sync of an event's object the index is not behind the event, because the
//     informer's store is not.
//   - A View equals what a count of those objects would give, with the reservations.
//     It never changes. A scheduling cycle that takes one for each Service when it
//     begins decides all of its nodes by the same counts.
//   - Nothing is counted twice: a pod moves from its reservation to its node.
//   - What one look at a Service costs does not depend on what its author wrote: the
//     list of namespaces that it lets near is bounded, and read once when it changes.
//
// history_test.go holds the index to this over random histories.
//
// # Who is behind a Service
//
// The pods of its namespace that its selector matches, whether the Service is
// headless or not, and ready or not. Of a Service without a selector, the pods
// that its EndpointSlices name, and the endpoints that name no pod but a node, or
// only a zone: those count within the zone, and on no node.
// Nobody behind an ExternalName. View says which of them are peers.
//
// # What it costs
//
// Lookup takes a lock and, if nothing has changed since the last call, returns the
// last View; otherwise it puts a new one together from one pointer for each topology
// key. A count that changes afterwards is copied first, by a sixty-fourth: a View
// refers to 64 maps for each level, and a change copies the one that it is in, once
// for each View (counts). A read lock held for a cycle instead would keep events
// waiting while plugins that are not ours run, and a cycle has no end that a plugin is
// told of. Whole maps copied on write cost 5,000 entries for every pod that is placed,
// and the search in a B-tree, whose clones cost as little as this, a node's Score.
//
// Within is a hash and a look into a map, without a lock and without allocating.
//
// A pod event costs a look at each of the pod's labels and at the groups that
// stand under them, not at all Services of the namespace. A Service's peers are
// counted at the first Lookup, and again after what is behind it has
// changed, by a look at the pods of its namespace; Services that nobody asks for
// cost nothing.
//
// # What it remembers
//
// A few words for each pod, node, Service and endpoint, and for each Service that
// was asked for the counts by node and by the values of MaxTopologyKeys topology
// keys, or as many as one Lookup names if that is more: whoever writes a pod may
// name any key, and cannot make the index keep more. Of what is deleted, nothing.
package peers
