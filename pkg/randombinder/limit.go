// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// errNotSent is in the error of a request that never got past the client's own
// rate limit.
var errNotSent = errors.New("nothing was sent to the API server")

// sentKey is the context's key of whether a request has been let through. A
// request that the API server asks to repeat waits for the limit again, and an
// error of that wait must not pass for one of the first.
type sentKey struct{}

// withSent makes limiter tell the two apart for the one request of ctx.
func withSent(ctx context.Context) context.Context {
	return context.WithValue(ctx, sentKey{}, &atomic.Bool{})
}

// limiter is a rate limiter whose errors say whether anything was sent before.
type limiter struct {
	flowcontrol.RateLimiter
}

var _ flowcontrol.RateLimiter = limiter{}

// Wait implements flowcontrol.RateLimiter.
func (l limiter) Wait(ctx context.Context) error {
	err := l.RateLimiter.Wait(ctx)
	sent, ok := ctx.Value(sentKey{}).(*atomic.Bool)
	switch {
	case !ok:
		return err
	case err == nil:
		sent.Store(true)
		return nil
	case sent.Load():
		return err
	default:
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
}

// limit gives config the rate limiter that client-go would make of its QPS and
// Burst, as a limiter. It leaves a config without a limit, and one that client-go
// will refuse, as they are.
func limit(config *rest.Config) {
	qps, burst := config.QPS, config.Burst
	if qps == 0 {
		qps, burst = rest.DefaultQPS, rest.DefaultBurst
	}
	if qps > 0 && burst > 0 {
		config.RateLimiter = limiter{flowcontrol.NewTokenBucketRateLimiter(qps, burst)}
	}
}
