// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
)

// actions is a fake recorder that writes an event's action too.
type actions struct {
	*events.FakeRecorder
}

func (r actions) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r actions) Eventf(regarding, related runtime.Object, eventtype, reason, action, note string, args ...any) {
	r.FakeRecorder.Eventf(regarding, related, eventtype, reason, action, action+": "+note, args...)
}
