// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// recording is a framework whose events have another action.
type recording struct {
	framework.Framework
	action string
}

// EventRecorder returns the framework's recorder with the other action.
func (r recording) EventRecorder() events.EventRecorderLogger {
	return recorder{r.Framework.EventRecorder(), r.action}
}

type recorder struct {
	events.EventRecorderLogger
	action string
}

// WithLogger returns the recorder with another logger.
func (r recorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return recorder{r.EventRecorderLogger.WithLogger(logger), r.action}
}

// Eventf records the event. The action given is replaced.
func (r recorder) Eventf(regarding, related runtime.Object, eventtype, reason, _, note string, args ...any) {
	r.EventRecorderLogger.Eventf(regarding, related, eventtype, reason, r.action, note, args...)
}
