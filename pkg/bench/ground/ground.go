// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/preflight"
)

const (
	// reachLimit is how long the API server may take for its first answer.
	reachLimit = 8 * time.Second
	// defaultPatience is that of Options.
	defaultPatience = 30 * time.Second
	// namespaceLimit is how long the controller-manager may take to give the
	// namespace its ServiceAccount, without which it takes no pods.
	namespaceLimit = 30 * time.Second
	// closeLimit is how long the removal of a run takes at most. Thousands of objects go
	// in a fraction of it; it is for an API server that is slow or gone, and for objects
	// with a finalizer.
	closeLimit = 5 * time.Minute
	// pollPause is the pause between two looks at something that is waited for.
	pollPause = 100 * time.Millisecond
	// workers is how many requests that create or delete are sent at a time.
	workers = 16
)

// errTooLong ends a removal after closeLimit.
var errTooLong = fmt.Errorf("not everything has gone after %v", closeLimit)

// Options say what a run wants of its ground.
type Options struct {
	// RunID is the run's id, from NewRunID. Empty: a new one.
	RunID string
	// Exclusive says that nothing but this run uses the cluster, and that the cluster
	// goes away with it: nodes get no taint, pods neither toleration nor selector,
	// kwok is taken to run, and the run has no Lease.
	Exclusive bool
	// Rights are needed besides those that the function Rights tells, and checked
	// together with them.
	Rights []preflight.Right
	// IgnoreSpread goes on where pods of the cluster may stay pending because of the
	// fake nodes.
	IgnoreSpread bool
	// Patience is how long kwok may take with one node, and a scheduler with one pod.
	// 0: 30 seconds.
	Patience time.Duration
	// CleanFlags complete the command that an error names as the way to remove what is
	// left, such as --kubeconfig FILE. They are quoted for a shell.
	CleanFlags []string
	// Clearing returns the context in which Prepare takes back what it has done, if it
	// fails. It wants one of its own: the run's may be what has ended. Nil: one that
	// does not end before Close gives up.
	Clearing func() (context.Context, context.CancelFunc)
	// Progress is told in a few words what is being done. It may be called from any
	// goroutine. Nil: nobody is told.
	Progress func(string)
}

// Ground is the part of a cluster that one run uses. Its methods may be called from
// any goroutine, but none together with CreateNodes, DeleteNodes or Close.
type Ground struct {
	client    kubernetes.Interface
	server    string
	runID     string
	namespace string
	exclusive bool
	patience  time.Duration
	clean     string
	clearing  func() (context.Context, context.CancelFunc)
	progress  func(string)

	heart *heartbeat
	// mu guards closed, which keeps a second Close from looking for what is gone.
	mu     sync.Mutex
	closed bool
}

// Prepare makes sure that a run can work in the cluster, and creates its namespace:
// the API server answers, the caller has every right that is needed
// (*preflight.MissingRightsError names those that it lacks), no pod of the cluster is
// spread in a way that fake nodes disturb, and a node with kwok's annotation becomes
// ready. Whatever fails, or if ctx ends, nothing is left behind, or the error is a
// *LeftBehindError too.
//
// After Prepare the cluster holds one fake node of the run, for Probe, until
// CreateNodes; not on an exclusive ground.
func Prepare(ctx context.Context, config *rest.Config, options Options) (*Ground, error) {
	if options.RunID == "" {
		options.RunID = NewRunID()
	}
	if err := ValidateRunID(options.RunID); err != nil {
		return nil, err
	}
	client, err := newClient(config)
	if err != nil {
		return nil, err
	}
	g := &Ground{
		client:    client,
		server:    config.Host,
		runID:     options.RunID,
		namespace: namespaceOf(options.RunID),
		exclusive: options.Exclusive,
		patience:  options.Patience,
		clean:     CleanCommand(options.RunID, options.CleanFlags...),
		clearing:  options.Clearing,
		progress:  options.Progress,
	}
	if g.patience <= 0 {
		g.patience = defaultPatience
	}
	if g.progress == nil {
		g.progress = func(string) {}
	}
	if err := reach(ctx, client, g.server); err != nil {
		return nil, err
	}
	if err := checkRights(ctx, client, append(Rights(g.namespace, g.exclusive), options.Rights...)); err != nil {
		return nil, err
	}
	if err := g.checkOthers(ctx, &options); err != nil {
		return nil, err
	}
	if err := g.createNamespace(ctx); err != nil {
		if apierrors.IsAlreadyExists(err) {
			return nil, err // whatever is in it is not this run's
		}
		return nil, errors.Join(err, g.clear(ctx))
	}
	if err := g.occupy(ctx); err != nil {
		return nil, errors.Join(err, g.clear(ctx))
	}
	return g, nil
}

// newClient returns a client without a rate limit of its own, in protobuf: the
// bench's own requests must not wait for each other.
func newClient(config *rest.Config) (kubernetes.Interface, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.RateLimiter = nil
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("making a client for %s: %w", config.Host, err)
	}
	return client, nil
}

// reach asks the API server for its version.
func reach(ctx context.Context, client kubernetes.Interface, server string) error {
	attempt, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	err := client.Discovery().RESTClient().Get().AbsPath("/version").Do(attempt).Error()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s does not accept the kubeconfig's credential: %w: renew it, or name another --kubeconfig or --context", server, err)
	case errors.Is(attempt.Err(), context.DeadlineExceeded):
		return fmt.Errorf("the API server at %s has not answered within %v: check that it runs and that the kubeconfig names the right server", server, reachLimit)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w: check that it runs and that the kubeconfig names the right server", server, err)
	}
}

// checkOthers makes sure that the run's nodes harm nobody else.
func (g *Ground) checkOthers(ctx context.Context, options *Options) error {
	if g.exclusive || options.IgnoreSpread {
		return nil
	}
	node, err := g.adoptNode(nodeInZone())
	if err != nil {
		return err
	}
	return checkSpread(ctx, g.client, node)
}

// createNamespace creates the run's namespace.
func (g *Ground) createNamespace(ctx context.Context) error {
	_, err := g.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   g.namespace,
		Labels: map[string]string{names.BenchLabel: g.runID},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", g.namespace, err)
	}
	return nil
}

// clear takes back what Prepare has done, also where what failed is the context.
func (g *Ground) clear(ctx context.Context) error {
	if g.clearing == nil {
		return g.Close(context.WithoutCancel(ctx))
	}
	ctx, cancel := g.clearing()
	defer cancel()
	return g.Close(ctx)
}

// occupy does what is needed in the namespace before the first node.
func (g *Ground) occupy(ctx context.Context) error {
	if !g.exclusive {
		var err error
		if g.heart, err = startHeartbeat(ctx, g.client, g.runID, g.progress); err != nil {
			return err
		}
	}
	if err := g.awaitServiceAccount(ctx); err != nil {
		return err
	}
	if g.exclusive {
		return nil
	}
	g.progress("checking that kwok plays the kubelet of a fake node")
	return g.checkKwok(ctx)
}

// awaitServiceAccount waits until the namespace takes pods.
func (g *Ground) awaitServiceAccount(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, pollPause, namespaceLimit, true, func(ctx context.Context) (bool, error) {
		_, err := g.client.CoreV1().ServiceAccounts(g.namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("waiting for the ServiceAccount default of namespace %s, which kube-controller-manager creates: %w", g.namespace, err)
	}
	return nil
}

// RunID returns the run's id.
func (g *Ground) RunID() string { return g.runID }

// Namespace returns the name of the namespace that the run works in.
func (g *Ground) Namespace() string { return g.namespace }

// Client returns the client that the ground uses: in protobuf, without a rate limit.
func (g *Ground) Client() kubernetes.Interface { return g.client }

// Reset brings the namespace back to what it was before a round: no pods, no
// Services and no events. It returns when they are gone. On an exclusive ground the
// events stay: nobody reads them, and to delete one takes as long as to delete a pod.
func (g *Ground) Reset(ctx context.Context) error {
	r := &remover{client: g.client, runID: g.runID, progress: g.progress}
	err := errors.Join(r.pods(ctx), r.services(ctx))
	if !g.exclusive {
		err = errors.Join(err, r.events(ctx))
	}
	return err
}

// DeleteNodes deletes the run's nodes and returns when they are gone. The pods on
// them go first, by Reset.
func (g *Ground) DeleteNodes(ctx context.Context) error {
	r := &remover{client: g.client, runID: g.runID, progress: g.progress}
	return r.nodes(ctx)
}

// Close removes everything that the run has put into the cluster and everything
// that others made for its nodes, and returns when it is gone: after five minutes
// at most, or when ctx ends. The error then is a *LeftBehindError. It wants a context
// of its own: the run's may be what has ended. A Close after one that succeeded does
// nothing, nor does one on an exclusive ground, whose cluster goes away.
func (g *Ground) Close(ctx context.Context) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || g.exclusive {
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, closeLimit, errTooLong)
	defer cancel()
	r := &remover{client: g.client, runID: g.runID, progress: g.progress, heart: g.heart}
	if err := r.all(ctx); err != nil {
		return &LeftBehindError{RunID: g.runID, Server: g.server, Command: g.clean, Err: err}
	}
	g.closed = true
	return nil
}

// LeftBehindError says that not everything could be removed that a run has put into a
// cluster.
type LeftBehindError struct {
	// RunID is the run's id, Server the API server's address.
	RunID, Server string
	// Command is the command line that removes it.
	Command string
	// Err is why it was not removed, never nil.
	Err error
}

// Error tells all of it.
func (e *LeftBehindError) Error() string {
	return fmt.Sprintf("run %s has left something behind in the cluster at %s: %v\nremove it with: %s", e.RunID, e.Server, e.Err, e.Command)
}

// Unwrap returns why it was not removed.
func (e *LeftBehindError) Unwrap() error { return e.Err }

// CleanCommand is the command line that removes what a run has left behind; flags,
// quoted for a shell, say in which cluster.
func CleanCommand(runID string, flags ...string) string {
	return strings.Join(append([]string{"kubectl", "berth", "bench", "clean", "--run", runID}, flags...), " ")
}
