// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
)

// verbs of requests.
const (
	verbBind   = "bind"
	verbPatch  = "patch"
	verbList   = "list"
	verbWatch  = "watch"
	verbForget = "forget"
)

// request is one that a process has sent and waits for. It is on its way to the API server until
// it is served, and its answer is on the way back after that. The process may give up waiting, or
// be killed: what it has sent may be served all the same, at any time.
type request struct {
	process, verb, pod string
	// number tells it from others of this kind for this pod by this process that are under way.
	number int
	// payload is what of its content can make a difference.
	payload func(*contents) string
	serve   func(*server) (any, error)
	// served is whether it has taken effect, value and err are the answer.
	served bool
	value  any
	err    error
	// abandoned is whether nobody waits for the answer.
	abandoned bool
	answer    chan struct{}
}

func (r *request) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %s %s", r.process, r.verb, r.pod)) + fmt.Sprintf("#%d", r.number)
}

// writes reports whether it may change something at the API server.
func (r *request) writes() bool { return r.verb == verbBind || r.verb == verbPatch }

// network has the requests that are under way.
type network struct {
	mu       sync.Mutex
	requests []*request
}

// call sends a request, and returns with its answer or when ctx ends.
func (n *network) call(ctx context.Context, r *request) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err // a process that is killed sends nothing any more
	}
	r.answer = make(chan struct{})
	n.mu.Lock()
	for r.number = 1; slices.ContainsFunc(n.requests, func(other *request) bool { return other.String() == r.String() }); {
		r.number++
	}
	n.requests = append(n.requests, r)
	n.mu.Unlock()
	select {
	case <-r.answer:
		return r.value, r.err
	case <-ctx.Done():
		n.abandon(r)
		return nil, context.Cause(ctx)
	}
}

// abandon takes note that nobody waits for the answer: of a write that was not served the
// effect may still come, and everything else is over.
func (n *network) abandon(r *request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	r.abandoned = true
	if r.served || !r.writes() {
		n.removeLocked(r)
	}
}

// finish has the process read the answer.
func (n *network) finish(r *request) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.removeLocked(r)
	if !r.abandoned {
		close(r.answer)
	}
}

// lose has the process read that the connection is lost, and leaves what was not served on its way.
func (n *network) lose(r *request, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if r.served {
		n.removeLocked(r)
	}
	r.abandoned = true
	r.value, r.err = nil, err
	close(r.answer)
}

func (n *network) removeLocked(r *request) {
	n.requests = slices.DeleteFunc(n.requests, func(other *request) bool { return other == r })
}

// sorted returns the requests in an order that does not depend on which goroutine was faster.
func (n *network) sorted() []*request {
	n.mu.Lock()
	defer n.mu.Unlock()
	sorted := slices.Clone(n.requests)
	slices.SortFunc(sorted, func(a, b *request) int { return strings.Compare(a.String(), b.String()) })
	return sorted
}

// client is the client of one process. Of the API it has what GPUDevice calls; any other call
// panics, since the interfaces that it and what it returns embed are nil.
type client struct {
	kubernetes.Interface

	process string
	net     *network
}

func (c *client) CoreV1() corev1client.CoreV1Interface { return &coreClient{client: c} }

type coreClient struct {
	corev1client.CoreV1Interface

	client *client
}

func (c *coreClient) Pods(string) corev1client.PodInterface { return &podClient{client: c.client} }

type podClient struct {
	corev1client.PodInterface

	client *client
}

// do sends a request and returns the answer as a T.
func do[T any](ctx context.Context, c *client, verb, pod string, payload func(*contents) string, serve func(*server) (T, error)) (T, error) {
	value, err := c.net.call(ctx, &request{process: c.process, verb: verb, pod: pod, payload: payload, serve: func(s *server) (any, error) { return serve(s) }})
	result, _ := value.(T)
	return result, err
}

// nothing is the payload of a request that always asks the same.
func nothing(*contents) string { return "" }

func (c *podClient) Bind(ctx context.Context, binding *corev1.Binding, _ metav1.CreateOptions) error {
	sent := binding.DeepCopy()
	payload := func(c *contents) string {
		return fmt.Sprint(sent.Target.Name, sent.Annotations, c.version(sent.ResourceVersion), len(sent.UID))
	}
	_, err := do(ctx, c.client, verbBind, binding.Name, payload, func(s *server) (any, error) { return nil, s.bind(sent) })
	return err
}

func (c *podClient) Patch(ctx context.Context, name string, _ types.PatchType, data []byte, _ metav1.PatchOptions, _ ...string) (*corev1.Pod, error) {
	payload := func(c *contents) string {
		sent := patchOf(data)
		text := []string{c.version(sent.Metadata.ResourceVersion)}
		for _, condition := range sent.Status.Conditions {
			text = append(text, fmt.Sprint(condition.Type, c.token(condition.Message), condition.LastTransitionTime.Unix(), len(sent.Metadata.UID)))
		}
		return strings.Join(text, "")
	}
	return do(ctx, c.client, verbPatch, name, payload, func(s *server) (*corev1.Pod, error) { return s.patchStatus(name, data) })
}

func (c *podClient) List(ctx context.Context, options metav1.ListOptions) (*corev1.PodList, error) {
	selector, err := fields.ParseSelector(options.FieldSelector)
	if err != nil {
		return nil, err
	}
	name, _ := selector.RequiresExactMatch(metav1.ObjectNameField)
	return do(ctx, c.client, verbList, name, nothing, func(s *server) (*corev1.PodList, error) { return s.list(name), nil })
}

func (c *podClient) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	payload := func(c *contents) string {
		from, _ := strconv.Atoi(options.ResourceVersion)
		return strconv.Itoa(c.behind(from))
	}
	return do(ctx, c.client, verbWatch, "", payload, func(s *server) (watch.Interface, error) { return s.watchFrom(options.ResourceVersion), nil })
}
