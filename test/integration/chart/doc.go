// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart installs the Helm chart of manifests/chart with Helm itself, of both
// major versions, and looks at what an administrator gets: profiles that are those of
// config/berth-scheduler, objects that are those of the kustomize overlays, and on a real
// API server every combination of features, installed, tested, checked, upgraded and
// uninstalled.
package chart
