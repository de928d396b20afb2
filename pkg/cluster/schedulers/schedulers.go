// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package schedulers finds the schedulers of a cluster: who holds which lease, and with which
// flags and which configuration each was started.
package schedulers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/pager"
	schedconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// Server is a scheduler that holds a lease.
type Server struct {
	// Names are the schedulerNames that it serves.
	Names []string
	// Lease is NAMESPACE/NAME.
	Lease, Holder string
	Renewed       time.Time
	// Duration is how long after Renewed the lease counts.
	Duration time.Duration
}

// Schedulers are those of a cluster: those that hold leases, and those that Berth's manifests
// have installed. The zero value has none.
type Schedulers struct {
	// Servers hold leases. ServersSeen is whether the leases could be read.
	Servers     []Server
	ServersSeen bool
	// NotSeen is what could not be read, a line each.
	NotSeen []string
	// Newest is when a lease was renewed last.
	Newest time.Time

	configs []configuration
}

// configuration is a KubeSchedulerConfiguration of the cluster.
type configuration struct {
	source  string
	content []byte
	// names are the schedulerNames that its scheduler is known to serve.
	names []string
	// flags are what the scheduler is started with; nil if they are not known.
	flags *settings.Flags
}

// Keep takes Leases and ConfigMaps of files; it is for Keep of a cluster.Reader.
func (s *Schedulers) Keep(kind schema.GroupVersionKind, object []byte) (taken bool, err error) {
	switch kind.GroupKind() {
	case schema.GroupKind{Group: coordinationv1.GroupName, Kind: "Lease"}:
		l := &coordinationv1.Lease{}
		err := json.Unmarshal(object, l)
		s.addLease(l)
		return true, err
	case schema.GroupKind{Kind: "ConfigMap"}:
		m := &corev1.ConfigMap{}
		err := json.Unmarshal(object, m)
		s.addConfigMap(m)
		return true, err
	}
	return false, nil
}

// addLease adds the holder of a lease, if the identity says whom it serves, or the lease is a
// scheduler's by its name.
func (s *Schedulers) addLease(l *coordinationv1.Lease) {
	server := Server{Names: lease.ServedBy(l), Lease: l.Namespace + "/" + l.Name, Holder: ptr.Deref(l.Spec.HolderIdentity, "")}
	server.Renewed, server.Duration = lease.Term(l)
	if server.Renewed.After(s.Newest) {
		s.Newest = server.Renewed
	}
	if len(server.Names) > 0 {
		s.Servers = append(s.Servers, server)
	}
}

// addConfigMap adds the KubeSchedulerConfigurations of a ConfigMap.
func (s *Schedulers) addConfigMap(m *corev1.ConfigMap) {
	for _, key := range slices.Sorted(maps.Keys(m.Data)) {
		var meta metav1.TypeMeta
		if yaml.Unmarshal([]byte(m.Data[key]), &meta) == nil && meta.Kind == "KubeSchedulerConfiguration" {
			s.configs = append(s.configs, configuration{source: sourceOf(m.Namespace, m.Name, key), content: []byte(m.Data[key])})
		}
	}
}

// Read reads the leases and the configurations of a cluster, by get and list requests alone.
// What may not be read is no error: it is in NotSeen.
func (s *Schedulers) Read(ctx context.Context, client kubernetes.Interface) error {
	if err := s.ReadLeases(ctx, client); err != nil {
		return err
	}
	return s.readConfigurations(ctx, client)
}

// ReadLeases reads who schedules. The leases of nodes are left out: there is one for each.
func (s *Schedulers) ReadLeases(ctx context.Context, client kubernetes.Interface) error {
	options := metav1.ListOptions{FieldSelector: "metadata.namespace!=" + corev1.NamespaceNodeLease}
	err := s.listLeases(ctx, client, metav1.NamespaceAll, options)
	if !apierrors.IsForbidden(err) {
		s.ServersSeen = err == nil
		return err
	}
	for _, namespace := range []string{metav1.NamespaceSystem, names.Namespace} {
		switch err := s.listLeases(ctx, client, namespace, metav1.ListOptions{}); {
		case err == nil:
			s.ServersSeen = true
		case !refused(err):
			return err
		}
	}
	if !s.ServersSeen {
		s.notSeen("leases, so whether a scheduler runs is not known: %v", err)
	}
	return nil
}

func (s *Schedulers) listLeases(ctx context.Context, client kubernetes.Interface, namespace string, options metav1.ListOptions) error {
	list := func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return client.CoordinationV1().Leases(namespace).List(ctx, options)
	}
	return pager.New(list).EachListItem(ctx, options, func(object runtime.Object) error {
		if l, ok := object.(*coordinationv1.Lease); ok {
			s.addLease(l)
		}
		return nil
	})
}

// readConfigurations reads the configurations of the schedulers that hold leases or, if there
// are none, of those that Berth's manifests have installed.
func (s *Schedulers) readConfigurations(ctx context.Context, client kubernetes.Interface) error {
	before := len(s.NotSeen)
	for _, server := range s.Servers {
		namespace, _, _ := strings.Cut(server.Lease, "/")
		if len(lease.Serves(server.Holder)) == 0 {
			continue
		}
		pod, err := client.CoreV1().Pods(namespace).Get(ctx, lease.Host(server.Holder), metav1.GetOptions{})
		if err == nil {
			err = s.readPod(ctx, client, namespace, &pod.Spec, server.Names)
		}
		if err := s.unlessRefused("the profile of "+server.Holder, err); err != nil {
			return err
		}
	}
	if len(s.configs) > 0 {
		return nil
	}
	list, err := client.AppsV1().Deployments(names.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/part-of=berth"})
	if err != nil {
		return s.unlessRefused("Deployments in "+names.Namespace, err)
	}
	for i := range list.Items {
		err := s.readPod(ctx, client, names.Namespace, &list.Items[i].Spec.Template.Spec, nil)
		if err := s.unlessRefused("the profile of Deployment "+list.Items[i].Name, err); err != nil {
			return err
		}
	}
	if len(s.configs) > 0 {
		s.NotSeen = s.NotSeen[:before]
	}
	return nil
}

// readPod reads the configurations that the containers of a pod are started with. serves are
// the schedulerNames that its scheduler is known to serve.
func (s *Schedulers) readPod(ctx context.Context, client kubernetes.Interface, namespace string, pod *corev1.PodSpec, serves []string) error {
	for i := range pod.Containers {
		started := ReadContainer(pod, &pod.Containers[i])
		if started.ConfigMap == "" {
			continue
		}
		m, err := client.CoreV1().ConfigMaps(namespace).Get(ctx, started.ConfigMap, metav1.GetOptions{})
		if err != nil {
			return err
		}
		content, ok := Content(m, started.Key)
		if !ok {
			continue
		}
		if started.FlagsErr != nil && !errors.Is(started.FlagsErr, ErrUnknownFlags) {
			s.notSeen("the flags of container %s: %v", pod.Containers[i].Name, started.FlagsErr)
		}
		s.configs = append(s.configs, configuration{sourceOf(namespace, m.Name, started.Key), content, serves, started.Flags})
	}
	return nil
}

func sourceOf(namespace, configMap, key string) string {
	return "ConfigMap " + namespace + "/" + configMap + ", " + key
}

func (s *Schedulers) notSeen(format string, args ...any) {
	s.NotSeen = append(s.NotSeen, fmt.Sprintf(format, args...))
}

// unlessRefused returns the error, unless the object may not be read or is not there: then
// it is noted.
func (s *Schedulers) unlessRefused(what string, err error) error {
	if err == nil || !refused(err) {
		return err
	}
	s.notSeen("%s: %v (--config FILE names a copy)", what, err)
	return nil
}

// refused reports whether the API server refuses to answer, or does not serve the resource.
func refused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsNotFound(err) }

// Profile is the configuration of a scheduler.
type Profile struct {
	// Source says where it was read, and Content is what was read there.
	Source  string
	Content []byte
	Config  *schedconfig.KubeSchedulerConfiguration
}

// Serves reports whether a profile of the configuration has the name.
func Serves(config *schedconfig.KubeSchedulerConfiguration, schedulerName string) bool {
	return slices.ContainsFunc(config.Profiles, func(p schedconfig.KubeSchedulerProfile) bool { return p.SchedulerName == schedulerName })
}

// Find returns the configuration of the scheduler that serves a schedulerName: for the
// cluster's own, if it was not seen, what kube-scheduler runs without a file. If none serves
// the name, it returns one of another scheduler with serves false, or nil if there is none;
// the error is then why one of the configurations that were found does not load.
func (s *Schedulers) Find(schedulerName string) (found *Profile, serves bool, err error) {
	for _, c := range s.configs {
		config, loadErr := c.flags.Load(c.source, c.content)
		if loadErr != nil {
			if err == nil || slices.Contains(c.names, schedulerName) {
				err = fmt.Errorf("the running scheduler's profile: %w", loadErr)
			}
			continue
		}
		serves = Serves(config, schedulerName)
		if serves || found == nil {
			found = &Profile{c.source, c.content, config}
		}
		if serves {
			return found, true, nil
		}
	}
	if schedulerName == corev1.DefaultSchedulerName {
		found, err = Stock()
		return found, err == nil, err
	}
	return found, false, err
}

// For is [Schedulers.Find] of a scheduler that serves the name. The error is that none is
// known.
func (s *Schedulers) For(schedulerName string) (*Profile, error) {
	found, serves, err := s.Find(schedulerName)
	switch {
	case serves:
		return found, nil
	case err != nil:
		return nil, err
	case len(s.NotSeen) > 0:
		return nil, fmt.Errorf("no scheduler was seen that serves %q (not seen: %s)", schedulerName, s.NotSeen[0])
	}
	return nil, fmt.Errorf("no scheduler was seen that serves %q", schedulerName)
}

// stockDefaults is what kube-scheduler runs without a file.
const stockDefaults = `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection: {leaderElect: true, resourceNamespace: kube-system, resourceName: kube-scheduler}
`

// Stock returns the configuration of a kube-scheduler that runs without a file.
func Stock() (*Profile, error) {
	const source = "kube-scheduler's defaults (the profile that it runs with was not seen: --config FILE)"
	config, err := (*settings.Flags)(nil).Load(source, []byte(stockDefaults))
	return &Profile{source, []byte(stockDefaults), config}, err
}
