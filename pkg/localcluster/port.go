// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-scheduler/berth/pkg/localcluster/process"
)

// Automatic ports come from below the range in which kernels choose the local
// ports of outgoing connections (32768 and up on Linux): while the API server is
// down between a kill and a restart, nothing takes its port by chance.
const (
	firstPort = 20000
	lastPort  = 32000
	portTries = 200
)

// portTimeout is how long to wait for the port of the last run: after a SIGKILL
// of berth-local the kernel may take a moment to close what its children held.
const portTimeout = 3 * time.Second

// choosePort returns the port for the API server. A wanted port that is taken is
// an error that names the flag; the port of previous, the server of the last run,
// is taken again when it gets free within timeout; else any free port is.
func choosePort(ctx context.Context, wanted int, previous string, timeout time.Duration) (int, error) {
	last := portOf(previous)
	if wanted != 0 {
		if wanted != last {
			timeout = 0
		}
		if err := waitForPort(ctx, wanted, timeout); err != nil {
			return 0, fmt.Errorf("--port %d: 127.0.0.1:%d cannot be used: %w: choose another port, or leave --port out to get a free one", wanted, wanted, err)
		}
		return wanted, nil
	}
	if last != 0 && waitForPort(ctx, last, timeout) == nil {
		return last, nil
	}
	return FreePort()
}

// waitForPort waits until nothing listens on a port; after timeout it says why the
// port cannot be used.
func waitForPort(ctx context.Context, port int, timeout time.Duration) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, process.PollInterval, timeout, true, func(context.Context) (bool, error) {
		last = probePort(port)
		return last == nil, nil
	})
	return cmp.Or(last, err)
}

// FreePort returns a port of 127.0.0.1 that nothing listened on a moment ago.
func FreePort() (int, error) {
	var last error
	for range portTries {
		port := firstPort + rand.IntN(lastPort-firstPort)
		if last = probePort(port); last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found on 127.0.0.1 between %d and %d: %w", firstPort, lastPort, last)
}

func probePort(port int) error {
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		// The cause says it all ("address already in use"); the rest repeats the port.
		if op, ok := errors.AsType[*net.OpError](err); ok {
			return op.Err
		}
		return err
	}
	return listener.Close()
}

// portOf returns the port of a server URL, 0 when there is none.
func portOf(server string) int {
	parsed, err := url.Parse(server)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(parsed.Port())
	if err != nil {
		return 0
	}
	return port
}
