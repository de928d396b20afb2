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
// One object. Keys are stable: one may be added, and [FormatVersion] changes when
// one goes or changes its meaning. Lists and objects that are always there are empty
// rather than null. Equal reports are equal bytes: keys of maps are sorted, and
// numbers have as many digits as it takes to read the same number again.
//
//	formatVersion           2
//	environment
//	  version, commit       of kubectl-berth; commit is missing if unknown
//	  date                  when the first round began, RFC 3339, UTC
//	  command               the command line, quoted for a shell
//	  machine               os, cpu, cores, memoryMiB, loadBefore (load over one
//	                        minute before the first round); what the system does
//	                        not tell is missing
//	  cluster               "local", or the address of the API server
//	  kubernetes            the version that the API server reports
//	  clientQPS             requests a second that each client may make
//	workload                name, description, path, sha256, nodes, existing (pods
//	                        bound beforehand), pods (that arrive)
//	schedulers[]            in the order of --schedulers
//	  name, binary, version, profile, profileSHA256
//	  control               the contender that it must keep up with
//	  controlOnly           true for what is no scheduler and competes with nobody
//	  notes[]               sentences that a reader must know
//	  rounds[]
//	    number, phase       from 1; AsPlanned, Hostile: the same beside a hostile
//	                        namespace, or Steady: evenly, at 80 % of the scheduler's
//	                        own median throughput
//	    invalid[]           why it does not count; missing if it does
//	    inexact             by key of metrics, why that one does not count; missing if
//	                        all do
//	    startSeconds        from environment.date to the first pod
//	    durationSeconds     from the first pod to the last binding
//	    targetRate          pods a second that arrive under Steady
//	    metrics             by key (Metrics); what could not be seen is missing
//	    boundPerSecond[]    pods bound in each second from the start
//	    latencyMillis[]     creation to binding at 0, 1, … 100 % of the pods bound
//	    reasons             how many pods were not placed, by what was said
//	  summary               by phase, then by the key of the metric:
//	                        median, min, max, rounds
//	  ratioTo               by the other scheduler's name: mean, low, high, pairs;
//	                        low and high are 0 with fewer than three pairs
//	  hostileToQuiet        by the key of the metric, the same of Hostile to AsPlanned
//
// The keys of metrics, all numbers that are not negative:
//
//	throughput              pods bound a second
//	latencyP50, latencyP90, latencyP99
//	                        creation to binding, ms
//	writesPerPod            requests of the scheduler that change something
//	cpuMillisPerPod         CPU time of the scheduler's process, ms
//	memoryMiB               its largest resident memory
//	unplaced                pods not bound at the end
//	gpuAllocated, gpuHeld, gpuFragmented
//	                        % of all devices, % of all devices, % of the idle ones
//	callsWithinNode, callsWithinZone
//	                        % of the calls between pods
//	cpuImbalance            standard deviation of the nodes' requested CPU, points
//	labelViolations         pods where the workload forbids them
//	hostileWrites           answered writes of the hostile namespace a second
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
