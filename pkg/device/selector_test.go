// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Only a class of which a selector equates the driver with another one is for other devices.
func TestSelectsDevices(t *testing.T) {
	claims := Claims{Drivers: DefaultDRADrivers()}
	for expression, want := range map[string]bool{
		`device.driver == "dra.net"`:   false,
		`device.driver=='dra.net'`:     false,
		`"dra.net" == device.driver`:   false,
		`(device.driver == "dra.net")`: false,
		`device.driver == "dra.net" && device.attributes["dra.net"].speed > 1`:     false,
		`(device.attributes["a"].b || true) && ((device.driver == "dra.net"))`:     false,
		`device.attributes["x"].y.matches("[|?&(]") && device.driver == "dra.net"`: false,
		`device.driver == "gpu.nvidia.com"`:                                        true,
		`device.driver.endsWith(".nvidia.com")`:                                    true,
		`device.driver.matches("gpu.*")`:                                           true,
		`device.attributes["gpu.nvidia.com"].productName == "A100"`:                true,
		`device.attributes["example.com"].kind == "gpu"`:                           true,
		`device.capacity["example.com"].memory.isGreaterThan(quantity("1Gi"))`:     true,
		`device.driver != "dra.net"`:                                               true,
		`!(device.driver == "dra.net")`:                                            true,
		`(device.driver == "dra.net") == false`:                                    true,
		`device.driver == "dra.net" || device.driver == "gpu.nvidia.com"`:          true,
		`device.driver == "dra.net" ? false : true`:                                true,
		`device.driver == "dra.net" && true || true`:                               true,
		`device.driver in ["dra.net", "gpu.nvidia.com"]`:                           true,
		`"device.driver == 'dra.net'" != ""`:                                       true,
		`true // && device.driver == "dra.net"`:                                    true,
		`(")" == "(") || (device.driver == "dra.net")`:                             true,
		`device.driver == "dra" + ".net"`:                                          true,
		``:                                                                         true,
	} {
		class := &resourcev1.DeviceClass{Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
			{CEL: &resourcev1.CELDeviceSelector{Expression: "true"}}, {CEL: &resourcev1.CELDeviceSelector{Expression: expression}},
		}}}
		if got := claims.selectsDevices(class); got != want {
			t.Errorf("%s: may be for devices: %t, want %t", expression, got, want)
		}
	}
}

// The devices of a slice belong to the nodes that it says, for all of them or for each.
func TestNodesOfSlice(t *testing.T) {
	claims := Claims{Drivers: DefaultDRADrivers()}
	a, b, yes := "a", "b", true
	pool := &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "pool", Operator: corev1.NodeSelectorOpIn, Values: []string{"x"}}},
	}}}
	nodes := []*corev1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "a"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "b"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"pool": "x"}}},
	}
	for _, tt := range []struct {
		name string
		spec resourcev1.ResourceSliceSpec
		want string
	}{
		{"a node", resourcev1.ResourceSliceSpec{NodeName: &a, Devices: make([]resourcev1.Device, 1)}, "a"},
		{"no device", resourcev1.ResourceSliceSpec{NodeName: &a}, ""},
		{"each device", resourcev1.ResourceSliceSpec{PerDeviceNodeSelection: &yes, Devices: []resourcev1.Device{{NodeName: &a}, {NodeName: &b}, {NodeName: &a}}}, "ab"},
		{"each device, by labels", resourcev1.ResourceSliceSpec{PerDeviceNodeSelection: &yes, Devices: []resourcev1.Device{{NodeName: &a}, {NodeSelector: pool}}}, "ac"},
		{"each device, all nodes", resourcev1.ResourceSliceSpec{PerDeviceNodeSelection: &yes, Devices: []resourcev1.Device{{AllNodes: &yes}}}, "abc"},
		{"labels", resourcev1.ResourceSliceSpec{NodeSelector: pool, Devices: make([]resourcev1.Device, 1)}, "c"},
		{"all nodes", resourcev1.ResourceSliceSpec{AllNodes: &yes, Devices: make([]resourcev1.Device, 1)}, "abc"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for driver, want := range map[string]string{"gpu.nvidia.com": tt.want, "dra.net": ""} {
				tt.spec.Driver = driver
				of := claims.NodesOfSlice(&resourcev1.ResourceSlice{Spec: tt.spec})
				var on []string
				for _, node := range nodes {
					if of.Has(node) {
						on = append(on, node.Name)
					}
				}
				if got := strings.Join(on, ""); got != want {
					t.Errorf("driver %s: got nodes %q, want %q", driver, got, want)
				}
			}
		})
	}
}
