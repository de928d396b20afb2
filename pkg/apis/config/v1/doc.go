// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// +k8s:deepcopy-gen=package
// +k8s:conversion-gen=github.com/berth-scheduler/berth/pkg/apis/config
// +k8s:defaulter-gen=TypeMeta
// +groupName=kubescheduler.config.k8s.io

// Package v1 holds the arguments of Berth's plugins as users write them in a
// KubeSchedulerConfiguration of version kubescheduler.config.k8s.io/v1, with
// their defaults and their conversion to the internal types.
package v1
