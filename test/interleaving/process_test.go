// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
)

// informer is an informer of which each move is a step of the explorer: its store takes the next
// change of its watch, and each of its handlers the next one of what the store has taken. So a
// handler is told after the store has changed, each handler in order, and the two at different
// times, as with client-go's. A list replaces the store, and what is missing in it is told as a
// tombstone.
type informer struct {
	clientcache.SharedIndexInformer

	store   clientcache.Indexer
	version int
	// next is the index in the log of the change that the watch delivers next.
	next int
	// plugin is the handler of GPUDevice, and scheduler what feeds the scheduler's cache and queue;
	// each with what it has not been told yet.
	plugin    clientcache.ResourceEventHandler
	toPlugin  []told
	scheduler func(old, updated metav1.Object)
	toCache   []told
}

// told is what a handler is told.
type told struct {
	old, updated metav1.Object
	do           func()
}

func newInformer(scheduler func(old, updated metav1.Object)) *informer {
	return &informer{store: clientcache.NewIndexer(clientcache.MetaNamespaceKeyFunc, clientcache.Indexers{}), scheduler: scheduler}
}

// versionedStore is the store, which knows what version it has reached.
type versionedStore struct {
	clientcache.Indexer

	informer *informer
}

func (s versionedStore) LastStoreSyncResourceVersion() string {
	return strconv.Itoa(s.informer.version)
}

func (i *informer) GetStore() clientcache.Store                  { return versionedStore{i.store, i} }
func (i *informer) GetIndexer() clientcache.Indexer              { return i.store }
func (i *informer) LastSyncResourceVersion() string              { return strconv.Itoa(i.version) }
func (i *informer) AddIndexers(added clientcache.Indexers) error { return i.store.AddIndexers(added) }

func (i *informer) AddEventHandlerWithOptions(handler clientcache.ResourceEventHandler, _ clientcache.HandlerOptions) (clientcache.ResourceEventHandlerRegistration, error) {
	i.plugin = handler
	return registration{}, nil
}

// registration is a handler that has been told of the first list: see process.start.
type registration struct {
	clientcache.ResourceEventHandlerRegistration
}

func (registration) HasSyncedChecker() clientcache.DoneChecker { return registration{} }
func (registration) Name() string                              { return "first list" }
func (registration) Done() <-chan struct{}                     { return closed }

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// visible is the object as the watch has it: with the field selector of the scheduler a pod that
// has terminated is gone.
func visible(object metav1.Object) metav1.Object {
	if pod, ok := object.(*corev1.Pod); ok && (pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed) {
		return nil
	}
	return object
}

// unrecorded reports whether the store has the pod with a node and without a record.
func (i *informer) unrecorded(pod *corev1.Pod) bool {
	known, there, _ := i.store.GetByKey("default/" + pod.Name)
	return there && known.(*corev1.Pod).UID == pod.UID && known.(*corev1.Pod).Spec.NodeName != "" && known.(*corev1.Pod).Annotations[names.GPUAssignedAnnotation] == ""
}

// take has the store take the next change of a log.
func (i *informer) take(log []change) {
	c := log[i.next]
	i.next++
	i.version = c.version
	i.replace(c.old, visible(c.updated))
}

// replace puts an object into the store, nil for one that is gone.
func (i *informer) replace(old, updated metav1.Object) {
	object := updated
	if object == nil {
		object = old
	}
	key, _ := clientcache.MetaNamespaceKeyFunc(object)
	known, there, _ := i.store.GetByKey(key)
	switch {
	case updated == nil && there:
		_ = i.store.Delete(known)
		i.tell(known.(metav1.Object), nil, func() { i.plugin.OnDelete(known) })
	case updated == nil:
	case there:
		_ = i.store.Update(updated)
		i.tell(known.(metav1.Object), updated, func() { i.plugin.OnUpdate(known, updated) })
	default:
		_ = i.store.Add(updated)
		i.tell(nil, updated, func() { i.plugin.OnAdd(updated, false) })
	}
}

// tell queues a change for both handlers.
func (i *informer) tell(old, updated metav1.Object, plugin func()) {
	i.toPlugin = append(i.toPlugin, told{old, updated, plugin})
	i.toCache = append(i.toCache, told{old, updated, func() { i.scheduler(old, updated) }})
}

// relist replaces the store by what there is now, with no word on what was in between.
func (i *informer) relist(objects []metav1.Object, version, next int) {
	there := map[string]bool{}
	for _, object := range objects {
		if object = visible(object); object != nil {
			there[object.GetName()] = true
			i.replace(nil, object)
		}
	}
	for _, obj := range i.store.List() {
		if object := obj.(metav1.Object); !there[object.GetName()] {
			_ = i.store.Delete(obj)
			i.tell(object, nil, func() { i.plugin.OnDelete(clientcache.DeletedFinalStateUnknown{Obj: obj}) })
		}
	}
	i.version, i.next = version, next
}

// drain has the handlers told of everything.
func (i *informer) drain() {
	for len(i.toPlugin) > 0 {
		popFirst(&i.toPlugin).do()
	}
	for len(i.toCache) > 0 {
		popFirst(&i.toCache).do()
	}
}

func popFirst(queue *[]told) told {
	first := (*queue)[0]
	*queue = (*queue)[1:]
	return first
}

// process is a scheduler process: the plugin, kube-scheduler's cache and snapshot, and as much of
// its loop as the plugin can tell: one scheduling cycle at a time, in steps, and a goroutine for
// each binding cycle.
type process struct {
	fwk.Handle

	world  *world
	name   string
	index  int
	ctx    context.Context
	cancel context.CancelFunc

	plugin   *gpudevice.GPUDevice
	client   *client
	factory  informers.SharedInformerFactory
	pods     *informer
	nodes    *informer
	cache    cache.Cache
	snapshot *cache.Snapshot

	// leading is whether it schedules, alive whether it runs.
	leading, alive bool
	// queue are the pods that wait, by name, attempts how often each was tried, and binding
	// those with a binding cycle.
	queue    map[string]*corev1.Pod
	attempts map[string]int
	binding  map[string]bool
	cycle    *cycle
	// members are the cycles of the members of a group that are to be reserved after cycle.
	members []*cycle
	// phases are those of the ledger's allocations after the last step.
	phases map[string]string
	// threads are digests of what the goroutine of each pod has read since it waits for more than its
	// first answer; that of "" is the one that prepares.
	threads map[string]digest
	// past is a digest of the times that passed.
	past digest
	// epoch is the version at which it began to fence, fenced the newest that it has written then,
	// and looked the one of its informer when it looked last.
	epoch, fenced, looked int
	// starts counts how often the process was started.
	starts int
}

// cycle is a scheduling cycle on a snapshot.
type cycle struct {
	pod   *corev1.Pod
	state *framework.CycleState
	node  string
	// filtered is whether Filter has been run.
	filtered bool
	// past is a digest of what the steps so far have read.
	past digest
}

// startProcess starts a process; its informers have listed what there is.
func startProcess(tb testing.TB, w *world, index int) *process {
	tb.Helper()
	p := &process{world: w, index: index, name: "P" + strconv.Itoa(index+1)}
	p.start(tb)
	return p
}

func (p *process) start(tb testing.TB) {
	tb.Helper()
	p.ctx, p.cancel = context.WithCancel(p.world.ctx)
	p.starts++
	p.alive, p.leading, p.cycle, p.members = true, false, nil, nil
	p.past, p.epoch, p.fenced, p.looked, p.threads = 0, 0, 0, 0, map[string]digest{}
	p.queue, p.attempts, p.binding = map[string]*corev1.Pod{}, map[string]int{}, map[string]bool{}
	p.client = &client{process: p.name + primes(p.starts), net: &p.world.net}
	p.cache, p.snapshot = compat.NewCache(p.ctx, false), cache.NewEmptySnapshot()
	p.pods, p.nodes = newInformer(p.podChanged), newInformer(p.nodeChanged)
	p.factory = informers.NewSharedInformerFactory(p.client, 0)
	p.factory.InformerFor(&corev1.Pod{}, func(kubernetes.Interface, time.Duration) clientcache.SharedIndexInformer { return p.pods })
	p.factory.InformerFor(&corev1.Node{}, func(kubernetes.Interface, time.Duration) clientcache.SharedIndexInformer { return p.nodes })
	// Which of two processes has the greater name is not left to chance.
	uuid.SetRand(bytes.NewReader(bytes.Repeat([]byte{p.world.identity(p)}, 64)))
	built, err := gpudevice.New(p.ctx, p.world.arguments(), p)
	uuid.SetRand(nil)
	if err != nil {
		tb.Fatal(err)
	}
	p.plugin = built.(*gpudevice.GPUDevice)
	p.plugin.PrepareLater()
	p.relist()
	p.nodes.drain()
	p.pods.drain()
}

// primes tells the first run of a process from those after a restart.
func primes(starts int) string { return string(bytes.Repeat([]byte("'"), starts-1)) }

// relist lists pods and nodes anew.
func (p *process) relist() {
	s := p.world.server
	var pods, nodes []metav1.Object
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		nodes = append(nodes, s.nodes[name])
	}
	for _, name := range slices.Sorted(maps.Keys(s.pods)) {
		pods = append(pods, s.pods[name])
	}
	p.nodes.relist(nodes, s.version, len(s.nodeLog))
	p.pods.relist(pods, s.version, len(s.podLog))
}

// What follows is the framework's handle.

func (p *process) SharedInformerFactory() informers.SharedInformerFactory { return p.factory }
func (p *process) ClientSet() kubernetes.Interface                        { return p.client }
func (p *process) KubeConfig() *rest.Config                               { return nil }
func (p *process) EventRecorder() events.EventRecorderLogger              { return nil }
func (p *process) ProfileName() string                                    { return names.Scheduler }
func (p *process) SnapshotSharedLister() fwk.SharedLister                 { return p.snapshot }
func (p *process) Extenders() []fwk.Extender                              { return nil }
func (p *process) APICacher() fwk.APICacher                               { return nil }
func (p *process) SharedDRAManager() fwk.SharedDRAManager                 { return nil }

// NominatedPodsForNode returns the nominated pod of the scenario as long as it waits.
func (p *process) NominatedPodsForNode(string) []fwk.PodInfo {
	pod := p.queue[p.world.nominated]
	if pod == nil || p.binding[pod.Name] {
		return nil
	}
	info, err := framework.NewPodInfo(pod)
	p.must(err)
	return []fwk.PodInfo{info}
}

// Activate does nothing: a pod that waits may be tried at any time.
func (p *process) Activate(klog.Logger, map[string]*corev1.Pod) {}

// podChanged is what kube-scheduler's own handlers do.
func (p *process) podChanged(before, after metav1.Object) {
	old, _ := before.(*corev1.Pod)
	updated, _ := after.(*corev1.Pod)
	if old != nil && updated != nil && old.UID != updated.UID {
		p.podChanged(old, nil)
		old = nil
	}
	wasBound, isBound := old != nil && old.Spec.NodeName != "", updated != nil && updated.Spec.NodeName != ""
	switch {
	case isBound && wasBound:
		p.must(p.cache.UpdatePod(klog.Logger{}, old, updated))
	case isBound:
		delete(p.queue, updated.Name)
		p.must(p.cache.AddPod(klog.Logger{}, updated))
	case wasBound:
		p.must(p.cache.RemovePod(klog.Logger{}, old))
	case updated == nil && p.isAssumed(old):
		assumed, err := p.cache.GetPod(old)
		p.must(err)
		p.must(p.cache.ForgetPod(klog.Logger{}, assumed))
	}
	switch {
	case updated == nil:
		delete(p.queue, old.Name)
	case !isBound && updated.Spec.SchedulerName == names.Scheduler:
		p.queue[updated.Name] = updated
	}
}

func (p *process) isAssumed(pod *corev1.Pod) bool {
	is, err := p.cache.IsAssumedPod(pod)
	return err == nil && is
}

func (p *process) nodeChanged(before, after metav1.Object) {
	old, _ := before.(*corev1.Node)
	updated, _ := after.(*corev1.Node)
	switch {
	case updated == nil:
		p.must(p.cache.RemoveNode(klog.Logger{}, old))
	case old == nil:
		p.cache.AddNode(klog.Logger{}, updated)
	default:
		p.cache.UpdateNode(klog.Logger{}, old, updated)
	}
}

// must reports an error that the model must not have.
func (p *process) must(err error) {
	if err != nil {
		p.world.fail("%s: %v", p.name, err)
	}
}

// lead has the process schedule from now on.
func (p *process) lead() {
	p.leading = true
	go func() { _ = p.plugin.Prepare(p.ctx) }() // it ends with the process
}

// kill ends the process. What it has sent is on its way.
func (p *process) kill() {
	p.alive, p.leading, p.cycle, p.members = false, false, nil, nil
	p.cancel()
}

// prepares reports whether the process leads and gives no shares yet.
func (p *process) prepares() bool {
	return p.leading && !p.plugin.PreEnqueue(p.ctx, sharePod("any", 1)).IsSuccess()
}

// looks reports whether the process would find, if it looked, that its informer has what it waits for.
func (p *process) looks() bool {
	return p.prepares() && p.pods.version > p.looked && p.pods.version >= p.fenced && !p.asks(func(*request) bool { return true })
}

// asks reports whether the process waits for the answer to such a request.
func (p *process) asks(such func(*request) bool) bool {
	return slices.ContainsFunc(p.world.net.sorted(), func(r *request) bool { return !r.abandoned && p.world.processOf(r) == p && such(r) })
}

// mayTry reports whether a scheduling cycle of the pod may begin.
func (p *process) mayTry(pod *corev1.Pod) bool {
	return !p.binding[pod.Name] && !p.isAssumed(pod) && p.plugin.PreEnqueue(p.ctx, pod).IsSuccess()
}

// begin begins a cycle with the snapshot as it is now.
func (p *process) begin(name string) {
	p.attempts[name]++
	p.must(p.cache.UpdateSnapshot(klog.Logger{}, p.snapshot))
	p.cycle = &cycle{pod: p.queue[name], state: framework.NewCycleState()}
}

// filter looks for a node. The cycle ends where there is none.
func (p *process) filter() {
	c := p.cycle
	nodes, err := p.snapshot.NodeInfos().List()
	p.must(err)
	if _, status := p.plugin.PreFilter(p.ctx, c.state, c.pod, nodes); !status.IsSuccess() && !status.IsSkip() {
		p.world.refused(status.Message())
		p.cycle = nil
		return
	}
	for _, node := range nodes {
		if wants, only := c.pod.Spec.NodeSelector[corev1.LabelHostname]; only && wants != node.Node().Name {
			continue
		}
		if p.fits(c, node) {
			c.node, c.filtered = node.Node().Name, true
			return
		}
	}
	p.cycle = nil
}

// fits runs Filter, as kube-scheduler does it: where pods are nominated for the node, first as if
// they were there.
func (p *process) fits(c *cycle, node fwk.NodeInfo) bool {
	if nominated := p.NominatedPodsForNode(node.Node().Name); len(nominated) > 0 && nominated[0].GetPod().UID != c.pod.UID {
		crowded := node.Snapshot()
		crowded.AddPodInfo(nominated[0])
		if !p.plugin.Filter(p.ctx, c.state.Clone(), c.pod, crowded).IsSuccess() {
			return false
		}
	}
	status := p.plugin.Filter(p.ctx, c.state, c.pod, node)
	if !status.IsSuccess() {
		p.world.refused(status.Message())
	}
	return status.IsSuccess()
}

// tryGroup looks for nodes for the members of a group: each on the snapshot with those before it,
// all of which is then taken back. The members are to be reserved, one after the other, on the
// snapshot of the beginning.
func (p *process) tryGroup(group []string) {
	p.must(p.cache.UpdateSnapshot(klog.Logger{}, p.snapshot))
	var fit []*cycle
	var revert []func()
	for _, name := range group {
		state := framework.NewCycleState()
		state.SetPodGroupSchedulingCycle(framework.NewCycleState())
		p.cycle = &cycle{pod: p.queue[name], state: state}
		if p.filter(); p.cycle == nil {
			break
		}
		assumed := p.cycle.pod.DeepCopy()
		assumed.Spec.NodeName = p.cycle.node
		info, err := framework.NewPodInfo(assumed)
		p.must(err)
		p.must(p.snapshot.AssumePod(info))
		revert = append(revert, func() {
			p.plugin.Unreserve(p.ctx, state, assumed, assumed.Spec.NodeName)
			p.must(p.snapshot.ForgetPod(klog.Logger{}, assumed))
		})
		if !p.plugin.Reserve(p.ctx, state, assumed, assumed.Spec.NodeName).IsSuccess() {
			break
		}
		fit = append(fit, p.cycle)
	}
	p.cycle = nil
	for _, undo := range slices.Backward(revert) {
		undo()
	}
	if len(fit) < len(group) {
		return
	}
	for _, c := range fit {
		c.state.SetPodGroupSchedulingCycle(nil)
	}
	p.cycle, p.members = fit[0], fit[1:]
}

// reserve assumes the pod, reserves devices, and begins the binding cycle.
func (p *process) reserve() {
	c := p.cycle
	p.cycle = nil
	if len(p.members) > 0 {
		p.cycle, p.members = p.members[0], p.members[1:]
	}
	assumed := c.pod.DeepCopy()
	assumed.Spec.NodeName = c.node
	if err := p.cache.AssumePod(klog.Logger{}, assumed); err != nil {
		return // another cycle of it, or it is bound
	}
	if status := p.plugin.Reserve(p.ctx, c.state, assumed, c.node); !status.IsSuccess() {
		p.world.refused(status.Message())
		p.plugin.Unreserve(p.ctx, c.state, assumed, c.node)
		p.must(p.cache.ForgetPod(klog.Logger{}, assumed))
		return
	}
	p.world.covered("reserved")
	for _, info := range p.nodeInfo(c.node).GetPods() {
		if other := info.GetPod(); device.HasShareRequest(other) && p.pods.unrecorded(other) {
			p.world.fail("%s is given a share of %s, where %s uses devices without a record", assumed.Name, c.node, other.Name)
		}
	}
	p.binding[assumed.Name] = true
	go p.bind(c, assumed)
}

// nodeInfo is the node in the snapshot.
func (p *process) nodeInfo(name string) fwk.NodeInfo {
	node, err := p.snapshot.NodeInfos().Get(name)
	p.must(err)
	return node
}

// bind is a binding cycle. Between Unreserve and the moment when the cache forgets the pod other
// goroutines go on.
func (p *process) bind(c *cycle, assumed *corev1.Pod) {
	status := p.plugin.Bind(p.ctx, c.state, assumed, c.node)
	if status.IsSkip() { // what DefaultBinder does
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: c.node}}
		binding.Name, binding.UID = assumed.Name, assumed.UID
		status = fwk.AsStatus(p.client.CoreV1().Pods(assumed.Namespace).Bind(p.ctx, binding, metav1.CreateOptions{}))
	}
	if p.ctx.Err() != nil {
		return
	}
	p.world.locked(func() { delete(p.threads, assumed.Name) })
	if !status.IsSuccess() {
		p.plugin.Unreserve(p.ctx, c.state, assumed, c.node)
		if _, err := p.client.net.call(p.ctx, &request{process: p.client.process, verb: verbForget, pod: assumed.Name, payload: nothing, serve: func(*server) (any, error) { return nil, nil }}); err != nil {
			return
		}
		if p.isAssumed(assumed) {
			p.must(p.cache.ForgetPod(klog.Logger{}, assumed))
		}
	}
	p.world.locked(func() { p.binding[assumed.Name] = false })
}

// errLost is what a client reads whose connection ends before the answer.
var errLost = errors.New("read tcp 10.0.0.1:443: connection reset by peer")
