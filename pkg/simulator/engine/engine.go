// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/compat"
)

// Engine schedules pods, one after the other, onto a cluster in memory. It is not
// safe for concurrent use; several engines are independent of each other.
type Engine struct {
	profiles profile.Map
	// only is the profile that schedules every pod; nil if each names its own.
	only framework.Framework
	// instances are the plugins by profile and name.
	instances map[string]map[string]fwk.Plugin

	cache     schedcache.Cache
	snapshot  *schedcache.Snapshot
	informers *informerSet
	api       *api
	claims    *claimStore
	nominator *nominator
	activated *activator
	events    *warningRecorder

	rand        *rand.Rand
	parallelism int
	preempts    bool
	// podGroups is whether members of a PodGroup are placed in one cycle.
	podGroups bool
	cycle     *cycle

	// nextStart is where the next search for feasible nodes begins, and sampleSizes are
	// after how many it ends.
	nextStart   int
	sampleSizes map[sampleKey]int
	// statuses and rejected are reused from search to search.
	statuses []*fwk.Status
	rejected []nodeResult
	needs    map[string]*needs

	cancel context.CancelFunc
}

// New builds an engine with the objects of the cluster: bound pods occupy their
// nodes, and pending ones wait for [Engine.Schedule]. ctx ends what plugins run in
// the background; so does [Engine.Close].
//
// An error names what is wrong: the field of the configuration, the plugin that
// cannot be simulated, or the kind of object that a plugin needs and that the
// cluster has not.
func New(ctx context.Context, opts Options, objects *cluster.Cluster) (*Engine, error) {
	if opts.Config == nil {
		return nil, errors.New("no configuration")
	}
	if opts.Parallelism < 0 {
		return nil, fmt.Errorf("parallelism: %d must not be negative", opts.Parallelism)
	}
	config, err := selectProfiles(opts.Config, opts.SchedulerName)
	if err != nil {
		return nil, err
	}
	// The cache and the frameworks record from the start, without asking.
	metrics.Register()
	ctx, cancel := context.WithCancel(ctx)
	podGroups := utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload)
	e := &Engine{
		api:         newAPI(),
		nominator:   newNominator(),
		activated:   &activator{},
		events:      &warningRecorder{},
		rand:        rand.New(rand.NewPCG(opts.Seed, 0)), //nolint:gosec // reproducible on purpose
		parallelism: max(1, opts.Parallelism),
		preempts:    opts.Preemption,
		podGroups:   podGroups,
		sampleSizes: map[sampleKey]int{},
		cancel:      cancel,
	}
	if e.cycle, err = newCycle(ctx, e, config.PercentageOfNodesToScore); err != nil {
		cancel()
		return nil, err
	}
	e.informers = newInformerSet(e.api)
	e.claims = &claimStore{informer: e.informers.byResource[claimResource]}
	e.api.claims, e.api.patchPodStatus = e.claims, e.patchPodStatus
	if e.profiles, err = e.newFrameworks(ctx, config, opts); err == nil {
		if opts.SchedulerName != "" {
			e.only = e.profiles[config.Profiles[0].SchedulerName]
		}
		err = e.load(ctx, objects)
	}
	if err == nil {
		e.needs, err = newNeeds(config, e.profiles, objects)
	}
	if err != nil {
		cancel()
		return nil, err
	}
	return e, nil
}

// Close ends what plugins run in the background. The engine must not be used
// afterwards.
func (e *Engine) Close() error {
	e.cancel()
	return e.profiles.Close()
}

// load makes the objects known, in the order of [cluster.Supported]. Plugins are
// told of them as of what was there before they started.
func (e *Engine) load(ctx context.Context, objects *cluster.Cluster) error {
	byResource := map[string][]runtime.Object{}
	for _, obj := range objects.Others() {
		if kind, ok := cluster.KindOf(obj); ok {
			byResource[kind.Resource] = append(byResource[kind.Resource], obj)
		}
	}
	for _, node := range objects.Nodes() {
		byResource["nodes"] = append(byResource["nodes"], node)
	}
	for _, pod := range objects.Pods() {
		byResource["pods"] = append(byResource["pods"], pod)
	}
	logger := klog.FromContext(ctx)
	for _, kind := range cluster.Supported() {
		for _, obj := range byResource[kind.Resource] {
			if claim, ok := obj.(*resourcev1.ResourceClaim); ok {
				if err := e.claims.load(claim); err != nil {
					return err
				}
				continue
			}
			if err := e.informers.byResource[kind.Resource].set(obj, true); err != nil {
				return err
			}
			switch obj := obj.(type) {
			case *corev1.Node:
				e.cache.AddNode(logger, obj)
			case *corev1.Pod:
				if err := e.observe(logger, obj); err != nil {
					return err
				}
			default:
				e.setPodGroup(logger, nil, obj)
			}
		}
	}
	if err := e.prepare(ctx); err != nil {
		return err
	}
	return e.cache.UpdateSnapshot(logger, e.snapshot)
}

// prepare has the plugins do what they do in a scheduler before the first cycle.
func (e *Engine) prepare(ctx context.Context) error {
	for _, plugins := range e.instances {
		for name, plugin := range plugins {
			if p, ok := plugin.(interface {
				Prepare(ctx context.Context) error
			}); ok {
				if err := p.Prepare(ctx); err != nil {
					return fmt.Errorf("preparing %s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// observe makes a pod known to the scheduler's cache or nominator, as the
// scheduler's own event handlers do.
func (e *Engine) observe(logger klog.Logger, pod *corev1.Pod) error {
	if pod.Spec.NodeName != "" {
		if err := e.cache.AddPod(logger, pod); err != nil {
			return fmt.Errorf("adding pod %s to the cache: %w", klog.KObj(pod), err)
		}
		return nil
	}
	if e.Handles(pod) {
		e.cache.AddPodGroupMember(pod)
	}
	if pod.Status.NominatedNodeName != "" {
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			return fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
		}
		e.nominator.AddNominatedPod(logger, info, nil)
	}
	return nil
}

// Delete removes a pod, bound or pending, as if it had been deleted in the API.
// What it held is free when Delete returns. A pod that is not there is no error.
func (e *Engine) Delete(ctx context.Context, namespace, name string) error {
	pod := e.Pod(namespace, name)
	if pod == nil {
		return nil
	}
	if err := e.informers.byResource["pods"].remove(pod); err != nil {
		return err
	}
	if err := e.releaseClaims(pod); err != nil {
		return err
	}
	e.nominator.DeleteNominatedPodIfExists(pod)
	if pod.Spec.NodeName == "" {
		e.cache.RemovePodGroupMember(pod)
		return nil
	}
	if err := e.cache.RemovePod(klog.FromContext(ctx), pod); err != nil {
		return fmt.Errorf("removing pod %s from the cache: %w", klog.KObj(pod), err)
	}
	return nil
}

// Pod returns a pod as the API server would have it now, or nil.
func (e *Engine) Pod(namespace, name string) *corev1.Pod {
	obj, ok, err := e.informers.byResource["pods"].GetIndexer().GetByKey(types.NamespacedName{Namespace: namespace, Name: name}.String())
	if err != nil || !ok {
		return nil
	}
	pod, _ := obj.(*corev1.Pod)
	return pod
}

// Warnings returns the Warning events that plugins have recorded so far, a line
// each.
func (e *Engine) Warnings() []string { return e.events.lines() }

// InQueueOrder returns the pods in the order in which the queue of their
// scheduler would hand them out if all came at once: by the profile's QueueSort
// plugin, with the creation timestamp as the time of arrival. Each is alone, for
// [Engine.Schedule], or with the other members of its PodGroup, for
// [Engine.SchedulePodGroup]. Those that are equal to it keep their order. The argument
// is not changed.
func (e *Engine) InQueueOrder(pods []*corev1.Pod) ([][]*corev1.Pod, error) {
	less := e.queueSort()
	type entity struct {
		queued queuedEntity
		pods   []*corev1.Pod
	}
	var entities []entity
	order := make(map[*corev1.Pod]int, len(pods))
	for i, pod := range pods {
		order[pod] = i
	}
	for _, together := range e.byPodGroup(pods) {
		queued := make([]*framework.QueuedPodInfo, 0, len(together))
		for _, pod := range together {
			info, err := newQueuedPod(pod, order[pod])
			if err != nil {
				return nil, err
			}
			queued = append(queued, info)
		}
		entities = append(entities, entity{e.queuedEntityOf(queued), together})
	}
	slices.SortStableFunc(entities, func(a, b entity) int {
		switch {
		case less(a.queued, b.queued):
			return -1
		case less(b.queued, a.queued):
			return 1
		default:
			return 0
		}
	})
	sorted := make([][]*corev1.Pod, 0, len(entities))
	for i := range entities {
		sorted = append(sorted, entities[i].pods)
	}
	return sorted, nil
}

// newQueuedPod returns a pod as the queue hands it out. Of pods that were created in the
// same second those came first that stand first in the input, where the pod is at this place.
func newQueuedPod(pod *corev1.Pod, place int) (*framework.QueuedPodInfo, error) {
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", klog.KObj(pod), err)
	}
	return compat.NewQueuedPodInfo(info, pod.CreationTimestamp.Add(time.Duration(place))), nil
}

// queueSort returns the order that all profiles share.
func (e *Engine) queueSort() fwk.LessFunc {
	for _, fw := range e.profiles {
		return fw.QueueSortFunc()
	}
	return nil
}

// frameworkFor returns the profile that schedules the pod.
func (e *Engine) frameworkFor(pod *corev1.Pod) (framework.Framework, error) {
	if e.only != nil {
		return e.only, nil
	}
	if fw, ok := e.profiles[pod.Spec.SchedulerName]; ok {
		return fw, nil
	}
	names := slices.Sorted(maps.Keys(e.profiles))
	return nil, fmt.Errorf("pod %s: spec.schedulerName: %q is none of the profiles %s", klog.KObj(pod), pod.Spec.SchedulerName, strings.Join(names, ", "))
}

// Handles reports whether the engine has a profile for the pod.
func (e *Engine) Handles(pod *corev1.Pod) bool {
	_, err := e.frameworkFor(pod)
	return err == nil
}
