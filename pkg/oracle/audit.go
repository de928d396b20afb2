// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"encoding/json"
	"net/http"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Audit takes an event of an audit log. Those of one API server come in the order in which they
// were answered.
func (r *Replay) Audit(event *auditv1.Event) {
	ref := event.ObjectRef
	write := event.Verb == "create" || event.Verb == "update" || event.Verb == "patch" || event.Verb == "delete" || event.Verb == "deletecollection"
	if event.Stage != auditv1.StageResponseComplete || !write || ref == nil || ref.APIGroup != "" || strings.Contains(event.RequestURI, "dryRun=") {
		return
	}
	at := moment{micros(event.RequestReceivedTimestamp), micros(event.StageTimestamp)}
	outcome := event.ResponseStatus
	switch {
	case outcome != nil && outcome.Code >= http.StatusBadRequest && outcome.Code < http.StatusInternalServerError:
		return // refused
	case ref.Resource == "pods":
		r.begin(at)
		r.auditPod(event, at, outcome == nil || outcome.Code >= http.StatusInternalServerError)
		if r.events%settleEvery == 0 {
			r.settle()
		}
	case outcome == nil || outcome.Code >= http.StatusInternalServerError || ref.Subresource != "":
	case ref.Resource == "nodes":
		var node corev1.Node
		if decode(event.ResponseObject, "Node", &node) || decode(event.RequestObject, "Node", &node) {
			r.nodes[ref.Name] = node.Labels[tenantNodeLabel]
		}
	case ref.Resource == "namespaces":
		var namespace corev1.Namespace
		if decode(event.ResponseObject, "Namespace", &namespace) || decode(event.RequestObject, "Namespace", &namespace) {
			r.namespaces[namespace.Name] = namespace.Labels[tenantLabel]
		}
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
	case ref.Subresource != "" && ref.Subresource != "binding" && ref.Subresource != "status" && ref.Subresource != "eviction" &&
		ref.Subresource != "ephemeralcontainers" && ref.Subresource != "resize":
		return // it writes nothing
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
		var eviction policyv1.Eviction
		var grace *int64
		if decode(event.RequestObject, "Eviction", &eviction) && eviction.DeleteOptions != nil {
			grace = eviction.DeleteOptions.GracePeriodSeconds
		}
		r.deleted(ref.Namespace, ref.Name, grace, at)
	case event.Verb == "deletecollection":
		r.auditCollection(event, at)
	default:
		r.auditVersion(event, at, by)
	}
}

// uncertain takes note of a write of which it is not known whether or what it wrote.
func (r *Replay) uncertain(event *auditv1.Event, at moment) {
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
			r.drop(p, at.earliest)
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
	default:
		r.opaque(ref.Namespace, ref.Name, at)
	}
}

// ended reports whether a pod is gone with this version: nothing keeps it.
func ended(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0 && len(pod.Finalizers) == 0
}

// graceOf returns the grace period of a request to delete.
func graceOf(request *runtime.Unknown) *int64 {
	var options metav1.DeleteOptions
	decode(request, "DeleteOptions", &options)
	return options.GracePeriodSeconds
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
	kind, gone := meta.Kind, watch.EventType(event.Type) == watch.Deleted
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
	switch kind {
	case "Node":
		r.nodes[meta.Name] = meta.Labels[tenantNodeLabel]
	case "Namespace":
		r.namespaces[meta.Name] = meta.Labels[tenantLabel]
	case "Pod":
		var pod corev1.Pod
		if json.Unmarshal(event.Object.Raw, &pod) != nil || versionOf(&pod) == 0 {
			return false
		}
		at := moment{versionOf(&pod), versionOf(&pod)}
		r.begin(at)
		if p := r.pods[podName(&pod)]; pod.Spec.NodeName != "" && p != nil && p.Spec.NodeName == "" {
			r.bindings++
			p.bound = true
		}
		r.seen(&pod, at, Writer{}, watch.EventType(event.Type) == watch.Added, true)
		if p := r.pods[podName(&pod)]; gone && p != nil && p.UID == pod.UID {
			r.drop(p, at.earliest)
		}
		if r.events%settleEvery == 0 {
			r.settle()
		}
	default:
		return false
	}
	return true
}
