// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// requestLimit is a little more than the API server gives a request.
	requestLimit = 70 * time.Second
	// errorPatience is how long the API server may answer with errors, or not at all,
	// before a removal gives up.
	errorPatience = 30 * time.Second
	// maxPause is the longest pause between two attempts.
	maxPause = time.Second
)

// retry says how often something is attempted: until the API server has answered with
// errors for a while, or with one that is final. The zero value is ready for use.
type retry struct {
	failing time.Time
	pause   time.Duration
}

// wait waits before the next attempt, given how the last one ended. It returns an
// error if there is none. The first pause is none: mostly the next attempt is one that
// finds everything done.
func (r *retry) wait(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return errors.Join(context.Cause(ctx), err)
	case err == nil:
		r.failing = time.Time{}
	case apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err):
		return err
	case r.failing.IsZero():
		r.failing = time.Now()
	case time.Since(r.failing) > errorPatience:
		return err
	}
	pause := r.pause
	r.pause = min(max(2*pause, pollPause), maxPause)
	select {
	case <-ctx.Done():
		return errors.Join(context.Cause(ctx), err)
	case <-time.After(pause):
		return nil
	}
}

// patiently attempts something until it succeeds, or there is no point in it.
func patiently(ctx context.Context, attempt func(context.Context) error) error {
	var again retry
	for {
		err := limited(ctx, attempt)
		if err == nil {
			return nil
		}
		if err := again.wait(ctx, err); err != nil {
			return err
		}
	}
}

// limited gives a request a limit of its own, so that an API server that does not
// answer does not take all the time.
func limited(ctx context.Context, request func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	return request(ctx)
}
