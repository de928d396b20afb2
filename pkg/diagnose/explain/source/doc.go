// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package source reads what an explanation is made from: the objects of a cluster, of an
// API server or of files, the pod or the manifest that is asked about, and who serves
// its schedulerName with which profile.
//
// Of an API server it makes get and list requests only, lists in pages. Each list is
// consistent in itself; between two of them the cluster may change. What may not be
// read becomes a note, and the rest is explained without it.
package source
