// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// servicePort is the port of every Service.
const servicePort = 80

// objectName is the name of a copy's Deployment and Service.
func objectName(app *Application, copied int, service *Service) string {
	return fmt.Sprintf("%s-%d-%s", app.Name, copied, service.Name)
}

// colocationTerm is a service to be near, with the weight that the annotation gives it.
type colocationTerm struct {
	service *Service
	weight  int
}

// writeApplication writes out all copies of an application: Services, Deployments
// and pods.
func (w *writer) writeApplication(app *Application) error {
	terms, err := termsOf(app)
	if err != nil {
		return err
	}
	for copied := range *app.Copies {
		for i := range app.Services {
			service := &app.Services[i]
			deployment := writeDeployment(app, copied, service)
			annotate(&deployment.Spec.Template, app, copied, terms[i])
			w.plan.Deployments = append(w.plan.Deployments, deployment)
			w.plan.Services = append(w.plan.Services, writeService(deployment.Name))
			group := &Group{Name: deployment.Name}
			for replica := range *service.Replicas {
				w.arrive(named(&deployment.Spec.Template, podName(deployment.Name, replica)), group, nil)
			}
		}
	}
	return nil
}

// writeDeployment writes out a Deployment whose container names the Services that it
// calls as Online Boutique's do, in environment variables.
func writeDeployment(app *Application, copied int, service *Service) appsv1.Deployment {
	name := objectName(app, copied, service)
	labels := map[string]string{appLabel: name}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: name}}
	pod := template(labels, nil, requests(service.CPU, service.Memory), nil)
	for _, callee := range service.Calls {
		pod.Spec.Containers[0].Env = append(pod.Spec.Containers[0].Env, corev1.EnvVar{
			Name:  strings.ToUpper(strings.ReplaceAll(callee, "-", "_")) + "_ADDR",
			Value: fmt.Sprintf("%s:%d", objectName(app, copied, &Service{Name: callee}), servicePort),
		})
	}
	if app.SpreadOverZones {
		pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: selector,
		}}
	}
	return appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       appsv1.DeploymentSpec{Replicas: ptr.To(int32(*service.Replicas)), Selector: selector, Template: pod},
	}
}

// writeService writes out the Service in front of a Deployment. It is headless: a
// cluster has cluster IPs for some thousand only, and no call is made. Who is called
// by nobody has one, too, so that its callees can ask to be near it.
func writeService(name string) corev1.Service {
	return corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{appLabel: name}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone,
			Selector:  map[string]string{appLabel: name},
			Ports:     []corev1.ServicePort{{Port: servicePort, TargetPort: intstr.FromInt32(servicePort)}},
		},
	}
}

// annotate has a pod name the services that it wants to be near.
func annotate(pod *corev1.PodTemplateSpec, app *Application, copied int, terms []colocationTerm) {
	if len(terms) == 0 {
		return
	}
	var services []string
	for _, term := range terms {
		services = append(services, fmt.Sprintf("%s=%d", objectName(app, copied, term.service), term.weight))
	}
	pod.Annotations = map[string]string{names.ColocateWithAnnotation: strings.Join(services, ",")}
	if len(app.ColocatePrefer) > 0 {
		pod.Annotations[names.ColocateTopologyKeysAnnotation] = strings.Join(app.ColocatePrefer, ",")
	}
}

// termsOf returns what each service's pods want to be near; all copies want the
// same.
func termsOf(app *Application) ([][]colocationTerm, error) {
	terms := make([][]colocationTerm, len(app.Services))
	if app.Colocate == Nobody {
		return terms, nil
	}
	byName := map[string]*Service{}
	var deployments []appsv1.Deployment
	var services []corev1.Service
	for i := range app.Services {
		deployment := writeDeployment(app, 0, &app.Services[i])
		byName[deployment.Name] = &app.Services[i]
		deployments = append(deployments, deployment)
		services = append(services, writeService(deployment.Name))
	}
	graph, err := callgraph.Read(deployments, services)
	if err != nil {
		return nil, err
	}
	for i := range deployments {
		neighbours, err := graph.Neighbours(types.NamespacedName{Name: deployments[i].Name})
		if err != nil {
			return nil, err
		}
		for _, neighbour := range neighbours {
			service := byName[neighbour.Service.Name]
			if app.Colocate == Callees && !slices.Contains(app.Services[i].Calls, service.Name) {
				continue
			}
			// Two that call each other share up to two calls for each.
			weight := min(100, max(1, int(math.Round(100*neighbour.Calls))))
			terms[i] = append(terms[i], colocationTerm{service, weight})
		}
	}
	return terms, nil
}

// neighboursOf returns the names of the services that a service's pods would be near.
func neighboursOf(app *Application, service *Service) []string {
	found := slices.Clone(service.Calls)
	if app.Colocate == Neighbours {
		for i := range app.Services {
			other := &app.Services[i]
			if slices.Contains(other.Calls, service.Name) && !slices.Contains(found, other.Name) {
				found = append(found, other.Name)
			}
		}
	}
	return found
}
