// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/cluster/deviceusage"
	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/output"
	"github.com/berth-scheduler/berth/pkg/plugins/gpudevice"
	"github.com/berth-scheduler/berth/pkg/plugins/labelpresence"
	"github.com/berth-scheduler/berth/pkg/registry"
)

// namespaces are those of the cluster, by name.
func (c *checker) namespaces() map[string]*corev1.Namespace {
	namespaces := map[string]*corev1.Namespace{}
	for _, object := range c.objects.Others() {
		if namespace, ok := object.(*corev1.Namespace); ok {
			namespaces[namespace.Name] = namespace
		}
	}
	return namespaces
}

// checkTenancy finds nodes of tenants that are not marked as such throughout.
func (c *checker) checkTenancy() {
	var seen []config.LabelPresenceTenancy
	for _, s := range c.schedulers {
		for _, t := range tenancies(s.profile) {
			if slices.ContainsFunc(seen, func(other config.LabelPresenceTenancy) bool {
				return other.NodeLabelKey == t.NodeLabelKey && other.NodeTaintKey == t.NodeTaintKey
			}) {
				continue
			}
			seen = append(seen, *t)
			for _, node := range c.objects.Nodes() {
				c.checkOwnership(t, node)
			}
			c.checkPlaced(t)
		}
	}
}

// checkPlaced finds pods on nodes where tenancy does not allow them.
func (c *checker) checkPlaced(t *config.LabelPresenceTenancy) {
	nodes := map[string]*corev1.Node{}
	for _, node := range c.objects.Nodes() {
		nodes[node.Name] = node
	}
	namespaces := c.namespaces()
	for _, pod := range c.objects.Pods() {
		node, namespace := nodes[pod.Spec.NodeName], namespaces[pod.Namespace]
		if node == nil || namespace == nil || podutil.IsPodTerminal(pod) {
			continue
		}
		if problem := labelpresence.Violation(t, node, namespace); problem != "" {
			c.foundPod(pod, &Finding{
				Severity: Error, Field: "spec.nodeName", Message: problem,
				WayOut: "delete it so that it is placed again, correct the wrong label, or exempt the namespace (tenancy.exemptNamespaces)",
			})
		}
	}
}

func (c *checker) checkOwnership(t *config.LabelPresenceTenancy, node *corev1.Node) {
	_, unknown := labelpresence.Ownership(t, node)
	object := "Node " + node.Name
	label, labeled := node.Labels[t.NodeLabelKey]
	switch {
	case unknown && labeled:
		c.found(Finding{
			Error, object, fmt.Sprintf("metadata.labels[%s]", t.NodeLabelKey), fmt.Sprintf("%q is not the tenant that the taint %s names, so the node accepts only pods of exempt namespaces", label, t.NodeTaintKey),
			"give label and taint the same value",
		})
	case unknown:
		c.found(Finding{
			Error, object, fmt.Sprintf("metadata.labels[%s]", t.NodeLabelKey), fmt.Sprintf("is missing although the node has the taint %s: the node's tenant is unknown, so it accepts only pods of exempt namespaces", t.NodeTaintKey),
			fmt.Sprintf("kubectl label node %s %s=TENANT, or take the taint away", node.Name, t.NodeLabelKey),
		})
	}
}

// nodeKeys are how nodes describe their devices: as the first profile says that shares
// any.
func (c *checker) nodeKeys() *device.NodeKeys {
	for _, s := range c.schedulers {
		if args := registry.GPUDeviceArgs(s.profile.Config); len(args) > 0 && registry.Runs(s.profile.Effective, gpudevice.Name) {
			return gpudevice.NodeKeys(args[0]).AllPools()
		}
	}
	keys := device.DefaultNodeKeys()
	return &keys
}

// hasSharedNode reports whether a node offers shares of its devices, or is about to.
func (c *checker) hasSharedNode() bool {
	return slices.ContainsFunc(c.objects.Nodes(), func(node *corev1.Node) bool {
		_, labeled := node.Labels[names.GPUSharingLabel]
		return labeled
	})
}

// checkDevices finds nodes whose labels contradict each other or have no effect, and
// devices that are overcommitted or used without a record.
func (c *checker) checkDevices() {
	keys := c.nodeKeys()
	var owned []*config.LabelPresenceTenancy
	for _, s := range c.schedulers {
		owned = append(owned, tenancies(s.profile)...)
	}
	for _, node := range c.objects.Nodes() {
		for _, missing := range registry.MissingTaints(node, owned, true) {
			c.found(Finding{Warning, "Node " + node.Name, "spec.taints", missing.Message, missing.Command})
		}
		for _, setting := range device.IneffectiveSettings(node) {
			c.found(Finding{
				Warning, "Node " + node.Name, setting.Field, setting.String(), "remove it, or write it as it is read",
			})
		}
		if invalid := device.ParseNode(node, keys).Invalid; invalid.Reason != "" {
			message, wayOut := splitWayOut(invalid.Detail, "correct it")
			c.found(Finding{
				Error, "Node " + node.Name, invalid.Field, strings.TrimSpace(fmt.Sprintf("%q %s; the node takes no pods with devices", invalid.Value, message)), wayOut,
			})
		}
	}
	report := deviceusage.New(deviceusage.ObjectsOf(c.objects), keys)
	for i := range report.Nodes {
		c.checkHeld(&report.Nodes[i])
	}
	for i := range report.Pods {
		if pod := &report.Pods[i]; pod.Problem != "" {
			c.found(Finding{
				Error, fmt.Sprintf("Pod %s/%s", pod.Namespace, pod.Name), "metadata.annotations", fmt.Sprintf("uses devices of node %s: %s", pod.Node, pod.Problem),
				"delete the pod, and let a scheduler with GPUDevice place it (spec.schedulerName)",
			})
		}
	}
}

// checkHeld finds devices that are overcommitted, and a node whose devices a DRA driver
// offers too.
func (c *checker) checkHeld(node *deviceusage.Node) {
	for i := range node.Devices {
		d := &node.Devices[i]
		if d.Conflict == "" {
			continue
		}
		holders := make([]string, 0, len(d.HeldBy))
		for _, h := range d.HeldBy {
			holders = append(holders, h.Pod)
		}
		message, wayOut := d.Conflict.Describe()
		c.found(Finding{
			Error, "Node " + node.Name, fmt.Sprintf("device %d", d.Index), fmt.Sprintf("%s: %s hold it", message, output.Count(len(holders), "pod")+" ("+strings.Join(holders, ", ")+")"), wayOut,
		})
	}
	if node.Kind == deviceusage.Invalid && strings.Contains(node.Problem, "ResourceSlices") {
		message, wayOut := splitWayOut(node.Problem, "correct it")
		c.found(Finding{Error, "Node " + node.Name, "", message, wayOut})
	}
}
