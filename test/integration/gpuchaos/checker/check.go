// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package checker

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Result is what Check found.
type Result struct {
	// Problems are sorted by kind and object.
	Problems Problems
	// Allocated is how many thousandths of devices pods hold, by model in lower
	// case. Models of which none is held are there too, with 0.
	Allocated map[string]int64
	// Bound and Pending count the pods with shares that have a node and those that
	// have not; terminated ones count as neither.
	Bound, Pending int
	// Blocked are the nodes with a pod that uses devices without a record of which,
	// whether or not they share any.
	Blocked sets.Set[string]
}

// device is one device while sums are made.
type device struct {
	held amount
	pods []string
}

// Check judges the state that the two lists show. They must be of one moment, or
// of a time in which nothing changes. Pods without shares are not looked at.
func Check(nodes []corev1.Node, pods []corev1.Pod) Result {
	r := Result{Allocated: map[string]int64{}, Blocked: sets.New[string]()}
	boards := map[string]board{}
	devices := map[string][]device{}
	for i := range nodes {
		if b, ok := readNode(&nodes[i]); ok {
			boards[nodes[i].Name], devices[nodes[i].Name] = b, make([]device, b.devices)
			r.Allocated[b.model] += 0
		}
	}
	var pending []*corev1.Pod
	for i := range pods {
		pod := &pods[i]
		wants := readWants(pod)
		if len(wants) == 0 || over(pod) {
			continue
		}
		r.Problems = append(r.Problems, torn(pod)...)
		if pod.Spec.NodeName == "" {
			r.Pending++
			pending = append(pending, pod)
			continue
		}
		r.Bound++
		b, ok := boards[pod.Spec.NodeName]
		if !ok {
			if _, err := readRecord(pod); err != nil {
				r.Blocked.Insert(pod.Spec.NodeName)
			}
			r.Problems = append(r.Problems, Problem{Kind: WrongNode, Object: nameOf(pod), Detail: "is on node " + pod.Spec.NodeName + ", which shares no devices"})
			continue
		}
		record, problems := checkRecord(pod, wants, b)
		r.Problems = append(r.Problems, problems...)
		if len(problems) > 0 {
			r.Blocked.Insert(pod.Spec.NodeName)
		}
		for index, a := range holds(wants, record) {
			if index < b.devices {
				d := &devices[pod.Spec.NodeName][index]
				d.held = amount{d.held.milli + a.milli, d.held.mib + a.mib}
				d.pods = append(d.pods, nameOf(pod))
			}
			r.Allocated[b.model] += a.milli
		}
	}
	for node, b := range boards {
		r.Problems = append(r.Problems, overcommitted(node, b, devices[node])...)
	}
	for _, pod := range pending {
		r.Problems = append(r.Problems, checkPending(pod, boards, devices, r.Blocked)...)
	}
	r.Problems.sorted()
	return r
}

// overcommitted returns the devices of a node of which more is held than there is.
func overcommitted(node string, b board, devices []device) Problems {
	var problems Problems
	for i, d := range devices {
		if d.held.milli > whole || d.held.mib > b.mib {
			slices.Sort(d.pods)
			problems = append(problems, Problem{
				Kind: Overcommitted, Object: fmt.Sprintf("%s/%d", node, i), Pods: d.pods,
				Detail: fmt.Sprintf("%dm of %dm and %dMi of %dMi are held", d.held.milli, whole, d.held.mib, b.mib),
			})
		}
	}
	return problems
}

// checkRecord compares what a bound pod was given with what it asks for. With a
// problem it returns no record.
func checkRecord(pod *corev1.Pod, wants []want, b board) (map[string]given, Problems) {
	record, err := readRecord(pod)
	if err != nil {
		return nil, Problems{{Kind: Unrecorded, Object: nameOf(pod), Detail: err.Error()}}
	}
	wrong := func(format string, args ...any) (map[string]given, Problems) {
		return nil, Problems{{Kind: WrongRecord, Object: nameOf(pod), Detail: fmt.Sprintf(format, args...)}}
	}
	if len(record) != len(wants) {
		return wrong("%d containers ask and %d were given devices", len(wants), len(record))
	}
	for _, w := range wants {
		g, ok := record[w.container]
		distinct := sets.New(g.devices...)
		switch {
		case !ok:
			return wrong("container %s asks and was given nothing", w.container)
		case len(g.devices) != w.devices() || distinct.Len() != w.devices():
			return wrong("container %s was given devices %v and asks for %d", w.container, g.devices, w.devices())
		case slices.Max(g.devices) >= b.devices:
			return wrong("container %s was given devices %v of %d", w.container, g.devices, b.devices)
		case g.amount != w.of(b):
			return wrong("container %s was given %v and asks for %v", w.container, g.amount, w.of(b))
		}
	}
	return record, nil
}

// checkPending finds out whether somebody says why the pod waits, and whether it
// waits for nothing.
func checkPending(pod *corev1.Pod, boards map[string]board, devices map[string][]device, blocked sets.Set[string]) Problems {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	var problems Problems
	said := false
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason != "" && condition.Message != "" {
			said = true
		}
	}
	if !said {
		problems = append(problems, Problem{Kind: Silent, Object: nameOf(pod), Detail: "has no node, and no condition says why"})
	}
	for _, node := range slices.Sorted(maps.Keys(boards)) {
		if !blocked.Has(node) && hasRoom(readWants(pod), boards[node], devices[node]) {
			return append(problems, Problem{Kind: Stranded, Object: nameOf(pod), Detail: "has no node, and node " + node + " has room for it"})
		}
	}
	return problems
}

// hasRoom reports whether the wants fit beside each other, container by container
// on the first devices that have room. With several containers it may say no
// where another choice would fit, and never yes where none does.
func hasRoom(wants []want, b board, devices []device) bool {
	free := make([]amount, len(devices))
	for i, d := range devices {
		free[i] = amount{whole - d.held.milli, b.mib - d.held.mib}
	}
	for _, w := range wants {
		a := w.of(b)
		missing := w.devices()
		for i := range free {
			if missing > 0 && !b.cordoned[i] && free[i].milli >= a.milli && free[i].mib >= a.mib {
				free[i] = amount{free[i].milli - a.milli, free[i].mib - a.mib}
				missing--
			}
		}
		if missing > 0 {
			return false
		}
	}
	return true
}

// CheckLost compares what a test has created and not deleted with what is there.
// A pod of the right name and another UID does not count.
func CheckLost(created map[string]string, pods []corev1.Pod) Problems {
	there := map[string]string{}
	for i := range pods {
		there[nameOf(&pods[i])] = string(pods[i].UID)
	}
	var problems Problems
	for _, name := range slices.Sorted(maps.Keys(created)) {
		if there[name] != created[name] {
			problems = append(problems, Problem{Kind: Lost, Object: name, Detail: fmt.Sprintf("was created with UID %s; there is %q", created[name], there[name])})
		}
	}
	return problems
}
