// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

// TestHeartbeatGoesOn: a renewal that the API server does not answer does not keep the
// next one from being sent while the Lease is valid.
func TestHeartbeatGoesOn(t *testing.T) {
	renewals := make(chan time.Time, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method == http.MethodPatch {
			renewals <- time.Now()
			<-r.Context().Done()
			return
		}
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body) // the Lease, as it is to be created
	}))
	defer server.Close()
	client, err := newClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	h, err := startHeartbeat(t.Context(), client, testID, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	defer h.stop()
	<-renewals
	select {
	case <-renewals:
	case <-time.After(leaseSeconds * time.Second):
		t.Error("there is no second renewal while the Lease is valid")
	}
}
