// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/pkg/randombinder"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// errFault is what a faulty connection returns.
var errFault = errors.New("connection lost by the test")

// interceptor stands between the binder and the API server.
type interceptor struct {
	next http.RoundTripper
	// onBinding handles the nth Binding of a pod, n from 1.
	onBinding func(pod string, n int, send func() (*http.Response, error)) (*http.Response, error)

	mu   sync.Mutex
	seen map[string]int
}

// RoundTrip implements http.RoundTripper.
func (i *interceptor) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPost || !strings.HasSuffix(request.URL.Path, "/binding") {
		return i.next.RoundTrip(request)
	}
	pod := path.Base(path.Dir(request.URL.Path))
	i.mu.Lock()
	i.seen[pod]++
	n := i.seen[pod]
	i.mu.Unlock()
	return i.onBinding(pod, n, func() (*http.Response, error) { return i.next.RoundTrip(request) })
}

// runFaulty runs the binder inside the test, with its own credential and a faulty
// connection, until the test ends.
func runFaulty(t *testing.T, c *framework.Cluster, change func(*randombinder.Options),
	onBinding func(pod string, n int, send func() (*http.Response, error)) (*http.Response, error),
) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.ServiceAccountKubeconfig(t, names.Namespace, names.RandomScheduler))
	if err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &interceptor{next: next, onBinding: onBinding, seen: map[string]int{}}
	})
	options := randombinder.NewOptions(pflag.NewFlagSet("", pflag.ContinueOnError))
	options.Seed = 1
	options.BindAddress = ""
	options.InitialBackoff, options.MaxBackoff = 10*time.Millisecond, 100*time.Millisecond
	change(options)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- randombinder.Run(ctx, config, options) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the binder ended with %v", err)
		}
	})
}

// lostAnswersNeverBindTwice loses requests and answers in every way, and
// lets some requests arrive after the next one for the same pod.
func lostAnswersNeverBindTwice(t *testing.T) {
	const pods = 300
	// No more room than the pods take, with one on each node that somebody else bound.
	nodes := localcluster.FakeNodes(10)
	for i := range nodes {
		nodes[i].Status.Allocatable[corev1.ResourcePods] = resource.MustParse("31")
	}
	c := start(t, nodes)
	for i := range nodes {
		create(t, c, newPod(fmt.Sprintf("foreign-%d", i), func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = nodes[i].Name, "nobody" }))
	}
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(1, 1))
	late := map[string]func(){}
	faults := map[string]int{}
	runFaulty(t, c, func(o *randombinder.Options) { o.Fit, o.Workers = randombinder.FitResources, 20 },
		func(pod string, n int, send func() (*http.Response, error)) (*http.Response, error) {
			mu.Lock()
			fault := rng.IntN(5)
			overtaken := late[pod]
			delete(late, pod)
			if n > 3 {
				fault = 0
			}
			mu.Unlock()
			if overtaken != nil {
				overtaken()
			}
			count := func(name string) {
				mu.Lock()
				defer mu.Unlock()
				faults[name]++
			}
			switch fault {
			case 1:
				count("answer lost")
				response, err := send()
				if err == nil {
					response.Body.Close()
				}
				return nil, errFault
			case 2:
				count("request lost")
				return nil, errFault
			case 3:
				count("gateway time-out after it was done")
				response, err := send()
				if err == nil {
					response.Body.Close()
				}
				return &http.Response{StatusCode: http.StatusGatewayTimeout, Body: http.NoBody, Header: http.Header{}}, nil
			case 4:
				count("arrives later")
				mu.Lock()
				defer mu.Unlock()
				late[pod] = func() {
					if response, err := send(); err == nil {
						response.Body.Close()
					}
				}
				return nil, errFault
			}
			return send()
		})
	createMany(t, c, pods, "pod")
	waitAllBound(t, c, "default", pods+len(nodes))

	mu.Lock()
	defer mu.Unlock()
	t.Logf("faults: %v", faults)
	if len(faults) != 4 {
		t.Errorf("only these faults happened: %v", faults)
	}
	var own []corev1.Pod
	for _, pod := range list(t, c, "default") {
		if pod.Spec.SchedulerName == names.RandomScheduler {
			own = append(own, pod)
		}
	}
	requireBoundOnce(t, c, own)
	requireFit(t, c, nodes)
}

// binderYieldsToOthers has somebody else bind, delete or replace a pod just before
// the binder's own Binding arrives.
func binderYieldsToOthers(t *testing.T) {
	const pods = 30
	c := start(t, localcluster.FakeNodes(3))
	var mu sync.Mutex
	attempts := map[string]int{}
	// The watch tells what became of the pod long before the back-off ends.
	runFaulty(t, c, func(o *randombinder.Options) { o.InitialBackoff, o.MaxBackoff = time.Hour, time.Hour },
		func(pod string, n int, send func() (*http.Response, error)) (*http.Response, error) {
			mu.Lock()
			attempts[pod]++
			mu.Unlock()
			ctx, pods := context.WithoutCancel(t.Context()), c.Client.CoreV1().Pods("default")
			var err error
			switch kind, _, _ := strings.Cut(pod, "-"); {
			case kind == "deleted", kind == "reborn" && n == 1:
				err = pods.Delete(ctx, pod, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
				if kind == "reborn" && err == nil {
					_, err = pods.Create(ctx, newPod(pod), metav1.CreateOptions{})
				}
			case kind == "bound":
				err = pods.Bind(ctx, &corev1.Binding{
					ObjectMeta: metav1.ObjectMeta{Name: pod}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"},
				}, metav1.CreateOptions{})
			}
			if err != nil {
				return nil, fmt.Errorf("the test's own request: %w", err)
			}
			return send()
		})
	createMany(t, c, pods, "bound")
	createMany(t, c, pods, "deleted")
	createMany(t, c, pods, "own")
	// Another pod takes over the name: the Binding was not meant for it.
	createMany(t, c, pods, "reborn")
	waitAllBound(t, c, "default", 3*pods)
	for i := range pods {
		c.WaitForPodGone(t, "default", fmt.Sprintf("deleted-%d", i))
		c.WaitForPodScheduled(t, "default", fmt.Sprintf("own-%d", i))
		if got := c.WaitForPodScheduled(t, "default", fmt.Sprintf("bound-%d", i)).Spec.NodeName; got != "node-0" {
			t.Errorf("bound-%d is on %s, want node-0", i, got)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for pod, n := range attempts {
		want := 1
		if strings.HasPrefix(pod, "reborn") {
			want = 2
		}
		if n != want {
			t.Errorf("Bindings of pod %s were sent %d times, want %d", pod, n, want)
		}
	}
	events, err := scheduledEvents(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for i := range events {
		if name := events[i].InvolvedObject.Name; !strings.HasPrefix(name, "own-") && !strings.HasPrefix(name, "reborn-") {
			t.Errorf("the binder claims to have scheduled %s", name)
		}
	}
}
