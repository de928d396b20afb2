// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/util/flowcontrol"
)

// Limiter is a client's rate limit that counts whom it held up.
type Limiter struct {
	flowcontrol.RateLimiter
	requests, delayed atomic.Int64
}

var _ flowcontrol.RateLimiter = &Limiter{}

// NewLimiter returns a token bucket.
func NewLimiter(limit Limit) *Limiter {
	return &Limiter{RateLimiter: flowcontrol.NewTokenBucketRateLimiter(float32(limit.QPS), limit.Burst)}
}

// Wait implements flowcontrol.RateLimiter. Who finds a free token is not held up,
// however long the machine lets it wait.
func (l *Limiter) Wait(ctx context.Context) error {
	l.requests.Add(1)
	if ctx.Err() == nil && l.TryAccept() {
		return nil
	}
	start := time.Now()
	err := l.RateLimiter.Wait(ctx)
	if time.Since(start) > DelayThreshold {
		l.delayed.Add(1)
	}
	return err
}

// Counts returns how many requests there were, and how many of them waited for a token
// for more than DelayThreshold.
func (l *Limiter) Counts() (requests, delayed int64) { return l.requests.Load(), l.delayed.Load() }
