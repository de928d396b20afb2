// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/messages"
)

const (
	// ReasonIgnored is the reason of the Warning event on a pod that asks for
	// something that has no effect: a Service or a level without pods or nodes.
	ReasonIgnored = "ColocationIgnored"
	actionIgnored = "Scheduling"
)

// maxIdle bounds the memory of what was said of rules: a Service without a namespace
// is another one in each.
const maxIdle = 1024

// warn reports to the author of the pod which of its annotations have no effect, and the
// log, once, what of the rules has none: a rule may select every pod of the cluster,
// and their authors cannot change it. One event says all of it: events that differ
// in their text alone are taken for one.
func (pl *Colocation) warn(ctx context.Context, pod *corev1.Pod, found *lookup) {
	for _, note := range found.idle {
		if _, told := pl.instance.idle.Get(note); !told {
			pl.instance.idle.Add(note, nil)
			klog.FromContext(ctx).Info("A rule has no effect on the pods that it selects", "rule", note, "pod", klog.KObj(pod))
		}
	}
	var parts []string
	if len(found.unknown) > 0 {
		parts = append(parts, fmt.Sprintf("Service %s has no effect: no Service of that name allows pods of namespace %s (check the name; a Service of another namespace needs the annotation %s)",
			list(found.unknown), pod.Namespace, names.AllowColocationFromAnnotation))
	}
	if len(found.emptyLevels) > 0 {
		parts = append(parts, fmt.Sprintf("no node has the label %s: correct the key, or label the nodes", list(found.emptyLevels)))
	}
	note := strings.Join(parts, "; ")
	if !pl.instance.waiting.addWarning(pod.UID, note) {
		return
	}
	klog.FromContext(ctx).V(4).Info("What the pod asks to be near has no effect", "note", note)
	if recorder := pl.handle.EventRecorder(); recorder != nil { // nil in a simulation
		recorder.Eventf(pod, nil, corev1.EventTypeWarning, ReasonIgnored, actionIgnored, "%s", messages.Cut(note))
	}
}
