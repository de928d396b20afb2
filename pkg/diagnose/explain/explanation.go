// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"
)

// FormatVersion is that of an Explanation as JSON or YAML: keys may be added to it,
// and it changes when one goes or changes its meaning.
const FormatVersion = 1

// State is what there is to be said of a pod in one word.
type State string

const (
	// Bound is a pod that has a node.
	Bound State = "Bound"
	// Fits is a pod that the profile would place on the objects as they are.
	Fits State = "Fits"
	// Preempting is a pod that gets its node when other pods have been evicted for it.
	Preempting State = "Preempting"
	// Gated is a pod that a scheduling gate keeps out of the queue.
	Gated State = "Gated"
	// NotServed is a pod whose schedulerName nobody serves.
	NotServed State = "NotServed"
	// NotAdmitted is a pod that the API server would not create: a quota is used up, or its
	// PriorityClass does not exist.
	NotAdmitted State = "NotAdmitted"
	// Waiting is a pod whose gang is not there as a whole.
	Waiting State = "Waiting"
	// Unschedulable is a pod that no node can take.
	Unschedulable State = "Unschedulable"
	// Unknown is a pod of which too little could be seen: what is told of it is what
	// the scheduler wrote.
	Unknown State = "Unknown"
)

// maxListed is how many things of a kind are named in a sentence.
const maxListed = 3

// Placed reports whether the pod has a node or would get one.
func (s State) Placed() bool { return s == Bound || s == Fits }

// Explanation is why a pod has no node, and what would give it one.
type Explanation struct {
	FormatVersion int `json:"formatVersion"`
	// Pod is NAMESPACE/NAME, and Of what it stands for: the workload of a manifest, or
	// what controls it. Empty for a pod of nobody.
	Pod string `json:"pod"`
	Of  string `json:"of,omitempty"`
	// State and Answer are the same in a word and in a sentence.
	State  State  `json:"state"`
	Answer string `json:"answer"`
	// Node is where the pod is, or would be.
	Node string `json:"node,omitempty"`
	// Scheduler is who serves the pod's schedulerName.
	Scheduler Scheduler `json:"scheduler"`
	// Gates are the pod's scheduling gates, each with who lifts it.
	Gates []string `json:"gates,omitempty"`
	// Admission is what quotas, PriorityClasses and Kueue say of the pod.
	Admission []string `json:"admission,omitempty"`
	// Keys are labels and annotations of the pod that have no effect, each with why.
	Keys []string `json:"keys,omitempty"`
	// Gang is the state of the pod's gang.
	Gang *Gang `json:"gang,omitempty"`
	// Placed and Pods are how many pods of a workload found a node, and how many there
	// are. Both are 0 for a single pod.
	Placed int `json:"placed,omitempty"`
	Pods   int `json:"pods,omitempty"`
	// Refusals are of the plugins that refuse the pod whatever the nodes are.
	Refusals []Verdict `json:"refusals,omitempty"`
	// Nodes is how many nodes there are, and Groups are those that cannot take the pod,
	// by why, the nearest first.
	Nodes  int     `json:"nodes"`
	Groups []Group `json:"groups,omitempty"`
	// Feasible are the nodes that can take the pod, the best first, with their scores.
	Feasible []Feasible `json:"feasible,omitempty"`
	// Approximate says why the running scheduler may choose another node; empty if it
	// would not.
	Approximate string `json:"approximate,omitempty"`
	// Preemption says which pods the scheduler would evict, or why none.
	Preemption *Preemption `json:"preemption,omitempty"`
	// Changes are what would help, the smallest first. Each was tried.
	Changes []Change `json:"changes,omitempty"`
	// Message is what the scheduler wrote into the pod's condition PodScheduled.
	Message string `json:"message,omitempty"`
	// NotSeen is what could not be read, and Notes what else the user should know.
	NotSeen []string `json:"notSeen,omitempty"`
	Notes   []string `json:"notes,omitempty"`
}

// Scheduler is who serves a schedulerName.
type Scheduler struct {
	// Name is the pod's schedulerName.
	Name string `json:"name"`
	// Known is whether somebody serves it, and Nearest, if nobody does, the name that is
	// most like it.
	Known   bool   `json:"known"`
	Nearest string `json:"nearest,omitempty"`
	// Lease is NAMESPACE/NAME of the lease by which its processes choose one, Holder who
	// has it and Renewed when that was last said. Empty if it was not seen.
	Lease   string     `json:"lease,omitempty"`
	Holder  string     `json:"holder,omitempty"`
	Renewed *time.Time `json:"renewed,omitempty"`
	// Alive is false if the lease has run out. It says nothing without a lease.
	Alive bool `json:"alive"`
	// Profile is where the profile was read.
	Profile string `json:"profile,omitempty"`
	// Text is the same in a sentence.
	Text string `json:"text"`
	// notRunning is whether no process was found that serves a name that has a profile.
	notRunning bool
}

// Verdict is what one plugin says.
type Verdict struct {
	Plugin string `json:"plugin"`
	// Reason is in the words of the event, and Detail what is behind it.
	Reason string `json:"reason"`
	Detail string `json:"detail,omitempty"`
	// Resolvable is whether evicting pods could help, in the plugin's opinion.
	Resolvable bool `json:"resolvable"`
}

// Group is nodes that the same plugins reject for the same reasons.
type Group struct {
	// Count is how many there are, and Names some of them, the nearest first.
	Count int      `json:"count"`
	Names []string `json:"names"`
	// Verdicts are in the order of the profile. Their details are of the first of Names.
	Verdicts []Verdict `json:"verdicts"`
	// Text is the same in a sentence.
	Text string `json:"text"`
	// Rank is how far they are from taking the pod; see the package.
	Rank int `json:"rank"`
}

// Feasible is a node that can take the pod.
type Feasible struct {
	Node  string `json:"node"`
	Total int64  `json:"total"`
	// Scores are by plugin, with its weight.
	Scores []Score `json:"scores,omitempty"`
}

// Score is a plugin's, times its weight.
type Score struct {
	Plugin string `json:"plugin"`
	Score  int64  `json:"score"`
}

// Gang is the state of a gang.
type Gang struct {
	// Name is NAMESPACE/NAME of the PodGroup, and Found whether there is one.
	Name  string `json:"name"`
	Found bool   `json:"found"`
	// Needed is how many members start together, Members how many pods there are and
	// Bound how many of them have a node.
	Needed  int `json:"needed"`
	Members int `json:"members"`
	Bound   int `json:"bound"`
	// Fit is how many of the others would find a node at the same time.
	Fit int `json:"fit"`
	// Text is the same in a sentence.
	Text string `json:"text"`
	// native is whether the PodGroup is one of Kubernetes' own.
	native bool
}

// Preemption is what evicting pods of lower priority comes to.
type Preemption struct {
	// Node is where room is made for a pod, and Nodes are those of the members of a gang.
	Node  string   `json:"node,omitempty"`
	Nodes []string `json:"nodes,omitempty"`
	// Victims are the pods that are evicted, as NAMESPACE/NAME.
	Victims []string `json:"victims,omitempty"`
	Text    string   `json:"text"`
}
