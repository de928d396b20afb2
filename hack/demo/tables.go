// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/bench/callgraph"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/pkg/output"
)

// shownLabels are the node labels that the demo's rules are about.
var shownLabels = []string{ruleLabel, "device"}

// printTable prints a title and rows of cells; an empty one is a dash.
func printTable(out io.Writer, title string, rows ...[]string) {
	fmt.Fprintf(out, "\n%s\n", title)
	_ = (&output.Table{Rows: rows}).Write(out) // there is nowhere else to report a failure
}

// printNodes prints the nodes, and how many pods of each scheduler they have.
func printNodes(out io.Writer, cluster *oracle.Cluster) {
	rows := [][]string{append([]string{"NODE", "ZONE", "SELECTABLE", "DEVICE", "TAINTS"}, schedulerNames...)}
	for i := range cluster.Nodes {
		node := &cluster.Nodes[i]
		row := []string{node.Name, node.Labels[corev1.LabelTopologyZone]}
		for _, key := range shownLabels {
			row = append(row, labelValue(node, key))
		}
		var taints []string
		for k := range node.Spec.Taints {
			taints = append(taints, node.Spec.Taints[k].ToString())
		}
		row = append(row, strings.Join(taints, ","))
		for _, name := range schedulerNames {
			count := 0
			for k := range cluster.Pods {
				if spec := &cluster.Pods[k].Spec; spec.NodeName == node.Name && spec.SchedulerName == name {
					count++
				}
			}
			row = append(row, strconv.Itoa(count))
		}
		rows = append(rows, row)
	}
	printTable(out, "The nodes, and how many pods each scheduler put there:", rows...)
}

// labelValue returns the value of a label; one without a value is a label all the same.
func labelValue(node *corev1.Node, key string) string {
	if value, has := node.Labels[key]; has {
		return cmp.Or(value, "true")
	}
	return ""
}

// printDevices prints a row for each device of the shared nodes, with what the annotations
// of the pods say was allocated of it.
func printDevices(out io.Writer, devices []oracle.Device) {
	rows := [][]string{{"NODE", "MODEL", "DEVICE", "FREE", "ALLOCATED TO"}}
	for i := range devices {
		device := &devices[i]
		var to []string
		for _, a := range device.Allocations {
			to = append(to, fmt.Sprintf("%s %s (%dm %dMi)", a.Pod, a.Container, a.Milli, a.MemoryMiB))
		}
		rows = append(rows, []string{
			device.Node, device.Model, strconv.Itoa(device.Index),
			fmt.Sprintf("%dm %dMi", device.FreeMilli, device.FreeMiB), strings.Join(to, ", "),
		})
	}
	printTable(out, "The devices of the shared nodes, and to whom they are allocated, as the pods' annotations say:", rows...)
}

// printCalls prints how many of the calls between the compared pods stay within a node and
// a zone, or why that cannot be said: a pod does not run, for example.
func printCalls(out io.Writer, cluster *oracle.Cluster, services []corev1.Service) {
	rows := [][]string{{"NAMESPACE", "SCHEDULER"}, {}, {}}
	for i, side := range comparison {
		own := slices.DeleteFunc(slices.Clone(cluster.Deployments), func(d appsv1.Deployment) bool { return d.Namespace != side.namespace })
		graph, err := callgraph.Read(own, services)
		var nodes, zones []string
		for _, routing := range []callgraph.Routing{callgraph.Uniform, callgraph.PreferSameZone, callgraph.PreferSameNode} {
			var share callgraph.Share
			if err == nil {
				share, err = graph.Share(callgraph.Placement{Pods: cluster.Pods, Nodes: cluster.Nodes}, routing)
			}
			nodes = append(nodes, fmt.Sprintf("%.0f %%", 100*share.WithinNode))
			zones = append(zones, fmt.Sprintf("%.0f %%", 100*share.WithinZone))
		}
		rows[i+1] = slices.Concat([]string{side.namespace, side.scheduler}, nodes, zones)
		if err != nil {
			rows[i+1] = []string{side.namespace, side.scheduler, err.Error()}
		}
	}
	for _, level := range []string{"NODE", "ZONE"} {
		for _, routing := range []string{"none", string(callgraph.PreferSameZone), string(callgraph.PreferSameNode)} {
			rows[0] = append(rows[0], level+", "+routing)
		}
	}
	printTable(out, "The calls between the shop's pods, three of each Deployment, that stay within a node and within a zone,\n"+
		"by the trafficDistribution of the Services that they go to:", rows...)
}

// printVerdict prints a row for each pod but those whose calls are counted, then what is
// wrong, then the sum. What stands under WHY is the API's text.
func printVerdict(out io.Writer, cluster *oracle.Cluster, report *oracle.Report) {
	rows := [][]string{{"POD", "SCHEDULER", "NODE", "VERDICT", "WHY"}}
	pending, counted := 0, 0
	for _, pod := range report.Pods {
		if pod.Namespace == nearNamespace || pod.Namespace == nearStockNamespace {
			counted++
			continue
		}
		node, verdict := "(pending)", "ok"
		if pod.Spec.NodeName != "" {
			node = nodeCell(cluster, pod.Spec.NodeName)
		} else {
			pending++
		}
		name := pod.Namespace + "/" + pod.Name
		if len(report.Violations.On(name)) > 0 {
			verdict = "VIOLATION"
		}
		rows = append(rows, []string{name, pod.Spec.SchedulerName, node, verdict, pod.Why})
	}
	printTable(out, "The pods; WHY is the text of the event or condition in the API:", rows...)
	fmt.Fprintln(out)
	for _, v := range report.Violations {
		fmt.Fprintf(out, "VIOLATION %s: %s\n", v.Object, v.Detail)
	}
	if n := len(report.Violations); n > 0 {
		fmt.Fprintf(out, "Verdict: %d violations among %d pods.\n", n, len(report.Pods))
		return
	}
	fmt.Fprintf(out, "Verdict: all %d pods are where their schedulers' rules allow (%d of them pending, as expected; the %d whose calls were counted are not listed).\n",
		len(report.Pods), pending, counted)
}

// nodeCell returns a node's name with those of shownLabels that it has.
func nodeCell(cluster *oracle.Cluster, name string) string {
	i := slices.IndexFunc(cluster.Nodes, func(node corev1.Node) bool { return node.Name == name })
	if i < 0 {
		return name
	}
	var has []string
	for _, key := range shownLabels {
		switch value := labelValue(&cluster.Nodes[i], key); value {
		case "":
		case "true":
			has = append(has, key)
		default:
			has = append(has, key+"="+value)
		}
	}
	if len(has) == 0 {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(has, ", "))
}
