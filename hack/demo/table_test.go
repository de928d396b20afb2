// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/hack/demo/verdict"
)

func tableCluster() *verdict.Cluster {
	return &verdict.Cluster{
		Nodes: []corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "a", "selectable": "", "device": "gpu"}}},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "n2"},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}}},
			},
		},
		Pods: []corev1.Pod{
			{Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", NodeName: "n1"}},
			{Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", NodeName: "n1"}},
			{Spec: corev1.PodSpec{SchedulerName: "random-scheduler", NodeName: "n2"}},
			{Spec: corev1.PodSpec{SchedulerName: "random-scheduler"}},
			{Spec: corev1.PodSpec{SchedulerName: "berth-scheduler", NodeName: "n1"}},
		},
	}
}

// squeeze makes one blank of many: how wide the columns are is no matter of tests.
func squeeze(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// Each node has its labels, also one without a value, and its pods by scheduler.
func TestPrintNodes(t *testing.T) {
	var out strings.Builder
	printNodes(&out, tableCluster())
	want := []string{
		"",
		"The nodes, and how many pods each scheduler put there:",
		"NODE ZONE SELECTABLE DEVICE TAINTS default-scheduler berth-scheduler random-scheduler",
		"n1 a yes gpu - 0 3 0",
		"n2 - - - old:NoSchedule 0 0 1",
	}
	if diff := cmp.Diff(want, squeeze(out.String())); diff != "" {
		t.Errorf("unexpected table (-want,+got):\n%s", diff)
	}
}

// Each device has what is free of it, and its holders with what they hold.
func TestPrintDevices(t *testing.T) {
	var out strings.Builder
	printDevices(&out, []verdict.Device{
		{Node: "n1", Model: "Tesla-T4", Index: 0, MemoryMiB: 15360, Holders: []verdict.Holder{
			{Namespace: "gpu", Pod: "half", Container: "main", Milli: 500, MemoryMiB: 7680},
			{Namespace: "gpu", Pod: "pair", Container: "side", Milli: 600, MemoryMiB: 1024},
		}},
		{Node: "n1", Model: "Tesla-T4", Index: 1, MemoryMiB: 15360},
	})
	want := []string{
		"",
		"The devices of the shared nodes, and who holds what of them, as the pods' annotations say:",
		"NODE MODEL DEVICE FREE HELD BY",
		"n1 Tesla-T4 0 -100m 6656Mi gpu/half main (500m 7680Mi), gpu/pair side (600m 1024Mi)",
		"n1 Tesla-T4 1 1000m 15360Mi -",
	}
	if diff := cmp.Diff(want, squeeze(out.String())); diff != "" {
		t.Errorf("unexpected table (-want,+got):\n%s", diff)
	}
}

// A good verdict has a row for each pod and one sentence.
func TestPrintVerdictGood(t *testing.T) {
	var out strings.Builder
	printVerdict(&out, tableCluster(), &verdict.Result{Pods: []verdict.Pod{
		{Namespace: "shop", Name: "basket", SchedulerName: "berth-scheduler", NodeName: "n1", Why: "Scheduled: to n1"},
		{Namespace: "shop", Name: "orders", SchedulerName: "berth-scheduler", Why: "FailedScheduling: nowhere"},
	}})
	want := []string{
		"",
		"The pods; WHY is the text of the event or condition in the API:",
		"POD SCHEDULER NODE VERDICT WHY",
		"shop/basket berth-scheduler n1 (selectable, device=gpu) ok Scheduled: to n1",
		"shop/orders berth-scheduler (pending) ok FailedScheduling: nowhere",
		"",
		"Verdict: all 2 pods are where their schedulers' rules allow (1 of them pending, as it must be).",
	}
	if diff := cmp.Diff(want, squeeze(out.String())); diff != "" {
		t.Errorf("unexpected output (-want,+got):\n%s", diff)
	}
}

// A bad one names every violation, with its pod where it has one.
func TestPrintVerdictBad(t *testing.T) {
	var out strings.Builder
	printVerdict(&out, tableCluster(), &verdict.Result{
		Pods: []verdict.Pod{
			{Namespace: "shop", Name: "basket", SchedulerName: "berth-scheduler", NodeName: "n2", Violations: []string{"first", "second"}},
			{Namespace: "shop", Name: "orders", SchedulerName: "random-scheduler", NodeName: "gone", Why: "Scheduled: to gone"},
		},
		Violations: []string{"a pod is missing"},
	})
	want := []string{
		"",
		"The pods; WHY is the text of the event or condition in the API:",
		"POD SCHEDULER NODE VERDICT WHY",
		"shop/basket berth-scheduler n2 VIOLATION -",
		"shop/orders random-scheduler gone ok Scheduled: to gone",
		"",
		"VIOLATION shop/basket (berth-scheduler): first",
		"VIOLATION shop/basket (berth-scheduler): second",
		"VIOLATION a pod is missing",
		"Verdict: 3 violations; 1 of 2 pods are where their schedulers' rules allow.",
	}
	if diff := cmp.Diff(want, squeeze(out.String())); diff != "" {
		t.Errorf("unexpected output (-want,+got):\n%s", diff)
	}
}
