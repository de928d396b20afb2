// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/preflight"
)

// runningScheduler is a berth-scheduler of the cluster, or one whose profile is given.
type runningScheduler struct {
	// object is the Deployment, or the file of the profile.
	object  string
	profile *Profile
	// account is who it is for the API server; the caller if that is all that is known.
	account preflight.Subject
	// deployment is the Deployment's name; empty without one. available is whether it has
	// a replica that is ready, or that is not known.
	deployment string
	available  bool
	// sole is whether it was told that nobody else serves default-scheduler.
	sole bool
}

// findSchedulers finds the Deployments of berth-scheduler and reads the profiles that they
// mount.
func (c *checker) findSchedulers() {
	if c.options.Profile != nil {
		c.add(&runningScheduler{object: c.options.Profile.Source, profile: c.options.Profile, available: true})
		return
	}
	list, err := c.client.AppsV1().Deployments(metav1.NamespaceAll).List(c.ctx, metav1.ListOptions{})
	everywhere := !c.forbidden(err)
	if !everywhere {
		// Where the manifests put it.
		list, err = c.client.AppsV1().Deployments(names.Namespace).List(c.ctx, metav1.ListOptions{})
	}
	if !c.seen("Deployments, and so which schedulers there are (name a profile with --config)", err) {
		return
	}
	c.schedulersSeen = everywhere
	for i := range list.Items {
		deployment := &list.Items[i]
		if container := schedulerContainer(deployment); container != nil && ptr.Deref(deployment.Spec.Replicas, 1) > 0 {
			c.readScheduler(deployment, container)
		}
	}
}

// add takes note of a scheduler.
func (c *checker) add(s *runningScheduler) {
	c.schedulers = append(c.schedulers, s)
	c.report.Schedulers = append(c.report.Schedulers, served(s.object, s.profile))
}

// schedulerContainer returns the container that runs berth-scheduler, or nil: the one
// whose image has that name or, where the image was renamed and the Deployment carries the
// manifests' label, the one that is given a profile.
func schedulerContainer(deployment *appsv1.Deployment) *corev1.Container {
	containers := deployment.Spec.Template.Spec.Containers
	for i := range containers {
		image, _, _ := strings.Cut(path.Base(containers[i].Image), "@")
		if image, _, _ = strings.Cut(image, ":"); image == names.Scheduler {
			return &containers[i]
		}
	}
	for i := range containers {
		if deployment.Labels["app.kubernetes.io/name"] == names.Scheduler && configArgument(&containers[i]) != "" {
			return &containers[i]
		}
	}
	return nil
}

// readScheduler reads the profile of a Deployment.
func (c *checker) readScheduler(deployment *appsv1.Deployment, container *corev1.Container) {
	spec := &deployment.Spec.Template.Spec
	s := &runningScheduler{
		object: fmt.Sprintf("Deployment %s/%s", deployment.Namespace, deployment.Name), deployment: deployment.Name,
		account:   preflight.ServiceAccount(deployment.Namespace, spec.ServiceAccountName),
		available: deployment.Status.AvailableReplicas > 0,
		sole:      slices.ContainsFunc(slices.Concat(container.Command, container.Args), func(arg string) bool { return arg == "--"+SoleFlag || arg == "--"+SoleFlag+"=true" }),
	}
	defer func() {
		if s.profile == nil {
			c.schedulersSeen = false // whom it serves is not known
		}
	}()
	const argsField = "spec.template.spec.containers[].args"
	if !s.available {
		c.found(Finding{Error, s.object, "status.availableReplicas", "no replica is available, so none of its pods is scheduled", fmt.Sprintf("see kubectl -n %s describe deployment %s, and the log of its pods", deployment.Namespace, deployment.Name)})
	}
	file := configArgument(container)
	configMap, key, mounted := mountedFrom(spec, container, file)
	if !mounted {
		c.found(Finding{Warning, s.object, argsField, fmt.Sprintf("the profile --config=%s is not in a ConfigMap that is mounted there, and was not checked", file), "check a copy of it with --config FILE"})
		return
	}
	source := fmt.Sprintf("ConfigMap %s/%s", deployment.Namespace, configMap)
	object, err := c.client.CoreV1().ConfigMaps(deployment.Namespace).Get(c.ctx, configMap, metav1.GetOptions{})
	if c.notFound(err) {
		c.found(Finding{Error, s.object, "spec.template.spec.volumes", source + " does not exist, so its pods do not start", "apply the manifests again"})
		return
	}
	if !c.seen(source+", and so the profile of "+s.object, err) {
		return
	}
	content, ok := object.Data[key]
	if !ok {
		c.found(Finding{Error, source, fmt.Sprintf("data[%s]", key), fmt.Sprintf("is missing, and %s is started with it", s.object), "apply the manifests again, or name another file in --config"})
		return
	}
	source += ", " + key
	profile, err := Load(c.ctx, source, []byte(content))
	if err != nil {
		c.report.Findings = append(c.report.Findings, profileFindings(source, err)...)
		return
	}
	s.profile = profile
	c.add(s)
}

// configArgument returns the value of --config.
func configArgument(container *corev1.Container) string {
	args := slices.Concat(container.Command, container.Args)
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--config="); ok {
			return value
		}
		if arg == "--config" && i+1 < len(args) {
			return args[i+1]
		}
	}
	return ""
}

// mountedFrom returns the ConfigMap, and the key in it, from which a file of the container
// is.
func mountedFrom(spec *corev1.PodSpec, container *corev1.Container, file string) (configMap, key string, ok bool) {
	for _, mount := range container.VolumeMounts {
		if path.Dir(file) != path.Clean(mount.MountPath) {
			continue
		}
		for i := range spec.Volumes {
			if source := spec.Volumes[i].ConfigMap; spec.Volumes[i].Name == mount.Name && source != nil {
				return source.Name, path.Base(file), true
			}
		}
	}
	return "", "", false
}
