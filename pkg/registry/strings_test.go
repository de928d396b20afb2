// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// What a stranger writes may cost no more than this: an extension point for all nodes, a
// queueing hint, and what is kept of all objects together once they are gone.
const (
	maxPointTime = 50 * time.Millisecond
	maxHintTime  = 20 * time.Microsecond
	maxHintAlloc = 64 << 10
	maxKept      = 24 << 20
)

// largestAnnotation is what all annotations of an object may have, less room for others.
const largestAnnotation = 250 << 10

// keysOf returns the values of the constants of package names that are keys: a new one cannot
// be forgotten here.
func keysOf(t *testing.T) []string {
	t.Helper()
	files := token.NewFileSet()
	var parsed []*ast.File
	sources, err := filepath.Glob(root + "/pkg/apis/names/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, source := range sources {
		if strings.HasSuffix(source, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	checked, err := (&types.Config{}).Check("names", files, parsed, nil)
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, name := range checked.Scope().Names() {
		c, ok := checked.Scope().Lookup(name).(*types.Const)
		if !ok || c.Val().Kind() != constant.String {
			continue
		}
		if value := constant.StringVal(c.Val()); strings.Contains(value, names.Domain) && strings.Contains(value, "/") {
			keys = append(keys, strings.TrimSuffix(value, "/")+map[bool]string{true: "/main"}[strings.HasSuffix(value, "/")])
		}
	}
	if len(keys) < 20 {
		t.Fatalf("found %d keys in %v", len(keys), sources)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// largeValues are values of the largest size that parsers may find hard, each of one kind and
// told apart by their number.
func largeValues(number int) []string {
	var values []string
	for _, unit := range []string{"*", ",", "a,", "0,", "*a", " ", "9", "a=1;"} {
		prefix := strconv.Itoa(number)
		values = append(values, prefix+strings.Repeat(unit, (largestAnnotation-len(prefix))/len(unit)))
	}
	// The longest that is taken for a list of models.
	models := make([]string, 32)
	for i := range models {
		models[i] = fmt.Sprintf("*%02d%s*x", i, strings.Repeat("*a", 28))
	}
	return append(values, strings.Join(models, ","))
}

// cluster is a scheduler with all plugins and an API that is filled without its help.
type strangersCluster struct {
	t       *testing.T
	client  *fake.Clientset
	sched   *scheduler.Scheduler
	profile framework.Framework
	node    *corev1.Node
}

func newStrangersCluster(t *testing.T, nodes int) *strangersCluster {
	t.Helper()
	metrics.Register()
	file := root + "/config/berth-scheduler/all-plugins.yaml"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := LoadConfiguration(file, content)
	if err != nil {
		t.Fatal(err)
	}
	c := &strangersCluster{t: t, client: fake.NewClientset()}
	allocatable := corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("256Gi"), "pods": resource.MustParse("250")}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		c.node = &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelHostname: name, names.GPUSharingLabel: "true", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81920",
				"nvidia.com/gpu.product": fmt.Sprintf("NVIDIA-%s-%d", strings.Repeat("a", 40), i%8),
			}},
			Status: corev1.NodeStatus{Capacity: allocatable, Allocatable: allocatable},
		}
		c.create(c.node)
	}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
	ctx := t.Context()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: c.client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	factory := informers.NewSharedInformerFactory(c.client, 0)
	c.sched, err = scheduler.New(ctx, c.client, factory, nil,
		func(name string) events.EventRecorderLogger { return broadcaster.NewRecorder(nil, name) },
		scheduler.WithProfiles(loaded.Profiles...), scheduler.WithFrameworkOutOfTreeRegistry(New()))
	if err != nil {
		t.Fatal(err)
	}
	c.profile = c.sched.Profiles[names.Scheduler]
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := c.sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	c.update()
	return c
}

// create adds an object past the client, which would remember it.
func (c *strangersCluster) create(obj apiruntime.Object) {
	c.t.Helper()
	if err := c.client.Tracker().Add(obj); err != nil {
		c.t.Fatal(err)
	}
}

func (c *strangersCluster) update() {
	c.t.Helper()
	if err := c.sched.Cache.UpdateSnapshot(klog.Logger{}, c.profile.SnapshotSharedLister().(*cache.Snapshot)); err != nil {
		c.t.Fatal(err)
	}
}

func sharePod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: apitypes.UID(name), Annotations: map[string]string{}, Labels: map[string]string{}},
		Spec: corev1.PodSpec{SchedulerName: names.Scheduler, Containers: []corev1.Container{{
			Name: "main", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{names.GPUMilliResource: resource.MustParse("100")}},
		}}},
	}
}

// cost is what one call took: the least time of several, and what it allocated.
type cost struct {
	time  time.Duration
	bytes uint64
}

func costOf(runs int, do func()) cost {
	least := cost{time: time.Hour, bytes: 1 << 60}
	var before, after runtime.MemStats
	for range 3 {
		runtime.ReadMemStats(&before)
		start := time.Now()
		for range runs {
			do()
		}
		took := time.Since(start) / time.Duration(runs)
		runtime.ReadMemStats(&after)
		least = cost{min(least.time, took), min(least.bytes, (after.TotalAlloc-before.TotalAlloc)/uint64(runs))}
	}
	return least
}

// leastOf measures until nothing is too long, at most ten times, and returns the least of each:
// another process may have had the core for a while.
func leastOf(measure func() map[string]cost, tooLong func(string, cost) bool) map[string]cost {
	least := measure()
	for range 9 {
		long := false
		for what, got := range least {
			long = long || tooLong(what, got)
		}
		if !long {
			break
		}
		for what, again := range measure() {
			least[what] = cost{min(least[what].time, again.time), min(least[what].bytes, again.bytes)}
		}
	}
	return least
}

// points measures each extension point that runs before a node is chosen.
func (c *strangersCluster) points(pod *corev1.Pod) map[string]cost {
	ctx, nodes := c.t.Context(), c.nodes()
	costs := map[string]cost{}
	var state *framework.CycleState
	var fits []fwk.NodeInfo
	prefiltered := true
	costs["PreFilter"] = costOf(1, func() {
		state = framework.NewCycleState()
		_, status, _ := c.profile.RunPreFilterPlugins(ctx, state, pod)
		prefiltered = status.IsSuccess()
	})
	if !prefiltered {
		return costs
	}
	costs["Filter"] = costOf(1, func() {
		fits = fits[:0]
		for _, node := range nodes {
			if c.profile.RunFilterPlugins(ctx, state, pod, node).IsSuccess() {
				fits = append(fits, node)
			}
		}
	})
	costs["PreScore"] = costOf(1, func() { c.profile.RunPreScorePlugins(ctx, state, pod, fits) })
	costs["Score"] = costOf(1, func() { _, _ = c.profile.RunScorePlugins(ctx, state, pod, fits) })
	return costs
}

func (c *strangersCluster) nodes() []fwk.NodeInfo {
	c.t.Helper()
	nodes, err := c.profile.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		c.t.Fatal(err)
	}
	return nodes
}

// hints measures the hints of Berth's plugins for each kind of object: a pending pod waits, and
// an object with the same strings comes, changes and goes.
func (c *strangersCluster) hints(pod *corev1.Pod) map[string]cost {
	node, other := c.node.DeepCopy(), sharePod("other")
	for _, obj := range []metav1.Object{node, other} {
		all := maps.Clone(obj.GetAnnotations())
		if all == nil {
			all = map[string]string{}
		}
		maps.Copy(all, pod.Annotations)
		obj.SetAnnotations(all)
	}
	other.Spec.NodeName = c.node.Name
	changed := pod.DeepCopy()
	for key, value := range changed.Annotations {
		changed.Annotations[key] = value[:max(0, len(value)-1)] + "b"
	}
	objects := map[fwk.EventResource][][2]any{
		fwk.Node: {{nil, node}, {c.node, node}, {node, c.node}},
		fwk.Pod:  {{other, nil}, {nil, other}, {pod, changed}},
	}
	costs := map[string]cost{}
	for _, extension := range c.profile.EnqueueExtensions() {
		if !slices.ContainsFunc(Plugins(), func(p Plugin) bool { return p.Name == extension.Name() }) {
			continue
		}
		events, err := extension.EventsToRegister(c.t.Context())
		if err != nil {
			c.t.Fatal(err)
		}
		for i, event := range events {
			for j, pair := range objects[event.Event.Resource] {
				action := fwk.Update
				if pair[0] == nil {
					action = fwk.Add
				} else if pair[1] == nil {
					action = fwk.Delete
				}
				if event.QueueingHintFn != nil && event.Event.ActionType&action != 0 {
					what := fmt.Sprintf("%s, hint %d for %s, object %d", extension.Name(), i, event.Event.Resource, j)
					costs[what] = costOf(20, func() { _, _ = event.QueueingHintFn(klog.Logger{}, pod, pair[0], pair[1]) })
				}
			}
		}
	}
	return costs
}

// TestStringsOfStrangersAreBounded walks all keys of package names with the largest values that
// the API server takes, and the lists of a pod that plugins read. A time counts as too long
// only if it is also far beyond that of the same pod without the string, so that a busy machine
// changes nothing. With BERTH_LONG=1 it has 5,000 nodes.
func TestStringsOfStrangersAreBounded(t *testing.T) {
	nodes := 200
	if os.Getenv("BERTH_LONG") == "1" {
		nodes = 5000
	}
	c := newStrangersCluster(t, nodes)
	plain := sharePod("plain")
	points, hints := c.points(plain), c.hints(plain)
	var worstPoint, worstHint time.Duration
	check := func(what string, pod *corev1.Pod) {
		costs := leastOf(func() map[string]cost { return c.points(pod) }, func(_ string, got cost) bool { return got.time > maxPointTime })
		for point, got := range costs {
			worstPoint = max(worstPoint, got.time)
			if got.time > maxPointTime && got.time > 10*points[point].time || got.bytes > 4*points[point].bytes+8<<20 {
				t.Errorf("%s: %s takes %v and %d bytes on %d nodes; without it %v and %d bytes", what, point, got.time, got.bytes, nodes, points[point].time, points[point].bytes)
			}
		}
		tooLong := func(hint string, got cost) bool {
			return got.time > maxHintTime && got.time > 20*hints[hint].time
		}
		for hint, got := range leastOf(func() map[string]cost { return c.hints(pod) }, tooLong) {
			worstHint = max(worstHint, got.time)
			if tooLong(hint, got) || got.bytes > hints[hint].bytes+maxHintAlloc {
				t.Errorf("%s: %s takes %v and %d bytes; without it %v and %d bytes", what, hint, got.time, got.bytes, hints[hint].time, hints[hint].bytes)
			}
		}
	}
	for _, key := range keysOf(t) {
		for i, value := range largeValues(0) {
			pod := sharePod("p")
			pod.Annotations[key] = value
			pod.Labels[key] = value[:min(len(value), 63)]
			check(fmt.Sprintf("%s, value %d", key, i), pod)
		}
	}
	for what, change := range longFields {
		pod := sharePod("p")
		change(pod)
		check(what, pod)
	}
	t.Logf("the slowest extension point took %v on %d nodes, the slowest hint %v", worstPoint, nodes, worstHint)
}

// longFields make fields of a pod as long as the API server takes them, or nearly so.
var longFields = map[string]func(*corev1.Pod){
	"arguments": func(pod *corev1.Pod) { pod.Spec.Containers[0].Args = []string{strings.Repeat("a", 1<<20)} },
	"claims": func(pod *corev1.Pod) {
		for i := range 64 {
			name := fmt.Sprintf("claim-%d", i)
			pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: name, ResourceClaimName: &name})
		}
	},
	"containers with shares": func(pod *corev1.Pod) {
		for i := range 1000 {
			container := pod.Spec.Containers[0].DeepCopy()
			container.Name = fmt.Sprintf("c%d", i)
			pod.Spec.Containers = append(pod.Spec.Containers, *container)
		}
	},
	"a nominated node": func(pod *corev1.Pod) { pod.Status.NominatedNodeName = strings.Repeat("n", 253) },
}

// TestNothingIsKeptOfStrangers creates pods with all keys and the largest values, tries to place
// them, deletes them, and looks at what is left on the heap.
func TestNothingIsKeptOfStrangers(t *testing.T) {
	pods := 120
	if os.Getenv("BERTH_LONG") == "1" {
		pods = 10000
	}
	c := newStrangersCluster(t, 20)
	keys := keysOf(t)
	store := c.profile.SharedInformerFactory().Core().V1().Pods().Informer().GetStore()
	resourceOf := corev1.SchemeGroupVersion.WithResource("pods")
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	// The first fills what is kept for all.
	var before int64
	for i := range pods {
		if i == 20 {
			before = heap()
		}
		pod := sharePod(fmt.Sprintf("p%d", i))
		values := largeValues(i)
		for k, key := range keys {
			if key == keys[i%len(keys)] {
				pod.Annotations[key] = values[i/len(keys)%len(values)]
			} else if k%2 == 0 {
				pod.Labels[key] = fmt.Sprintf("v%d", i)
			}
		}
		pod.Annotations[names.GPUModelAnnotation] = strings.Replace(values[len(values)-1], "a*a", fmt.Sprintf("%da", i), 1)
		c.create(pod)
		c.wait("it is there", func() bool { _, ok, _ := store.GetByKey("default/" + pod.Name); return ok })
		c.points(pod)
		if err := c.client.Tracker().Delete(resourceOf, "default", pod.Name); err != nil {
			t.Fatal(err)
		}
		c.wait("it is gone", func() bool { _, ok, _ := store.GetByKey("default/" + pod.Name); return !ok })
	}
	if kept := heap() - before; kept > maxKept {
		t.Errorf("of %d pods that are gone %d bytes are kept", pods-20, kept)
	} else {
		t.Logf("of %d pods that are gone %d bytes are kept", pods-20, kept)
	}
}

func (c *strangersCluster) wait(what string, condition func() bool) {
	c.t.Helper()
	err := wait.PollUntilContextTimeout(c.t.Context(), time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		c.t.Fatalf("waiting until %s: %v", what, err)
	}
}
