// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package preflight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
)

// UnreachableError says that there was no answer from the API server, not even a
// refusal.
type UnreachableError struct {
	// Address is the API server's, as in "https://10.0.0.1:6443".
	Address string
	// Cause is why, without the address: "connection refused".
	Cause error
}

// Error names the address and the cause.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("cannot reach %s: %v", e.Address, e.Cause)
}

// Unwrap returns the cause.
func (e *UnreachableError) Unwrap() error { return e.Cause }

// Reach asks the API server for its version. It returns an *UnreachableError if
// there was no answer within timeout, and nil for any answer.
func Reach(ctx context.Context, client kubernetes.Interface, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(ctx).Error()
	if status := apierrors.APIStatus(nil); err == nil || errors.As(err, &status) {
		return nil
	}
	unreachable := &UnreachableError{Address: client.Discovery().RESTClient().Get().AbsPath("/").URL().Host, Cause: err}
	if failed, ok := errors.AsType[*url.Error](err); ok {
		unreachable.Cause = failed.Err
		if at, parseErr := url.Parse(failed.URL); parseErr == nil {
			unreachable.Address = at.Scheme + "://" + at.Host
		}
	}
	// The address stands in front already.
	if failed, ok := errors.AsType[*net.OpError](unreachable.Cause); ok {
		unreachable.Cause = failed.Err
	}
	if failed, ok := errors.AsType[*os.SyscallError](unreachable.Cause); ok {
		unreachable.Cause = failed.Err
	}
	return unreachable
}

// NoPodUntilReached is the log message that goes with an *UnreachableError.
const NoPodUntilReached = "No pod is scheduled until the API server can be reached"

// AwaitReach returns nil as soon as the API server answers, and ctx's error if ctx
// is done before. It tries every retry, and every interval it logs why there is no
// answer.
func AwaitReach(ctx context.Context, client kubernetes.Interface, retry, interval time.Duration) error {
	tries, tells := time.NewTicker(retry), time.NewTicker(interval)
	defer tries.Stop()
	defer tells.Stop()
	err := Reach(ctx, client, retry)
	for err != nil {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tries.C:
			err = Reach(ctx, client, retry)
		case <-tells.C:
			klog.FromContext(ctx).Error(err, NoPodUntilReached)
		}
	}
	return nil
}
