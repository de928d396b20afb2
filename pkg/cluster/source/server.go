// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/cluster/containerargs"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// Groups of resources of which this program has no types. Kubernetes' own PodGroups have
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
		f.notSeen("all nodes and all pods, so what the scheduler wrote is told, and nothing was tried")
	}
	if err := f.readPodGroups(ctx, o); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	if err := f.readAdmission(ctx, o); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	if err := f.readLeases(ctx, o.Client); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
	if o.Config != "" {
		return nil
	}
	if err := f.readConfigMaps(ctx, o.Client); err != nil {
		return fmt.Errorf("%s: %w", o.Host, err)
	}
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
		f.notSeen("PodGroups, so gangs are not told")
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

// listCustom lists a resource of which this program has no types, in the version that the
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

// listPages lists what there is at a path.
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

// readLeases reads who schedules. The leases of nodes are left out: there is one for each.
func (f *found) readLeases(ctx context.Context, client kubernetes.Interface) error {
	options := metav1.ListOptions{FieldSelector: "metadata.namespace!=" + corev1.NamespaceNodeLease}
	err := f.listLeases(ctx, client, metav1.NamespaceAll, options)
	if !apierrors.IsForbidden(err) {
		f.in.ServersSeen = err == nil
		return err
	}
	for _, namespace := range []string{metav1.NamespaceSystem, names.Namespace} {
		switch err := f.listLeases(ctx, client, namespace, metav1.ListOptions{}); {
		case err == nil:
			f.in.ServersSeen = true
		case !refused(err):
			return err
		}
	}
	if !f.in.ServersSeen {
		f.notSeen("leases, so whether a scheduler runs is not known: %v", err)
	}
	return nil
}

func (f *found) listLeases(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) error {
	p := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		list, err := client.CoordinationV1().Leases(namespace).List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			f.addLease(&list.Items[i])
		}
		return list, nil
	})
	return p.EachListItem(ctx, options, func(runtime.Object) error { return nil })
}

// readConfigMaps reads the profiles of the schedulers that hold leases, and of those that
// Berth's manifests have installed: the file that --config of the container names, in the
// ConfigMap that is mounted there.
func (f *found) readConfigMaps(ctx context.Context, client kubernetes.Interface) error {
	before := len(f.in.NotSeen)
	for _, server := range f.in.Servers {
		namespace, _, _ := strings.Cut(server.Lease, "/")
		if len(lease.Serves(server.Holder)) == 0 {
			continue
		}
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, lease.Host(server.Holder), metav1.GetOptions{})
		if err == nil {
			err = f.readMounted(ctx, client, namespace, &pod.Spec, server.Names)
		}
		if err := f.unlessRefused("the profile of "+server.Holder, err); err != nil {
			return err
		}
	}
	if len(f.configs) > 0 {
		return nil
	}
	var list *appsv1.DeploymentList
	list, err := client.AppsV1().Deployments(names.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=berth"})
	if err != nil {
		return f.unlessRefused("Deployments in "+names.Namespace, err)
	}
	for i := range list.Items {
		if err := f.readMounted(ctx, client, names.Namespace, &list.Items[i].Spec.Template.Spec, nil); err != nil {
			if err := f.unlessRefused("the profile of Deployment "+list.Items[i].Name, err); err != nil {
				return err
			}
		}
	}
	if len(f.configs) > 0 {
		f.in.NotSeen = f.in.NotSeen[:before]
	}
	return nil
}

// unlessRefused returns the error, unless it is that something may not be read or is not
// there: then it is told.
func (f *found) unlessRefused(what string, err error) error {
	if err == nil || !refused(err) {
		return err
	}
	f.notSeen("%s: %v (--config FILE names a copy)", what, err)
	return nil
}

// readFlags reads the flags that a scheduler's container is started with, nil if they cannot
// be known.
func (f *found) readFlags(c *corev1.Container) *settings.Flags {
	arguments, ok := containerargs.Arguments(c)
	if !ok {
		return nil
	}
	flags, err := settings.Parse(arguments)
	if err != nil {
		f.notSeen("the flags of container %s: %v", c.Name, err)
		return nil
	}
	return flags
}

// readMounted reads the configuration that a container of the pod is started with.
func (f *found) readMounted(ctx context.Context, client kubernetes.Interface, namespace string, pod *corev1.PodSpec, serves []string) error {
	for i := range pod.Containers {
		c := &pod.Containers[i]
		name, key, ok := containerargs.ConfigMap(pod, c, containerargs.Flag(c, containerargs.ConfigFlag))
		if !ok {
			continue
		}
		m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if content, ok := containerargs.Content(m, key); ok {
			f.addConfiguration(m, key, content, serves, f.readFlags(c))
		}
	}
	return nil
}
