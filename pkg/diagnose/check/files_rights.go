// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/kubernetes/pkg/registry/rbac/validation"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac"
	"k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy"
)

// accessReviews is the resource that answers who may do what.
var accessReviews = authorizationv1.SchemeGroupVersion.WithResource("subjectaccessreviews")

// review answers a SubjectAccessReview as an API server does that has the roles and
// bindings of the files, and those that every API server makes by itself: by the code of
// its authorizer. Without any role or binding among the files it refuses to answer.
func (f *Files) review(request *http.Request) (*http.Response, error) {
	if f.rbac == nil {
		var err error
		if f.rbac, err = f.newAuthorizer(); err != nil {
			return nil, err
		}
	}
	if f.rbac == nil {
		return notAmongFiles()
	}
	review := &authorizationv1.SubjectAccessReview{}
	if err := json.NewDecoder(request.Body).Decode(review); err != nil {
		return nil, err
	}
	what := review.Spec.ResourceAttributes
	decision, reason, err := f.rbac.Authorize(request.Context(), authorizer.AttributesRecord{
		User: &user.DefaultInfo{Name: review.Spec.User, Groups: review.Spec.Groups}, ResourceRequest: true,
		Verb: what.Verb, APIGroup: what.Group, Resource: what.Resource, Subresource: what.Subresource, Namespace: what.Namespace, Name: what.Name,
	})
	if err != nil {
		return nil, err
	}
	review.Status = authorizationv1.SubjectAccessReviewStatus{Allowed: decision == authorizer.DecisionAllow, Reason: reason}
	return respond(http.StatusCreated, review)
}

// newAuthorizer returns the authorizer of the roles and bindings; nil if there are none.
func (f *Files) newAuthorizer() (authorizer.Authorizer, error) {
	roles, err := keptAs[rbacv1.Role](f, "roles")
	if err != nil {
		return nil, err
	}
	bindings, err := keptAs[rbacv1.RoleBinding](f, "rolebindings")
	if err != nil {
		return nil, err
	}
	clusterRoles, err := keptAs[rbacv1.ClusterRole](f, "clusterroles")
	if err != nil {
		return nil, err
	}
	clusterBindings, err := keptAs[rbacv1.ClusterRoleBinding](f, "clusterrolebindings")
	if err != nil || len(roles)+len(bindings)+len(clusterRoles)+len(clusterBindings) == 0 {
		return nil, err
	}
	// Those of the files come first, and count.
	for namespace, builtIn := range bootstrappolicy.NamespaceRoles() {
		for i := range builtIn {
			builtIn[i].Namespace = namespace
			roles = append(roles, &builtIn[i])
		}
	}
	builtIn := bootstrappolicy.ClusterRoles()
	for i := range builtIn {
		clusterRoles = append(clusterRoles, &builtIn[i])
	}
	if err := aggregate(clusterRoles); err != nil {
		return nil, err
	}
	_, static := validation.NewTestRuleResolver(roles, bindings, clusterRoles, clusterBindings)
	return rbac.New(static, static, static, static), nil
}

// aggregate gives ClusterRoles the rules of those that they select, as a controller does.
func aggregate(roles []*rbacv1.ClusterRole) error {
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return err
			}
			for _, other := range roles {
				if other != role && selector.Matches(labels.Set(other.Labels)) {
					role.Rules = append(role.Rules, other.Rules...)
				}
			}
		}
	}
	return nil
}

// keptAs returns the objects of a resource of RBAC as what they are.
func keptAs[T any](f *Files, resource string) ([]*T, error) {
	var found []*T
	for _, object := range f.kept[rbacv1.SchemeGroupVersion.WithResource(resource)] {
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, err
		}
		found = append(found, typed)
	}
	return found, nil
}
