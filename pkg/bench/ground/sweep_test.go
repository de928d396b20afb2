// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// store is what a sweep goes over.
type store struct {
	mu   sync.Mutex
	held map[string]bool
	// failures are what the next deletions answer.
	failures []error
}

func (s *store) list(context.Context) ([]victim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []victim
	for name := range s.held {
		all = append(all, victim{name: name})
	}
	return all, nil
}

func (s *store) remove(_ context.Context, v victim) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.failures) > 0 {
		err := s.failures[0]
		s.failures = s.failures[1:]
		return err
	}
	delete(s.held, v.name)
	return nil
}

func TestSweep(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for _, tt := range []struct {
		name     string
		failures []error
		wantErr  string
	}{
		{"all at once", nil, ""},
		{"errors that pass", []error{errors.New("the server is busy"), apierrors.NewNotFound(pods, "a"), apierrors.NewConflict(pods, "b", nil)}, ""},
		{"no right", []error{apierrors.NewForbidden(pods, "a", nil), apierrors.NewForbidden(pods, "b", nil), apierrors.NewForbidden(pods, "c", nil)}, "removing pods: 3 left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &store{held: map[string]bool{"a": true, "b": true, "c": true}, failures: tt.failures}
			removed := 2
			err := sweep(t.Context(), "pods", &removed, s.list, s.remove)
			if removed != 5 {
				t.Errorf("%d are counted, want the 2 from before and 3", removed)
			}
			if tt.wantErr == "" {
				if err != nil || len(s.held) > 0 {
					t.Errorf("sweep() = %v with %d left, want no error and none", err, len(s.held))
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("sweep() = %v, want %q", err, tt.wantErr)
			}
		})
	}
}

func TestSweepEndsWithItsContext(t *testing.T) {
	s := &store{held: map[string]bool{"a": true}}
	ctx, cancel := context.WithCancel(t.Context())
	removed := 0
	err := sweep(ctx, "pods", &removed, s.list, func(context.Context, victim) error {
		cancel()
		return errors.New("it has a finalizer")
	})
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 left, among them a") || !strings.Contains(err.Error(), "it has a finalizer") {
		t.Errorf("sweep() = %v, want one that tells the end of the context, what is left, and why", err)
	}
}
