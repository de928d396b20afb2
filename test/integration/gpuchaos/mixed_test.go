// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// careless is stock kube-scheduler that is told not to count our resources, as the
// shipped profile tells NodeResourcesFit. It binds shares without devices.
const careless = "test/integration/gpuchaos/testdata/careless.yaml"

// pluginNodes are n nodes whose device plugin hands out whole devices.
func pluginNodes(n int, devices string) []corev1.Node {
	nodes := make([]corev1.Node, 0, n)
	for i := range n {
		node := framework.Node(fmt.Sprintf("plugin-%d", i), nil)
		node.Status.Capacity["nvidia.com/gpu"] = resource.MustParse(devices)
		node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse(devices)
		nodes = append(nodes, node)
	}
	return nodes
}

// wholePod asks a device plugin for one device.
func wholePod(name string) *corev1.Pod {
	one := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	return gpuchurn.Pod(name, corev1.Container{
		Name: "main", Image: "registry.example.com/app",
		Resources: corev1.ResourceRequirements{Limits: one, Requests: one},
	})
}

// byNode returns the names of the pods on each node.
func byNode(pods []corev1.Pod) map[string][]string {
	on := map[string][]string{}
	for i := range pods {
		if node := pods[i].Spec.NodeName; node != "" {
			on[node] = append(on[node], pods[i].Name)
		}
	}
	return on
}

func by(scheduler string, pod *corev1.Pod) *corev1.Pod {
	pod.Spec.SchedulerName = scheduler
	return pod
}

// TestMixedPool has default-scheduler and Berth place pods with devices on one
// pool. Which devices default-scheduler's pods use, nobody knows: their nodes take
// no new share.
func TestMixedPool(t *testing.T) {
	const shared, devices, plugin = 4, 2, 3
	nodes := append(gpuchurn.Nodes(shared, devices), pluginNodes(plugin, "4")...)
	both := gpuchurn.Nodes(1, devices)[0]
	both.Name = "both"
	both.Labels[corev1.LabelHostname] = both.Name
	both.Status.Capacity["nvidia.com/gpu"] = resource.MustParse("2")
	both.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("2")
	c := framework.Start(t, framework.Options{Nodes: append(nodes, both)})
	c.ApplyManifests(t, "manifests/base")
	s := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{})
	stock := c.StartStockScheduler(t, "", framework.SchedulerOptions{})

	t.Run("as it is, default-scheduler places no share", func(t *testing.T) {
		c.CreatePod(t, by(corev1.DefaultSchedulerName, gpuchurn.SharePod("refused", "500")))
		pod := c.WaitForPodUnschedulable(t, namespace, "refused")
		if message := framework.PodScheduledCondition(pod).Message; !strings.Contains(message, "Insufficient "+names.GPUMilliResource) {
			t.Errorf("the reason is %q", message)
		}
		forceDelete(t, c, "refused")
	})
	t.Run("whole devices of a plugin", func(t *testing.T) {
		// More than there are, by both, at once: 12 devices on three nodes and two on
		// the one that says both, which is nobody's but the plugin's.
		for i := range 10 {
			c.CreatePod(t, by(corev1.DefaultSchedulerName, wholePod(fmt.Sprintf("stock-%d", i))))
			c.CreatePod(t, wholePod(fmt.Sprintf("berth-%d", i)))
		}
		c.CreatePod(t, gpuchurn.SharePod("share", "500"))
		c.WaitForPodScheduled(t, namespace, "share")
		var on map[string][]string
		framework.WaitForCondition(t, framework.WaitTimeout, "the devices of the plugin to be taken", func() (bool, error) {
			_, pods, err := gpuchurn.Check(t.Context(), c)
			on = byNode(pods)
			taken := len(on["both"])
			for i := range plugin {
				taken += len(on[fmt.Sprintf("plugin-%d", i)])
			}
			return taken >= 14, err
		})
		for node, pods := range on {
			if strings.HasPrefix(node, "plugin-") && len(pods) > 4 || node == "both" && len(pods) > 2 {
				// Of these the kubelet admits as many as there are devices. It is the
				// race that any two schedulers run over any resource.
				t.Logf("node %s has more pods than devices: %v", node, pods)
			}
			if strings.HasPrefix(node, "gpu-") && slices.ContainsFunc(pods, func(name string) bool { return name != "share" }) {
				t.Errorf("node %s shares its devices and was given %v", node, pods)
			}
		}
		if slices.Contains(on["both"], "share") {
			t.Error("a share went to the node whose plugin hands out the same devices")
		}
		for i := range 10 {
			forceDelete(t, c, fmt.Sprintf("stock-%d", i))
			forceDelete(t, c, fmt.Sprintf("berth-%d", i))
		}
		forceDelete(t, c, "share")
	})
	stock.Stop(t)
	c.StartStockScheduler(t, careless, framework.SchedulerOptions{})

	t.Run("a node with a share that nobody recorded is refused", func(t *testing.T) {
		for _, name := range []string{"unknown-0", "unknown-1"} {
			c.CreatePod(t, by(corev1.DefaultSchedulerName, gpuchurn.SharePod(name, "100")))
			c.WaitForPodScheduled(t, namespace, name)
		}
		requireWarned(t, c, "GPUDevicesUnknown", "takes no new shares", "unknown-0", "unknown-1")
		for i := range 2 * shared * devices {
			c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("half-%d", i), "500"))
		}
		r, pods := gpuchurn.WaitSettled(t, c, -1)
		requireUnknown(t, r, "unknown-")
		for node, names := range byNode(pods) {
			if r.Blocked.Has(node) && slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, "half-") }) {
				t.Errorf("node %s is blocked and was given %v", node, names)
			}
		}
		gpuchurn.RequireView(t, c, s, names.Scheduler)
		// They go, and the nodes are open again: every half has its place then.
		forceDelete(t, c, "unknown-0")
		forceDelete(t, c, "unknown-1")
		requireRight(t, c, s, 2*shared*devices)
		for i := range 2 * shared * devices {
			forceDelete(t, c, fmt.Sprintf("half-%d", i))
		}
	})
	t.Run("both at once", func(t *testing.T) { bothAtOnce(t, c, s) })
}

// requireUnknown fails if there are other violations than pods of a prefix without a
// record, wherever they are.
func requireUnknown(t *testing.T, r *oracle.Devices, prefix string) {
	t.Helper()
	for _, violation := range r.Violations {
		kinds := []oracle.Kind{oracle.Unrecorded, oracle.Torn, oracle.WrongNode}
		if !slices.Contains(kinds, violation.Kind) || !strings.HasPrefix(violation.Object, namespace+"/"+prefix) {
			t.Error(violation)
		}
	}
}

// bothAtOnce lets pods of both schedulers come and go. A share that Berth binds to
// a node with an unknown pod must have been on its way when that pod came.
func bothAtOnce(t *testing.T, c *framework.Cluster, s *framework.Scheduler) {
	// tooLate is far more than the scheduler takes to hear of a pod; in the full
	// run a Binding that comes later is one that should not have been sent.
	const tooLate = 10 * time.Second
	duration, alive := 8*time.Second, 24
	if framework.Long() {
		duration = 10 * time.Minute
	}
	o := watchOrder(t, c)
	rng := rand.New(rand.NewPCG(5, 0))
	end := time.After(duration)
	var there []string
	n := 0
	for running := true; running; n++ {
		select {
		case <-end:
			running = false
		default:
		}
		name, pod := "", (*corev1.Pod)(nil)
		switch rng.IntN(8) {
		case 0:
			name = fmt.Sprintf("unknown-%d", n)
			pod = by(corev1.DefaultSchedulerName, gpuchurn.SharePod(name, "200"))
		case 1:
			name = fmt.Sprintf("whole-%d", n)
			pod = by([]string{corev1.DefaultSchedulerName, names.Scheduler}[n%2], wholePod(name))
		default:
			name = fmt.Sprintf("share-%d", n)
			pod = gpuchurn.SharePod(name, []string{"300", "500", "700"}[n%3])
		}
		c.CreatePod(t, pod)
		for there = append(there, name); len(there) > alive; {
			k := rng.IntN(len(there))
			forceDelete(t, c, there[k])
			there = slices.Delete(there, k, k+1)
		}
		<-time.After(20 * time.Millisecond) // a pace that lets both schedulers place what comes
	}
	r, _ := gpuchurn.WaitSettled(t, c, -1)
	requireUnknown(t, r, "unknown-")
	gpuchurn.RequireView(t, c, s, names.Scheduler)
	crossings, worst, unknown := o.crossings()
	t.Logf("%d pods in %v; %d shares were bound beside a pod of unknown devices, the latest %v after it; %d pods of unknown devices were reported",
		n, duration, crossings, worst.Round(time.Millisecond), int(metric(t, s, "berth_gpudevice_pods_without_allocation_total")))
	if worst > tooLate {
		t.Errorf("a share was bound %v after a pod of unknown devices", worst)
	}
	if reported := int(metric(t, s, "berth_gpudevice_pods_without_allocation_total")); reported < unknown {
		t.Errorf("%d pods of unknown devices were bound, and %d reported", unknown, reported)
	}
}

// order remembers when pods with shares got their node.
type order struct {
	mu sync.Mutex
	// present are the pods of unknown devices, by node, with when they came.
	present map[string]map[types.UID]time.Time
	unknown map[types.UID]bool
	bound   map[types.UID]bool
	count   int
	worst   time.Duration
}

// crossings returns how many shares were bound beside a pod of unknown devices, how
// long after it the latest was, and how many such pods there were in all.
func (o *order) crossings() (count int, worst time.Duration, unknown int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.count, o.worst, len(o.unknown)
}

func watchOrder(t *testing.T, c *framework.Cluster) *order {
	t.Helper()
	o := &order{present: map[string]map[types.UID]time.Time{}, unknown: map[types.UID]bool{}, bound: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    o.saw,
		UpdateFunc: func(_, obj any) { o.saw(obj) },
		DeleteFunc: o.gone,
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(t.Context())
	t.Cleanup(factory.Shutdown)
	if !cache.WaitForCacheSync(t.Context().Done(), informer.HasSynced) {
		t.Fatal("the informer of pods did not start")
	}
	return o
}

func (o *order) saw(obj any) {
	pod, ok := obj.(*corev1.Pod)
	unknown := ok && strings.HasPrefix(pod.Name, "unknown-")
	if !ok || pod.Spec.NodeName == "" || !unknown && !strings.HasPrefix(pod.Name, "share-") {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.bound[pod.UID] {
		return
	}
	o.bound[pod.UID] = true
	if unknown {
		if o.present[pod.Spec.NodeName] == nil {
			o.present[pod.Spec.NodeName] = map[types.UID]time.Time{}
		}
		o.present[pod.Spec.NodeName][pod.UID] = time.Now()
		o.unknown[pod.UID] = true
		return
	}
	for _, since := range o.present[pod.Spec.NodeName] {
		o.count++
		o.worst = max(o.worst, time.Since(since))
	}
}

func (o *order) gone(obj any) {
	if unknown, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.present[pod.Spec.NodeName], pod.UID)
	}
}
