// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"path"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	_ "k8s.io/kubernetes/pkg/features" // the feature gates that a scheduler has
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/preflight"
	"github.com/berth-scheduler/berth/pkg/startedwith"
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
	// written is whether it stands in a file and not in a cluster, so that nothing of it can
	// run yet.
	written bool
	// enabled says which feature gates are on.
	enabled func(featuregate.Feature) bool
	// by is how it was installed.
	by installation
	// sole is whether it was told that nobody else serves default-scheduler.
	sole bool
}

// findSchedulers finds the Deployments of berth-scheduler and reads the profiles that they
// mount.
func (c *checker) findSchedulers() {
	if c.options.Profile != nil {
		c.add(&runningScheduler{object: c.options.Profile.Source, profile: c.options.Profile, available: true, enabled: utilfeature.DefaultFeatureGate.Enabled})
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
		if container := schedulerContainer(deployment); container != nil {
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
		if deployment.Labels["app.kubernetes.io/name"] == names.Scheduler && startedwith.Flag(&containers[i], startedwith.ConfigFlag) != "" {
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
		sole:      startedwith.IsSet(container, SoleFlag),
		written:   deployment.UID == "",
		by:        installationOf(deployment),
	}
	s.enabled = c.gates(s.object, container)
	defer func() {
		if s.profile == nil {
			c.schedulersSeen = false // whom it serves is not known
		}
	}()
	c.checkRunning(s, deployment)
	file := startedwith.Flag(container, startedwith.ConfigFlag)
	configMap, key, mounted := startedwith.ConfigMap(spec, container, file)
	if !mounted {
		c.found(Finding{Warning, s.object, argsField, fmt.Sprintf("the profile --config=%s is not in a ConfigMap that is mounted there, and was not checked", file), "check a copy of it with --config FILE"})
		return
	}
	source := fmt.Sprintf("ConfigMap %s/%s", deployment.Namespace, configMap)
	object, err := c.client.CoreV1().ConfigMaps(deployment.Namespace).Get(c.ctx, configMap, metav1.GetOptions{})
	if c.notFound(err) {
		c.found(Finding{Error, s.object, "spec.template.spec.volumes", source + " does not exist, so its pods do not start", s.by.or("apply the manifests again", s.by.upgrade(""))})
		return
	}
	if !c.seen(source+", and so the profile of "+s.object, err) {
		return
	}
	content, ok := startedwith.Content(object, key)
	if !ok {
		c.found(Finding{Error, source, fmt.Sprintf("data[%s]", key), fmt.Sprintf("is missing, and %s is started with it", s.object), s.by.or("apply the manifests again, or name another file in --config", s.by.upgrade(""))})
		return
	}
	source += ", " + key
	profile, err := Load(c.ctx, source, content)
	if err != nil {
		c.report.Findings = append(c.report.Findings, profileFindings(source, err)...)
		return
	}
	s.profile = profile
	c.add(s)
}

// argsField is where the flags of a Deployment's container stand.
const argsField = "spec.template.spec.containers[].args"

// checkRunning tells that nothing of the Deployment runs.
func (c *checker) checkRunning(s *runningScheduler, deployment *appsv1.Deployment) {
	switch {
	case ptr.Deref(deployment.Spec.Replicas, 1) == 0:
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

// gates returns which feature gates are on in a container of kube-scheduler's command.
func (c *checker) gates(object string, container *corev1.Container) func(featuregate.Feature) bool {
	gates := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	for _, value := range startedwith.Flags(container, "feature-gates") {
		if err := gates.Set(value); err != nil {
			c.found(Finding{Error, object, argsField, fmt.Sprintf("--feature-gates=%s: %v, so its pods do not start", value, err), "correct the name or the value of the gate"})
		}
	}
	return gates.Enabled
}
