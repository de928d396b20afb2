// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
)

const (
	// reachTimeout is how long the API server may take for its first answer.
	reachTimeout = 8 * time.Second
	// defaultTimeout is that of Options.
	defaultTimeout = 30 * time.Second
	// namespaceTimeout is how long the controller-manager may take to give the
	// namespace its ServiceAccount, without which it takes no pods.
	namespaceTimeout = 30 * time.Second
	// closeTimeout is how long the removal of a run takes at most. Thousands of objects go
	// in a fraction of it; it is for an API server that is slow or gone, and for objects
	// with a finalizer.
	closeTimeout = 5 * time.Minute
	// pollInterval is how often something that is waited for is looked at.
	pollInterval = 200 * time.Millisecond
	// workers is how many requests that create or delete are sent at a time.
	workers = 16
)

// errCloseTimeout ends a removal after closeTimeout.
var errCloseTimeout = fmt.Errorf("some objects still exist after %v", closeTimeout)

// Options say what a run wants of its environment.
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
	// Timeout is how long kwok may take with one node, and a scheduler with one pod.
	// 0: 30 seconds.
	Timeout time.Duration
	// CleanFlags complete the command that an error names as the way to remove what is
	// left, such as --kubeconfig FILE. They are quoted for a shell.
	CleanFlags []string
	// CleanupContext is the one in which Prepare takes back what it has done, if it
	// fails: the run's may be what has ended. Nil: one that does not end before Close
	// gives up.
	CleanupContext context.Context
	// Progress is told in a few words what is being done. It may be called from any
	// goroutine. Nil: nobody is told.
	Progress func(string)
}

// Environment is the part of a cluster that one run uses. Its methods may be called from
// any goroutine, but none together with CreateNodes, DeleteNodes or Close.
type Environment struct {
	client    kubernetes.Interface
	server    string
	runID     string
	namespace string
	// uid is the namespace's, which owns the nodes.
	uid       types.UID
	exclusive bool
	timeout   time.Duration
	clean     string
	progress  func(string)

	// stopRenewing ends the renewals of the run's Lease; nil if there is none.
	stopRenewing context.CancelFunc
}

// Prepare makes sure that a run can work in the cluster, and creates its namespace:
// the API server answers, the caller has every right that is needed
// (*preflight.MissingRightsError names those that it lacks), no pod of the cluster is
// spread in a way that fake nodes disturb, and a node with kwok's annotation becomes
// ready. Whatever fails, or if ctx ends, nothing is left behind, or the error is a
// *LeftBehindError too.
//
// After Prepare the cluster holds one fake node of the run, for Probe, until
// CreateNodes; not on an exclusive environment.
func Prepare(ctx context.Context, config *rest.Config, options Options) (*Environment, error) {
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
	e := &Environment{
		client:    client,
		server:    config.Host,
		runID:     options.RunID,
		namespace: namespaceOf(options.RunID),
		exclusive: options.Exclusive,
		timeout:   options.Timeout,
		clean:     CleanCommand(options.RunID, options.CleanFlags...),
		progress:  options.Progress,
	}
	if e.timeout <= 0 {
		e.timeout = defaultTimeout
	}
	if e.progress == nil {
		e.progress = func(string) {}
	}
	if err := reach(ctx, client, e.server); err != nil {
		return nil, err
	}
	if err := checkRights(ctx, client, append(Rights(e.namespace, e.exclusive), options.Rights...)); err != nil {
		return nil, err
	}
	if err := e.checkOthers(ctx, &options); err != nil {
		return nil, err
	}
	err = e.createNamespace(ctx)
	if apierrors.IsAlreadyExists(err) {
		return nil, err // whatever is in it is not this run's
	}
	if err == nil {
		err = e.occupy(ctx)
	}
	if err == nil {
		return e, nil
	}
	cleanup := options.CleanupContext
	if cleanup == nil {
		cleanup = context.WithoutCancel(ctx)
	}
	return nil, errors.Join(err, e.Close(cleanup))
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
	attempt, cancel := context.WithTimeout(ctx, reachTimeout)
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
		return fmt.Errorf("the API server at %s has not answered within %v: check that it runs and that the kubeconfig names the right server", server, reachTimeout)
	default:
		return fmt.Errorf("cannot reach the API server at %s: %w: check that it runs and that the kubeconfig names the right server", server, err)
	}
}

// checkOthers makes sure that the run's nodes harm nobody else.
func (e *Environment) checkOthers(ctx context.Context, options *Options) error {
	if e.exclusive || options.IgnoreSpread {
		return nil
	}
	node, err := e.adoptNode(nodeInZone())
	if err != nil {
		return err
	}
	return checkSpread(ctx, e.client, node)
}

// createNamespace creates the run's namespace.
func (e *Environment) createNamespace(ctx context.Context) error {
	ns, err := e.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   e.namespace,
		Labels: map[string]string{names.BenchLabel: e.runID},
	}}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", e.namespace, err)
	}
	e.uid = ns.UID
	return nil
}

// occupy does what is needed in the namespace before the first node.
func (e *Environment) occupy(ctx context.Context) error {
	if !e.exclusive {
		e.renewLease(ctx)
	}
	if err := e.awaitServiceAccount(ctx, e.namespace); err != nil {
		return err
	}
	if e.exclusive {
		return nil
	}
	e.progress("checking that kwok acts as the kubelet of a fake node")
	return e.checkKwok(ctx)
}

// awaitServiceAccount waits until a namespace takes pods.
func (e *Environment) awaitServiceAccount(ctx context.Context, namespace string) error {
	err := wait.PollUntilContextTimeout(ctx, pollInterval, namespaceTimeout, true, func(ctx context.Context) (bool, error) {
		_, err := e.client.CoreV1().ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("waiting for the ServiceAccount default of namespace %s, which kube-controller-manager creates: %w", namespace, err)
	}
	return nil
}

// RunID returns the run's id.
func (e *Environment) RunID() string { return e.runID }

// Namespace returns the name of the namespace that the run works in.
func (e *Environment) Namespace() string { return e.namespace }

// Client returns the client that the environment uses: in protobuf, without a rate limit.
func (e *Environment) Client() kubernetes.Interface { return e.client }

// Reset brings the namespace back to what it was before a round: no pods, no
// Services and no events. It returns when they are gone. On an exclusive environment the
// events stay: nobody reads them, and to delete one takes as long as to delete a pod.
func (e *Environment) Reset(ctx context.Context) error {
	err := e.empty(ctx, e.namespace)
	if !e.exclusive {
		err = errors.Join(err, e.deleteAll(ctx, "events", e.namespace, metav1.ListOptions{}, nil))
	}
	return err
}

// EmptyNamespace creates a namespace, if it is not there, and removes pods and Services
// from it. It is for an exclusive environment: Close does not remove it.
func (e *Environment) EmptyNamespace(ctx context.Context, name string) error {
	_, err := e.client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	if err := e.awaitServiceAccount(ctx, name); err != nil {
		return err
	}
	return e.empty(ctx, name)
}

// empty removes pods and Services from a namespace.
func (e *Environment) empty(ctx context.Context, namespace string) error {
	return errors.Join(e.deleteAll(ctx, "pods", namespace, metav1.ListOptions{}, nil), e.deleteAll(ctx, "services", namespace, metav1.ListOptions{}, nil))
}

// DeleteNodes deletes the run's nodes and returns when they are gone. The pods on
// them go first, by Reset.
func (e *Environment) DeleteNodes(ctx context.Context) error {
	return e.deleteAll(ctx, "nodes", "", e.selector(), func(object runtime.Object) bool {
		node, ok := object.(*corev1.Node)
		return ok && slices.ContainsFunc(node.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == e.uid })
	})
}

// Close removes everything that the run has put into the cluster and what others made
// for its nodes, but for the Leases of the nodes, which the garbage collector deletes,
// and returns when it is gone: after five minutes at most, or when ctx ends. The error
// then is a *LeftBehindError. It wants a context of its own: the run's may be what has
// ended. A Close after one that succeeded does nothing, nor does one on an exclusive
// environment, whose cluster goes away.
func (e *Environment) Close(ctx context.Context) error {
	if e.exclusive {
		return nil
	}
	if e.stopRenewing != nil {
		defer e.stopRenewing()
	}
	if err := e.remove(ctx); err != nil {
		return &LeftBehindError{RunID: e.runID, Server: e.server, Command: e.clean, Err: err}
	}
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
	return fmt.Sprintf("run %s left objects in the cluster at %s: %v\nremove it with: %s", e.RunID, e.Server, e.Err, e.Command)
}

// Unwrap returns why it was not removed.
func (e *LeftBehindError) Unwrap() error { return e.Err }

// CleanCommand is the command line that removes what a run has left behind; flags,
// quoted for a shell, say in which cluster.
func CleanCommand(runID string, flags ...string) string {
	return strings.Join(append([]string{"kubectl", "berth", "bench", "clean", "--run", runID}, flags...), " ")
}
