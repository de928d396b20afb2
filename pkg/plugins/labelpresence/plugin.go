// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package labelpresence

import (
	"context"
	"fmt"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

// Name is the name of the plugin in the registry and in configurations.
const Name = "LabelPresence"

// LabelPresence is the plugin. See the package comment.
type LabelPresence struct {
	handle      fwk.Handle
	policy      *policy
	preferences preferences
	// namespaces is nil if nothing depends on a namespace's labels.
	namespaces *namespaceWatch
}

var (
	_ fwk.PreFilterPlugin   = &LabelPresence{}
	_ fwk.FilterPlugin      = &LabelPresence{}
	_ fwk.PreScorePlugin    = &LabelPresence{}
	_ fwk.ScorePlugin       = &LabelPresence{}
	_ fwk.EnqueueExtensions = &LabelPresence{}
	_ fwk.SignPlugin        = &LabelPresence{}
)

// Name returns the name of the plugin.
func (pl *LabelPresence) Name() string { return Name }

// New builds the plugin from args, which must be *config.LabelPresenceArgs and
// valid; the error names every field that is not. It adds event handlers to the
// handle's informers: for namespaces where a namespaceSelector or tenancy needs
// them, and for pods and nodes where tenancy does.
func New(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
	lpArgs, ok := args.(*config.LabelPresenceArgs)
	if !ok {
		return nil, fmt.Errorf("want args of type *config.LabelPresenceArgs, got %T", args)
	}
	// The root of the paths is the kind: which profile the args belong to is not
	// known here.
	if err := validation.ValidateLabelPresenceArgs(field.NewPath(Name+"Args"), lpArgs); err != nil {
		return nil, err
	}

	registerMetrics()
	profile := handle.ProfileName()
	rules, err := newRules(lpArgs.Rules, profile, func(index int) metrics.CounterMetric {
		return nodeRejections.WithLabelValues(profile, "rules["+strconv.Itoa(index)+"]")
	})
	if err != nil {
		return nil, err
	}
	pl := &LabelPresence{
		handle: handle,
		policy: &policy{
			rules:            rules,
			exemptDaemonPods: lpArgs.DaemonSets == config.DaemonSetsExempt,
		},
		preferences: newPreferences(lpArgs.Preferences),
	}
	if lpArgs.Tenancy != nil {
		pl.policy.tenancy = newTenancy(lpArgs.Tenancy, profile, nodeRejections.WithLabelValues(profile, ruleTenancy))
	}
	if !pl.policy.usesNamespaces() {
		return pl, nil
	}
	if handle.SharedInformerFactory() == nil {
		return nil, fmt.Errorf("%s with a namespaceSelector or tenancy needs a framework with an informer factory", Name)
	}
	if err := pl.watchNamespaces(ctx); err != nil {
		return nil, fmt.Errorf("watching namespaces: %w", err)
	}
	return pl, nil
}

// signature is all that the plugin reads of a pod. Two pods with equal
// signatures get the same result and score for every node.
type signature struct {
	// Rules are the indexes of the rules that select the pod.
	Rules []int `json:"rules,omitempty"`
	// Namespace is set only if the labels of the namespace, or its exemption from
	// tenancy, decide something.
	Namespace string `json:"namespace,omitempty"`
}

// SignPod signs every pod: no result depends on other pods. A namespace's labels
// can change between two equal pods, but the node that the first one's result
// proposes for the second still goes through Filter.
func (pl *LabelPresence) SignPod(_ context.Context, pod *corev1.Pod) ([]fwk.SignFragment, *fwk.Status) {
	selected := pl.policy.selectFor(pod)
	value := signature{Rules: selected.rules}
	if selected.needsNamespace {
		value.Namespace = pod.Namespace
	}
	return []fwk.SignFragment{{Key: names.LabelPresenceFragment, Value: value}}, nil
}

const (
	metricsSubsystem = "labelpresence"

	// ruleTenancy is the value of the label "rule" for tenancy. The other values
	// are rules[0], rules[1] and so on: as many as the arguments have rules.
	ruleTenancy = "tenancy"
)

var (
	nodeRejections = metrics.NewCounterVec(plugin.CounterOpts(metricsSubsystem, "node_rejections_total",
		"Number of times that Filter rejected a node for a pod, by the first rule of the profile that the node broke (rules[i] or tenancy). "+
			"One pod counts once per node and attempt, and again in simulations of preemption."), []string{"profile", "rule"})

	tenancyViolations = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace:      "berth",
		Subsystem:      metricsSubsystem,
		Name:           "tenancy_violations",
		Help:           "Number of pods that are on a node where the tenancy of the profile does not allow them, whoever put them there.",
		StabilityLevel: metrics.ALPHA,
	}, []string{"profile"})
)

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeRejections, tenancyViolations)
})
