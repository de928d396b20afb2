// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/diagnose/shortfall"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
	"github.com/berth-scheduler/berth/pkg/schedtest"
	"github.com/berth-scheduler/berth/pkg/scheduler/pending"
)

// What a pod's author may learn: with tenancy, each byte that the scheduler writes to a pod
// or its events is the same in two clusters that differ in the nodes that tenancy keeps from
// the pod, and in what runs there. Not compared is which of several nodes the pod gets that
// all plugins but LabelPresence rate: stock breaks ties at random, and some of its scores are
// relative to the whole cluster (ImageLocality). In every other pair the preferences of
// LabelPresence, different for each node, outweigh all other scores, and the node is compared.

// viewer is a way in which tenancy can apply to the author of a pod.
type viewer struct {
	name, namespace string
	tenants         config.TenantPolicy
	// own makes a node one that the viewer's pods may get.
	own func(*corev1.Node)
	// others make a node one that tenancy keeps from them.
	others []func(*corev1.Node)
}

var viewers = []viewer{
	{"confined", "blue", config.TenantsConfined, ownedBy("blue"), []func(*corev1.Node){ownedBy("red"), unlabeled, shared, contested}},
	{"free", "blue", config.TenantsFree, either(ownedBy("blue"), shared), []func(*corev1.Node){ownedBy("red"), unlabeled, contested}},
	{"without a tenant", "none", config.TenantsConfined, shared, []func(*corev1.Node){ownedBy("red"), ownedBy("blue"), unlabeled}},
}

func tenantTaint(value string) corev1.Taint {
	return corev1.Taint{Key: names.TenantLabel, Value: value, Effect: corev1.TaintEffectNoSchedule}
}

func ownedBy(tenant string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Labels[names.TenantNodeLabel] = tenant
		node.Spec.Taints = append(node.Spec.Taints, tenantTaint(tenant))
	}
}

func shared(*corev1.Node) {}

// unlabeled is a node that has registered, and whose tenant nobody has named yet.
func unlabeled(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, tenantTaint("")) }

// contested is a node that is being given from one tenant to another.
func contested(node *corev1.Node) {
	node.Labels[names.TenantNodeLabel] = "blue"
	node.Spec.Taints = append(node.Spec.Taints, tenantTaint("red"))
}

// either is the first for every second node.
func either(a, b func(*corev1.Node)) func(*corev1.Node) {
	return func(node *corev1.Node) {
		if len(node.Name)%2 == 0 || strings.HasSuffix(node.Name, "0") {
			a(node)
		} else {
			b(node)
		}
	}
}

// drawNode returns a random node: plain, with shared devices, or with a device plugin.
func drawNode(random *rand.Rand, name string, tenancy func(*corev1.Node)) *corev1.Node {
	node := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Label(corev1.LabelTopologyZone, []string{"z1", "z2", "z3"}[random.IntN(3)]).
		Label("example.com/prefer-"+name, "").Obj()
	node.Status.Allocatable = corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewQuantity(1+random.Int64N(16), resource.DecimalSI), corev1.ResourcePods: *resource.NewQuantity(5+random.Int64N(20), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity((4+random.Int64N(64))<<30, resource.BinarySI),
	}
	if random.IntN(2) == 0 {
		node.Labels["selectable"] = "true"
	}
	node.Spec.Unschedulable = random.IntN(10) == 0
	if random.IntN(6) == 0 {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("example.com/t%d", random.IntN(3)), Effect: corev1.TaintEffectNoSchedule})
	}
	if kind := random.IntN(4); kind > 0 {
		node.Labels["nvidia.com/gpu.count"] = "4"
		node.Labels["nvidia.com/gpu.memory"] = strconv.Itoa(8192 * (1 + random.IntN(10)))
		node.Labels["nvidia.com/gpu.product"] = fmt.Sprintf("NVIDIA-%c100", 'A'+random.IntN(6))
		if kind == 1 {
			node.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("4")
		} else {
			node.Labels[names.GPUSharingLabel] = "true"
		}
	}
	node.Status.Capacity = node.Status.Allocatable
	tenancy(node)
	return node
}

// drawPod returns a random pod that tolerates the taints of tenants.
func drawPod(random *rand.Rand, namespace, name string) *corev1.Pod {
	pod := st.MakePod().Namespace(namespace).Name(name).UID(namespace+"-"+name).SchedulerName(names.Scheduler).Priority(int32(random.IntN(3))).
		Toleration(names.TenantLabel).Label("app", []string{"backend", "frontend"}[random.IntN(2)]).Container("image").Obj()
	pod.Spec.Tolerations[0].Operator = corev1.TolerationOpExists
	pod.Status.Phase = corev1.PodPending
	pod.Annotations = map[string]string{}
	limits := corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(100*random.Int64N(50), resource.DecimalSI)}
	switch random.IntN(4) {
	case 0:
		limits[names.GPUMilliResource] = *resource.NewQuantity(100+random.Int64N(900), resource.DecimalSI)
	case 1:
		limits[names.GPUMemoryResource] = *resource.NewQuantity((1+random.Int64N(90))<<30, resource.BinarySI)
	case 2:
		limits["nvidia.com/gpu"] = *resource.NewQuantity(1+random.Int64N(5), resource.DecimalSI)
	}
	pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: limits, Requests: limits}
	return pod
}

// arm makes the pod one whose author wants to learn something.
func arm(random *rand.Rand, pod *corev1.Pod, hosts []string) {
	for range 1 + random.IntN(2) {
		switch random.IntN(14) {
		case 0:
			pod.Annotations[names.GPUModelAnnotation] = []string{"NVIDIA-A100", "NVIDIA-F100", "B100", "*"}[random.IntN(4)]
		case 1:
			pod.Annotations[names.GPUMinMemoryAnnotation] = fmt.Sprintf("%dGi", 1+random.IntN(90))
		case 2:
			pod.Annotations[names.ColocateWithAnnotation] = "backend"
			pod.Annotations[names.ColocateRequiredTopologyKeyAnnotation] = corev1.LabelTopologyZone
		case 3:
			pod.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: "z1"}
		case 4: // as the DaemonSet controller asks for a node
			pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
					Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{hosts[random.IntN(len(hosts))]},
				}}}},
			}}}
		case 5:
			pod.Status.NominatedNodeName = hosts[random.IntN(len(hosts))]
		case 6:
			pod.Spec.Priority = new(int32(10))
		case 7:
			pod.Spec.Volumes = []corev1.Volume{claimed}
		case 8:
			pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
		}
	}
}

// claimed is a volume that one pod at a time may use.
var claimed = corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "once"}}}

// occupy returns running pods for the nodes, which hold no shares.
func occupy(random *rand.Rand, nodes []*corev1.Node, namespace string) (pods []*corev1.Pod) {
	for _, node := range nodes {
		for i := range random.IntN(3) {
			pod := drawPod(random, namespace, fmt.Sprintf("%s-%d", node.Name, i))
			limits := pod.Spec.Containers[0].Resources.Limits
			delete(limits, names.GPUMilliResource)
			delete(limits, names.GPUMemoryResource)
			pod.Spec.NodeName, pod.Status.Phase = node.Name, corev1.PodRunning
			if i == 0 {
				pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80, ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
			}
			pods = append(pods, pod)
		}
	}
	return pods
}

// watchedScheduler is a scheduler with all plugins, and what it has written.
type watchedScheduler struct {
	*scheduler.Scheduler
	client *fake.Clientset
	mu     sync.Mutex
	// written are the writes to pods, and their events.
	written []string
	// settled is closed when the pod is bound, or was tried in vain.
	settled chan struct{}
	settle  func()
}

// preparer is a plugin that does something before the first cycle.
type preparer interface {
	Prepare(ctx context.Context) error
}

// buildWatched returns a scheduler with this profile, which has seen the objects. It does not
// schedule yet.
func buildWatched(ctx context.Context, t *testing.T, profile *schedconfig.KubeSchedulerProfile, objects []runtime.Object) *watchedScheduler {
	t.Helper()
	metrics.Register()
	w := &watchedScheduler{client: fake.NewClientset(objects...), settled: make(chan struct{})}
	w.settle = sync.OnceFunc(func() { close(w.settled) })
	watches := make(chan struct{}, 100)
	w.client.PrependWatchReactor("*", func(action clienttesting.Action) (bool, watch.Interface, error) {
		watcher, err := w.client.Tracker().Watch(action.GetResource(), action.GetNamespace())
		watches <- struct{}{}
		return true, watcher, err
	})
	w.client.PrependReactor("create", "pods", w.bind)
	w.client.PrependReactor("patch", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		if patch, ok := action.(clienttesting.PatchAction); ok {
			w.write(patch.GetNamespace(), patch.GetName(), "patch "+patch.GetSubresource(), string(patch.GetPatch()))
		}
		return false, nil, nil
	})
	measuring := map[string][]shortfall.Plugin{}
	var preparing []preparer
	factories := New()
	for name, factory := range factories {
		factories[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if measures, ok := plugin.(shortfall.Plugin); ok {
				measuring[handle.ProfileName()] = append(measuring[handle.ProfileName()], measures)
			}
			if prepares, ok := plugin.(preparer); ok {
				preparing = append(preparing, prepares)
			}
			return plugin, err
		}
	}
	factory := informers.NewSharedInformerFactory(w.client, 0)
	sched, err := scheduler.New(ctx, w.client, factory, nil,
		func(string) events.EventRecorderLogger { return &watchedRecorder{w} },
		scheduler.WithProfiles(*profile), scheduler.WithPodInitialBackoffSeconds(0), scheduler.WithPodMaxBackoffSeconds(0),
		scheduler.WithFrameworkOutOfTreeRegistry(factories))
	if err != nil {
		t.Fatal(err)
	}
	effective := map[string]*schedconfig.Plugins{profile.SchedulerName: sched.Profiles[profile.SchedulerName].ListPlugins()}
	explained := pending.New(factory, pending.Options{
		Profiles: effective, DeviceProfiles: ProfilesRunning(effective, gpudevice.Name), Measuring: measuring,
	}).Wrap(sched.FailureHandler)
	sched.FailureHandler = func(ctx context.Context, fw framework.Framework, podInfo *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		explained(ctx, fw, podInfo, status, nominating, start)
		w.settle()
	}
	factory.Start(ctx.Done())
	for range factory.WaitForCacheSync(ctx.Done()) {
		<-watches // what changes between list and watch is lost to a client without a server
	}
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range preparing {
		if err := plugin.Prepare(ctx); err != nil {
			t.Fatal(err)
		}
	}
	w.Scheduler = sched
	return w
}

// bind does what the API server does with a Binding.
func (w *watchedScheduler) bind(action clienttesting.Action) (bool, runtime.Object, error) {
	create, ok := action.(clienttesting.CreateAction)
	if !ok || action.GetSubresource() != "binding" {
		return false, nil, nil
	}
	binding, ok := create.GetObject().(*corev1.Binding)
	if !ok {
		return false, nil, nil
	}
	object, err := w.client.Tracker().Get(action.GetResource(), action.GetNamespace(), binding.Name)
	if err != nil {
		return true, nil, err
	}
	pod, ok := object.DeepCopyObject().(*corev1.Pod)
	if !ok {
		return true, nil, fmt.Errorf("got a %T", object)
	}
	pod.Spec.NodeName = binding.Target.Name
	for key, value := range binding.Annotations {
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, key, value)
	}
	w.write(pod.Namespace, pod.Name, "bind "+binding.Target.Name, fmt.Sprint(binding.Annotations))
	return true, binding, w.client.Tracker().Update(action.GetResource(), pod, pod.Namespace)
}

func (w *watchedScheduler) write(namespace, name, what, text string) {
	select {
	case <-w.settled:
		return // another attempt: how often a pod is tried is not compared
	default:
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, fmt.Sprintf("%s/%s: %s: %s", namespace, name, what, chosen.ReplaceAllString(timestamps.ReplaceAllString(text, "TIME"), "CHOSEN")))
}

// watchedRecorder records events where the writes are.
type watchedRecorder struct{ *watchedScheduler }

func (r *watchedRecorder) WithLogger(klog.Logger) events.EventRecorderLogger { return r }

func (r *watchedRecorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	pod, ok := regarding.(*corev1.Pod)
	if !ok {
		return
	}
	about := ""
	if object, ok := related.(metav1.Object); ok {
		about = object.GetNamespace() + "/" + object.GetName()
	}
	r.write(pod.Namespace, pod.Name, strings.Join([]string{"event", eventType, reason, action, about}, " "), fmt.Sprintf(note, args...))
	if reason == "Scheduled" {
		r.settle()
	}
}

var (
	timestamps = regexp.MustCompile(`"\d{4}-\d\d-\d\dT[^"]*"`)
	// chosen is the node on which preemption evicts pods, which chance decides among equal ones.
	chosen = regexp.MustCompile(`on node own-\d+, preempting \d+ victims|"nominatedNodeName":"own-\d+"`)
)

// attempt has a scheduler try the pod on the objects once, and returns what was written to it
// and its events.
func attempt(t *testing.T, profile *schedconfig.KubeSchedulerProfile, objects []runtime.Object, pod *corev1.Pod) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(klog.NewContext(t.Context(), klog.Logger{})) // silent
	defer cancel()
	copies := make([]runtime.Object, len(objects))
	for i := range objects {
		copies[i] = objects[i].DeepCopyObject()
	}
	w := buildWatched(ctx, t, profile, copies)
	go w.Run(ctx)
	if _, err := w.client.CoreV1().Pods(pod.Namespace).Create(ctx, pod.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-w.settled:
	case <-time.After(schedtest.Patience):
		t.Fatalf("pod %s is neither bound nor given up; written: %q", pod.Name, w.written)
	}
	cancel()
	w.mu.Lock()
	defer w.mu.Unlock()
	prefix := pod.Namespace + "/" + pod.Name + ":"
	return slices.DeleteFunc(slices.Clone(w.written), func(line string) bool { return !strings.HasPrefix(line, prefix) })
}

// demoProfile returns the profile of the demo, which has all plugins and tenancy. If ranked,
// the preferences of LabelPresence outweigh all other scores.
func demoProfile(t *testing.T, tenants config.TenantPolicy, ranked []*corev1.Node) *schedconfig.KubeSchedulerProfile {
	t.Helper()
	profile := firstProfile(t, "hack/demo/berth-scheduler.yaml")
	for i := range profile.PluginConfig {
		args, ok := profile.PluginConfig[i].Args.(*config.LabelPresenceArgs)
		if !ok {
			continue
		}
		args.Tenancy.Tenants = tenants
		for k, node := range ranked {
			args.Preferences = append(args.Preferences, config.LabelPresencePreference{Label: "example.com/prefer-" + node.Name, Presence: new(true), Weight: int32(1 + 3*k)})
		}
	}
	if ranked != nil {
		for i := range profile.Plugins.MultiPoint.Enabled {
			if plugin := &profile.Plugins.MultiPoint.Enabled[i]; plugin.Name == labelpresence.Name {
				plugin.Weight = 1_000_000
			}
		}
	}
	return profile
}

// drawOthers returns random nodes that tenancy keeps from the viewer, with other tenants' pods.
func drawOthers(random *rand.Rand, v *viewer, count int) (objects []runtime.Object) {
	var nodes []*corev1.Node
	for i := range count {
		node := drawNode(random, fmt.Sprintf("other-%d", i), v.others[random.IntN(len(v.others))])
		nodes = append(nodes, node)
		objects = append(objects, node)
	}
	for _, pod := range occupy(random, nodes, "red") {
		objects = append(objects, pod)
	}
	return objects
}

// placed is what is written of the node of a pod, which is not compared where chance decides.
var placed = regexp.MustCompile(`(?s)^(\S+ (?:bind|event Normal Scheduled)).*`)

// TestOthersNodesAreNotLearned draws pairs of clusters, and compares what is written.
func TestOthersNodesAreNotLearned(t *testing.T) {
	pairs := uint64(6)
	if os.Getenv("BERTH_LONG") == "1" {
		pairs = 300
	}
	const pods = 3
	bound, waiting := 0, 0
	for seed := range pairs {
		random := rand.New(rand.NewPCG(seed, 24))
		v := &viewers[seed%uint64(len(viewers))]
		count := random.IntN(6)
		if seed%6 == 5 {
			count = 101 + random.IntN(20) // NodeCandidates narrows what is more than 100 nodes
		}
		objects := []runtime.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "blue", Labels: map[string]string{names.TenantLabel: "blue"}}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "red", Labels: map[string]string{names.TenantLabel: "red"}}},
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "none"}},
			&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: v.namespace, Name: "backend"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "backend"}}},
			st.MakePersistentVolumeClaim().Namespace(v.namespace).Name("once").AccessModes([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}).
				Annotation("pv.kubernetes.io/bind-completed", "yes").VolumeName("pv").Obj(),
			st.MakePersistentVolume().Name("pv").AccessModes([]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}).Obj(),
		}
		var own []*corev1.Node
		hosts := []string{"missing", "other-0", "other-1", "other-2"}
		for i := range count {
			node := drawNode(random, fmt.Sprintf("own-%d", i), v.own)
			own, objects, hosts = append(own, node), append(objects, node), append(hosts, node.Name)
		}
		for i, pod := range occupy(random, own, v.namespace) {
			if i == 0 {
				pod.Spec.Volumes = []corev1.Volume{claimed}
			}
			objects = append(objects, pod)
		}
		var ranked []*corev1.Node
		if seed%2 == 0 {
			ranked = own
		}
		profile := demoProfile(t, v.tenants, ranked)
		one := slices.Concat(objects, drawOthers(random, v, random.IntN(3)*random.IntN(8)))
		two := slices.Concat(objects, drawOthers(random, v, 1+random.IntN(8)+random.IntN(2)*110))
		for i := range pods {
			pod := drawPod(random, v.namespace, fmt.Sprintf("asks-%d", i))
			arm(random, pod, hosts)
			got, want := attempt(t, profile, two, pod), attempt(t, profile, one, pod)
			if len(want) > 0 && placed.MatchString(want[len(want)-1]) {
				bound++
			} else {
				waiting++
			}
			if ranked == nil {
				for _, lines := range [][]string{want, got} {
					for k := range lines {
						lines[k] = placed.ReplaceAllString(lines[k], "$1")
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("seed %d, %s, %d nodes of its own: pod %s learns of others' nodes (-one,+two):\n%s", seed, v.name, count, pod.Name, diff)
			}
		}
	}
	t.Logf("%d pairs: %d pods bound, %d waiting", pairs, bound, waiting)
	if bound == 0 || waiting == 0 {
		t.Errorf("%d pods were bound and %d wait: the pairs do not test enough", bound, waiting)
	}
}
