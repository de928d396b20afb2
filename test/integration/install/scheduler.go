// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// Scheduler is a running scheduler process.
type Scheduler struct {
	*framework.Process
	port int
}

// Get asks the secure port for path, with a bearer token unless it is empty, and
// returns the status code and the body.
func (s *Scheduler) Get(ctx context.Context, path, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("https://127.0.0.1:%d%s", s.port, path), http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	// As the kubelet's probes: the certificate is self-signed.
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives: true,
	}}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}

// WaitReady waits until /readyz answers 200, as the Deployment's probes do.
func (s *Scheduler) WaitReady(tb testing.TB) {
	tb.Helper()
	framework.WaitForCondition(tb, framework.WaitTimeout, "the scheduler to be ready", func() (bool, error) {
		select {
		case <-s.Done():
			tb.Fatalf("the scheduler ended instead of becoming ready:\n%s", s.Output())
		default:
		}
		code, body, err := s.Get(tb.Context(), "/readyz", "")
		if err == nil && code != http.StatusOK {
			err = fmt.Errorf("/readyz answered %d: %s", code, body)
		}
		return err == nil, err
	})
}
