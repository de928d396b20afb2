// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

const (
	// shopNamespace has the shop, split over the schedulers. nearNamespace and
	// nearStockNamespace have it once more, three pods of each Deployment: the one placed
	// by Colocation, the other by stock kube-scheduler.
	shopNamespace      = "shop"
	nearNamespace      = "near"
	nearStockNamespace = "near-stock"
	// ruleLabel is what the rule in berth-scheduler.yaml requires of the nodes of the
	// namespaces with the label selectable. The oracle is told here and does not read that file.
	ruleLabel = "selectable"
)

// schedulerNames are the spec.schedulerName values that the demo deals out, in this order.
var schedulerNames = []string{corev1.DefaultSchedulerName, names.Scheduler, names.RandomScheduler}

// comparison are the namespaces whose calls are counted, with who places their pods.
var comparison = []struct{ namespace, scheduler string }{
	{nearStockNamespace, corev1.DefaultSchedulerName},
	{nearNamespace, names.Scheduler},
}

// namespaces are those of namespaces.yaml.
var namespaces = []string{"policy", "gpu", shopNamespace, nearNamespace, nearStockNamespace}

// expectation is what the oracle holds the pods against.
var expectation = &oracle.Expectation{
	Namespaces: namespaces,
	Schedulers: []oracle.Scheduler{
		{Name: corev1.DefaultSchedulerName},
		{Name: names.Scheduler, NodeLabels: []string{ruleLabel}, Namespaces: []string{"policy", shopNamespace}},
		{Name: names.RandomScheduler},
	},
	Pending: []oracle.Pending{
		{Pod: "policy/gpu-in-zone-c", Cause: ruleLabel},
		{Pod: "gpu/too-large", Cause: names.GPUMemoryResource},
	},
}

// applyWorkloads applies the policy example, the pods with shares of devices, and the
// shop: split over the schedulers, and twice more, to the scheduler that knows who talks
// to whom and to the one that does not.
func (d *demo) applyWorkloads(ctx context.Context) error {
	d.step("applying the policy example (hack/demo/policy.yaml) and pods with shares of GPUs (hack/demo/gpu.yaml)")
	if err := d.kubectl(ctx, "", "apply", "--server-side", "-f", "hack/demo/policy.yaml", "-f", "hack/demo/gpu.yaml"); err != nil {
		return err
	}
	manifests, dealt, err := split(d.shop, schedulerNames)
	if err != nil {
		return err
	}
	d.step("applying the Deployments of %s: %s", d.shop, dealt)
	if err := d.kubectl(ctx, manifests, "apply", "--server-side", "-n", shopNamespace, "-f", "-"); err != nil {
		return err
	}
	d.step("applying them twice more, 3 pods each, one in each zone: by %s near the Services that they talk to, and by %s", names.Scheduler, corev1.DefaultSchedulerName)
	for _, side := range comparison {
		manifests, err := spread(d.shop, side.scheduler)
		if err != nil {
			return err
		}
		if err := d.kubectl(ctx, manifests, "apply", "--server-side", "-n", side.namespace, "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// split gives each Deployment of a file the next of the schedulers by turns. It returns
// the manifests, and in words how many each was given.
func split(file string, schedulers []string) (manifests, dealt string, err error) {
	counts, next := map[string]int{}, 0
	manifests, err = change(file, func(deployment *appsv1.Deployment, _ *callgraph.Graph) error {
		name := schedulers[next%len(schedulers)]
		deployment.Spec.Template.Spec.SchedulerName = name
		counts[name]++
		next++
		return nil
	})
	if err == nil && next < len(schedulers) {
		err = fmt.Errorf("%s: has %d Deployments, and %d are needed to give each scheduler one", file, next, len(schedulers))
	}
	var parts []string
	for _, name := range schedulers {
		parts = append(parts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	return manifests, strings.Join(parts, ", "), err
}

// spread gives all Deployments of a file to one scheduler, with three pods each that are
// spread over the zones. The pods of berth-scheduler name the Services that they talk to,
// each with the part of the calls that goes there, in hundredths.
func spread(file, scheduler string) (manifests string, err error) {
	return change(file, func(deployment *appsv1.Deployment, graph *callgraph.Graph) error {
		deployment.Spec.Replicas = new(int32(3))
		template := &deployment.Spec.Template
		template.Spec.SchedulerName = scheduler
		template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: deployment.Spec.Selector,
		}}
		if scheduler != names.Scheduler {
			return nil
		}
		neighbours, err := graph.Neighbours(types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name})
		var services []string
		for _, n := range neighbours {
			services = append(services, fmt.Sprintf("%s=%d", n.Service.Name, min(100, int(math.Round(100*n.Calls)))))
		}
		if len(services) > 0 {
			metav1.SetMetaDataAnnotation(&template.ObjectMeta, names.ColocateWithAnnotation, strings.Join(services, ","))
		}
		return err
	})
}

// change reads manifests, changes each Deployment, and returns them as one List,
// Deployments last so that what their pods refer to is there first. The graph says who
// calls whom.
func change(file string, changeOne func(*appsv1.Deployment, *callgraph.Graph) error) (manifests string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", file, err)
		}
	}()
	infos, err := resource.NewLocalBuilder().Unstructured().FilenameParam(false, &resource.FilenameOptions{Filenames: []string{file}}).Flatten().Do().Infos()
	if err != nil {
		return "", err
	}
	var objects []any
	var deployments []appsv1.Deployment
	var services []corev1.Service
	for _, info := range infos {
		object := info.Object.(*unstructured.Unstructured)
		var deployment appsv1.Deployment
		var service corev1.Service
		switch object.GroupVersionKind().GroupKind().String() {
		case "Deployment.apps":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment)
			deployments = append(deployments, deployment)
		case "Service":
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &service)
			services = append(services, service)
			objects = append(objects, object)
		default:
			objects = append(objects, object)
		}
		if err != nil {
			return "", fmt.Errorf("%s %s: %w", object.GetKind(), info.Name, err)
		}
	}
	graph, err := callgraph.Read(deployments, services)
	if err != nil {
		return "", err
	}
	for i := range deployments {
		if err := changeOne(&deployments[i], graph); err != nil {
			return "", err
		}
		objects = append(objects, &deployments[i])
	}
	content, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	return string(content), err
}
