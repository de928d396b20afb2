// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package validation checks the arguments of Berth's plugins.
//
// Every validator has the form Validate<Plugin>Args(path, args) error, where
// path is where args stand (nil is fine). It reports all that is wrong at once,
// each with its full path, and repairs nothing. kube-scheduler validates the
// arguments of its own plugins only, so each plugin's New calls its validator.
package validation
