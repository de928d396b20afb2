// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"errors"
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/schedulers"
	"github.com/berth-scheduler/berth/pkg/scheduler/preflight"
	"github.com/berth-scheduler/berth/pkg/scheduler/settings"
)

// runningScheduler is a berth-scheduler of the cluster, or one whose profile is given.
type runningScheduler struct {
	// object is the Deployment, or the file of the profile.
	object  string
	profile *settings.Profile
	// account is who it is for the API server; the caller if that is all that is known.
	account preflight.Subject
	// namespace and deployment are the Deployment's; empty without one. available is whether it has
	// a replica that is ready, or that is not known.
	namespace, deployment string
	available             bool
	// written is whether it stands in a file and not in a cluster, so that nothing of it can
	// run yet.
	written bool
	// replicas are those that are wanted.
	replicas int32
	// by is how it was installed.
	by installation
}

// sole reports whether its flags say that no other scheduler serves default-scheduler.
func (s *runningScheduler) sole() bool {
	return s.profile.Flags != nil && s.profile.Flags.SoleDefaultScheduler
}

// findSchedulers finds the Deployments of berth-scheduler and reads the profiles that they
// mount.
func (c *checker) findSchedulers() {
	if c.options.Profile != nil {
		c.add(&runningScheduler{object: c.options.Profile.Source, profile: c.options.Profile, available: true, replicas: 1})
		return
	}
	list, err := c.client.AppsV1().Deployments(metav1.NamespaceAll).List(c.ctx, metav1.ListOptions{})
	everywhere := !apierrors.IsForbidden(err)
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
		if container := schedulerContainer(deployment.Labels, &deployment.Spec.Template.Spec); container != nil {
			c.readScheduler(deployment, container)
		}
	}
	if c.options.Files != nil && len(c.schedulers) == 0 {
		c.schedulersSeen = false // they are those of the cluster that the files are for
	}
}

// add takes note of a scheduler.
func (c *checker) add(s *runningScheduler) {
	c.schedulers = append(c.schedulers, s)
	c.report.Schedulers = append(c.report.Schedulers, served(s.object, s.profile))
}

// schedulerContainer returns the container that runs berth-scheduler in a pod with such
// labels, or nil: the one whose image has that name or, where the image was renamed and the
// labels are the manifests', the one that is given a profile.
func schedulerContainer(labels map[string]string, spec *corev1.PodSpec) *corev1.Container {
	for i := range spec.Containers {
		image, _, _ := strings.Cut(path.Base(spec.Containers[i].Image), "@")
		if image, _, _ = strings.Cut(image, ":"); image == names.Scheduler {
			return &spec.Containers[i]
		}
	}
	for i := range spec.Containers {
		if labels["app.kubernetes.io/name"] == names.Scheduler && schedulers.Flag(&spec.Containers[i], schedulers.ConfigFlag) != "" {
			return &spec.Containers[i]
		}
	}
	return nil
}

// readScheduler reads the profile of a Deployment.
func (c *checker) readScheduler(deployment *appsv1.Deployment, container *corev1.Container) {
	spec := &deployment.Spec.Template.Spec
	s := &runningScheduler{
		object: fmt.Sprintf("Deployment %s/%s", deployment.Namespace, deployment.Name), namespace: deployment.Namespace, deployment: deployment.Name,
		account:   preflight.ServiceAccount(deployment.Namespace, spec.ServiceAccountName),
		available: deployment.Status.AvailableReplicas > 0,
		written:   deployment.UID == "",
		replicas:  ptr.Deref(deployment.Spec.Replicas, 1),
		by:        installationOf(deployment),
	}
	defer func() {
		if s.profile == nil {
			c.schedulersSeen = false // whom it serves is not known
		}
	}()
	c.checkRunning(s, deployment)
	started := schedulers.ReadContainer(spec, container)
	if !c.checkFlags(s, &started) {
		return
	}
	if started.ConfigMap == "" {
		c.found(Finding{Warning, s.object, argsField, fmt.Sprintf("the profile --config=%s is not in a ConfigMap that is mounted there, and was not checked", started.File), "check a copy of it with --config FILE"})
		return
	}
	source := fmt.Sprintf("ConfigMap %s/%s", deployment.Namespace, started.ConfigMap)
	object, err := c.client.CoreV1().ConfigMaps(deployment.Namespace).Get(c.ctx, started.ConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		c.found(Finding{Error, s.object, "spec.template.spec.volumes", source + " does not exist, so its pods do not start", s.by.or("apply the manifests again", s.by.upgrade(""))})
		return
	}
	if !c.seen(source+", and so the profile of "+s.object, err) {
		return
	}
	content, ok := schedulers.Content(object, started.Key)
	if !ok {
		c.found(Finding{Error, source, fmt.Sprintf("data[%s]", started.Key), fmt.Sprintf("is missing, and %s is started with it", s.object), s.by.or("apply the manifests again, or name another file in --config", s.by.upgrade(""))})
		return
	}
	source += ", " + started.Key
	profile, err := settings.Load(c.ctx, source, content, started.Flags)
	if err != nil {
		c.report.Findings = append(c.report.Findings, profileFindings(started.Flags.Source(source), err)...)
		return
	}
	s.profile = profile
	c.add(s)
}

// checkFlags finds flags with which the container's process does not start, and reports
// whether the file that --config names can be checked all the same.
func (c *checker) checkFlags(s *runningScheduler, started *schedulers.Started) bool {
	err := started.FlagsErr
	if errors.Is(err, schedulers.ErrUnknownFlags) {
		c.report.NotSeen = append(c.report.NotSeen, fmt.Sprintf("the flags of %s: its command line is not known before it starts", s.object))
		return true
	}
	if err == nil && started.File == "" {
		err = settings.ErrNoConfig
	}
	if err != nil {
		c.found(Finding{Error, s.object, argsField, err.Error() + ", so its pods do not start", "correct the flag: berth-scheduler --help lists all flags"})
	}
	return started.File != ""
}

// argsField is where the flags of a Deployment's container stand.
const argsField = "spec.template.spec.containers[].args"

// checkRunning tells that nothing of the Deployment runs.
func (c *checker) checkRunning(s *runningScheduler, deployment *appsv1.Deployment) {
	switch {
	case s.replicas == 0:
		c.found(Finding{
			Warning, s.object, "spec.replicas", "is 0: the scheduler is switched off, and none of its pods is scheduled",
			s.by.or(fmt.Sprintf("start it with kubectl -n %s scale deployment %s --replicas=1, or delete it", deployment.Namespace, deployment.Name), s.by.upgrade("replicas")+", or uninstall the release"),
		})
	case !s.available && !s.written:
		c.found(Finding{
			Error, s.object, "status.availableReplicas", "no replica is available, so none of its pods is scheduled",
			fmt.Sprintf("see kubectl -n %s describe deployment %s, and the log of its pods", deployment.Namespace, deployment.Name),
		})
	}
}
