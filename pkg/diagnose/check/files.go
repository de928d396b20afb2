// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// Files are the objects of files, which can be checked in place of a cluster: what kubectl
// printed, or manifests that were not applied yet. Of a kind that is not among them
// nothing is known, as of one that a credential may not see.
type Files struct {
	reader *cluster.Reader
	// kept are the objects that no plugin reads, by resource.
	kept map[schema.GroupVersionResource][]*unstructured.Unstructured
	// rbac decides by the roles and bindings among the files; nil if there are none, or
	// nobody has asked yet.
	rbac authorizer.Authorizer
}

// NewFiles returns empty files. Objects that name no namespace are in the given one.
func NewFiles(namespace string) *Files {
	f := &Files{reader: cluster.NewReader(), kept: map[schema.GroupVersionResource][]*unstructured.Unstructured{}}
	f.reader.Namespace = namespace
	f.reader.Keep = f.keep
	return f
}

// Read reads a file, a folder, or stdin, as [cluster.Reader.ReadFile].
func (f *Files) Read(name string, stdin io.Reader) error { return f.reader.ReadFile(name, stdin) }

// keep takes what no plugin reads. The pods of a workload that somebody has written are
// read as well.
func (f *Files) keep(kind schema.GroupVersionKind, object []byte) (taken bool, err error) {
	kept := &unstructured.Unstructured{}
	if err := kept.UnmarshalJSON(object); err != nil {
		return false, err
	}
	if kept.GetNamespace() == "" {
		kept.SetNamespace(f.reader.Namespace)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kind)
	f.kept[resource] = append(f.kept[resource], kept)
	isWorkload := kind.Group == appsv1.GroupName || kind.Group == "batch"
	return !isWorkload || kept.GetUID() != "", nil
}

// into gives a check the objects: those that plugins read as they are, and the others as an
// API server would.
func (f *Files) into(c *checker) error {
	var notes []cluster.Note
	c.objects, notes = f.reader.Cluster()
	for _, note := range notes {
		c.report.NotSeen = append(c.report.NotSeen, note.String())
	}
	var err error
	c.client, err = kubernetes.NewForConfigAndClient(&rest.Config{Host: "https://files.invalid", QPS: -1, ContentConfig: rest.ContentConfig{ContentType: runtime.ContentTypeJSON}}, &http.Client{Transport: f})
	return err
}

var _ http.RoundTripper = &Files{}

// RoundTrip implements http.RoundTripper: it answers requests to get and to list the
// objects, and what their roles allow, and refuses all others.
func (f *Files) RoundTrip(request *http.Request) (*http.Response, error) {
	info, err := requests.NewRequestInfo(request)
	if err != nil {
		return nil, err
	}
	resource, namespace, name := schema.GroupVersionResource{Group: info.APIGroup, Version: info.APIVersion, Resource: info.Resource}, info.Namespace, info.Name
	if request.Method == http.MethodPost && resource == accessReviews {
		return f.review(request)
	}
	objects, ok := f.kept[resource]
	if request.Method != http.MethodGet || !ok {
		return notAmongFiles()
	}
	in := slices.DeleteFunc(slices.Clone(objects), func(o *unstructured.Unstructured) bool {
		return namespace != "" && o.GetNamespace() != namespace || name != "" && o.GetName() != name
	})
	switch {
	case name == "":
		kind := "List"
		if len(objects) > 0 {
			kind = objects[0].GetKind() + kind
		}
		items := make([]any, 0, len(in))
		for _, o := range in {
			items = append(items, o.Object)
		}
		return respond(http.StatusOK, map[string]any{"kind": kind, "apiVersion": resource.GroupVersion().String(), "metadata": map[string]any{}, "items": items})
	case len(in) == 0:
		return respond(http.StatusNotFound, status(metav1.StatusReasonNotFound, http.StatusNotFound, fmt.Sprintf("%s %q is not among the files", resource.Resource, name)))
	}
	return respond(http.StatusOK, in[0].Object)
}

func notAmongFiles() (*http.Response, error) {
	return respond(http.StatusForbidden, status(metav1.StatusReasonForbidden, http.StatusForbidden, "not among the files"))
}

// requests takes the path of a request apart.
var requests = &apirequest.RequestInfoFactory{
	APIPrefixes:          map[string]sets.Empty{"api": {}, "apis": {}},
	GrouplessAPIPrefixes: map[string]sets.Empty{"api": {}},
}

func status(reason metav1.StatusReason, code int32, message string) runtime.Object {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Reason: reason, Code: code, Message: message,
	}
}

func respond(code int, answer any) (*http.Response, error) {
	content, err := json.Marshal(answer)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: code, Header: http.Header{"Content-Type": []string{"application/json"}},
		Body: io.NopCloser(bytes.NewReader(content)), ContentLength: int64(len(content)),
	}, nil
}
