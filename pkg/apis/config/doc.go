// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package

// Package config holds the internal (unversioned) arguments of Berth's plugins:
// what a plugin's New receives after decoding, defaulting and conversion. The fields are
// those of package v1, which documents them.
//
// A kind lives in files of its own: types_<plugin>.go here and in v1,
// v1/defaults_<plugin>.go, validation/<plugin>.go. To add one, write those
// files, name the type in register.go here and in v1, and run make generate;
// the rest (deep copies, conversions, registration in kube-scheduler's two
// schemes, the tests over all kinds) follows from that.
//
// The kind must be called <plugin name>Args and live in the group
// kubescheduler.config.k8s.io: that is how kube-scheduler finds the type for a
// pluginConfig entry.
package config
