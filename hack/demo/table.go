// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
)

// shownLabels are the node labels that the demo's rules are about.
var shownLabels = []string{ruleLabel, "device"}

// printNodes prints the nodes, and how many pods of each scheduler they have.
func printNodes(out io.Writer, cluster *verdict.Cluster) {
	fmt.Fprintln(out, "\nThe nodes, and how many pods each scheduler put there:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := []string{"NODE", "ZONE"}
	for _, key := range shownLabels {
		header = append(header, strings.ToUpper(key))
	}
	header = append(header, "TAINTS")
	header = append(header, schedulerNames...)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for i := range cluster.Nodes {
		node := &cluster.Nodes[i]
		row := []string{node.Name, cmp.Or(node.Labels[corev1.LabelTopologyZone], "-")}
		for _, key := range shownLabels {
			row = append(row, labelCell(node, key))
		}
		var taints []string
		for k := range node.Spec.Taints {
			taints = append(taints, node.Spec.Taints[k].ToString())
		}
		row = append(row, cmp.Or(strings.Join(taints, ","), "-"))
		for _, name := range schedulerNames {
			row = append(row, strconv.Itoa(podsOn(cluster, node.Name, name)))
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // nobody is left to tell about a failure
}

// labelCell returns what stands for a label in the table. A label without a value
// is a label all the same.
func labelCell(node *corev1.Node, key string) string {
	value, has := node.Labels[key]
	switch {
	case !has:
		return "-"
	case value == "":
		return "yes"
	}
	return value
}

// podsOn counts the pods of a scheduler that are on a node.
func podsOn(cluster *verdict.Cluster, node, scheduler string) int {
	count := 0
	for i := range cluster.Pods {
		if spec := &cluster.Pods[i].Spec; spec.NodeName == node && spec.SchedulerName == scheduler {
			count++
		}
	}
	return count
}

// printDevices prints a row for each device of the shared nodes, with what the
// annotations of the pods say that they hold of it.
func printDevices(out io.Writer, devices []verdict.Device) {
	fmt.Fprintln(out, "\nThe devices of the shared nodes, and who holds what of them, as the pods' annotations say:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "NODE\tMODEL\tDEVICE\tFREE\tHELD BY")
	for i := range devices {
		device := &devices[i]
		var holders []string
		for _, h := range device.Holders {
			holders = append(holders, fmt.Sprintf("%s/%s %s (%s)", h.Namespace, h.Pod, h.Container, share(h.Milli, h.MemoryMiB)))
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", device.Node, device.Model, device.Index,
			share(device.FreeMilli(), device.FreeMiB()), cmp.Or(strings.Join(holders, ", "), "-"))
	}
	_ = w.Flush() // nobody is left to tell about a failure
}

// share writes an amount of a device: thousandths and memory.
func share(milli, memoryMiB int64) string {
	return fmt.Sprintf("%dm %dMi", milli, memoryMiB)
}

// printVerdict prints a row for each pod, then what is wrong, then the sum. What
// stands under WHY is the API's text.
func printVerdict(out io.Writer, cluster *verdict.Cluster, result *verdict.Result) {
	nodes := map[string]*corev1.Node{}
	for i := range cluster.Nodes {
		nodes[cluster.Nodes[i].Name] = &cluster.Nodes[i]
	}
	fmt.Fprintln(out, "\nThe pods; WHY is the text of the event or condition in the API:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "POD\tSCHEDULER\tNODE\tVERDICT\tWHY")
	var good, pending int
	for i := range result.Pods {
		pod := &result.Pods[i]
		where, judged := "(pending)", "ok"
		if pod.NodeName != "" {
			where = pod.NodeName + nodeLabels(nodes[pod.NodeName])
		} else {
			pending++
		}
		if len(pod.Violations) > 0 {
			judged = "VIOLATION"
		} else {
			good++
		}
		fmt.Fprintf(w, "%s/%s\t%s\t%s\t%s\t%s\n", pod.Namespace, pod.Name, pod.SchedulerName, where, judged, cmp.Or(pod.Why, "-"))
	}
	_ = w.Flush() // nobody is left to tell about a failure

	fmt.Fprintln(out)
	violations := printViolations(out, result)
	if result.OK() {
		fmt.Fprintf(out, "Verdict: all %d pods are where their schedulers' rules allow (%d of them pending, as it must be).\n", len(result.Pods), pending)
		return
	}
	fmt.Fprintf(out, "Verdict: %d violations; %d of %d pods are where their schedulers' rules allow.\n", violations, good, len(result.Pods))
}

// nodeLabels returns the labels of shownLabels that a node has.
func nodeLabels(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	var has []string
	for _, key := range shownLabels {
		value, ok := node.Labels[key]
		switch {
		case !ok:
		case value == "" || value == "true":
			has = append(has, key)
		default:
			has = append(has, key+"="+value)
		}
	}
	if len(has) == 0 {
		return ""
	}
	return " (" + strings.Join(has, ", ") + ")"
}

// printCallTable prints how many of the calls between the shop's pods stay near.
func printCallTable(out io.Writer, rows []callRow) {
	fmt.Fprintln(out, "\nThe calls between the shop's pods, three of each Deployment, that stay within a node and within a zone,\nby the trafficDistribution of the Services that they go to:")
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	header := []string{"NAMESPACE", "SCHEDULER"}
	for _, level := range []string{"NODE", "ZONE"} {
		for _, routing := range callgraph.Routings() {
			name := string(routing)
			if routing == callgraph.Uniform {
				name = "none"
			}
			header = append(header, level+", "+name)
		}
	}
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		cells := []string{row.namespace, row.scheduler}
		if row.problem != nil {
			cells = append(cells, row.problem.Error())
		} else {
			for _, routing := range callgraph.Routings() {
				cells = append(cells, percent(row.shares[routing].WithinNode))
			}
			for _, routing := range callgraph.Routings() {
				cells = append(cells, percent(row.shares[routing].WithinZone))
			}
		}
		fmt.Fprintln(w, strings.Join(cells, "\t"))
	}
	_ = w.Flush() // nobody is left to tell about a failure
}

// percent writes a share between 0 and 1.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

// printCallsVerdict prints what is wrong with the pods whose calls were counted.
// They are too many for a table.
func printCallsVerdict(out io.Writer, result *verdict.Result) {
	violations := printViolations(out, result)
	if violations == 0 {
		fmt.Fprintf(out, "Verdict on the pods whose calls were counted: all %d are where their schedulers' rules allow.\n", len(result.Pods))
		return
	}
	fmt.Fprintf(out, "Verdict on the pods whose calls were counted: %d violations.\n", violations)
}

// printViolations prints what is wrong, and returns how much it is.
func printViolations(out io.Writer, result *verdict.Result) int {
	violations := 0
	for i := range result.Pods {
		pod := &result.Pods[i]
		for _, violation := range pod.Violations {
			violations++
			fmt.Fprintf(out, "VIOLATION %s/%s (%s): %s\n", pod.Namespace, pod.Name, pod.SchedulerName, violation)
		}
	}
	for _, violation := range result.Violations {
		violations++
		fmt.Fprintf(out, "VIOLATION %s\n", violation)
	}
	return violations
}
