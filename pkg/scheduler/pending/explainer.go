// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package pending

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
)

// Options are what an Explainer knows of the scheduler that it runs in.
type Options struct {
	// Profiles is what each profile runs in the end (framework.ListPlugins), by
	// schedulerName.
	Profiles map[string]*schedconfig.Plugins
	// DeviceProfiles are the schedulerNames of the profiles that give shares of
	// devices, in the order in which they are named.
	DeviceProfiles []string
	// Gangs is nil unless a profile places gangs.
	Gangs *Gangs
	// Measuring are the plugins of each profile that measure how far nodes are, by
	// schedulerName. Without any no node is named.
	Measuring map[string][]shortfall.Plugin
}

// Gangs is how gangs look in the API.
type Gangs struct {
	// Plugin is the name of the plugin that places them.
	Plugin string
	// GaveUp returns how many members of the pod's gang had a node when its last attempt
	// gave the gang up, and whether that was because this pod found none. It is asked once
	// for each failed attempt.
	GaveUp func(pod *corev1.Pod) (found int, this, ok bool)
	// PodGroups lists them. Its objects are *unstructured.Unstructured.
	PodGroups cache.GenericLister
}

// Explainer rewrites the messages of failed attempts. It is safe for concurrent
// use: attempts fail in the scheduling cycle and in binding cycles.
type Explainer struct {
	Options
	nodes corelisters.NodeLister
	pods  corelisters.PodLister
	// order is the position of each Filter plugin, by schedulerName: a node that a
	// later one refused was closer to taking the pod.
	order map[string]map[string]int
	// afterFilter are the plugins that may reject a pod that has a node already, by
	// schedulerName.
	afterFilter map[string]map[string]bool
	renewals    flowcontrol.PassiveRateLimiter
}

// New returns an Explainer. The factory is the scheduler's own: its informers of
// nodes and pods run in any case.
func New(factory informers.SharedInformerFactory, options Options) *Explainer {
	e := &Explainer{
		Options:     options,
		nodes:       factory.Core().V1().Nodes().Lister(),
		pods:        factory.Core().V1().Pods().Lister(),
		order:       map[string]map[string]int{},
		afterFilter: map[string]map[string]bool{},
		renewals:    newRenewals(),
	}
	for name, plugins := range options.Profiles {
		order := map[string]int{}
		for i, plugin := range plugins.Filter.Enabled {
			order[plugin.Name] = i
		}
		e.order[name] = order
		e.afterFilter[name] = afterFilter(plugins)
	}
	return e
}

// Wrap returns next with rewritten messages. Of a status that carries a FitError,
// next gets a copy with another text, and so of one for a member of a PodGroup. Where
// tenancy applies to the pod, the text does not depend on the nodes that it keeps from the
// pod. Everything else passes as it is: errors, the code, the plugins that rejected the pod,
// the nominated node.
func (e *Explainer) Wrap(next scheduler.FailureHandlerFn) scheduler.FailureHandlerFn {
	return func(ctx context.Context, fw framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		fit, ok := status.AsError().(*framework.FitError) //nolint:errorlint // the scheduler's own handler looks at the error itself too
		if !ok {
			redact := e.view(podInfo.Pod) != nil
			if !redact || !errors.Is(status.AsError(), scheduler.ErrNoNodesAvailable) {
				next(ctx, fw, podInfo, explainGroup(podInfo.Pod, status, redact), nominating, start)
				return
			}
			fit = &framework.FitError{Pod: podInfo.Pod, Diagnosis: framework.Diagnosis{NodeToStatus: framework.NewDefaultNodeToStatus()}}
		}
		explained, action := e.explain(fw, podInfo.Pod, fit)
		next(ctx, recording{fw, action}, podInfo, status.Clone().WithError(explained), nominating, start)
	}
}

// explain returns fit with another text, and the action of its event.
func (e *Explainer) explain(fw framework.Framework, pod *corev1.Pod, fit *framework.FitError) (*framework.FitError, string) {
	view := e.view(pod)
	fit = seenIn(view, fw, pod, fit)
	m := e.read(fw.ProfileName(), pod, fit, view)
	headline, action := e.headline(m)
	explained := *fit
	if m.waitedOnPermit {
		// The one node was the pod's own until its gang was given up.
		if nodes, err := e.nodes.List(labels.Everything()); err == nil && len(nodes) > 0 {
			explained.NumAllNodes = len(slices.DeleteFunc(nodes, func(node *corev1.Node) bool { return view != nil && !view.Sees(node) }))
		}
	}
	// What PreFilter says takes the place of the reasons of the nodes.
	explained.Diagnosis.PreFilterMsg = join(headline, m.preFilterMessage())
	explained.Diagnosis.PostFilterMsg = ""
	rest := m.postFilterMessage(fw)
	if n := e.newNearest(fw, m); n != nil {
		rest = strings.TrimSpace(n.text(told(e.latest(pod), explained.Error(), rest)) + " " + rest)
	}
	explained.Diagnosis.PostFilterMsg = rest
	return &explained, action
}

// latest returns the pod as the informer has it: its condition is the last that was seen.
func (e *Explainer) latest(pod *corev1.Pod) *corev1.Pod {
	if latest, err := e.pods.Pods(pod.Namespace).Get(pod.Name); err == nil && latest.UID == pod.UID {
		return latest
	}
	return pod
}
