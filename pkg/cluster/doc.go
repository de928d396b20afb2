// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cluster holds the objects of a cluster in memory, as a simulation
// starts from them, and reads them: from the YAML or JSON that
// `kubectl get nodes,pods,… -A -o yaml` prints, any number of files of mixed
// kinds, or from an API server through a client that the caller made.
//
// Bound pods occupy their nodes; pending ones are what a simulation schedules.
//
// # What is done with input that is not plain
//
//   - An object of a kind that no plugin reads (Deployments, CustomResources) is
//     left out. One [Note] for each such kind says how many there were.
//   - A pod that has terminated (Succeeded, Failed) is left out: it occupies
//     nothing, and the scheduler does not see it either.
//   - An object without a UID is given one made of its kind and name, because
//     plugins tell objects apart by it; files written by hand have none.
//   - Two objects of one kind with the same name, two with the same UID, a negative
//     quantity, a name that is missing, a document that does not parse: an error
//     that names the file, the line, the item and the field. Nothing is repaired.
//   - A pod bound to a node that is not in the input occupies nothing; a note says
//     so.
//   - Fields that this version of Kubernetes does not know are ignored, as a
//     client does: the cluster may be newer than this program.
//
// A list is parsed item by item, so that reading takes little more memory than the
// text and the objects.
package cluster
