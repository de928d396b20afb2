// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bindTimeout bounds one Binding with its re-read and the waits for the client's
// rate limit, and with it how long a
// process that was told to stop, or lost its lease, goes on.
const bindTimeout = 10 * time.Second

// bindOutcome is what is known about a Binding after it was sent.
type bindOutcome string

const (
	// bindDone: the pod has the node that was asked for.
	bindDone bindOutcome = "done"
	// bindSuperseded: the pod has a node from somebody else, is being deleted,
	// or is gone.
	bindSuperseded bindOutcome = "superseded"
	// bindRefused: the API server did not do it, and will not have done it
	// later either; or it was never asked, because of the client's rate limit.
	bindRefused bindOutcome = "refused"
	// bindInDoubt: it may have happened, or may still happen.
	bindInDoubt bindOutcome = "in_doubt"
	// bindUndone: nothing was sent, and the API server shows that the earlier
	// Binding in doubt has not happened.
	bindUndone bindOutcome = "undone"
)

// errNodeLeft is why no Binding is sent again for the same node.
var errNodeLeft = errors.New("an earlier answer of the API server was lost, and the node no longer admits the pod")

// bind asks the API server to give the chosen node to the pod, unless the pod
// has one or is another pod of the same name. It returns what is known then, the
// node that the pod has if it has one, and the reason if it has none. A choice
// that says so is only asked about, not sent.
//
// It outlives ctx by up to bindTimeout: a request that is on its way is better
// answered than cut off.
func (b *Binder) bind(ctx context.Context, c choice) (bindOutcome, string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bindTimeout)
	defer cancel()
	if c.ask {
		return b.reread(ctx, c, errNodeLeft)
	}
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.pod.Namespace, Name: c.pod.Name, UID: c.pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: c.node},
	}
	err := b.client.CoreV1().Pods(c.pod.Namespace).Bind(withSent(ctx), binding, metav1.CreateOptions{})
	switch {
	case err == nil:
		return bindDone, c.node, nil
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return b.reread(ctx, c, err)
	case errors.Is(err, errNotSent), isRefusal(err):
		return bindRefused, "", err
	default:
		return bindInDoubt, "", err
	}
}

// reread asks the API server what became of a pod for which it answered a
// Binding with Conflict or NotFound, or which cannot be sent again.
func (b *Binder) reread(ctx context.Context, c choice, cause error) (bindOutcome, string, error) {
	pod, err := b.client.CoreV1().Pods(c.pod.Namespace).Get(ctx, c.pod.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return bindSuperseded, "", cause
	case err != nil:
		return bindInDoubt, "", fmt.Errorf("%w; reading the pod: %w", cause, err)
	case pod.UID != c.pod.UID:
		return bindSuperseded, "", cause
	case pod.Spec.NodeName != "" && c.again:
		// The Binding whose answer was lost was ours, and this is what it did.
		return bindDone, pod.Spec.NodeName, nil
	case pod.Spec.NodeName != "", !b.options.wants(pod):
		return bindSuperseded, pod.Spec.NodeName, cause
	case c.ask:
		// A read without resourceVersion: no Binding that has been carried out
		// escapes it. One that is still under way will meet the next Binding at
		// the API server, which does one of the two.
		return bindUndone, "", cause
	default:
		// The API server reports storage errors without a status of their own
		// as Conflict too, so the write may yet appear.
		return bindInDoubt, "", cause
	}
}

// isRefusal reports whether err is the API server's word that it did nothing:
// a status of the 4xx range. Time-outs, lost connections and 5xx are not.
func isRefusal(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}
