// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

// TestOperatorObjects: the Prometheus operator knows every field of what the chart gives it,
// and what it selects is there.
func TestOperatorObjects(t *testing.T) {
	h := newHelm(t, "3", "")
	v := features("gpu")
	v["monitoring"] = values{"create": true, "labels": values{"release": "prometheus"}}
	var monitor monitoringv1.ServiceMonitor
	var rule monitoringv1.PrometheusRule
	var services []map[string]string
	var ports []string
	for _, object := range h.render(t, "east", "team", v) {
		switch object.GetKind() {
		case monitoringv1.ServiceMonitorsKind:
			strictly(t, object.Object, &monitor)
		case monitoringv1.PrometheusRuleKind:
			strictly(t, object.Object, &rule)
		case "Service":
			services = append(services, object.GetLabels())
			spec, _ := object.Object["spec"].(map[string]any)
			list, _ := spec["ports"].([]any)
			for _, port := range list {
				ports = append(ports, port.(map[string]any)["name"].(string))
			}
		}
	}
	if len(monitor.Spec.Endpoints) != 1 || !slices.Contains(ports, monitor.Spec.Endpoints[0].Port) {
		t.Errorf("the ServiceMonitor has the endpoints %+v, and the Service the ports %q", monitor.Spec.Endpoints, ports)
	}
	if !slices.ContainsFunc(services, func(labels map[string]string) bool {
		for key, value := range monitor.Spec.Selector.MatchLabels {
			if labels[key] != value {
				return false
			}
		}
		return len(monitor.Spec.Selector.MatchLabels) > 0 && labels[monitor.Spec.JobLabel] == "east"
	}) {
		t.Errorf("the ServiceMonitor selects %v, and the Services have %v", monitor.Spec.Selector.MatchLabels, services)
	}
	if monitor.Labels["release"] != "prometheus" || rule.Labels["release"] != "prometheus" {
		t.Errorf("labels of the ServiceMonitor %v, of the PrometheusRule %v", monitor.Labels, rule.Labels)
	}
	records, alerts := rules(t)
	var rendered int
	for _, group := range rule.Spec.Groups {
		rendered += len(group.Rules)
	}
	if want := len(records) + len(alerts); rendered != want {
		t.Errorf("the PrometheusRule has %d rules, want %d", rendered, want)
	}
}

// strictly decodes an object into a type that has to have every field of it.
func strictly(t *testing.T, object map[string]any, into any) {
	t.Helper()
	content, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, content)
	}
}
