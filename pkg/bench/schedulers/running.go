// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"time"
)

// Running is a scheduler at work. Its methods may be called concurrently.
type Running interface {
	// Sample returns what the scheduler's process has used up to now. It is nil,
	// without an error, where that cannot be seen.
	Sample(ctx context.Context) (*Sample, error)
	// Failed delivers an error if the scheduler ends without Stop.
	Failed() <-chan error
	// Stop ends the scheduler and returns what it complained about that makes its
	// numbers doubtful: a right that it lacks. Stop may be called once.
	Stop() (rbacErrors []string, err error)
}

// Sample is what a scheduler's process says that it has done since its start.
type Sample struct {
	// Shared is whether the process does other work too: then CPUSeconds and
	// MemoryBytes are 0.
	Shared bool
	// Writes are the requests of its clients that change something: POST, PUT, PATCH
	// and DELETE. Those that renew its lease are among them.
	Writes float64
	// Requests are all that passed the rate limit of its clients, and Delayed those
	// of them that it held up for more than DelayThreshold.
	Requests, Delayed float64
	// CPUSeconds is its time on the CPU.
	CPUSeconds float64
	// MemoryBytes is its resident memory: the largest so far where the system tells,
	// and otherwise the present one.
	MemoryBytes float64
}

// DelayThreshold is the wait for a client's rate limit from which on a request
// counts as delayed. It is a bucket of rest_client_rate_limiter_duration_seconds,
// and longer than a busy machine lets a request wait that nothing limits.
const DelayThreshold = 25 * time.Millisecond

// Place is where a scheduler's pods are and may go.
type Place struct {
	// Namespace is the one that the pods are in.
	Namespace string
	// Nodes are the names of the nodes.
	Nodes []string
}
