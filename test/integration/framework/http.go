// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"k8s.io/client-go/rest"
)

// adminHTTPClient returns a client that shows the administrator's certificate and
// trusts any: those that the schedulers make up for a test are signed by nobody.
func adminHTTPClient(config *rest.Config) (*http.Client, error) {
	config = rest.CopyConfig(config)
	config.Insecure, config.CAData, config.CAFile = true, nil, ""
	return rest.HTTPClientFor(config)
}

// notKnownError is that a server does not take the client for who it is.
type notKnownError struct{ error }

// get returns the body of a page that answers 200 OK.
func get(ctx context.Context, client *http.Client, url string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err
	}
	if response.StatusCode != http.StatusOK {
		err := fmt.Errorf("GET %s: %s: %s", url, response.Status, body)
		if response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden {
			// A scheduler that has just started takes a connection for anonymous, for
			// good, until it has read by which authority clients are known.
			client.CloseIdleConnections()
			return "", notKnownError{err}
		}
		return "", err
	}
	return string(body), nil
}
