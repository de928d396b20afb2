// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/oracle"
)

// churnWorkers create and delete pods side by side.
const churnWorkers = 6

// watchAll feeds every version of every pod that the API server sends to history,
// across restarts of the API server, until the test ends. It also counts.
type watchAll struct {
	history *oracle.History

	mu sync.Mutex
	// unseen are pods that nobody has placed or refused; bound counts bindings.
	unseen map[types.UID]bool
	bound  int
}

func startWatch(t *testing.T, c *framework.Cluster) *watchAll {
	t.Helper()
	w := &watchAll{history: oracle.NewHistory(), unseen: map[types.UID]bool{}}
	factory := informers.NewSharedInformerFactory(c.Client, 0)
	informer := factory.Core().V1().Pods().Informer()
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.saw(nil, obj) },
		UpdateFunc: w.saw,
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			if pod, ok := obj.(*corev1.Pod); ok {
				w.mu.Lock()
				defer w.mu.Unlock()
				delete(w.unseen, pod.UID)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	factory.Start(ctx.Done())
	t.Cleanup(func() {
		stop()
		factory.Shutdown()
	})
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		t.Fatal("the informer of pods did not start")
	}
	return w
}

func (w *watchAll) saw(before, now any) {
	pod, ok := now.(*corev1.Pod)
	if !ok {
		return
	}
	w.history.Observe(pod)
	w.mu.Lock()
	defer w.mu.Unlock()
	refused := framework.PodScheduledCondition(pod)
	if pod.Spec.NodeName != "" || refused != nil && refused.Status == corev1.ConditionFalse {
		delete(w.unseen, pod.UID)
	} else {
		w.unseen[pod.UID] = true
	}
	old, ok := before.(*corev1.Pod)
	if pod.Spec.NodeName != "" && (!ok || old.UID != pod.UID || old.Spec.NodeName == "") {
		w.bound++
	}
}

// counts returns how many pods wait for their first attempt, and how many were bound.
func (w *watchAll) counts() (unseen, bound int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.unseen), w.bound
}

// churn lets pods arrive and leave.
type churn struct {
	c     *framework.Cluster
	watch *watchAll
	// pods is how many arrive in all, and alive how many stay at a time. unseen is
	// how many may wait for their first attempt: pods that arrive and leave while
	// no scheduler runs show nothing.
	pods, alive, unseen int
	seed                uint64

	// limit is how many may have arrived by now.
	limit atomic.Int64

	mu sync.Mutex
	// kept are the UIDs of the pods that were created and not deleted, by
	// namespace/name; the others are counts for the report.
	kept                             map[string]string
	created, deleted, ended, renamed int
}

// run returns when all pods have arrived.
func (ch *churn) run(ctx context.Context) error {
	ch.kept = map[string]string{}
	errs := make(chan error, churnWorkers)
	for worker := range churnWorkers {
		go func() { errs <- ch.work(ctx, worker) }()
	}
	var failed error
	for range churnWorkers {
		failed = errors.Join(failed, <-errs)
	}
	return failed
}

// work is one worker's part.
func (ch *churn) work(ctx context.Context, worker int) error {
	rng := rand.New(rand.NewPCG(ch.seed, uint64(worker)))
	var alive []string
	for i := worker; i < ch.pods; i += churnWorkers {
		err := wait.PollUntilContextCancel(ctx, 20*time.Millisecond, true, func(context.Context) (bool, error) {
			unseen, _ := ch.watch.counts()
			return unseen < ch.unseen && int64(ch.arrivals()) < ch.limit.Load(), nil
		})
		if err != nil {
			return err
		}
		name := fmt.Sprintf("pod-%d", i)
		if err := ch.create(ctx, randomPod(rng, name)); err != nil {
			return err
		}
		alive = append(alive, name)
		for len(alive) > ch.alive/churnWorkers {
			k := rng.IntN(len(alive))
			name := alive[k]
			reborn, err := ch.leave(ctx, rng, name)
			if err != nil {
				return err
			}
			if !reborn {
				alive = append(alive[:k], alive[k+1:]...)
			} else if rng.IntN(2) == 0 {
				break
			}
		}
	}
	return nil
}

// insist repeats a request until the API server has answered it.
func insist(ctx context.Context, request func() error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 2*framework.WaitTimeout, true, func(context.Context) (bool, error) {
		last = request()
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%w (%w)", err, last)
	}
	return nil
}

func (ch *churn) create(ctx context.Context, pod *corev1.Pod) error {
	pods := ch.c.Client.CoreV1().Pods(namespace)
	var uid types.UID
	err := insist(ctx, func() error {
		created, err := pods.Create(ctx, pod, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			// The answer to an earlier try was lost.
			created, err = pods.Get(ctx, pod.Name, metav1.GetOptions{})
		}
		if err == nil {
			uid = created.UID
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.Name, err)
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.kept[namespace+"/"+pod.Name] = string(uid)
	ch.created++
	return nil
}

// leave lets a pod go in one of the ways in which pods go. reborn is whether
// another one came by its name at once.
func (ch *churn) leave(ctx context.Context, rng *rand.Rand, name string) (reborn bool, err error) {
	pods := ch.c.Client.CoreV1().Pods(namespace)
	ch.mu.Lock()
	uid := types.UID(ch.kept[namespace+"/"+name])
	delete(ch.kept, namespace+"/"+name)
	ch.deleted++
	ch.mu.Unlock()
	remove := func(grace *int64) error {
		return insist(ctx, func() error {
			err := pods.Delete(ctx, name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: grace})
			if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
				return nil // an earlier try got through
			}
			return err
		})
	}
	way := rng.IntN(4)
	switch way {
	case 0: // its containers end, and then it is deleted
		err := insist(ctx, func() error {
			_, err := pods.Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`), metav1.PatchOptions{}, "status")
			return err
		})
		if err != nil {
			return false, fmt.Errorf("ending pod %s: %w", name, err)
		}
	case 3: // with the time that pods are given, after which the node removes it
		if err := remove(nil); err != nil {
			return false, fmt.Errorf("deleting pod %s: %w", name, err)
		}
	}
	if err := remove(ptr.To(int64(0))); err != nil {
		return false, fmt.Errorf("deleting pod %s: %w", name, err)
	}
	ch.mu.Lock()
	if way == 0 {
		ch.ended++
	}
	if way == 2 {
		ch.renamed++
	}
	ch.mu.Unlock()
	if way != 2 {
		return false, nil
	}
	return true, ch.create(ctx, randomPod(rng, name))
}

// arrivals returns how many pods have been created.
func (ch *churn) arrivals() int {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.created
}

// randomPod draws one of the shapes that pods come in.
func randomPod(rng *rand.Rand, name string) *corev1.Pod {
	milli := func() string { return strconv.Itoa(50 * (1 + rng.IntN(19))) }
	switch rng.IntN(10) {
	case 0:
		return sharePod(name, "1000")
	case 1:
		return sharePod(name, "2000")
	case 2:
		return podOf(name, container("main", "", fmt.Sprintf("%dGi", 1+rng.IntN(40))))
	case 3:
		return podOf(name, container("main", milli(), fmt.Sprintf("%dGi", 1+rng.IntN(30))))
	case 4:
		return podOf(name, container("one", milli(), ""), container("two", milli(), ""))
	case 5:
		pod := sharePod(name, milli())
		pod.Spec.InitContainers = []corev1.Container{container("init", milli(), ""), sidecar(container("beside", "100", ""))}
		return pod
	default:
		return sharePod(name, milli())
	}
}
