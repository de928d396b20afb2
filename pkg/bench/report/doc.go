// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package report holds what a benchmark measured, and shows it: as a table for the
// terminal, as Markdown for a README, as report.json and as one self-contained
// report.html.
//
// A run fills a [Report] but for what is computed, then calls [Report.Summarise],
// then writes it:
//
//	r := &report.Report{FormatVersion: report.FormatVersion, …, Schedulers: …}
//	r.Summarise()
//	err := report.WriteTable(os.Stdout, r)
//	err = report.WriteFiles(dir, r)
//
// # What counts
//
// A [Round] is one run of the workload through one scheduler. One that does not
// count says why in Invalid; it is shown, and is in no summary, no ratio and no
// median. Of one that counts, some metrics may not: Inexact has them. Schedulers
// take turns: round 1 of each, round 2 of each, and so on. A [Spread] is the median
// of a metric over the rounds that count, with the least and the most. A [Ratio]
// compares the throughput of two schedulers in rounds of the same number, so that a
// machine which slows down during the run moves both sides of it: it is the
// geometric mean of the pairs' ratios, so that the ratio the other way round is its
// reciprocal. Its 95 % confidence interval is Student's on the logarithms of the pairs'
// ratios, and needs three pairs. A scheduler that names a Control gets no
// ratio unless it keeps up with that control.
//
// # report.json
//
// One object, a [Report]: the keys are those of its fields, and those of metrics are in
// [Metrics]. Keys are stable: one may be added, and [FormatVersion] changes when
// one goes or changes its meaning. Lists and objects that are always there are empty
// rather than null. Equal reports are equal bytes: keys of maps are sorted, and
// numbers have as many digits as it takes to read the same number again.
//
// [ReadJSON] is strict, and so are all writers: a number that is infinite or NaN, an
// unknown key or a name that is there twice is an error that names its path, such as
// schedulers[1].rounds[2].metrics[throughput].
//
// # Text from elsewhere
//
// Names of schedulers, notes and reasons come from files, command lines and other
// people's clusters. No form lets them be more than text: control characters and
// those that turn or hide other text are written out, HTML and Markdown are escaped,
// and the page has no scripts and a policy that allows none.
package report
