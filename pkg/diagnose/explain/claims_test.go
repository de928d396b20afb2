// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"strings"
	"testing"

	resourcev1 "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/cluster/draslices"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
)

// published are the classes and slices of a layout on node plain-b, as YAML documents. edit
// changes the last slice.
func published(t *testing.T, layout draslices.Layout, gpus int, edit func(*resourcev1.ResourceSlice)) string {
	t.Helper()
	var text strings.Builder
	write := func(object any) {
		content, err := yaml.Marshal(object)
		if err != nil {
			t.Fatal(err)
		}
		text.WriteString(string(content) + "---\n")
	}
	for _, class := range layout.Classes() {
		write(class)
	}
	list := layout.Slices("plain-b", gpus, draslices.A100())
	if edit != nil {
		edit(list[len(list)-1])
	}
	for _, slice := range list {
		write(slice)
	}
	return text.String()
}

// heldClaim is a claim with a device, and the pod that uses it on node plain-b.
func heldClaim(name, driver, device, consumed string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {name: %[1]s, namespace: default, uid: claim-%[1]s, resourceVersion: "7"}
spec: {devices: {requests: [{name: gpu, exactly: {deviceClassName: %[2]s}}]}}
status:
  reservedFor: [{resource: pods, name: %[1]s, uid: pod-%[1]s}]
  allocation: {devices: {results: [{request: gpu, driver: %[2]s, pool: plain-b, device: %[3]s%[4]s}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: %[1]s, namespace: default, uid: pod-%[1]s}
spec:
  nodeName: plain-b
  schedulerName: berth-gpu
  containers: [{name: main, image: registry.example.com/app}]
  resourceClaims: [{name: gpu, resourceClaimName: %[1]s}]
---
`, name, driver, device, consumed)
}

// wanting is a pod with a claim of a template with this request.
func wanting(request string) string {
	return fmt.Sprintf(`
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: gpu, namespace: default}
spec: {spec: {devices: {requests: [{name: gpu, exactly: {%s}}]}}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, namespace: default}
spec:
  schedulerName: berth-gpu
  containers: [{name: main, image: registry.example.com/app, resources: {claims: [{name: gpu}]}}]
  resourceClaims: [{name: gpu, resourceClaimTemplateName: gpu}]
`, request)
}

// TestClaims explains pods whose claims get no device, each for another cause, and makes
// every change that is proposed: with stock's DynamicResources and with DeviceClaims.
func TestClaims(t *testing.T) {
	const profile = "device.attributes['gpu.nvidia.com'].profile == '%s'"
	whole := published(t, draslices.Whole, 2, nil)
	taken := heldClaim("one", draslices.NVIDIADriver, "gpu-0", "") + heldClaim("two", draslices.NVIDIADriver, "gpu-1", "")
	const share = ", shareID: 6108e68f-a7ec-4a30-9782-634885c0c728, consumedCapacity: {cores: %q, memory: %s}"
	tests := []struct {
		name, others, request string
		// cause is on the screen, and changes are among those that are proposed, the first first.
		cause   string
		changes []string
		rules   bool
	}{
		{
			name: "a class that is not there", others: whole, request: "deviceClassName: gpu.nvidia.con",
			cause:   "device class gpu.nvidia.con does not exist",
			changes: []string{"in ResourceClaimTemplate default/gpu, request gpu: write deviceClassName: gpu.nvidia.com, which exists; gpu.nvidia.con does not"},
		},
		{
			name: "a selector that no device matches", others: whole, request: fmt.Sprintf(`deviceClassName: gpu.nvidia.com, selectors: [{cel: {expression: "device.attributes['gpu.nvidia.com'].productName == '%s'"}}]`, "H100"),
			cause:   "request gpu asks for 1 device of class gpu.nvidia.com, and the node has 0 free: of 2 devices, 2 not selected by device.attributes['gpu.nvidia.com'].productName == 'H100'",
			changes: []string{"request gpu: remove the selector device.attributes['gpu.nvidia.com'].productName == 'H100'"},
		},
		{
			name: "devices that are all allocated", others: whole + taken, request: "deviceClassName: gpu.nvidia.com",
			cause:   "the node has 0 free: of 2 devices, 2 allocated to default/one, default/two",
			changes: []string{"wait for default/one on node plain-b to finish", "wait for default/two on node plain-b to finish"},
		},
		{
			name: "too many devices", others: whole + heldClaim("one", draslices.NVIDIADriver, "gpu-0", ""), request: "deviceClassName: gpu.nvidia.com, count: 2",
			cause:   "request gpu asks for 2 devices of class gpu.nvidia.com, and the node has 1 free: of 2 devices, 1 allocated to default/one",
			changes: []string{"request gpu: ask for 1 device instead of 2", "wait for default/one on node plain-b to finish"},
		},
		{
			name: "counters that are used up", others: published(t, draslices.DynamicMIG, 1, nil) + heldClaim("one", draslices.NVIDIADriver, "gpu-0-mig-3g40gb-9-0", "") + heldClaim("two", draslices.NVIDIADriver, "gpu-0-mig-2g20gb-14-4", ""),
			request: "deviceClassName: mig.nvidia.com, selectors: [{cel: {expression: \"" + fmt.Sprintf(profile, "3g.40gb") + "\"}}]",
			cause:   "1 without the counters that are allocated to default/one, default/two",
			changes: []string{"request gpu: remove the selector", "wait for default/one on node plain-b to finish", "wait for default/two on node plain-b to finish"},
		},
		{
			name: "a tainted device", others: published(t, draslices.Whole, 1, func(slice *resourcev1.ResourceSlice) {
				slice.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "gpu.nvidia.com/health", Value: "bad", Effect: resourcev1.DeviceTaintEffectNoSchedule}}
			}), request: "deviceClassName: gpu.nvidia.com",
			cause:   "1 tainted with gpu.nvidia.com/health=bad:NoSchedule",
			changes: []string{"request gpu: tolerate the taint gpu.nvidia.com/health=bad:NoSchedule of devices"},
		},
		{
			name: "a device that a rule taints", rules: true, others: published(t, draslices.Whole, 1, nil) + `
apiVersion: resource.k8s.io/v1
kind: DeviceTaintRule
metadata: {name: broken}
spec: {deviceSelector: {driver: gpu.nvidia.com}, taint: {key: broken, effect: NoSchedule}}
---
`, request: "deviceClassName: gpu.nvidia.com",
			cause:   "1 tainted with broken:NoSchedule (DeviceTaintRule broken)",
			changes: []string{"request gpu: tolerate the taint broken:NoSchedule of devices"},
		},
		{
			name: "too much of a shared device", others: published(t, draslices.HAMi, 1, nil) + heldClaim("one", draslices.HAMiDriver, "hami-gpu-0", fmt.Sprintf(share, "70", "20Gi")),
			request: `deviceClassName: hami-core-gpu.project-hami.io, capacity: {requests: {cores: "40", memory: 10Gi}}`,
			cause:   "of 1 device, 1 allocated to default/one",
			changes: []string{"request gpu: ask for 30 of cores instead of 40", "wait for default/one on node plain-b to finish"},
		},
	}
	for i := range 2 * len(tests) {
		tt, scheduler := tests[i/2], []string{"berth-gpu", "berth-claims"}[i%2]
		t.Run(tt.name+", "+scheduler, func(t *testing.T) {
			if tt.rules && compat.Release == "1.36" {
				t.Skip("DeviceTaintRules are off by default in this release")
			}
			c := testCase{Others: tt.others, Manifest: strings.ReplaceAll(wanting(tt.request), "berth-gpu", scheduler)}
			in := c.read(t)
			x := explainIt(t, in)
			checkFirstScreen(t, x)
			if text := table(t, x, true); x.State != explain.Unschedulable || !strings.Contains(text, tt.cause) {
				t.Errorf("state %s; want %q in\n%s", x.State, tt.cause, text)
			}
			var got []string
			for i := range x.Changes {
				got = append(got, x.Changes[i].Text)
				if after := explainIt(t, applied(t, in, &x.Changes[i])); after.State != explain.Fits {
					t.Errorf("with the change %q it is %s: %s", x.Changes[i].Text, after.State, after.Answer)
				}
			}
			for i, want := range tt.changes {
				if all := strings.Join(got, "\n"); !strings.Contains(all, want) || i == 0 && !strings.Contains(got[0], want) {
					t.Errorf("change %q is not proposed, or not first, in\n%s", want, all)
				}
			}
		})
	}
}
