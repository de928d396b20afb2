// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report says what a simulation came to: how much of the devices was
// allocated, how much of the rest is of no use and why, which pods failed, and how
// profiles compare. It writes tables, JSON, CSV and diagrams.
//
//	Event --Recorder.Record--> usage, series --Recorder.Run--> Run
//	Run, one per seed --Profile.SetRuns--> Profile
//	Profile, one per file --> Report --WriteTable, WriteJSON, Write…CSV, WritePlot-->
//
// A Recorder sees the API objects that the engine bound and nothing else of it. It
// counts devices itself, so a device that is given away twice is an error and no
// number.
//
// # What is measured
//
// The measures are those of the fragmentation paper (FGD, USENIX ATC'23). After
// each pod that arrived, placed or not:
//
//   - the load is what all pods that arrived so far ask of devices, failed ones
//     included, in percent of all devices. Pods without devices add nothing to it.
//   - allocated is what pods hold of the devices, bound before or during the run.
//   - fragmented is the part of the idle devices that is of no use to the expected
//     pods (device.Expected.Fragmentation), measured against
//     [device.TypicalWorkload].
//   - the fragmentation ratio is that part of the idle devices alone.
//
// A curve has at x the mean over all arrivals at which the load rounds to x
// percent, and the metrics "at 100 % load" are the curve at 100: the number that
// the paper compares. "At the end" is the state after the last arrival.
//
// A pod fails if it was not placed when it arrived; it does not come again. The
// shapes of failed pods are: without GPU, with a share of a GPU, with whole GPUs.
// Pods that accept only some models, or devices with some minimum of memory, are
// counted once more. An ask for device memory alone counts in the load as its part
// of a device: of the node that took it or, failed, of the largest device that
// there is.
//
// # Stable output
//
// The keys of JSON and the columns of CSV are documented at the types here and at
// [Metrics], and do not change. There is no date and no duration in a report: equal
// input gives equal bytes. Numbers have four decimals.
package report
