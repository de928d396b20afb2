// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// nearReplicas is how many pods of each Deployment there are where calls are
// counted: one in each zone of nodes.yaml.
const nearReplicas = 3

// sides are whose placements are compared.
var sides = []struct{ namespace, scheduler string }{
	{besideNamespace, corev1.DefaultSchedulerName},
	{nearNamespace, names.Scheduler},
}

// applyNear applies the shop twice more, to the scheduler that knows who talks to
// whom and to the one that does not.
func (d *demo) applyNear(ctx context.Context, content []byte) error {
	d.step("applying them twice more, %d pods each, one in each zone: by %s near the Services that they talk to, and by %s",
		nearReplicas, names.Scheduler, corev1.DefaultSchedulerName)
	for _, side := range sides {
		manifests, err := spreadOut(content, side.scheduler)
		if err != nil {
			return fmt.Errorf("%s: %w", d.shop, err)
		}
		if err := d.kubectl(ctx, manifests, "apply", "--server-side", "-n", side.namespace, "-f", "-"); err != nil {
			return err
		}
	}
	return nil
}

// spreadOut decodes manifests, gives all Deployments to one scheduler, with three
// pods each that are spread over the zones, and returns them as encode does. The
// pods of berth-scheduler name the Services that they talk to.
func spreadOut(content []byte, scheduler string) ([]byte, error) {
	objects, err := decode(content)
	if err != nil {
		return nil, err
	}
	graph, err := readGraph(objects)
	if err != nil {
		return nil, err
	}
	for i, object := range objects {
		if !isDeployment(object) {
			continue
		}
		var deployment appsv1.Deployment
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
			return nil, fmt.Errorf("deployment %s: %w", object.GetName(), err)
		}
		deployment.Spec.Replicas = new(int32)
		*deployment.Spec.Replicas = nearReplicas
		template := &deployment.Spec.Template
		template.Spec.SchedulerName = scheduler
		template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: deployment.Spec.Selector,
		}}
		if scheduler == names.Scheduler {
			neighbours, err := graph.Neighbours(types.NamespacedName{Namespace: deployment.Namespace, Name: deployment.Name})
			if err != nil {
				return nil, err
			}
			colocate(template, neighbours)
		}
		changed, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&deployment)
		if err != nil {
			return nil, fmt.Errorf("deployment %s: %w", object.GetName(), err)
		}
		// Fields that only the API server may fill in.
		unstructured.RemoveNestedField(changed, "status")
		objects[i] = &unstructured.Unstructured{Object: changed}
	}
	return encode(objects)
}

// colocate has the pods of a template name the Services that they talk to, each
// with the part of the calls that goes there, in hundredths.
func colocate(template *corev1.PodTemplateSpec, neighbours []callgraph.Neighbour) {
	if len(neighbours) == 0 {
		return
	}
	var services []string
	for _, n := range neighbours {
		services = append(services, fmt.Sprintf("%s=%d", n.Service.Name, min(100, int(math.Round(100*n.Calls)))))
	}
	if template.Annotations == nil {
		template.Annotations = map[string]string{}
	}
	template.Annotations[names.ColocateWithAnnotation] = strings.Join(services, ",")
}

// readGraph finds out from manifests who calls whom.
func readGraph(objects []*unstructured.Unstructured) (*callgraph.Graph, error) {
	var deployments []appsv1.Deployment
	var services []corev1.Service
	for _, object := range objects {
		var err error
		switch {
		case isDeployment(object):
			deployments = append(deployments, appsv1.Deployment{})
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployments[len(deployments)-1])
		case object.GroupVersionKind() == corev1.SchemeGroupVersion.WithKind("Service"):
			services = append(services, corev1.Service{})
			err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &services[len(services)-1])
		}
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return callgraph.Read(deployments, services)
}

// ofNamespaces returns the cluster with the Deployments of some namespaces alone.
func ofNamespaces(cluster *verdict.Cluster, namespaces []string) *verdict.Cluster {
	part := *cluster
	part.Deployments = slices.DeleteFunc(slices.Clone(cluster.Deployments), func(deployment appsv1.Deployment) bool {
		return !slices.Contains(namespaces, deployment.Namespace)
	})
	return &part
}

// callRow is what became of the calls of one namespace's pods.
type callRow struct {
	namespace, scheduler string
	shares               map[callgraph.Routing]callgraph.Share
	// problem is why there are no shares: a pod that does not run, for example.
	problem error
}

// countCalls counts the calls of both namespaces' pods that stay near.
func countCalls(cluster *verdict.Cluster, services []corev1.Service) []callRow {
	var rows []callRow
	for _, side := range sides {
		graph, err := callgraph.Read(ofNamespaces(cluster, []string{side.namespace}).Deployments, services)
		row := callRow{namespace: side.namespace, scheduler: side.scheduler, shares: map[callgraph.Routing]callgraph.Share{}, problem: err}
		for _, routing := range callgraph.Routings() {
			if row.problem == nil {
				row.shares[routing], row.problem = graph.Share(callgraph.Placement{Pods: cluster.Pods, Nodes: cluster.Nodes}, routing)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// printCalls prints how many of the calls stay near, by who placed the pods.
func (d *demo) printCalls(ctx context.Context, cluster *verdict.Cluster) error {
	services, err := d.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	printCallTable(d.out, countCalls(cluster, services.Items))
	return nil
}
