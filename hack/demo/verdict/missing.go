// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// missing returns a violation for everything that should be there to be judged
// and is not. Without it, an empty cluster would pass.
func (j *judge) missing() []string {
	var violations []string
	if len(j.pods) == 0 {
		violations = append(violations, "there are no pods to judge")
	}
	has := map[string]bool{}
	exists := map[podKey]bool{}
	for _, pod := range j.pods {
		has[pod.Spec.SchedulerName] = true
		exists[podKey{pod.Namespace, pod.Name}] = true
	}
	for _, name := range slices.Sorted(maps.Keys(j.schedulers)) {
		if !has[name] {
			violations = append(violations, fmt.Sprintf("no pod has schedulerName %q, so nothing shows what it does", name))
		}
	}
	for _, key := range slices.SortedFunc(maps.Keys(j.pending), podKey.compare) {
		if !exists[key] {
			violations = append(violations, fmt.Sprintf("pod %s, which must be pending, does not exist", key))
		}
	}
	for i := range j.cluster.Deployments {
		violations = append(violations, j.replicas(&j.cluster.Deployments[i])...)
	}
	return violations
}

// replicas returns a violation unless every replica of deployment is a judged
// pod with the scheduler that the deployment's template names.
func (j *judge) replicas(deployment *appsv1.Deployment) []string {
	what := fmt.Sprintf("deployment %s/%s", deployment.Namespace, deployment.Name)
	selector, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return []string{fmt.Sprintf("%s: spec.selector: %v", what, err)}
	}
	template := deployment.Spec.Template.Spec.SchedulerName
	var violations []string
	found := 0
	for _, pod := range j.pods {
		if pod.Namespace != deployment.Namespace || !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		found++
		if pod.Spec.SchedulerName != template {
			violations = append(violations, fmt.Sprintf("%s: its template names schedulerName %q, its pod %s has %q", what, template, pod.Name, pod.Spec.SchedulerName))
		}
	}
	want := 1 // what the API server defaults to
	if deployment.Spec.Replicas != nil {
		want = int(*deployment.Spec.Replicas)
	}
	if found != want {
		violations = append(violations, fmt.Sprintf("%s: wants %d pods and has %d", what, want, found))
	}
	return violations
}
