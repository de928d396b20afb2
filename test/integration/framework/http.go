// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"context"
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

// get asks for a page, with a bearer token unless that is empty, and returns the
// status code and the body.
func get(ctx context.Context, client *http.Client, url, token string) (int, string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return response.StatusCode, string(body), err
}
