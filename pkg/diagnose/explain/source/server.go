// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/cluster"
)

// Groups of resources for which this program has no types. Kubernetes' own PodGroups have
// another version in every minor.
const (
	coschedulingGroup = "scheduling.x-k8s.io"
	kueueGroup        = "kueue.x-k8s.io"
)

// pageSize is how many objects are asked for at a time, as kubectl does.
const pageSize = 500

// readServer reads a cluster from its API server. That something may not be read is no
// error.
func (f *found) readServer(ctx context.Context, o *Options) error {
	objects, notes, err := cluster.Listing{Required: []string{"pods"}, Namespace: o.Namespace}.List(ctx, o.Client)
	if err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	for _, note := range notes {
		f.in.NotSeen = append(f.in.NotSeen, note.String())
	}
	f.in.Objects = objects
	f.in.Incomplete = !objects.Has("nodes") || objects.ListedIn("pods") != ""
	if f.in.Incomplete {
		f.notSeen("all nodes and all pods, so this is only what the scheduler reported, and no change was tried")
	}
	if err := f.readPodGroups(ctx, o); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	if err := f.readAdmission(ctx, o); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	readSchedulers := f.schedulers.Read
	if o.Config != "" {
		readSchedulers = f.schedulers.ReadLeases
	}
	if err := readSchedulers(ctx, o.Client); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	f.in.NotSeen = append(f.in.NotSeen, f.schedulers.NotSeen...)
	f.in.ServersSeen = f.schedulers.ServersSeen
	return nil
}

func (f *found) notSeen(format string, args ...any) {
	f.in.NotSeen = append(f.in.NotSeen, fmt.Sprintf(format, args...))
}

// refused reports whether the API server refuses to tell, or does not serve it.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// readPodGroups reads the gangs: all of them, or those of the pod's namespace.
func (f *found) readPodGroups(ctx context.Context, o *Options) error {
	seen := true
	for _, group := range []string{coschedulingGroup, schedulingv1.GroupName} {
		if group == schedulingv1.GroupName && f.in.Objects.Has("podgroups") {
			continue // they are among the objects
		}
		err := f.listCustom(ctx, o, group, "podgroups", func(object []byte) error {
			group, err := podGroupOf(object, "", group == schedulingv1.GroupName)
			f.in.PodGroups = append(f.in.PodGroups, group)
			return err
		})
		if err != nil && !apierrors.IsForbidden(err) {
			return err
		}
		seen = seen && err == nil
	}
	if !seen {
		f.notSeen("PodGroups, so gangs are not explained")
	}
	return nil
}

// readAdmission reads what keeps the pods of the namespace from being created, or lets
// them into the queue.
func (f *found) readAdmission(ctx context.Context, o *Options) error {
	quotas, err := o.Client.CoreV1().ResourceQuotas(o.Namespace).List(ctx, metav1.ListOptions{})
	switch {
	case refused(err):
		f.notSeen("resourcequotas: %v", err)
	case err != nil:
		return fmt.Errorf("listing resourcequotas: %w", err)
	default:
		for i := range quotas.Items {
			f.in.Quotas = append(f.in.Quotas, &quotas.Items[i])
		}
	}
	err = f.listCustom(ctx, o, kueueGroup, "workloads", f.addWorkload)
	if apierrors.IsForbidden(err) {
		f.notSeen("workloads of Kueue: %v", err)
		return nil
	}
	return err
}

// listCustom lists a resource for which this program has no types, in the version that the
// API server serves: of all namespaces, or if that is forbidden of the pod's. One that is
// not served has no objects.
func (f *found) listCustom(ctx context.Context, o *Options, group, resource string, do func(object []byte) error) error {
	var served metav1.APIGroup
	switch content, err := o.Client.CoreV1().RESTClient().Get().AbsPath("/apis/"+group).SetHeader("Accept", runtime.ContentTypeJSON).Do(ctx).Raw(); {
	case refused(err):
		return nil
	case err != nil:
		return fmt.Errorf("looking for %s.%s: %w", resource, group, err)
	default:
		if err := json.Unmarshal(content, &served); err != nil {
			return fmt.Errorf("looking for %s.%s: %w", resource, group, err)
		}
	}
	for _, version := range served.Versions {
		var forbidden error
		for _, where := range []string{"", "/namespaces/" + o.Namespace} {
			err := listPages(ctx, o.Client, "/apis/"+version.GroupVersion+where+"/"+resource, do)
			switch {
			case err == nil:
				return nil
			case apierrors.IsForbidden(err):
				forbidden = err
				continue
			case !apierrors.IsNotFound(err):
				return fmt.Errorf("listing %s.%s: %w", resource, group, err)
			}
			break // of another version
		}
		if forbidden != nil {
			return forbidden
		}
	}
	return nil
}

func listPages(ctx context.Context, client kubernetes.Interface, path string, do func(object []byte) error) error {
	for next := ""; ; {
		content, err := client.CoreV1().RESTClient().Get().AbsPath(path).SetHeader("Accept", runtime.ContentTypeJSON).Param("limit", strconv.Itoa(pageSize)).Param("continue", next).Do(ctx).Raw()
		if err != nil {
			return err
		}
		var list struct {
			Metadata metav1.ListMeta   `json:"metadata"`
			Items    []json.RawMessage `json:"items"`
		}
		if err := json.Unmarshal(content, &list); err != nil {
			return err
		}
		for _, item := range list.Items {
			if err := do(item); err != nil {
				return err
			}
		}
		if next = list.Metadata.Continue; next == "" {
			return nil
		}
	}
}
