// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

// FormatVersion is the version of report.json. It changes when a key changes its
// meaning or goes, not when one is added.
const FormatVersion = 2

// Report is everything that one `kubectl berth bench` measured, and what it was
// measured with. Its JSON keys are stable.
type Report struct {
	FormatVersion int         `json:"formatVersion"`
	Environment   Environment `json:"environment"`
	Workload      Workload    `json:"workload"`
	// Schedulers are in the order of --schedulers.
	Schedulers []Scheduler `json:"schedulers"`
}

// Environment is where, when and how a report came about.
type Environment struct {
	// Version is the version of kubectl-berth, Commit the git commit that it was built
	// from, if that is known.
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	// Date is when the first round began, in RFC 3339 with UTC.
	Date string `json:"date"`
	// Command is the command line, quoted for a shell.
	Command string  `json:"command"`
	Machine Machine `json:"machine"`
	// Cluster is "local" for a control plane of the bench's own, and otherwise the
	// address of the API server.
	Cluster string `json:"cluster"`
	// Kubernetes is the version that the API server reports.
	Kubernetes string `json:"kubernetes"`
	// ClientQPS is the rate limit, in requests a second, of the bench's own client and,
	// on a local control plane, of every scheduler's.
	ClientQPS float64 `json:"clientQPS"`
}

// Machine is the machine that the bench ran on. On a cluster of its own it carried
// everything; on an existing one, the bench's client alone.
type Machine struct {
	OS        string `json:"os"`
	CPU       string `json:"cpu,omitempty"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memoryMiB,omitempty"`
	// LoadBefore is the load average over one minute before the first round, where the
	// system tells: a machine that is not idle measures less.
	LoadBefore *float64 `json:"loadBefore,omitempty"`
}

// Workload is what was run.
type Workload struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	// Path and SHA256 are of the file.
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Nodes  int    `json:"nodes"`
	// Existing pods are bound before the run, Pods arrive during it.
	Existing int `json:"existing"`
	Pods     int `json:"pods"`
}

// Scheduler is one scheduler under test and what it came to.
type Scheduler struct {
	// Name is its spec.schedulerName.
	Name string `json:"name"`
	// Binary and Version say what ran, where that is known.
	Binary  string `json:"binary,omitempty"`
	Version string `json:"version,omitempty"`
	// Profile is the configuration file that it ran with, ProfileSHA256 its hash. Both
	// are empty for built-in defaults and on an existing cluster.
	Profile       string `json:"profile,omitempty"`
	ProfileSHA256 string `json:"profileSHA256,omitempty"`
	// Control names the scheduler that shows how fast the same could be done at all:
	// for random-scheduler, a loop that only posts Bindings. Where it is named, no
	// ratio of this scheduler and another is told unless this one's throughput reaches
	// ControlShare of the control's: below that, it is itself what the ratio would
	// measure.
	Control string `json:"control,omitempty"`
	// ControlOnly is whether it is no scheduler, and only a control for others: it
	// competes with nobody.
	ControlOnly bool `json:"controlOnly,omitempty"`
	// Notes are sentences that a reader must know, such as that this scheduler knows no
	// shares of devices.
	Notes  []string `json:"notes,omitempty"`
	Rounds []Round  `json:"rounds"`
	// Summary is over the valid rounds, by the key of the metric (Metrics), separately
	// for each phase.
	// [Report.Summarise] fills it.
	Summary map[Phase]map[string]Spread `json:"summary"`
	// RatioTo has, for each other scheduler's name, this one's throughput over that
	// one's in PhaseAsPlanned: rounds of the same number are paired, which takes out
	// what the machine did meanwhile. [Report.Summarise] fills it.
	RatioTo map[string]Ratio `json:"ratioTo,omitempty"`
	// HostileToQuiet has, by the key of the metric, what it was in PhaseHostile over
	// what it was in PhaseAsPlanned, rounds of the same number paired: throughput,
	// latencies and the scheduler's CPU time. [Report.Summarise] fills it.
	HostileToQuiet map[string]Ratio `json:"hostileToQuiet,omitempty"`
}

// ControlShare is the part of a control's throughput that makes a ratio meaningful.
const ControlShare = 0.9

// Phase is how the pods of a round arrive.
type Phase string

const (
	// PhaseAsPlanned creates the pods when the workload says; for a burst, as fast as
	// the client may.
	PhaseAsPlanned Phase = "AsPlanned"
	// PhaseHostile is the same beside a namespace whose owner writes the worst that the
	// API server takes. Its metrics are of the others' pods alone.
	PhaseHostile Phase = "Hostile"
	// PhaseSteady creates them evenly at 80 % of the median throughput that the same
	// scheduler reached as planned: its latency without a queue.
	PhaseSteady Phase = "Steady"
)

// Round is one run of the workload through one scheduler.
type Round struct {
	// Number counts from 1; the schedulers take turns within a number.
	Number int   `json:"number"`
	Phase  Phase `json:"phase"`
	// Invalid says why the round does not count; empty if it does. Rounds that do not
	// count are shown and are in no summary.
	Invalid []string `json:"invalid,omitempty"`
	// Inexact says of metrics why they do not count although the round does, by key.
	// They are shown with the round, and are in no summary and no ratio.
	Inexact map[string]string `json:"inexact,omitempty"`
	// StartSeconds and DurationSeconds are when the first pod was created, from
	// Environment.Date, and how long it took from there to the last binding.
	StartSeconds    float64 `json:"startSeconds"`
	DurationSeconds float64 `json:"durationSeconds"`
	// TargetRate is the rate of PhaseSteady, in pods a second.
	TargetRate float64 `json:"targetRate,omitempty"`
	// Metrics are by key. One that could not be seen or means nothing is missing.
	Metrics map[string]float64 `json:"metrics"`
	// BoundPerSecond is how many pods were bound in each second from the start.
	BoundPerSecond []int `json:"boundPerSecond"`
	// LatencyMillis are the times from a pod's creation to its binding at 0, 1, …, 100
	// percent of the pods that were bound, in milliseconds: 101 numbers, or none.
	LatencyMillis []float64 `json:"latencyMillis,omitempty"`
	// Reasons counts the pods that were not placed by what the scheduler said.
	Reasons map[string]int `json:"reasons,omitempty"`
}

// Spread is a metric over rounds.
type Spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
	// Rounds is how many rounds there are with it, at least 1.
	Rounds int `json:"rounds"`
}

// Ratio is how two measurements compare over paired rounds.
type Ratio struct {
	// Mean is the geometric mean of the pairs' ratios: that of the other way round is
	// its reciprocal.
	Mean float64 `json:"mean"`
	// Low and High are its 95 % confidence interval, by Student's t on the logarithms of
	// the pairs' ratios; both 0 with fewer than three pairs.
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Pairs is how many there are.
	Pairs int `json:"pairs"`
}
