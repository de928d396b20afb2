// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	rbaclisters "k8s.io/client-go/listers/rbac/v1"
	"k8s.io/client-go/tools/cache"
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
	some := false
	for _, resource := range []string{"roles", "rolebindings", "clusterroles", "clusterrolebindings"} {
		some = some || len(f.kept[rbacv1.SchemeGroupVersion.WithResource(resource)]) > 0
	}
	if !some {
		return nil, nil
	}
	var roles []*rbacv1.Role
	for namespace, builtIn := range bootstrappolicy.NamespaceRoles() {
		for i := range builtIn {
			builtIn[i].Namespace = namespace
			roles = append(roles, &builtIn[i])
		}
	}
	var clusterRoles []*rbacv1.ClusterRole
	builtIn := bootstrappolicy.ClusterRoles()
	for i := range builtIn {
		clusterRoles = append(clusterRoles, &builtIn[i])
	}
	ofRoles, rolesErr := index(f, "roles", roles...)
	ofBindings, bindingsErr := index[rbacv1.RoleBinding](f, "rolebindings")
	ofClusterRoles, clusterRolesErr := index(f, "clusterroles", clusterRoles...)
	ofClusterBindings, clusterBindingsErr := index[rbacv1.ClusterRoleBinding](f, "clusterrolebindings")
	if err := errors.Join(rolesErr, bindingsErr, clusterRolesErr, clusterBindingsErr); err != nil {
		return nil, err
	}
	clusterRoleLister := rbaclisters.NewClusterRoleLister(ofClusterRoles)
	if err := aggregate(clusterRoleLister); err != nil {
		return nil, err
	}
	return rbac.New(
		&rbac.RoleGetter{Lister: rbaclisters.NewRoleLister(ofRoles)},
		&rbac.RoleBindingLister{Lister: rbaclisters.NewRoleBindingLister(ofBindings)},
		&rbac.ClusterRoleGetter{Lister: clusterRoleLister},
		&rbac.ClusterRoleBindingLister{Lister: rbaclisters.NewClusterRoleBindingLister(ofClusterBindings)},
	), nil
}

// aggregate gives ClusterRoles the rules of those that they select, as a controller does.
func aggregate(lister rbaclisters.ClusterRoleLister) error {
	roles, err := lister.List(labels.Everything())
	if err != nil {
		return err
	}
	for _, role := range roles {
		if role.AggregationRule == nil {
			continue
		}
		for i := range role.AggregationRule.ClusterRoleSelectors {
			selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
			if err != nil {
				return err
			}
			selected, err := lister.List(selector)
			if err != nil {
				return err
			}
			for _, other := range selected {
				if other != role {
					role.Rules = append(role.Rules, other.Rules...)
				}
			}
		}
	}
	return nil
}

// index returns the objects of a resource of RBAC among the files, and those built-in ones
// that no file has.
func index[T any](f *Files, resource string, builtIn ...*T) (cache.Indexer, error) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for _, object := range builtIn {
		if err := indexer.Add(object); err != nil {
			return nil, err
		}
	}
	for _, object := range f.kept[rbacv1.SchemeGroupVersion.WithResource(resource)] {
		object = object.DeepCopy()
		if strings.HasPrefix(resource, "cluster") {
			object.SetNamespace("") // the reader's, which it gives to every object without one
		}
		typed := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, typed); err != nil {
			return nil, err
		}
		if err := indexer.Add(typed); err != nil {
			return nil, err
		}
	}
	return indexer, nil
}
