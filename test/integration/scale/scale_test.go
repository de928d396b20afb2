// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scale runs berth-scheduler with all plugins in a cluster of the size that
// Kubernetes supports, beside stock kube-scheduler: how soon it binds its first pod, what
// memory it takes, and what comes of a rolling restart under load.
package scale

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/prometheus/procfs"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// nodes is small by default, which shows that the test works and nothing about scale.
var nodes = flag.Int("nodes", 50, "how many nodes TestScale has: a fifth of them with devices, and 30 pods on each in the mean, two with shares of devices")

const (
	profile = "config/berth-scheduler/all-plugins.yaml"
	// A node has so many of the pods that are placed before any scheduler runs, and one
	// with devices so many with shares besides.
	plainPerNode, sharesPerNode = 28, 10
	// devices of a node that has some.
	devices = 8
	// The pods without shares are in so many namespaces, each with so many services, which
	// they are behind.
	namespaces, services = 50, 10
	// creators create pods side by side.
	creators = 48
	// starts is how often each scheduler is started.
	starts = 3
	// memoryBound is what Berth may take of stock's heap, from so many nodes on: below,
	// what the binary itself takes is most of it.
	memoryBound, boundedFrom = 1.1, 1000
	// patience is for what takes longest, on a busy machine.
	patience = 10 * framework.WaitTimeout
)

// TestScale places the pods and then, on the same API server, starts stock and Berth by
// turns and compares their memory, and restarts two replicas of Berth one after the other
// while pods come and go.
func TestScale(t *testing.T) {
	framework.OnlyLong(t)
	gpuNodes := *nodes / 5
	c := framework.Start(t, framework.Options{NodeCount: *nodes - gpuNodes, Nodes: gpuchurn.Nodes(gpuNodes, devices), StartTimeout: patience})
	for i := range namespaces {
		c.CreateNamespace(t, namespace(i), nil)
	}
	began := time.Now()
	// It would look at the pods one by one, and take as much CPU as the API server.
	if err := c.KillComponent(localcluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	plain, shares := *nodes*plainPerNode, gpuNodes*sharesPerNode
	create(t, plain+shares, func(ctx context.Context, i int) error {
		pod := placedPlain(i, gpuNodes)
		if i >= plain {
			pod = placedShare(i-plain, gpuNodes)
		}
		_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
		return err
	})
	create(t, namespaces*services, func(ctx context.Context, i int) error {
		_, err := c.Client.CoreV1().Services(namespace(i)).Create(ctx, service(i), metav1.CreateOptions{})
		return err
	})
	if err := c.RestartComponent(t.Context(), localcluster.ControllerManager); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d nodes, %d pods, of which %d with shares; created in %v", *nodes, plain+shares, shares, time.Since(began).Round(time.Second))
	c.ApplyManifests(t, "manifests/base")

	compare(t, c)
	restart(t, c, plain)
}

// create makes n things side by side.
func create(t *testing.T, n int, one func(ctx context.Context, i int) error) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	workqueue.ParallelizeUntil(ctx, creators, n, func(i int) {
		if err := one(ctx, i); err != nil {
			cancel(err)
		}
	}, workqueue.WithChunkSize(1))
	if err := context.Cause(ctx); err != nil {
		t.Fatal(err)
	}
}

// nodeName is that of the i-th node, those with devices first.
func nodeName(i, gpuNodes int) string {
	if i < gpuNodes {
		return fmt.Sprintf("gpu-%d", i)
	}
	return fmt.Sprintf("node-%d", i-gpuNodes)
}

// namespace and app are what the i-th pod without shares, or the service before it, is in
// and is called.
func namespace(i int) string { return fmt.Sprintf("apps-%d", i%namespaces) }
func app(i int) string       { return fmt.Sprintf("app-%d", i/namespaces%services) }

// service is one whose pods everybody may ask to be near.
func service(i int) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app(i), Annotations: map[string]string{names.AllowColocationFromAnnotation: "*"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": app(i)}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
}

// plainPod requests what most pods do.
func plainPod(name, schedulerName string) *corev1.Pod {
	pod := gpuchurn.Pod(name, corev1.Container{
		Name: "main", Image: "registry.example.com/app",
		Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("128Mi"),
		}},
	})
	pod.Spec.SchedulerName = schedulerName
	return pod
}

// placedPlain is the i-th pod without shares, on its node.
func placedPlain(i, gpuNodes int) *corev1.Pod {
	pod := plainPod(fmt.Sprintf("plain-%d", i), corev1.DefaultSchedulerName)
	pod.Namespace, pod.Labels = namespace(i), map[string]string{"app": app(i)}
	pod.Spec.NodeName = nodeName(i%*nodes, gpuNodes)
	return pod
}

// placedShare is the i-th pod with a share, on its node, as a Binding leaves it: two of
// them fill a device.
func placedShare(i, gpuNodes int) *corev1.Pod {
	const milli, memoryMiB = 500, 20480
	index := i / gpuNodes / 2
	pod := gpuchurn.SharePod(fmt.Sprintf("placed-%d", i), strconv.Itoa(milli))
	pod.Spec.NodeName = nodeName(i%gpuNodes, gpuNodes)
	pod.Annotations[names.GPUDevicesAnnotationPrefix+"main"] = strconv.Itoa(index)
	pod.Annotations[names.GPUAssignedAnnotation] = device.FormatRecords([]device.Record{{
		Container: "main", Devices: device.SetOf(index), Share: device.Share{Milli: milli, MemoryMiB: memoryMiB},
	}})
	return pod
}

// contender is a scheduler whose starts are measured.
type contender struct {
	name, binary, config, kubeconfig string
	// waiting are the pods that wait for the i-th start.
	waiting func(i int) []*corev1.Pod
	// peak is the most resident memory until all were bound, in MiB; settled is the resident
	// memory and live the heap in use when garbage was collected and given back.
	peak, settled, live []float64
}

// compare starts stock and Berth by turns, and requires what Berth keeps in memory to be
// within the bound.
func compare(t *testing.T, c *framework.Cluster) {
	t.Helper()
	stock := &contender{
		name: "stock", binary: framework.KubeScheduler, kubeconfig: c.StockSchedulerKubeconfig(t),
		waiting: func(i int) []*corev1.Pod {
			return []*corev1.Pod{plainPod(fmt.Sprintf("stock-%d", i), corev1.DefaultSchedulerName)}
		},
	}
	berth := &contender{
		name: "Berth", binary: framework.BerthScheduler, config: profile, kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler),
		waiting: func(i int) []*corev1.Pod {
			return []*corev1.Pod{plainPod(fmt.Sprintf("berth-%d", i), names.Scheduler), gpuchurn.SharePod(fmt.Sprintf("berth-share-%d", i), "500")}
		},
	}
	for i := range starts {
		stock.start(t, c, i)
		berth.start(t, c, i)
	}
	live := median(berth.live) / median(stock.live)
	t.Logf("Berth takes %.3f of stock's heap in use, and %.3f of its resident memory, %.3f at most", live,
		median(berth.settled)/median(stock.settled), median(berth.peak)/median(stock.peak))
	// Resident memory is also what the runtime has not given back, which no two starts have alike.
	if *nodes >= boundedFrom && live > memoryBound {
		t.Errorf("Berth takes %.3f of stock's heap in use, want at most %.1f", live, memoryBound)
	}
}

func median[T cmp.Ordered](values []T) T { return slices.Sorted(slices.Values(values))[len(values)/2] }

// start measures one start.
func (m *contender) start(t *testing.T, c *framework.Cluster, i int) {
	t.Helper()
	pods := c.Client.CoreV1().Pods(gpuchurn.Namespace)
	waiting := m.waiting(i)
	for _, pod := range waiting {
		c.CreatePod(t, pod)
	}
	began := time.Now()
	s := c.LaunchScheduler(t, m.binary, m.config, framework.SchedulerOptions{Kubeconfig: m.kubeconfig})
	var first time.Duration
	framework.WaitForCondition(t, patience, m.name+" to bind what waits", func() (bool, error) {
		bound := 0
		for _, pod := range waiting {
			got, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if got.Spec.NodeName != "" {
				bound++
			}
		}
		if bound > 0 && first == 0 {
			first = time.Since(began)
		}
		return bound == len(waiting), nil
	})
	all := time.Since(began)
	now, peak := resident(t, s)
	heap := heapInUse(t, s)
	m.peak = append(m.peak, peak)
	s.Page(t, "/debug/pprof/heap?gc=1") // collects garbage
	m.live, m.settled = append(m.live, heapInUse(t, s)), append(m.settled, settledResident(t, s))
	t.Logf("%s, start %d: first binding after %v, of %d after %v; then %.0f MiB resident, %.0f at most, %.0f of heap in use; settled %.0f MiB resident, %.0f of heap in use",
		m.name, i+1, first.Round(10*time.Millisecond), len(waiting), all.Round(10*time.Millisecond), now, peak, heap, m.settled[i], m.live[i])
	if i == 0 {
		keep(t, m.name+"-heap.pprof", s.Page(t, "/debug/pprof/heap"))
	}
	s.Stop(t)
}

// keep writes a file that remains with -artifacts.
func keep(t *testing.T, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// resident returns what process_resident_memory_bytes says, without making the process
// write a page of metrics, and the most that it has been, in MiB.
func resident(t *testing.T, s *framework.Scheduler) (now, peak float64) {
	t.Helper()
	proc, err := procfs.NewProc(s.PID())
	if err != nil {
		t.Fatal(err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		t.Fatal(err)
	}
	return float64(status.VmRSS) / (1 << 20), float64(status.VmHWM) / (1 << 20)
}

// heapInUse returns a metric of that name, in MiB.
func heapInUse(t *testing.T, s *framework.Scheduler) float64 {
	t.Helper()
	values, err := oracle.Metric(s.Metrics(t), "go_memstats_heap_inuse_bytes", "")
	if err != nil {
		t.Fatal(err)
	}
	return values[""] / (1 << 20)
}

// settledResident waits until the resident memory has not fallen by a hundredth for ten
// seconds: the Go runtime gives memory back bit by bit.
func settledResident(t *testing.T, s *framework.Scheduler) float64 {
	t.Helper()
	lowest, since := math.Inf(1), time.Now()
	framework.WaitForCondition(t, patience, "memory to be given back", func() (bool, error) {
		if now, _ := resident(t, s); now < 0.99*lowest {
			lowest, since = now, time.Now()
		}
		return time.Since(since) > 10*time.Second, nil
	})
	return lowest
}

// arriving draws a pod with shares, or one that is to be near a service.
func arriving(rng *rand.Rand, name string) *corev1.Pod {
	if rng.IntN(2) == 0 {
		return gpuchurn.RandomPod(rng, name)
	}
	pod := plainPod(name, names.Scheduler)
	peers := rng.IntN(namespaces * services)
	pod.Annotations[names.ColocateWithAnnotation] = namespace(peers) + "/" + app(peers)
	return pod
}

// restart replaces two replicas one after the other while pods come and go, first the one
// that leads, and requires that no device is given twice and no pod lost: neither one that
// came nor one of those that were there.
func restart(t *testing.T, c *framework.Cluster, plain int) {
	t.Helper()
	_, standing, err := gpuchurn.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	watch := gpuchurn.StartWatch(t, c)
	replicas := &gpuchurn.Replicas{
		C: c, Binary: framework.Binary(t, framework.BerthScheduler), Profile: profile,
		Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler),
	}
	t.Cleanup(func() {
		for i, s := range replicas.All {
			if t.Failed() {
				keep(t, fmt.Sprintf("replica-%d.log", i), s.Output())
			}
		}
	})
	load := &gpuchurn.Churn{C: c, Watch: watch, Pods: math.MaxInt, Alive: 300, Unseen: 48, Seed: 15, Pod: arriving}
	load.Limit.Store(math.MaxInt64)
	ended := make(chan error, 1)
	go func() { ended <- load.Run(t.Context()) }()
	awaitBindings := func(when string) {
		t.Helper()
		_, before := watch.Counts()
		framework.WaitForCondition(t, patience, "500 pods to be bound "+when, func() (bool, error) {
			replicas.Fill(t)
			_, now := watch.Counts()
			return now >= before+500, fmt.Errorf("%d were", now-before)
		})
	}
	awaitBindings("at first")
	began := time.Now()
	running := replicas.Running()
	slices.SortStableFunc(running, func(a, _ *framework.Scheduler) int {
		if a == replicas.Leader() {
			return -1
		}
		return 1
	})
	for i, s := range running {
		s.Stop(t)
		replicas.Fill(t)
		started := replicas.All[len(replicas.All)-1]
		framework.WaitForCondition(t, patience, "the new replica to be ready", func() (bool, error) {
			err := started.Ready(t)
			return err == nil, err
		})
		awaitBindings(fmt.Sprintf("after restart %d", i+1))
	}
	gap := watch.LongestGap(began)
	took := time.Since(began)
	load.Limit.Store(-1)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	framework.WaitForCondition(t, patience, "every pod to have been tried", func() (bool, error) {
		unseen, _ := watch.Counts()
		return unseen == 0, fmt.Errorf("%d have not", unseen)
	})

	settled, pods := gpuchurn.WaitSettled(t, c, -1)
	kept := maps.Clone(load.Kept)
	for i := range standing {
		kept[standing[i].Namespace+"/"+standing[i].Name] = string(standing[i].UID)
	}
	history, versions, bindings := watch.History.Violations()
	lost := oracle.CheckLost(kept, pods)
	if violations := slices.Concat(settled.Violations, lost, history); len(violations) > 0 {
		t.Error(violations)
	}
	if got := count(t, c); got != plain {
		t.Errorf("%d of the pods without shares are there, of %d", got, plain)
	}
	leader := replicas.Leader()
	gpuchurn.RequireView(t, c, leader, names.Scheduler)
	memory, _ := resident(t, leader)
	t.Logf("rolling restart: %v, longest time without a binding %v; %d pods came, %d went; %d versions of pods with %d bindings of shares seen; at the end %d with shares bound, %d pending; %d devices given twice, %d pods lost; the leader has %.0f MiB resident",
		took.Round(time.Second), gap.Round(10*time.Millisecond), load.Created, load.Deleted, versions, bindings, settled.Bound, settled.Pending,
		len(settled.Violations.Of(oracle.Overcommitted)), len(lost), memory)
}

// count returns how many pods without shares there are of those that were placed.
func count(t *testing.T, c *framework.Cluster) int {
	t.Helper()
	n := 0
	for i := range namespaces {
		list, err := c.Client.CoreV1().Pods(namespace(i)).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n += len(list.Items)
	}
	return n
}
