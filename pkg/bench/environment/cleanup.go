// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package environment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	// requestTimeout is a little more than the API server gives a request.
	requestTimeout = 70 * time.Second
	// eventTimeout is how long the last events about a node may be under way: the
	// controller-manager looks for nodes that are gone every five seconds.
	eventTimeout = 7 * time.Second
	// reasonRegistered and reasonRemoving are what it writes about a node when it
	// first sees it, and when it sees it no more.
	reasonRegistered = "RegisteredNode"
	reasonRemoving   = "RemovingNode"
)

// CleanOptions say what Clean removes.
type CleanOptions struct {
	// RunID is the run to remove. Empty: every run.
	RunID string
	// Force takes the runs too that are alive: they fail.
	Force bool
	// Progress is told in a few words what is being done. Nil: nobody is told.
	Progress func(string)
}

// Removed is what Clean has removed.
type Removed struct {
	// Runs are the ids of the runs that were removed, sorted.
	Runs []string
	// Alive are the runs that were left alone.
	Alive []AliveRun
}

// AliveRun is a run that renews its Lease.
type AliveRun struct {
	// ID is the run's id.
	ID string
	// Holder is the machine and the process that runs it.
	Holder string
}

// Clean removes what killed runs have left in a cluster, and leaves everything else
// alone. A run that is alive is skipped and reported. It goes on after errors, which
// it returns together; a second call removes the rest. It gives a run up after five
// minutes; the error names what has not gone.
func Clean(ctx context.Context, config *rest.Config, options CleanOptions) (Removed, error) {
	var removed Removed
	list := metav1.ListOptions{LabelSelector: names.BenchLabel}
	if options.RunID != "" {
		if err := ValidateRunID(options.RunID); err != nil {
			return removed, err
		}
		list.LabelSelector += "=" + options.RunID
	}
	if options.Progress == nil {
		options.Progress = func(string) {}
	}
	client, err := newClient(config)
	if err != nil {
		return removed, err
	}
	if err := reach(ctx, client, config.Host); err != nil {
		return removed, err
	}
	namespaces, err := client.CoreV1().Namespaces().List(ctx, list)
	if err != nil {
		return removed, fmt.Errorf("listing namespaces: %w", err)
	}
	var mu sync.Mutex
	var errs []error
	workqueue.ParallelizeUntil(ctx, workers, len(namespaces.Items), func(i int) {
		ns := &namespaces.Items[i]
		e := &Environment{client: client, runID: ns.Labels[names.BenchLabel], progress: options.Progress}
		e.namespace = namespaceOf(e.runID)
		if !e.ownsNamespace(ns) {
			return
		}
		var holder string
		var alive bool
		var err error
		if !options.Force && ns.DeletionTimestamp == nil {
			options.Progress("checking whether run " + e.runID + " is alive")
			holder, alive, err = e.isAlive(ctx)
		}
		if err == nil && !alive {
			err = e.remove(ctx)
		}
		mu.Lock()
		defer mu.Unlock()
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("run %s: %w", e.runID, err))
		case alive:
			removed.Alive = append(removed.Alive, AliveRun{ID: e.runID, Holder: holder})
		default:
			removed.Runs = append(removed.Runs, e.runID)
		}
	})
	slices.Sort(removed.Runs)
	return removed, errors.Join(errs...)
}

// remove removes everything that belongs to the run, if it has a namespace. That goes
// last: as long as it is there, a run that was killed meanwhile can be found. The garbage
// collector would delete the nodes after it, but at the few requests a second that its
// client may send.
func (e *Environment) remove(ctx context.Context) error {
	// Something that does not go, because it has a finalizer, must not hold it up for ever.
	ctx, cancel := context.WithTimeoutCause(ctx, closeTimeout, errCloseTimeout)
	defer cancel()
	e.progress("removing what run " + e.runID + " has created")
	exists := false
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		ns, err := e.client.CoreV1().Namespaces().Get(ctx, e.namespace, metav1.GetOptions{})
		if exists = err == nil && e.ownsNamespace(ns); exists {
			e.uid = ns.UID
		}
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return true, err
	})
	if err != nil || !exists {
		return err
	}
	if err := errors.Join(e.Reset(ctx), e.DeleteNodes(ctx)); err != nil {
		return err
	}
	// The pods of others that tolerate every taint: the controller-manager takes a minute.
	if err := e.deleteAll(ctx, "pods", metav1.NamespaceAll, metav1.ListOptions{}, func(object runtime.Object) bool {
		pod, ok := object.(*corev1.Pod)
		return ok && e.OwnsNode(pod.Spec.NodeName)
	}); err != nil {
		return err
	}
	return errors.Join(e.deleteNodeEvents(ctx), e.deleteNamespace(ctx))
}

// deleteNamespace deletes the run's namespace and waits until it is gone. If it does
// not go, the error says what the namespace controller says about it.
func (e *Environment) deleteNamespace(ctx context.Context) error {
	if e.stopRenewing != nil {
		e.stopRenewing() // it would create the Lease again
	}
	var conditions []corev1.NamespaceCondition
	err := e.deleteAll(ctx, "namespaces", "", e.selector(), func(object runtime.Object) bool {
		ns, ok := object.(*corev1.Namespace)
		if !ok || !e.ownsNamespace(ns) {
			return false
		}
		conditions = ns.Status.Conditions
		return true
	})
	for _, condition := range conditions {
		if err != nil && condition.Status == corev1.ConditionTrue {
			err = fmt.Errorf("%w; %s: %s", err, condition.Type, condition.Message)
		}
	}
	return err
}

// deleteNodeEvents deletes the events about the run's nodes, which are in namespace
// default. The last ones come when the nodes are gone already: it waits until each node
// that has its first one has its last one too, or until no more come.
func (e *Environment) deleteNodeEvents(ctx context.Context) error {
	options := metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("involvedObject.namespace", "").String()}
	changed, seen := time.Now(), 0
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		events, err := e.client.CoreV1().Events(metav1.NamespaceDefault).List(ctx, options)
		if err != nil {
			return false, err
		}
		count, registered, removing := 0, sets.New[string](), sets.New[string]()
		for i := range events.Items {
			event := &events.Items[i]
			if !e.isAboutNode(event) {
				continue
			}
			count++
			switch event.Reason {
			case reasonRegistered:
				registered.Insert(event.InvolvedObject.Name)
			case reasonRemoving:
				removing.Insert(event.InvolvedObject.Name)
			}
		}
		if count != seen {
			changed, seen = time.Now(), count
		}
		return registered.Len() > 0 && removing.IsSuperset(registered) || time.Since(changed) > eventTimeout, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the last events about the fake nodes: %w", err)
	}
	return e.deleteAll(ctx, "events", metav1.NamespaceDefault, options, func(object runtime.Object) bool {
		event, ok := object.(*corev1.Event)
		// The endpoints controller, where it fails to create the Endpoints of a Service,
		// forgets the namespace and only says it in the message.
		return ok && (e.isAboutNode(event) || strings.Contains(event.Message, e.namespace+"/"))
	})
}

// isAboutNode reports whether an event is about one of the run's nodes.
func (e *Environment) isAboutNode(event *corev1.Event) bool {
	return event.InvolvedObject.Kind == "Node" && e.OwnsNode(event.InvolvedObject.Name)
}

// deleteAll deletes the objects of the core group that match, at once, and returns when
// there are none. nil matches all. One request for each, several at a time: a
// DeleteCollection deletes one after the other, and each has to reach the disks of etcd.
func (e *Environment) deleteAll(ctx context.Context, resource, namespace string, options metav1.ListOptions, match func(runtime.Object) bool) error {
	client := e.client.CoreV1().RESTClient()
	var left []metav1.Object
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		list, err := client.Get().NamespaceIfScoped(namespace, namespace != "").Resource(resource).
			VersionedParams(&options, scheme.ParameterCodec).Do(ctx).Get()
		if err != nil {
			return false, err
		}
		left = nil
		if err := meta.EachListItem(list, func(item runtime.Object) error {
			object, err := meta.Accessor(item)
			if err == nil && (match == nil || match(item)) {
				left = append(left, object)
			}
			return err
		}); err != nil {
			return false, err
		}
		errs := make([]error, len(left))
		workqueue.ParallelizeUntil(ctx, workers, len(left), func(i int) {
			object := left[i]
			err := client.Delete().NamespaceIfScoped(object.GetNamespace(), object.GetNamespace() != "").Resource(resource).Name(object.GetName()).
				Body(&metav1.DeleteOptions{
					GracePeriodSeconds: ptr.To[int64](0),
					Preconditions:      &metav1.Preconditions{UID: ptr.To(object.GetUID())},
				}).Do(ctx).Error()
			// Else somebody else has deleted it, or created another one of its name.
			if !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
				errs[i] = err
			}
		})
		if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
			return false, errs[i]
		}
		return len(left) == 0, nil
	})
	switch {
	case err == nil:
		return nil
	case len(left) == 0:
		return fmt.Errorf("removing %s: %w", resource, err)
	}
	return fmt.Errorf("removing %s: %d left, among them %s: %w", resource, len(left), left[0].GetName(), err)
}

// poll calls a condition until it is met or ctx ends, also after errors, unless they
// are final. An API server that does not answer does not take all the time.
func poll(ctx context.Context, condition wait.ConditionWithContextFunc) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (done bool, err error) {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		done, last = condition(ctx)
		if apierrors.IsForbidden(last) || apierrors.IsUnauthorized(last) {
			return false, last
		}
		return done && last == nil, nil
	})
	if err != nil && ctx.Err() != nil {
		return errors.Join(context.Cause(ctx), last)
	}
	return err
}
