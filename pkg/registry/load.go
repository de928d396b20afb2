// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"fmt"

	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	schedscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedvalidation "k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
)

// LoadConfiguration decodes the content of a KubeSchedulerConfiguration file as
// berth-scheduler does: strictly, with defaults, and refusing what it refuses.
// name is the file's name, with which every error begins. override is what flags make of
// what was decoded, before it is validated; package settings has it.
func LoadConfiguration(name string, content []byte, override ...func(*schedconfig.KubeSchedulerConfiguration)) (*schedconfig.KubeSchedulerConfiguration, error) {
	return DecodeConfiguration(name, content, func(config *schedconfig.KubeSchedulerConfiguration) error {
		for _, f := range override {
			f(config)
		}
		return ValidateConfiguration(config)
	})
}

// DecodeConfiguration is LoadConfiguration with another validation in place of
// [ValidateConfiguration]. What that changes is what it returns.
func DecodeConfiguration(name string, content []byte, validate func(*schedconfig.KubeSchedulerConfiguration) error) (*schedconfig.KubeSchedulerConfiguration, error) {
	if err := CheckDocument(content); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// The universal decoder applies the defaults and returns the internal type.
	obj, gvk, err := schedscheme.Codecs.UniversalDecoder().Decode(content, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	decoded, ok := obj.(*schedconfig.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("%s: decoded to %T", name, obj)
	}
	decoded.APIVersion = gvk.GroupVersion().String() // upstream's validation reads it
	if err := validate(decoded); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := schedvalidation.ValidateKubeSchedulerConfiguration(decoded); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return decoded, nil
}
