// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scheme makes kube-scheduler understand the arguments of Berth's
// plugins, and of those that it compiles in from elsewhere. Import it (for its side effect) in every program that loads a
// KubeSchedulerConfiguration with Berth's plugins.
//
// kube-scheduler holds two schemes, and the arguments must be in both: the
// public one decodes the configuration file; a private one applies the defaults
// of a plugin that has no pluginConfig entry and converts every entry to its
// internal type. With only the first, a configuration with arguments fails to
// load and one without hands the plugin nil.
package scheme

import (
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	schedulerscheme "k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	schedulerv1 "k8s.io/kubernetes/pkg/scheduler/apis/config/v1"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	configv1 "github.com/berth-scheduler/berth/pkg/apis/config/v1"
)

// A scheme that lacks a type is a programming error that no caller can handle,
// and the schemes may only be written before they are read.
func init() {
	for _, scheme := range []*runtime.Scheme{schedulerscheme.Scheme, schedulerv1.GetPluginArgConversionScheme()} {
		utilruntime.Must(AddToScheme(scheme))
		utilruntime.Must(addOutOfTree(scheme))
	}
}

// AddToScheme registers the internal and versioned arguments of all plugins of
// Berth in scheme, with their defaults and conversions.
func AddToScheme(scheme *runtime.Scheme) error {
	if err := config.AddToScheme(scheme); err != nil {
		return err
	}
	return configv1.AddToScheme(scheme)
}
