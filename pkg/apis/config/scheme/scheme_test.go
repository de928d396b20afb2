// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package scheme

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// ourKinds returns every kind that this module registers, read from a scheme
// that holds nothing else.
func ourKinds(t *testing.T) []string {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := config.AddToScheme(scheme); err != nil {
		t.Fatalf("AddToScheme: %v", err)
	}
	var kinds []string
	for kind := range scheme.KnownTypes(config.SchemeGroupVersion) {
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	if len(kinds) == 0 {
		t.Fatal("no kind is registered")
	}
	return kinds
}

// kube-scheduler needs each kind in both schemes, internal and versioned.
func TestKindsAreInBothSchemes(t *testing.T) {
	schemes := []struct {
		name   string
		scheme *runtime.Scheme
	}{
		{"decoding", schedulerscheme.Scheme},
		{"defaulting and conversion", schedulerv1.GetPluginArgConversionScheme()},
	}
	for _, kind := range ourKinds(t) {
		if !strings.HasSuffix(kind, "Args") {
			t.Errorf("kind %s: kube-scheduler finds a plugin's args only under <plugin name>Args", kind)
		}
		for _, s := range schemes {
			t.Run(kind+"/"+s.name, func(t *testing.T) {
				for _, gv := range []schema.GroupVersion{config.SchemeGroupVersion, configv1.SchemeGroupVersion} {
					if !s.scheme.Recognizes(gv.WithKind(kind)) {
						t.Fatalf("%v is not registered", gv.WithKind(kind))
					}
				}
				versioned, err := s.scheme.New(configv1.SchemeGroupVersion.WithKind(kind))
				if err != nil {
					t.Fatalf("New: %v", err)
				}
				s.scheme.Default(versioned)
				internal, err := s.scheme.ConvertToVersion(versioned, config.SchemeGroupVersion)
				if err != nil {
					t.Fatalf("converting to the internal type: %v", err)
				}
				if _, err := s.scheme.ConvertToVersion(internal, configv1.SchemeGroupVersion); err != nil {
					t.Fatalf("converting back: %v", err)
				}
			})
		}
	}
}
