// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"encoding/json"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// What writes: verbs, and subresources of pods.
var (
	writes       = sets.New("create", "update", "patch", "delete", "deletecollection")
	subresources = sets.New("", "binding", "status", "eviction", "ephemeralcontainers", "resize")
)

// Audit takes an event of an audit log. Those of one API server come in the order in which they
// were answered.
func (r *Replay) Audit(event *auditv1.Event) {
	ref, outcome := event.ObjectRef, event.ResponseStatus
	if !isFinishedWrite(event) || ref == nil || ref.APIGroup != "" {
		return
	}
	unknown := outcome == nil || event.Stage == auditv1.StagePanic || outcome.Code >= http.StatusInternalServerError || outcome.Code == http.StatusRequestTimeout
	if !unknown && outcome.Code >= http.StatusBadRequest {
		return // refused
	}
	if ref.Resource == "bindings" { // the resource that pods/binding has replaced, and that API servers still have
		event = event.DeepCopy()
		var binding metav1.PartialObjectMetadata
		decode(event.RequestObject, "Binding", &binding)
		ref = event.ObjectRef
		ref.Resource, ref.Subresource, ref.Name = "pods", "binding", cmp.Or(ref.Name, binding.Name)
	}
	switch {
	case ref.Resource == "pods" && subresources.Has(ref.Subresource):
		at := moment{micros(event.RequestReceivedTimestamp), micros(event.StageTimestamp)}
		r.begin(at)
		r.auditPod(event, at, unknown)
		if r.events%settleEvery == 0 {
			r.settle()
		}
	case ref.Subresource == "" || ref.Subresource == "status": // which may change labels
		r.auditTenant(event, unknown)
	}
}

// isFinishedWrite reports whether the event ends a request that may have written something.
func isFinishedWrite(event *auditv1.Event) bool {
	finished := event.Stage == auditv1.StageResponseComplete || event.Stage == auditv1.StagePanic
	return finished && writes.Has(event.Verb) && !isDryRun(event)
}

// isDryRun reports whether a request wrote nothing. Deletions say so in their options: in the body, as
// clients send them, or else in the query; the API server does not read the query of one that has a body.
func isDryRun(event *auditv1.Event) bool {
	options := deleteOptions(event.RequestObject)
	if options != nil && (event.Verb != "create" || len(options.DryRun) > 0) {
		return len(options.DryRun) > 0
	}
	uri, err := url.Parse(event.RequestURI)
	return err == nil && uri.Query().Has("dryRun")
}

// deleteOptions returns the options of a deletion or an eviction; nil if it has none.
func deleteOptions(request *runtime.Unknown) *metav1.DeleteOptions {
	var options metav1.DeleteOptions
	if decode(request, "DeleteOptions", &options) {
		return &options
	}
	var eviction policyv1.Eviction
	decode(request, "Eviction", &eviction)
	return eviction.DeleteOptions
}

// auditTenant takes the tenant of a node or a namespace. If the event does not show it, it is not known any more.
func (r *Replay) auditTenant(event *auditv1.Event, unknown bool) {
	tenants, kind, label := r.nodes, "Node", tenantNodeLabel
	switch event.ObjectRef.Resource {
	case "nodes":
	case "namespaces":
		tenants, kind, label = r.namespaces, "Namespace", tenantLabel
		if event.Verb == "create" && event.ObjectRef.Name == metav1.NamespaceSystem {
			r.fromStart = true
		}
	default:
		return
	}
	var object metav1.PartialObjectMetadata
	if !unknown && decode(event.ResponseObject, kind, &object) {
		tenants[object.Name] = object.Labels[label]
		return
	}
	if event.ObjectRef.Subresource == "" {
		delete(tenants, event.ObjectRef.Name)
	}
}

// auditPod takes an event about a pod that was not refused.
func (r *Replay) auditPod(event *auditv1.Event, at moment, unknown bool) {
	ref := event.ObjectRef
	by := Writer{event.User.Username, event.UserAgent}
	if event.ImpersonatedUser != nil {
		by.User = event.ImpersonatedUser.Username
	}
	if ref.Subresource == "status" {
		r.statusWrites++
	}
	switch {
	case unknown:
		r.gaps[unknownOutcome]++
		r.uncertain(event, at)
		return
	case event.Level == auditv1.LevelMetadata || event.Level == auditv1.LevelNone:
		r.gaps[metadataOnly]++
		r.uncertain(event, at)
		return
	}
	switch {
	case ref.Subresource == "binding":
		var binding corev1.Binding
		if !decode(event.RequestObject, "Binding", &binding) {
			r.gaps[metadataOnly]++
			return
		}
		r.bind(&binding, ref.Namespace, ref.Name, at, by)
	case ref.Subresource == "eviction":
		r.deleted(ref.Namespace, ref.Name, graceOf(event.RequestObject), at)
	case event.Verb == "deletecollection":
		r.auditCollection(event, at)
	default:
		r.auditVersion(event, at, by)
	}
}

// uncertain takes note of a write of which it is not known whether or what it wrote.
func (r *Replay) uncertain(event *auditv1.Event, at moment) {
	if p := r.pods[event.ObjectRef.Namespace+"/"+event.ObjectRef.Name]; p != nil && event.ObjectRef.Subresource == "binding" {
		p.bound = true // if a later version shows a node: the gap is counted already
	}
	if event.Verb != "deletecollection" {
		r.opaque(event.ObjectRef.Namespace, event.ObjectRef.Name, at)
		return
	}
	for _, p := range r.pods {
		if p.Namespace == event.ObjectRef.Namespace {
			r.opaque(p.Namespace, p.Name, at)
		}
	}
}

// auditCollection takes the deletion of a collection. Its answer has the pods as they were before.
func (r *Replay) auditCollection(event *auditv1.Event, at moment) {
	var list corev1.PodList
	if !decode(event.ResponseObject, "PodList", &list) {
		r.uncertain(event, at)
		return
	}
	grace := graceOf(event.RequestObject)
	for i := range list.Items {
		r.deleted(list.Items[i].Namespace, list.Items[i].Name, grace, at)
	}
}

// auditVersion takes the creation, a change or the deletion of one pod.
func (r *Replay) auditVersion(event *auditv1.Event, at moment, by Writer) {
	ref := event.ObjectRef
	var pod corev1.Pod
	creation := event.Verb == "create"
	switch {
	case decode(event.ResponseObject, "Pod", &pod):
		r.seen(&pod, at, by, creation, ref.Subresource == "status")
		if p := r.pods[podName(&pod)]; p != nil && p.UID == pod.UID && ended(&pod) {
			r.drop(p, at)
		}
	case event.Verb == "delete":
		r.deleted(ref.Namespace, ref.Name, graceOf(event.RequestObject), at)
	case creation && decode(event.RequestObject, "Pod", &pod):
		pod.Namespace = ref.Namespace
		if pod.Name == "" {
			r.gaps[unnamed]++
			return
		}
		r.seen(&pod, at, by, true, false)
		if p := r.pods[podName(&pod)]; p != nil && !requestsDevices(&pod) {
			p.guessed = true // admission may have added requests, which the request does not show
		}
	case creation:
		r.gaps[metadataOnly]++
	default:
		r.opaque(ref.Namespace, ref.Name, at)
	}
}

// ended reports whether a pod is gone with this version: nothing keeps it.
func ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) == 0
}

// graceOf returns the grace period of a request to delete or evict; nil if it names none.
func graceOf(request *runtime.Unknown) *int64 {
	if options := deleteOptions(request); options != nil {
		return options.GracePeriodSeconds
	}
	return nil
}

// decode reads an object of an audit event, if it is there and of the kind.
func decode(object *runtime.Unknown, kind string, into any) bool {
	var meta metav1.TypeMeta
	return object != nil && len(object.Raw) > 0 && json.Unmarshal(object.Raw, &meta) == nil && meta.Kind == kind && json.Unmarshal(object.Raw, into) == nil
}

func micros(t metav1.MicroTime) uint64 { return uint64(max(0, t.UnixMicro())) }

// Watch takes an event of a watch of pods, nodes or namespaces, in the order of their
// resourceVersions, and reports whether it could be read.
func (r *Replay) Watch(event *metav1.WatchEvent) bool {
	var meta metav1.PartialObjectMetadata
	if json.Unmarshal(event.Object.Raw, &meta) != nil {
		return false
	}
	switch watch.EventType(event.Type) {
	case watch.Bookmark:
		return true
	case watch.Error:
		r.gaps[watchEnded]++
		return true
	case watch.Added, watch.Modified, watch.Deleted:
	default:
		return false
	}
	switch meta.Kind {
	case "Node":
		r.nodes[meta.Name] = meta.Labels[tenantNodeLabel]
	case "Namespace":
		r.namespaces[meta.Name] = meta.Labels[tenantLabel]
	case "Pod":
		return r.watchPod(event)
	default:
		return false
	}
	return true
}

// watchPod takes a version of a pod.
func (r *Replay) watchPod(event *metav1.WatchEvent) bool {
	var pod corev1.Pod
	if json.Unmarshal(event.Object.Raw, &pod) != nil || versionOf(&pod) == 0 {
		return false
	}
	at := moment{versionOf(&pod), versionOf(&pod)}
	r.begin(at)
	if p := r.pods[podName(&pod)]; p != nil && p.UID == pod.UID && watch.EventType(event.Type) == watch.Added {
		r.gaps[watchEnded]++ // another watch lists what this one has shown already
	}
	if p := r.pods[podName(&pod)]; pod.Spec.NodeName != "" && p != nil && p.Spec.NodeName == "" {
		r.bindings++
		p.bound = true
	}
	r.seen(&pod, at, Writer{}, watch.EventType(event.Type) == watch.Added, true)
	if p := r.pods[podName(&pod)]; watch.EventType(event.Type) == watch.Deleted && p != nil && p.UID == pod.UID {
		r.drop(p, at)
	}
	if r.events%settleEvery == 0 {
		r.settle()
	}
	return true
}
