// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"fmt"

	"k8s.io/client-go/tools/cache"
)

// probe is an object that no informer delivers. The function of the index writes
// the shared value into it.
type probe struct{ value any }

// Shared returns the value that hangs on the informer under the name, and makes it
// with build if it is the first to ask. An error of build is returned to the first
// and to everybody who asks later.
//
// A process may hold several scheduler instances (a simulator does), and nothing
// but the informer factory shows to which instance a profile belongs. The value is
// therefore kept where the factory is, as an index of one of its informers that
// indexes nothing, and goes with it. A map of factories in a package would keep
// every value. Plugins are built one after the other, so there is no lock.
func Shared[T any](informer cache.SharedIndexInformer, name string, build func() (*T, error)) (*T, error) {
	if index, ok := informer.GetIndexer().GetIndexers()[name]; ok {
		found := &probe{}
		if _, err := index(found); err != nil {
			return nil, err
		}
		value, ok := found.value.(*T)
		if !ok {
			return nil, fmt.Errorf("index %q holds a %T, want a %T", name, found.value, value)
		}
		return value, nil
	}
	var value *T
	failed := fmt.Errorf("index %q: what it shares was never made", name)
	err := informer.AddIndexers(cache.Indexers{name: func(obj any) ([]string, error) {
		ask, ok := obj.(*probe)
		if !ok {
			return nil, nil
		}
		ask.value = value
		return nil, failed
	}})
	if err != nil {
		return nil, fmt.Errorf("adding index %q: %w", name, err)
	}
	value, failed = build()
	return value, failed
}
