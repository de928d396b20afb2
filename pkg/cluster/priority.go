// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"k8s.io/utils/ptr"
)

// PriorityClasses are the PriorityClasses of a cluster by their names, those that every API
// server makes by itself included.
type PriorityClasses map[string]*schedulingv1.PriorityClass

// PriorityClasses returns those of the cluster.
func (c *Cluster) PriorityClasses() PriorityClasses {
	classes := PriorityClasses{}
	// pkg/apis/scheduling/v1/helpers.go
	for name, value := range map[string]int32{
		scheduling.SystemClusterCritical: scheduling.SystemCriticalPriority,
		scheduling.SystemNodeCritical:    scheduling.SystemCriticalPriority + 1000,
	} {
		classes[name] = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	}
	for _, object := range c.others {
		if class, ok := object.(*schedulingv1.PriorityClass); ok {
			classes[class.Name] = class
		}
	}
	return classes
}

// Admit gives a pod written by hand the priority and the preemption policy of
// its PriorityClass or, if it names none, of the global default, as the admission plugin
// Priority of an API server does (plugin/pkg/admission/priority). The error is that the
// class is not there, or that the pod says another priority than its class: an API server
// with these classes refuses the pod, which is left as it is.
func (classes PriorityClasses) Admit(pod *corev1.Pod) error {
	name := pod.Spec.PriorityClassName
	class := classes[name]
	if name == "" {
		class = classes.globalDefault()
	}
	switch {
	case class == nil && name == "":
		return nil
	case class == nil:
		return fmt.Errorf("spec.priorityClassName: there is no PriorityClass %q: create it, or name another", name)
	case pod.Spec.Priority != nil && *pod.Spec.Priority != class.Value:
		return fmt.Errorf("spec.priority: is %d, and PriorityClass %q has %d: remove the field", *pod.Spec.Priority, class.Name, class.Value)
	}
	pod.Spec.PriorityClassName, pod.Spec.Priority = class.Name, ptr.To(class.Value)
	if pod.Spec.PreemptionPolicy == nil && class.PreemptionPolicy != nil {
		pod.Spec.PreemptionPolicy = ptr.To(*class.PreemptionPolicy)
	}
	return nil
}

// globalDefault returns the class of pods that name none: of several that one of the least
// value, as the admission plugin has it; nil if there is none.
func (classes PriorityClasses) globalDefault() *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, class := range classes {
		if class.GlobalDefault && (found == nil || class.Value < found.Value || class.Value == found.Value && class.Name < found.Name) {
			found = class
		}
	}
	return found
}

// setPriorities admits the pods written by hand, and notes which an API server would refuse.
func (r *Reader) setPriorities(c *Cluster) []Note {
	classes := c.PriorityClasses()
	classes.AdmitPodGroups(c)
	told := map[Note]bool{}
	var notes []Note
	for i := range r.written {
		pod, ok := r.written[i].object.(*corev1.Pod)
		if !ok || !IsWritten(pod) {
			continue
		}
		err := classes.Admit(pod)
		if err == nil || pod.Spec.NodeName != "" {
			continue
		}
		name := "Pod " + pod.Namespace + "/" + pod.Name
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			name = owner.Kind + " " + pod.Namespace + "/" + owner.Name
		}
		note := Note{Source: r.written[i].place.file, Text: fmt.Sprintf("%s: %v (it is placed with priority %d)", name, err, ptr.Deref(pod.Spec.Priority, 0))}
		if !told[note] {
			told[note] = true
			notes = append(notes, note)
		}
	}
	return notes
}
