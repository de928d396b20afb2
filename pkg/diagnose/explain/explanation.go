// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"time"
)

// FormatVersion is the version of an Explanation as JSON or YAML. Keys may be added to it;
// it changes when a key is removed or changes its meaning.
const FormatVersion = 1

// State is the state of a pod in one word.
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
	// NotServed is a pod whose schedulerName no scheduler handles.
	NotServed State = "NotServed"
	// NotAdmitted is a pod that the API server would not create: a quota is used up, or its
	// PriorityClass does not exist.
	NotAdmitted State = "NotAdmitted"
	// Waiting is a pod whose gang is incomplete.
	Waiting State = "Waiting"
	// Unschedulable is a pod that no node can take.
	Unschedulable State = "Unschedulable"
	// Unknown is a pod about which too little could be read: the answer is what the
	// scheduler wrote.
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
	// what controls it. Empty for a pod without a controller.
	Pod string `json:"pod"`
	Of  string `json:"of,omitempty"`
	// State and Answer are the same in a word and in a sentence.
	State  State  `json:"state"`
	Answer string `json:"answer"`
	// Node is where the pod is, or would be.
	Node string `json:"node,omitempty"`
	// Scheduler is who handles the pod's schedulerName.
	Scheduler Scheduler `json:"scheduler"`
	// Gates are the pod's scheduling gates, each with who removes it.
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
	// Refusals are those of the plugins that reject the pod for all nodes.
	Refusals []Verdict `json:"refusals,omitempty"`
	// Nodes is the number of nodes, and Groups are those that cannot take the pod, by cause,
	// the nearest first.
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

// Scheduler is who handles a schedulerName.
type Scheduler struct {
	// Name is the pod's schedulerName.
	Name string `json:"name"`
	// Known is whether a scheduler handles it, and Nearest, if none does, the most similar
	// name.
	Known   bool   `json:"known"`
	Nearest string `json:"nearest,omitempty"`
	// Lease is NAMESPACE/NAME of the lease for leader election, Holder its holder and Renewed
	// the time of its last renewal. Empty if it could not be read.
	Lease   string     `json:"lease,omitempty"`
	Holder  string     `json:"holder,omitempty"`
	Renewed *time.Time `json:"renewed,omitempty"`
	// Alive is false if the lease has expired. Without a lease it has no meaning.
	Alive bool `json:"alive"`
	// Profile is where the profile was read.
	Profile string `json:"profile,omitempty"`
	// Text is the same in a sentence.
	Text string `json:"text"`
	// notRunning is whether the name has a profile and no process that handles it was found.
	notRunning bool
}

// Verdict is what one plugin says.
type Verdict struct {
	Plugin string `json:"plugin"`
	// Reason is in the words of the event, and Detail the cause.
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
	// Scores are by plugin, times its weight.
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

// Preemption is the result of evicting pods of lower priority.
type Preemption struct {
	// Node is where room is made for a pod, and Nodes are those of the members of a gang.
	Node  string   `json:"node,omitempty"`
	Nodes []string `json:"nodes,omitempty"`
	// Victims are the pods that are evicted, as NAMESPACE/NAME.
	Victims []string `json:"victims,omitempty"`
	Text    string   `json:"text"`
}
