// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math"

	"gonum.org/v1/gonum/stat"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/device"
)

// FormatVersion is the version of the JSON form. It changes when a key changes its
// meaning or goes, not when one is added.
const FormatVersion = 1

// Report is several profiles beside each other on the same cluster and pods.
type Report struct {
	// FormatVersion is [FormatVersion].
	FormatVersion int `json:"formatVersion"`
	// Berth and Kubernetes are the versions that computed it.
	Berth      string `json:"berth"`
	Kubernetes string `json:"kubernetes"`
	// Inputs are the files of the cluster and the pods.
	Inputs []File `json:"inputs"`
	// Cluster is what there is.
	Cluster Cluster `json:"cluster"`
	// Workload is what arrives.
	Workload Workload `json:"workload"`
	// Profiles are the results, in the order in which the profiles were named.
	Profiles []Profile `json:"profiles"`
	// Notes are what the reader should know of the input, a line each.
	Notes []string `json:"notes,omitempty"`
}

// File is a file that a report depends on.
type File struct {
	// Path is as it was given; - is the standard input, and the name of an API
	// server's address stands for what was listed from it.
	Path string `json:"path"`
	// SHA256 is the hash of its content in hexadecimal; empty for an API server.
	SHA256 string `json:"sha256,omitempty"`
}

// Cluster is what all nodes together have.
type Cluster struct {
	Nodes     int   `json:"nodes"`
	BoundPods int   `json:"boundPods"`
	CPUMilli  int64 `json:"cpuMilli"`
	// MemoryMiB is in MiB, rounded down.
	MemoryMiB int64 `json:"memoryMiB"`
	Devices   int64 `json:"devices"`
	// DevicesInUse are allocated to bound pods before anything arrives, and can be
	// a fraction.
	DevicesInUse float64 `json:"devicesInUse"`
}

// ClusterOf sums up the nodes and the pods that are bound to them.
func ClusterOf(nodes []*corev1.Node, bound []*corev1.Pod, keys *device.NodeKeys) Cluster {
	b := NewRecorder(nodes, bound, keys, nil).usage
	return Cluster{
		Nodes: len(nodes), BoundPods: len(bound),
		CPUMilli: b.capacity.cpuMilli, MemoryMiB: b.capacity.memory >> 20,
		Devices: b.capacity.milli / device.MilliPerDevice, DevicesInUse: round(float64(b.used.milli) / device.MilliPerDevice),
	}
}

// Workload is what arrives.
type Workload struct {
	// Pods is how many pods the input has to be scheduled. With a target load, more
	// or fewer arrive.
	Pods int `json:"pods"`
	// TargetLoad is what they are brought to ask for, as a multiple of all devices;
	// 0 if they arrive as they are.
	TargetLoad float64 `json:"targetLoad"`
	// Seeds are one for each run.
	Seeds []int64 `json:"seeds"`
}

// Profile is what one profile came to.
type Profile struct {
	// Name is what the profile is called in tables and plots.
	Name string `json:"name"`
	// File is the KubeSchedulerConfiguration.
	File File `json:"file"`
	// SchedulerName is the profile of the file that was used.
	SchedulerName string `json:"schedulerName"`
	// ExpectedWorkload says where the strategy FragmentationGradient has it from.
	ExpectedWorkload ExpectedWorkload `json:"expectedWorkload"`
	// Shares says in what form the profile was given shares of devices.
	Shares Shares `json:"shares,omitempty"`
	// Answer is whether the pods fit, and Placements are what became of each, in the order
	// in which they came; only where the pods are those of a cluster, of which there is one
	// run.
	Answer     *Answer     `json:"answer,omitempty"`
	Placements []Placement `json:"placements,omitempty"`
	// PodGroups are what became of each PodGroup of the pods, in the order in which they came.
	PodGroups []PodGroup `json:"podGroups,omitempty"`
	// Metrics are mean and standard deviation over the runs.
	Metrics map[string]Statistic `json:"metrics"`
	// Series are mean and standard deviation over the runs, at each percent of load
	// that has arrived; nil in a cluster without devices.
	Series *Series `json:"series,omitempty"`
	// Runs are the single runs, in the order of the seeds.
	Runs []RunSummary `json:"runs"`

	runs []Run
}

// ExpectedWorkload is where a profile's expected workload comes from.
type ExpectedWorkload string

const (
	// WorkloadFromProfile is as the profile says: given in its arguments, or learned
	// from the pods that arrive.
	WorkloadFromProfile ExpectedWorkload = "Profile"
	// WorkloadFromOracle is an oracle: computed from the very pods that will arrive.
	WorkloadFromOracle ExpectedWorkload = "Oracle"
)

// Shares is the form in which pods ask a profile for shares of devices.
type Shares string

const (
	// SharesAsAsked is as the input has it.
	SharesAsAsked Shares = ""
	// SharesAsWholeDevices is a whole device for each share, because the profile
	// knows no shares. What a pod leaves of its device is idle and of no use.
	SharesAsWholeDevices Shares = "WholeDevices"
)

// Statistic is mean and standard deviation of a metric over runs.
type Statistic struct {
	Mean float64 `json:"mean"`
	// StandardDeviation is that of a sample (n-1); 0 for one run.
	StandardDeviation float64 `json:"standardDeviation"`
	// Runs is how many runs have the metric.
	Runs int `json:"runs"`
}

// RunSummary is one run.
type RunSummary struct {
	Seed    int64              `json:"seed"`
	Metrics map[string]float64 `json:"metrics"`
}

// Series are curves over the arrived load: entry i belongs to i percent. They are
// as long as the shortest of the runs.
type Series struct {
	AllocatedPercent          Curve `json:"allocatedPercent"`
	FragmentedPercent         Curve `json:"fragmentedPercent"`
	FragmentationRatioPercent Curve `json:"fragmentationRatioPercent"`
}

// Curve is the mean over runs, and the standard deviation.
type Curve struct {
	Mean              []float64 `json:"mean"`
	StandardDeviation []float64 `json:"standardDeviation"`
}

// SetRuns fills the profile with what its runs came to. With placements they are
// listed, which is for a single run.
func (p *Profile) SetRuns(runs []Run, placements bool) {
	p.runs = runs
	p.Metrics = map[string]Statistic{}
	for _, metric := range Metrics() {
		var values []float64
		for i := range runs {
			if value, ok := runs[i].Metrics[metric.Key]; ok {
				values = append(values, value)
			}
		}
		if len(values) > 0 {
			p.Metrics[metric.Key] = statisticOf(values)
		}
	}
	p.Series = seriesOf(runs)
	p.Runs = nil
	for i := range runs {
		p.Runs = append(p.Runs, RunSummary{Seed: runs[i].Seed, Metrics: runs[i].Metrics})
	}
	p.Answer, p.Placements, p.PodGroups = nil, nil, nil
	if placements && len(runs) == 1 {
		p.Answer, p.Placements, p.PodGroups = answerOf(&runs[0]), runs[0].Placements, runs[0].PodGroups
	}
}

func statisticOf(values []float64) Statistic {
	s := Statistic{Mean: round(stat.Mean(values, nil)), Runs: len(values)}
	if len(values) > 1 {
		s.StandardDeviation = round(stat.StdDev(values, nil))
	}
	return s
}

func seriesOf(runs []Run) *Series {
	length := math.MaxInt
	for i := range runs {
		length = min(length, len(runs[i].Points))
	}
	if len(runs) == 0 || length == 0 {
		return nil
	}
	return &Series{
		AllocatedPercent:          curveOf(runs, length, func(p Point) float64 { return p.Allocated }),
		FragmentedPercent:         curveOf(runs, length, func(p Point) float64 { return p.Fragmented }),
		FragmentationRatioPercent: curveOf(runs, length, func(p Point) float64 { return p.Ratio }),
	}
}

func curveOf(runs []Run, length int, value func(Point) float64) Curve {
	curve := Curve{Mean: make([]float64, length), StandardDeviation: make([]float64, length)}
	values := make([]float64, len(runs))
	for x := range length {
		for i := range runs {
			values[i] = value(runs[i].Points[x])
		}
		s := statisticOf(values)
		curve.Mean[x], curve.StandardDeviation[x] = s.Mean, s.StandardDeviation
	}
	return curve
}

// AllPlaced reports whether every pod that was asked about was placed in every run of
// every profile, and none was evicted.
func (r *Report) AllPlaced() bool {
	for i := range r.Profiles {
		if answer := r.Profiles[i].Answer; answer != nil {
			if !answer.Fits {
				return false
			}
			continue
		}
		for _, run := range r.Profiles[i].Runs {
			if run.Metrics["podsFailed"] > 0 || run.Metrics["podsEvicted"] > 0 {
				return false
			}
		}
	}
	return true
}
