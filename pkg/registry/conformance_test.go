// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package registry

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/plugins/deviceclaims"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// caller calls the extension points of one plugin, with a state that is the plugin's alone.
type caller struct {
	plugin fwk.Plugin
	fw     framework.Framework
	state  fwk.CycleState
	pod    *corev1.Pod
	other  fwk.PodInfo
	nodes  []fwk.NodeInfo
	scores fwk.NodeScoreList
}

// assignedPod is a resource that Kubernetes 1.36 has under this name for itself.
const assignedPod fwk.EventResource = "AssignedPod"

// calls are the extension points, by name. The pod of each is the caller's. A plugin that
// does not implement one is not called.
var calls = map[string]func(ctx context.Context, c *caller){
	"PreEnqueue":  callIf(func(ctx context.Context, c *caller, p fwk.PreEnqueuePlugin) { p.PreEnqueue(ctx, c.pod) }),
	"PreFilter":   callIf(func(ctx context.Context, c *caller, p fwk.PreFilterPlugin) { p.PreFilter(ctx, c.state, c.pod, c.nodes) }),
	"PreFilter 0": callIf(func(ctx context.Context, c *caller, p fwk.PreFilterPlugin) { p.PreFilter(ctx, c.state, c.pod, nil) }),
	"AddPod": callIf(func(ctx context.Context, c *caller, p fwk.PreFilterPlugin) {
		if extensions := p.PreFilterExtensions(); extensions != nil {
			extensions.AddPod(ctx, c.state, c.pod, c.other, c.nodes[0])
		}
	}),
	"RemovePod": callIf(func(ctx context.Context, c *caller, p fwk.PreFilterPlugin) {
		if extensions := p.PreFilterExtensions(); extensions != nil {
			extensions.RemovePod(ctx, c.state, c.pod, c.other, c.nodes[0])
		}
	}),
	"Filter": callIf(func(ctx context.Context, c *caller, p fwk.FilterPlugin) {
		for _, node := range c.nodes {
			p.Filter(ctx, c.state, c.pod, node)
		}
	}),
	"PostFilter": callIf(func(ctx context.Context, c *caller, p fwk.PostFilterPlugin) {
		p.PostFilter(ctx, c.state, c.pod, framework.NewDefaultNodeToStatus())
	}),
	"PreScore":   callIf(func(ctx context.Context, c *caller, p fwk.PreScorePlugin) { p.PreScore(ctx, c.state, c.pod, c.nodes) }),
	"PreScore 0": callIf(func(ctx context.Context, c *caller, p fwk.PreScorePlugin) { p.PreScore(ctx, c.state, c.pod, nil) }),
	"Score": callIf(func(ctx context.Context, c *caller, p fwk.ScorePlugin) {
		c.scores = nil
		for _, node := range c.nodes {
			if score, status := p.Score(ctx, c.state, c.pod, node); status.IsSuccess() {
				c.scores = append(c.scores, fwk.NodeScore{Name: node.Node().Name, Score: score})
			}
		}
	}),
	"NormalizeScore": callIf(func(ctx context.Context, c *caller, p fwk.ScorePlugin) {
		if extensions := p.ScoreExtensions(); extensions != nil && !extensions.NormalizeScore(ctx, c.state, c.pod, c.scores).IsSuccess() {
			return
		}
		for _, score := range c.scores {
			if score.Score < 0 || score.Score > fwk.MaxScore {
				panic(fmt.Sprintf("node %s has a score of %d", score.Name, score.Score))
			}
		}
		c.scores = nil
	}),
	"RunScorePlugins": func(ctx context.Context, c *caller) { c.fw.RunScorePlugins(ctx, c.state, c.pod, c.nodes) },
	"Reserve":         callIf(func(ctx context.Context, c *caller, p fwk.ReservePlugin) { p.Reserve(ctx, c.state, c.pod, c.node()) }),
	"Unreserve":       callIf(func(ctx context.Context, c *caller, p fwk.ReservePlugin) { p.Unreserve(ctx, c.state, c.pod, c.node()) }),
	"Permit":          callIf(func(ctx context.Context, c *caller, p fwk.PermitPlugin) { p.Permit(ctx, c.state, c.pod, c.node()) }),
	"PreBind":         callIf(func(ctx context.Context, c *caller, p fwk.PreBindPlugin) { p.PreBind(ctx, c.state, c.pod, c.node()) }),
	"Bind":            callIf(func(ctx context.Context, c *caller, p fwk.BindPlugin) { p.Bind(ctx, c.state, c.pod, c.node()) }),
	"PostBind":        callIf(func(ctx context.Context, c *caller, p fwk.PostBindPlugin) { p.PostBind(ctx, c.state, c.pod, c.node()) }),
	"SignPod":         callIf(func(ctx context.Context, c *caller, p fwk.SignPlugin) { p.SignPod(ctx, c.pod) }),
	"hints": callIf(func(ctx context.Context, c *caller, p fwk.EnqueueExtensions) {
		events, _ := p.EventsToRegister(ctx)
		for _, event := range events {
			if event.QueueingHintFn == nil {
				continue
			}
			for _, object := range map[fwk.EventResource][]any{fwk.Pod: {c.pod, c.other.GetPod()}, assignedPod: {c.other.GetPod()}, fwk.Node: {c.nodes[0].Node()}}[event.Event.Resource] {
				if event.Event.ActionType&fwk.Add != 0 {
					event.QueueingHintFn(klog.FromContext(ctx), c.pod, nil, object) //nolint:errcheck // whatever the answer
				}
				if event.Event.ActionType&fwk.Update != 0 {
					event.QueueingHintFn(klog.FromContext(ctx), c.pod, object, object) //nolint:errcheck // as above
				}
				if event.Event.ActionType&fwk.Delete != 0 {
					event.QueueingHintFn(klog.FromContext(ctx), c.pod, object, nil) //nolint:errcheck // as above
				}
			}
		}
	}),
	"Clone":   func(_ context.Context, c *caller) { c.state = c.state.Clone() },
	"restart": func(_ context.Context, c *caller) { c.state = framework.NewCycleState() },
}

// node is the name of a node that there is, or of one that is gone.
func (c *caller) node() string {
	if len(c.pod.Name)%2 == 0 {
		return "gone"
	}
	return c.nodes[0].Node().Name
}

func callIf[P fwk.Plugin](do func(context.Context, *caller, P)) func(context.Context, *caller) {
	return func(ctx context.Context, c *caller) {
		if p, ok := c.plugin.(P); ok {
			do(ctx, c, p)
		}
	}
}

// askingPods are pods that ask for something of each plugin, and one that does not.
func askingPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for name, arm := range map[string]func(*corev1.Pod){
		"plain": func(*corev1.Pod) {},
		"share": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("500")}
		},
		"device": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
		},
		"invalid": func(pod *corev1.Pod) {
			pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse("1500")}
		},
		"claim": func(pod *corev1.Pod) {
			pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("claim-" + pod.Name)}}
		},
		"near": func(pod *corev1.Pod) { pod.Annotations = map[string]string{names.ColocateWithAnnotation: "missing"} },
		"nearby": func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{names.ColocateWithAnnotation: "missing", names.ColocateRequiredTopologyKeyAnnotation: corev1.LabelHostname}
		},
	} {
		for _, name := range []string{name, name + "s"} { // see caller.node
			pod := st.MakePod().Namespace("ns").Name(name).UID(name).SchedulerName(names.Scheduler).Container("image").Obj()
			arm(pod)
			pods = append(pods, pod)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// claimOf is the claim of the asking pod of that name, for a GPU.
func claimOf(pod string) *resourcev1.ResourceClaim {
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claim-" + pod, UID: types.UID(pod)},
		Spec: resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: []resourcev1.DeviceRequest{{
			Name: "gpu", Exactly: &resourcev1.ExactDeviceRequest{DeviceClassName: draslices.HAMiDriver, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1},
		}}}},
	}
}

// TestBuiltPlugins holds every plugin to what the framework takes for granted of one that is
// built: each event that it registers has a hint, a Filter that has no state says so, and New
// leaves its arguments as they are. What its type has, TestConformance looks at.
func TestBuiltPlugins(t *testing.T) {
	for _, plugin := range Plugins() {
		for variant, args := range argsVariants(t, plugin.Name) {
			t.Run(plugin.Name+"/"+variant, func(t *testing.T) {
				var before runtime.Object
				if args != nil {
					before = args.DeepCopyObject()
				}
				profile, err := schedtest.NewProfile(t.Context(), t, plugin.Name, plugin.New, args, schedtest.Options{Nodes: []*corev1.Node{st.MakeNode().Name("n").Obj()}, Claims: true})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(before, args); diff != "" {
					t.Errorf("New changed its arguments (-before,+after):\n%s", diff)
				}
				events, err := profile.Plugin.(fwk.EnqueueExtensions).EventsToRegister(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, event := range events {
					// The events of DeviceClaims are those of kube-scheduler's DynamicResources.
					if event.QueueingHintFn == nil && plugin.Name != deviceclaims.Name {
						t.Errorf("%s has no hint: it wakes every pod", event.Event.Label())
					}
				}
				filter, filters := profile.Plugin.(fwk.FilterPlugin)
				if !filters {
					return
				}
				if got := filter.Filter(t.Context(), framework.NewCycleState(), st.MakePod().Name("p").Obj(), profile.Nodes(t)[0]); got.Code() != fwk.Error {
					t.Errorf("Filter without PreFilter: %v, want an error", got)
				}
			})
		}
	}
}

// TestNewRefuses builds every plugin with no arguments, those of another plugin and empty
// ones, and without informers.
func TestNewRefuses(t *testing.T) {
	bare, err := frameworkruntime.NewFramework(t.Context(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, plugin := range Plugins() {
		own := argsVariants(t, plugin.Name)["demo"]
		wrong := map[string]runtime.Object{"*config.NodeAffinityArgs": &schedconfig.NodeAffinityArgs{}}
		if own != nil {
			wrong["<nil>"] = nil
			wrong[plugin.Name+"Args"] = reflect.New(reflect.TypeOf(own).Elem()).Interface().(runtime.Object)
			if _, err := plugin.New(t.Context(), own, bare); err == nil || !strings.Contains(err.Error(), "needs a framework with an informer factory") {
				t.Errorf("%s without informers: got %v", plugin.Name, err)
			}
		}
		for want, args := range wrong {
			if _, err := plugin.New(t.Context(), args, bare); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with arguments %T: got %v, want an error that names %s", plugin.Name, args, err, want)
			}
		}
	}
}

// TestExtensionPointsInAnyOrder calls the extension points of each plugin without those
// before them, and in random orders, as other plugins may by the framework's Handle: none
// panics, and no score leaves the range.
func TestExtensionPointsInAnyOrder(t *testing.T) {
	const orders, length = 30, 12
	node := st.MakeNode().Name("n").Label(corev1.LabelHostname, "n").Label(names.GPUSharingLabel, "true").Label("nvidia.com/gpu.count", "2").
		Label("nvidia.com/gpu.memory", "8192").Label("nvidia.com/gpu.product", "A100").Capacity(map[corev1.ResourceName]string{corev1.ResourceCPU: "8", corev1.ResourcePods: "10"}).Obj()
	options := schedtest.Options{
		Nodes: []*corev1.Node{node, st.MakeNode().Name("bare").Obj()}, Pods: append(askingPods(), st.MakePod().Namespace("ns").Name("bound").UID("bound").Node("n").Obj()),
		Namespaces: []*corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}},
		Objects:    []runtime.Object{draslices.HAMi.Slices("n", 2, draslices.T4())[0], draslices.HAMi.Classes()[0], claimOf("claim"), claimOf("claims")},
		Claims:     true,
	}
	points := slices.Sorted(maps.Keys(calls))
	for _, plugin := range Plugins() {
		for variant, args := range argsVariants(t, plugin.Name) {
			t.Run(plugin.Name+"/"+variant, func(t *testing.T) {
				ctx := klog.NewContext(t.Context(), klog.Logger{})
				profile, err := schedtest.NewProfile(ctx, t, plugin.Name, plugin.New, args, options)
				if err != nil {
					t.Fatal(err)
				}
				profile.Start(ctx, t)
				other, err := framework.NewPodInfo(options.Pods[len(options.Pods)-1])
				if err != nil {
					t.Fatal(err)
				}
				for _, pod := range askingPods() {
					try := func(order []string) {
						c := &caller{plugin: profile.Plugin, fw: profile.Framework, state: framework.NewCycleState(), pod: pod, other: other, nodes: profile.Nodes(t)}
						at := ""
						defer func() {
							if panicked := recover(); panicked != nil {
								t.Fatalf("pod %s: %s of %q panics: %v\n%s", pod.Name, at, order, panicked, debug.Stack())
							}
						}()
						for _, at = range order {
							calls[at](ctx, c)
						}
					}
					for _, point := range points {
						try([]string{point, "NormalizeScore"})
					}
					for seed := range uint64(orders) {
						random := rand.New(rand.NewPCG(seed, 4))
						order := make([]string, length)
						for i := range order {
							order[i] = points[random.IntN(len(points))]
						}
						try(order)
					}
				}
			})
		}
	}
}

// argsVariants are the arguments of a plugin in the demo, and by default.
func argsVariants(t *testing.T, plugin string) map[string]runtime.Object {
	t.Helper()
	variants := map[string]runtime.Object{}
	for _, entry := range firstProfile(t, "hack/demo/berth-scheduler.yaml").PluginConfig {
		if entry.Name == plugin {
			variants["demo"] = entry.Args
		}
	}
	switch args := variants["demo"].(type) {
	case nil:
		variants["without args"] = nil
		delete(variants, "demo")
	case *config.LabelPresenceArgs:
		preferring := args.DeepCopy()
		preferring.Tenancy, preferring.Preferences = nil, []config.LabelPresencePreference{{Label: "a", Presence: new(true), Weight: 1}}
		variants["preferences"] = preferring
	case *config.GPUDeviceArgs:
		for _, strategy := range []config.GPUDeviceStrategy{config.GPUDeviceBestFit, config.GPUDeviceLeastAllocated} {
			other := args.DeepCopy()
			other.ScoringStrategy.Type = strategy
			variants[string(strategy)] = other
		}
	}
	return variants
}
