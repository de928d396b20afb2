// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package schedulers

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A scheduler that has just started takes the connections of that time for anonymous
// ones for ever, and knows who comes later.
func TestScrapeOnceKnown(t *testing.T) {
	var mu sync.Mutex
	first := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if first == "" {
			first = r.RemoteAddr
		}
		if r.RemoteAddr == first {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		fmt.Fprint(w, page)
	}))
	defer server.Close()
	sample, err := scrapeOnceKnown(t.Context(), server.Client(), server.URL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if sample.CPUSeconds != 12.5 {
		t.Errorf("%v CPU seconds, want those of the page", sample.CPUSeconds)
	}
}

// Who may not read them for good is told so.
func TestScrapeNeverKnown(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	if _, err := scrapeOnceKnown(t.Context(), server.Client(), server.URL, 0); !errors.Is(err, errNotKnown) {
		t.Errorf("error %v, want %v", err, errNotKnown)
	}
}
