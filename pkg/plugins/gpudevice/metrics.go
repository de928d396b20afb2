// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"context"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/component-base/metrics"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/internal/plugin"
)

const metricsSubsystem = "gpudevice"

// Values of the label reason of pod_rejections_total beside those of
// device.InvalidReason.
const (
	// rejectionNoNode is a request that no node of the cluster could serve if it were
	// empty.
	rejectionNoNode = "NoNode"
	// rejectionInvalid is a request that cannot be read for another reason.
	rejectionInvalid = "Invalid"
)

var (
	nodeRejections = metrics.NewCounterVec(plugin.CounterOpts(metricsSubsystem, "node_rejections_total",
		"Number of times that Filter refused a node to a pod, by reason. "+
			"One pod counts once per node and attempt, and again in simulations of preemption."), []string{"profile", "reason"})

	podRejections = metrics.NewCounterVec(plugin.CounterOpts(metricsSubsystem, "pod_rejections_total",
		"Number of attempts that ended because the pod's request for devices can never be served, by reason."), []string{"profile", "reason"})

	conflicts = metrics.NewCounter(plugin.CounterOpts(metricsSubsystem, "assignment_conflicts_total",
		"Number of pods that were seen bound to a device of which more is held than it has: two schedulers bound pods at the same time."))

	unrecordedPods = metrics.NewCounter(plugin.CounterOpts(metricsSubsystem, "pods_without_allocation_total",
		"Number of bound pods that use devices without a valid allocation record."))

	recordEdits = metrics.NewCounter(plugin.CounterOpts(metricsSubsystem, "record_edits_total",
		"Number of changes to the record of a bound pod's devices. The first record counts; a change frees nothing."))

	bindingsUnknown = metrics.NewCounter(plugin.CounterOpts(metricsSubsystem, "bindings_unknown_total",
		"Number of Bindings with an unknown outcome: the request ended without an answer from the API server."))

	unfencedPods = metrics.NewGaugeVec(&metrics.GaugeOpts{
		Namespace: "berth", Subsystem: metricsSubsystem, Name: "unfenced_pods", StabilityLevel: metrics.ALPHA,
		Help: "Pods that are not scheduled because a Binding of a former scheduler process may still be written to them (Refused), or because they are too large for any (TooLarge).",
	}, []string{"reason"})

	deposedProcess = metrics.NewGauge(&metrics.GaugeOpts{
		Namespace: "berth", Subsystem: metricsSubsystem, Name: "replaced", StabilityLevel: metrics.ALPHA,
		Help: "1 if another scheduler process has taken over and this one allocates no shares until it is restarted.",
	})
)

// registerMetrics registers the metrics in the registry that kube-scheduler
// serves. What is extracted from a vector before that counts nothing.
var registerMetrics = sync.OnceFunc(func() {
	legacyregistry.MustRegister(nodeRejections, podRejections, conflicts, unrecordedPods, recordEdits, bindingsUnknown, unfencedPods, deposedProcess)
	legacyregistry.CustomMustRegister(theCollector)
})

// counters are the counters of one profile.
type counters struct {
	nodeRejections [device.Reasons]metrics.CounterMetric
	podRejections  *metrics.CounterVec
}

func newCounters(profile string) counters {
	c := counters{podRejections: podRejections}
	for r := device.Fits + 1; r < device.Reasons; r++ {
		c.nodeRejections[r] = nodeRejections.WithLabelValues(profile, r.String())
	}
	return c
}

const (
	// maxModels is how many models have a value of the label model of their own,
	// the first by name. The rest share otherModels: models are node labels, which
	// anybody with a node can make up.
	maxModels   = 32
	otherModels = "other"
	// unknownModel is the value for nodes without a model label.
	unknownModel = "unknown"
)

var (
	capacityDesc = metrics.NewDesc("berth_gpudevice_capacity_milli",
		"Thousandths of devices on shared nodes, excluding cordoned devices, by model.", []string{"profile", "model"}, nil, metrics.ALPHA, "")
	allocatedDesc = metrics.NewDesc("berth_gpudevice_allocated_milli",
		"Thousandths of devices on shared nodes, excluding cordoned devices, that pods hold or that are assumed for them, by model.", []string{"profile", "model"}, nil, metrics.ALPHA, "")
	cordonedCapacityDesc = metrics.NewDesc("berth_gpudevice_cordoned_capacity_milli",
		"Thousandths of cordoned devices on shared nodes, by model.", []string{"profile", "model"}, nil, metrics.ALPHA, "")
	cordonedAllocatedDesc = metrics.NewDesc("berth_gpudevice_cordoned_allocated_milli",
		"Thousandths of cordoned devices on shared nodes that pods hold or that are assumed for them, by model.", []string{"profile", "model"}, nil, metrics.ALPHA, "")
	fragmentationDesc = metrics.NewDesc("berth_gpudevice_fragmentation_milli",
		"Idle thousandths of devices on shared nodes by what they are to the expected workload; only Q3Satisfied is of use to it. Absent while nothing is expected.",
		[]string{"profile", "cause"}, nil, metrics.ALPHA, "")
	invalidNodesDesc = metrics.NewDesc("berth_gpudevice_refused_nodes",
		"Nodes that take nothing because their labels contradict each other, by reason.", []string{"profile", "reason"}, nil, metrics.ALPHA, "")
	blockedDesc = metrics.NewDesc("berth_gpudevice_blocked_nodes",
		"Nodes that take no new share because a pod uses devices there and it is not known which: it has no record, or a device plugin or DRA driver gave them to it; or because another scheduler instance gives shares there too.", []string{"profile"}, nil, metrics.ALPHA, "")
	unlistedDesc = metrics.NewDesc("berth_gpudevice_unlisted_devices",
		"Devices that pods were given by UUID and that their node no longer lists.", []string{"profile"}, nil, metrics.ALPHA, "")
	reservationsDesc = metrics.NewDesc("berth_gpudevice_reservations",
		"Pods for which devices are assumed and that were not seen bound yet.", []string{"profile"}, nil, metrics.ALPHA, "")
	reservationAgeDesc = metrics.NewDesc("berth_gpudevice_oldest_reservation_seconds",
		"Age of the oldest devices assumed for a pod that was not seen bound yet; 0 if there is none.", []string{"profile"}, nil, metrics.ALPHA, "")
)

// theCollector computes the state of the devices when it is asked for. It is one
// for the process, as the registry that it is in is.
var theCollector = &collector{plugins: map[string]*GPUDevice{}}

// collector serves the plugins of the profiles that run, by profile.
type collector struct {
	metrics.BaseStableCollector

	mu      sync.Mutex
	plugins map[string]*GPUDevice
}

// addToCollector adds a plugin to the collector until ctx ends. Where a process runs
// profiles of the same name one after another (a simulator), the last one is
// served.
func addToCollector(ctx context.Context, pl *GPUDevice) {
	profile := pl.handle.ProfileName()
	theCollector.mu.Lock()
	defer theCollector.mu.Unlock()
	theCollector.plugins[profile] = pl
	context.AfterFunc(ctx, func() {
		theCollector.mu.Lock()
		defer theCollector.mu.Unlock()
		if theCollector.plugins[profile] == pl {
			delete(theCollector.plugins, profile)
		}
	})
}

// DescribeWithStability implements metrics.StableCollector.
func (c *collector) DescribeWithStability(ch chan<- *metrics.Desc) {
	for _, desc := range []*metrics.Desc{capacityDesc, allocatedDesc, cordonedCapacityDesc, cordonedAllocatedDesc, fragmentationDesc, invalidNodesDesc, blockedDesc, unlistedDesc, reservationsDesc, reservationAgeDesc, nodeCapacityDesc, nodeAllocatedDesc, namespaceAllocatedDesc} {
		ch <- desc
	}
}

// CollectWithStability implements metrics.StableCollector.
func (c *collector) CollectWithStability(ch chan<- metrics.Metric) {
	c.mu.Lock()
	plugins := make([]*GPUDevice, 0, len(c.plugins))
	for _, pl := range c.plugins {
		plugins = append(plugins, pl)
	}
	c.mu.Unlock()
	for _, pl := range plugins {
		profile := pl.handle.ProfileName()
		gauge := func(desc *metrics.Desc, value float64, labels ...string) {
			ch <- metrics.NewLazyConstMetric(desc, metrics.GaugeValue, value, append([]string{profile}, labels...)...)
		}
		u := pl.collectMetrics()
		for model, amounts := range u.byModel() {
			gauge(capacityDesc, float64(amounts.capacity), model)
			gauge(allocatedDesc, float64(amounts.allocated), model)
			if amounts.cordonedCapacity > 0 {
				gauge(cordonedCapacityDesc, float64(amounts.cordonedCapacity), model)
				gauge(cordonedAllocatedDesc, float64(amounts.cordonedAllocated), model)
			}
		}
		if u.expected {
			for cause, milli := range u.fragmentation {
				gauge(fragmentationDesc, milli, device.Cause(cause).String()) //nolint:gosec // an index below device.Causes
			}
		}
		for reason, nodes := range u.invalidNodes {
			gauge(invalidNodesDesc, float64(nodes), string(reason))
		}
		gauge(blockedDesc, float64(u.blocked.Len()))
		gauge(unlistedDesc, float64(u.unlisted))
		gauge(reservationsDesc, float64(u.reservations))
		gauge(reservationAgeDesc, u.oldest)
		u.detail.collect(gauge)
	}
}

// metricsSnapshot is the state of all devices at one time.
type metricsSnapshot struct {
	models        map[string]*modelUsage
	expected      bool
	fragmentation device.Fragmentation
	invalidNodes  map[device.InvalidReason]int
	blocked       sets.Set[string]
	unlisted      int
	reservations  int
	oldest        float64
	// detail is nil without nodeAndNamespaceMetrics.
	detail *usageDetail
}

// modelUsage is of devices that are not cordoned, and of those that are.
type modelUsage struct {
	capacity, allocated, cordonedCapacity, cordonedAllocated int64
}

// collectMetrics computes the state from the informer's nodes and the allocation cache, as a
// scheduling cycle would from a NodeInfo. Free CPU, and whether a device plugin or DRA
// driver gave devices to a pod there, is as the last cycle that looked at the node saw it.
func (pl *GPUDevice) collectMetrics() *metricsSnapshot {
	u := &metricsSnapshot{models: map[string]*modelUsage{}, invalidNodes: map[device.InvalidReason]int{}, blocked: sets.New[string]()}
	if pl.nodeAndNamespaceMetrics {
		u.detail = &usageDetail{nodes: map[nodeLabels]modelUsage{}, namespaces: map[string]int64{}}
	}
	held := pl.allocations.allocationsByNode(u)
	expected := pl.workload.published.Load()
	u.expected = expected != nil
	for _, known := range pl.deviceNodes.all() {
		object, node := known.object, known.node
		if pl.publishedSlices.on(object) {
			node = node.PublishedByDRA()
		}
		switch node.Kind {
		case device.NodeInvalid:
			u.invalidNodes[node.Invalid.Reason]++
			continue
		case device.NodeShared:
		default:
			u.leaveOut(object.Name, node)
			continue
		}
		used, _ := node.Usage()
		amounts := u.of(node.Model)
		capacity := used.IdleMilli()
		amounts.capacity += capacity
		amounts.cordonedCapacity += int64(node.Cordoned.Len()) * device.MilliPerDevice
		var seen *nodeView
		if cell := pl.nodes.get(object.Name); cell != nil {
			seen = cell.view.Load()
		}
		if seen != nil && seen.usedOutsideShares {
			u.blocked.Insert(object.Name)
		}
		for _, h := range held[object.Name] {
			if h.allocation == nil {
				continue
			}
			podUsage, err := h.allocation.On(node)
			if err != nil {
				u.blocked.Insert(object.Name)
			}
			u.unlisted += len(h.allocation.Missing(node))
			used.Add(podUsage)
			u.detail.addPod(h.pod.Namespace, podUsage)
		}
		amounts.add(&used)
		u.detail.addNode(object.Name, node, capacity, &used)
		if u.expected {
			cpuFree := object.Status.Allocatable.Cpu().MilliValue()
			if seen != nil {
				cpuFree = seen.cpuFree
			}
			fragmentation := expected.forNode(node).Fragmentation(&used, cpuFree)
			for cause := range fragmentation {
				u.fragmentation[cause] += fragmentation[cause]
			}
		}
	}
	return u
}

// leaveOut leaves out a node that is not shared here. What is the matter with it is for the
// metrics of its pool.
func (u *metricsSnapshot) leaveOut(name string, node *device.Node) {
	if node.Kind == device.NodeInOtherPool {
		u.blocked.Delete(name)
	}
}

// add adds what is used of the devices.
func (m *modelUsage) add(used *device.Usage) {
	allocated, cordoned := used.AllocatedMilli()
	m.allocated += allocated
	m.cordonedAllocated += cordoned
}

func (u *metricsSnapshot) of(model string) *modelUsage {
	if model == "" {
		model = unknownModel
	}
	if u.models[model] == nil {
		u.models[model] = &modelUsage{}
	}
	return u.models[model]
}

// byModel returns the amounts by the value of the label.
func (u *metricsSnapshot) byModel() map[string]modelUsage {
	models := make([]string, 0, len(u.models))
	for model := range u.models {
		models = append(models, model)
	}
	slices.Sort(models)
	amounts := map[string]modelUsage{}
	for i, model := range models {
		value := model
		if i >= maxModels {
			value = otherModels
		}
		sum := amounts[value]
		sum.capacity += u.models[model].capacity
		sum.allocated += u.models[model].allocated
		sum.cordonedCapacity += u.models[model].cordonedCapacity
		sum.cordonedAllocated += u.models[model].cordonedAllocated
		amounts[value] = sum
	}
	return amounts
}

// allocationsByNode returns what is held on each node, and adds to u what it comes by.
func (c *allocationCache) allocationsByNode(u *metricsSnapshot) map[string]podAllocations {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	held := make(map[string]podAllocations, len(c.byNode))
	for node, pods := range c.byNode {
		for _, h := range pods {
			held[node] = append(held[node], h)
			switch h.phase {
			case assumed, bindingUnknown:
				u.reservations++
				u.oldest = max(u.oldest, now.Sub(h.since).Seconds())
			case unrecorded:
				u.blocked.Insert(node)
			case bound:
				if h.otherInstance {
					u.blocked.Insert(node)
				}
			}
		}
	}
	return held
}
