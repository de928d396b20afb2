// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package deviceclaims

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/pkg/schedtest"
)

// world is a cluster with ResourceSlices and ResourceClaims, and both plugins.
type world struct {
	nodes   []fwk.NodeInfo
	slices  []*resourcev1.ResourceSlice
	manager fwk.SharedDRAManager
	// captured is what Reserve of either plugin has wanted to allocate.
	captured *capturedClaims

	stock *dynamicresources.DynamicResources
	ours  *DeviceClaims
}

// newWorld builds both plugins over the objects. A nil strategy chooses as DynamicResources.
func newWorld(tb testing.TB, strategy device.Strategy, nodes []*corev1.Node, slices []*resourcev1.ResourceSlice, others ...runtime.Object) *world {
	tb.Helper()
	ctx, cancel := context.WithCancel(quiet(tb))
	tb.Cleanup(cancel)
	w := &world{slices: slices}
	objects := slicesOf[runtime.Object](slices)
	factory := func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		w.manager = handle.SharedDRAManager()
		w.captured = &capturedClaims{ResourceClaimTracker: w.manager.ResourceClaims(), pending: map[types.UID]*resourcev1.ResourceClaim{}}
		var err error
		if w.stock, err = newStock(ctx, comparator{capturing{handle, w}}); err != nil {
			return nil, err
		}
		built, err := New(ctx, args, capturing{handle, w})
		if err == nil {
			w.ours = built.(*DeviceClaims)
			w.ours.strategy = strategy
		}
		return built, err
	}
	profile, err := schedtest.NewProfile(ctx, tb, Name, factory, nil, schedtest.Options{Nodes: nodes, Objects: append(objects, others...), Claims: true})
	if err != nil {
		tb.Fatal(err)
	}
	profile.Start(ctx, tb)
	w.nodes = profile.Nodes(tb)
	claims := 0
	for _, o := range others {
		if _, ok := o.(*resourcev1.ResourceClaim); ok {
			claims++
		}
	}
	if err := wait.PollUntilContextTimeout(ctx, time.Millisecond, schedtest.Patience, true, func(context.Context) (bool, error) {
		have, err := w.manager.ResourceClaims().List()
		list, err2 := w.manager.ResourceSlices().ListWithDeviceTaintRules()
		return err == nil && err2 == nil && len(have) == claims && len(list) == len(slices), nil
	}); err != nil {
		tb.Fatalf("the caches are not those of the objects: %v", err)
	}
	return w
}

func slicesOf[To, From any](list []From) []To {
	converted := make([]To, len(list))
	for i := range list {
		converted[i] = any(list[i]).(To)
	}
	return converted
}

// quiet is a context without a log: upstream writes several lines for each node.
func quiet(tb testing.TB) context.Context { return klog.NewContext(tb.Context(), logr.Discard()) }

// comparator is a handle for a second instance of DynamicResources: the index of pods, which a
// profile has once, is the first one's.
type comparator struct{ capturing }

func (c comparator) SharedInformerFactory() informers.SharedInformerFactory {
	return withoutIndexers{c.Handle.SharedInformerFactory()}
}

// capturing is a handle with the real manager, where what Reserve allocates goes no further than
// the world's captured.
type capturing struct {
	fwk.Handle

	w *world
}

func (c capturing) SharedDRAManager() fwk.SharedDRAManager { return manager{c.w.manager, c.w.captured} }

type manager struct {
	fwk.SharedDRAManager

	captured *capturedClaims
}

func (m manager) ResourceClaims() fwk.ResourceClaimTracker { return m.captured }

type capturedClaims struct {
	fwk.ResourceClaimTracker

	pending map[types.UID]*resourcev1.ResourceClaim
}

func (c *capturedClaims) SignalClaimPendingAllocation(uid types.UID, claim *resourcev1.ResourceClaim) error {
	c.pending[uid] = claim
	return nil
}

// answer is what a plugin says to a pod on a node.
type answer struct {
	Code    fwk.Code
	Reasons []string
	// Score is the raw one.
	Score int64
	// Devices are those of the claims in their order, and the amounts that are taken of them.
	Devices []string
}

func answerOf(status *fwk.Status) answer {
	if status.IsSuccess() {
		return answer{}
	}
	return answer{Code: status.Code(), Reasons: status.Reasons()}
}

// claimPlugin is the part of both plugins that is compared.
type claimPlugin interface {
	fwk.PreFilterPlugin
	fwk.FilterPlugin
	fwk.ScorePlugin
	fwk.ReservePlugin
}

// ask runs a cycle of the pod: PreFilter, and then Filter, Score and Reserve on each node. It
// returns PreFilter's answer alone where that ends the cycle, and the claims as they would be
// allocated on each node.
func (w *world) ask(ctx context.Context, p claimPlugin, pod *corev1.Pod) (answers map[string]answer, allocated map[string][]*resourcev1.ResourceClaim) {
	cs := framework.NewCycleState()
	answers, allocated = map[string]answer{}, map[string][]*resourcev1.ResourceClaim{}
	if _, status := p.PreFilter(ctx, cs, pod, w.nodes); !status.IsSuccess() {
		return map[string]answer{"": answerOf(status)}, nil
	}
	// At once, as the framework does.
	statuses := make([]*fwk.Status, len(w.nodes))
	var group sync.WaitGroup
	for i, node := range w.nodes {
		group.Go(func() { statuses[i] = p.Filter(ctx, cs, pod, node) })
	}
	group.Wait()
	for i, node := range w.nodes {
		answers[node.Node().Name] = answerOf(statuses[i])
	}
	for _, node := range w.nodes {
		name := node.Node().Name
		a := answers[name]
		if a.Code != fwk.Success {
			continue
		}
		a.Score, _ = p.Score(ctx, cs, pod, node)
		clear(w.captured.pending)
		if status := p.Reserve(ctx, cs, pod, name); !status.IsSuccess() {
			a.Code, a.Reasons = status.Code(), append([]string{"Reserve"}, status.Reasons()...)
		}
		for i := range pod.Spec.ResourceClaims {
			claim, err := w.manager.ResourceClaims().Get(pod.Namespace, *pod.Spec.ResourceClaims[i].ResourceClaimName)
			if err != nil {
				continue
			}
			pending, ok := w.captured.pending[claim.UID]
			if !ok {
				continue
			}
			allocated[name] = append(allocated[name], pending)
			for _, r := range pending.Status.Allocation.Devices.Results {
				a.Devices = append(a.Devices, describe(&r))
			}
		}
		answers[name] = a
	}
	return answers, allocated
}

func describe(r *resourcev1.DeviceRequestAllocationResult) string {
	text := fmt.Sprintf("%s: %s/%s/%s", r.Request, r.Driver, r.Pool, r.Device)
	var amounts []string
	for name, amount := range r.ConsumedCapacity {
		amounts = append(amounts, fmt.Sprintf(" %s=%s", name, amount.String()))
	}
	slices.Sort(amounts)
	return text + strings.Join(amounts, "")
}

// commit has the real manager take the claims as allocated, as Reserve does in a scheduler.
func (w *world) commit(tb testing.TB, claims []*resourcev1.ResourceClaim) {
	tb.Helper()
	for _, claim := range claims {
		if err := w.manager.ResourceClaims().SignalClaimPendingAllocation(claim.UID, claim); err != nil {
			tb.Fatal(err)
		}
	}
}

// requireWithin checks what was committed.
func (w *world) requireWithin(tb testing.TB) {
	tb.Helper()
	var slices []resourcev1.ResourceSlice
	for _, slice := range w.slices {
		slices = append(slices, *slice)
	}
	list, err := w.manager.ResourceClaims().List()
	if err != nil {
		tb.Fatal(err)
	}
	var claims []resourcev1.ResourceClaim
	for _, claim := range list {
		claims = append(claims, *claim)
	}
	for _, violation := range oracle.CheckClaims(slices, claims) {
		tb.Error(violation)
	}
}

func newNode(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("512Gi"), corev1.ResourcePods: resource.MustParse("110"),
		}},
	}
}

func newClaim(name string, requests ...resourcev1.DeviceRequest) *resourcev1.ResourceClaim {
	for i := range requests {
		if requests[i].Name == "" {
			requests[i].Name = fmt.Sprintf("r%d", i)
		}
	}
	return &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name)},
		Spec:       resourcev1.ResourceClaimSpec{Devices: resourcev1.DeviceClaim{Requests: requests}},
	}
}

func newPod(name string, claims ...string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault, UID: types.UID(name)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}},
	}
	for _, claim := range claims {
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
	}
	return pod
}
