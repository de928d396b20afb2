// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package preflight asks the API server, before a component starts its
// informers, whether the component's credential may do what the component is
// about to do.
//
// Without it a missing right is nearly invisible: an informer that may not list
// its resource retries indefinitely, the process answers /healthz, and no pod is
// scheduled. The check is advice that a human reads, not a security boundary;
// the API server still decides on every request.
package preflight

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/kubernetes"
)

// Right is one thing that a component must be allowed to do.
type Right struct {
	// Verb is the API verb, such as "list".
	Verb string
	// Group is the API group; empty is the core group.
	Group string
	// Resource is the plural resource name, such as "pods".
	Resource string
	// Subresource is empty for the resource itself.
	Subresource string
	// Namespace limits the right to one namespace; empty means all of them, or
	// a cluster-scoped resource.
	Namespace string
	// Name limits the right to one object; empty means every object.
	Name string
	// Why says what stops working without the right. Shown to the user.
	Why string
}

// String describes the right as kubectl auth can-i would be asked for it:
// "list nodes", "create pods/binding", "update leases.coordination.k8s.io/x in
// namespace y".
func (r Right) String() string {
	var b strings.Builder
	b.WriteString(r.Verb + " " + r.Resource)
	if r.Group != "" {
		b.WriteString("." + r.Group)
	}
	if r.Subresource != "" {
		b.WriteString("/" + r.Subresource)
	}
	if r.Name != "" {
		fmt.Fprintf(&b, " %q", r.Name)
	}
	if r.Namespace != "" {
		fmt.Fprintf(&b, " in namespace %q", r.Namespace)
	}
	return b.String()
}

// Expand returns one Right per verb, each a copy of r with that Verb.
func Expand(r Right, verbs ...string) []Right {
	rights := make([]Right, 0, len(verbs))
	for _, verb := range verbs {
		r.Verb = verb
		rights = append(rights, r)
	}
	return rights
}

// MissingRightsError lists every right that the API server says the caller does
// not have.
type MissingRightsError struct {
	// User is the name under which the API server knows the caller; empty if it
	// would not say.
	User string
	// Missing is never empty.
	Missing []Right
}

// Error names the user and each missing right on a line of its own.
func (e *MissingRightsError) Error() string {
	var b strings.Builder
	user := "the configured credential"
	if e.User != "" {
		user = fmt.Sprintf("user %q", e.User)
	}
	fmt.Fprintf(&b, "%s lacks %d permission(s):", user, len(e.Missing))
	for _, r := range e.Missing {
		b.WriteString("\n  " + r.String())
		if r.Why != "" {
			b.WriteString(": " + r.Why)
		}
	}
	return b.String()
}

// Subject is who is asked about. The zero value is the caller.
type Subject struct {
	// User is the user's name.
	User string
	// Groups are those that the user is in.
	Groups []string
}

// ServiceAccount returns a ServiceAccount as a subject.
func ServiceAccount(namespace, name string) Subject {
	return Subject{
		User:   serviceaccount.MakeUsername(namespace, name),
		Groups: append(serviceaccount.MakeGroupNames(namespace), user.AllAuthenticated),
	}
}

// Missing asks for each right in turn, and returns those that the API server says the
// subject does not have. The error is that it could not be asked: for another subject
// than the caller that takes a right of its own.
func Missing(ctx context.Context, client kubernetes.Interface, subject Subject, rights []Right) ([]Right, error) {
	var missing []Right
	for _, r := range rights {
		allowed, err := allowed(ctx, client, subject, &authorizationv1.ResourceAttributes{
			Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name,
		})
		if err != nil {
			return nil, fmt.Errorf("asking whether %s may %s: %w", cmp.Or(subject.User, "this process"), r, err)
		}
		if !allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

func allowed(ctx context.Context, client kubernetes.Interface, subject Subject, what *authorizationv1.ResourceAttributes) (bool, error) {
	if subject.User == "" {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: what}}
		answer, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	}
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{ResourceAttributes: what, User: subject.User, Groups: subject.Groups}}
	answer, err := client.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
	return err == nil && answer.Status.Allowed, err
}

// Check asks for each right of the caller in turn. It returns nil if all are granted, a
// *MissingRightsError if the API server denies any of them, and another error
// if it could not be asked (connection refused, context done): the caller
// decides whether to start regardless.
func Check(ctx context.Context, client kubernetes.Interface, rights []Right) error {
	missing, err := Missing(ctx, client, Subject{}, rights)
	if err != nil || len(missing) == 0 {
		return err
	}
	result := &MissingRightsError{Missing: missing}
	// The name only helps to find the binding to mend, so its absence is no
	// reason to fail differently.
	if who, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{}); err == nil {
		result.User = who.Status.UserInfo.Username
	}
	return result
}
