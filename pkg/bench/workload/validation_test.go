// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
)

// TestValidation has one mistake or a few in each file, and wants exactly these
// errors, in this order.
func TestValidation(t *testing.T) {
	pods := func(group string) string { return oneNode + "  pods: [{" + group + "}]\n" }
	node := func(group string) string { return "  nodes: [{" + group + "}]\n" + onePod }
	onGPU := func(gpu string) string { return gpuNodes + "  pods: [{name: a, count: 1, gpu: {" + gpu + "}}]\n" }
	app := func(app string) string { return oneNode + "  applications: [{" + app + "}]\n" }
	more := func(fields string) string { return oneNode + onePod + fields }
	for _, tt := range []struct {
		name, spec string
		want       []string
	}{
		{"nothing", "  {}\n", []string{
			"spec.nodes: Required value: describe at least one group of nodes",
			"spec.pods: Required value: describe at least one group of pods, or an application",
		}},
		{"rounds", more("  rounds: 101\n"), []string{"spec.rounds: Invalid value: 101: must be between 1 and 100"}},
		{"too short a round", more("  roundTimeout: 10ms\n"), []string{`spec.roundTimeout: Invalid value: "10ms": must be between 1s and 24h0m0s`}},
		{"malformed round", more("  roundTimeout: 10\n"), []string{`spec.roundTimeout: Invalid value: "10": must be a duration such as 500ms, 30s or 5m`}},
		{"no QPS", more("  clientQPS: 0\n"), []string{"spec.clientQPS: Invalid value: 0: must be between 1 and 100000"}},
		{"no number", more("  clientQPS: 1000000\n"), []string{"spec.clientQPS: Invalid value: 1e+06: must be between 1 and 100000"}},
		{"order", more("  order: Random\n"), []string{`spec.order: Unsupported value: "Random": supported values: "Shuffled", "AsListed"`}},
		{"arrival", more("  arrival: {type: Wave, podsPerSecond: 1}\n"), []string{`spec.arrival.type: Unsupported value: "Wave": supported values: "Burst", "Steady", "Poisson"`}},
		{"burst with a rate", more("  arrival: {podsPerSecond: 1}\n"), []string{"spec.arrival.podsPerSecond: Forbidden: a Burst has no rate: remove it, or set type to Steady or Poisson"}},
		{"no rate", more("  arrival: {type: Steady}\n"), []string{"spec.arrival.podsPerSecond: Required value: set how many pods a second Steady arrivals have"}},
		{"a negative rate", more("  arrival: {type: Poisson, podsPerSecond: -1}\n"), []string{"spec.arrival.podsPerSecond: Invalid value: -1: must be above 0, and at most 10000"}},
		{"longer than a round", oneNode + "  pods: [{name: a, count: 301}]\n  arrival: {type: Steady, podsPerSecond: 1}\n", []string{
			"spec.arrival.podsPerSecond: Invalid value: 1: the last of 301 pods would arrive after 300 seconds, and a round ends after 5m0s: set more pods a second, or a longer spec.roundTimeout",
		}},
		{"longer than any time", app("name: a, services: [{name: b, replicas: 2}]") + "  arrival: {type: Poisson, podsPerSecond: 1e-9}\n", []string{
			"spec.arrival.podsPerSecond: Invalid value: 1e-09: the last of 2 pods would arrive after 1000000000 seconds, and a round ends after 5m0s",
		}},
		{"hostile", "  nodes: [{count: 2, cpu: 1, memory: 1Gi}]\n" + onePod + "  hostile: {writesPerSecond: -1, waitingPods: 10001, services: 33, consentKiB: 251}\n", []string{
			"spec.hostile.writesPerSecond: Invalid value: -1: must be between 1 and 1000",
			"spec.hostile.waitingPods: Invalid value: 10001: must be between 1 and 10000",
			"spec.hostile.services: Invalid value: 33: must be between 1 and 32",
			"spec.hostile.consentKiB: Invalid value: 251: must be between 1 and 250",
		}},
		{"hostile on one node", more("  hostile: {}\n"), []string{"spec.hostile: Forbidden: takes two nodes: its pods wait on one for a pod on the other"}},
		{"profiles", more("  profiles: {Berth: test.yaml, b: ''}\n"), []string{
			`spec.profiles: Invalid value: "Berth": is not a schedulerName: a lowercase RFC 1123 subdomain`,
			"spec.profiles[b]: Required value: name the scheduler's configuration file, relative to this one, or remove the entry",
		}},
		{"an absolute profile", more("  profiles: {b: /etc/b.yaml}\n"), []string{`spec.profiles[b]: Invalid value: "/etc/b.yaml": must be relative to the folder of this file: an absolute path works on one machine only`}},

		{"an empty group of nodes", node(""), []string{
			"spec.nodes[0].count: Invalid value: 0: must be between 1 and 20000",
			"spec.nodes[0].cpu: Required value: set how much a node has, such as 32 or 128Gi",
			"spec.nodes[0].memory: Required value: set how much a node has, such as 32 or 128Gi",
		}},
		{"node amounts", node("count: 1, cpu: -1, memory: 8GB, pods: 0"), []string{
			`spec.nodes[0].cpu: Invalid value: "-1": must not be negative`,
			`spec.nodes[0].memory: Invalid value: "8GB": must be a quantity such as 4, 500m or 16Gi`,
			"spec.nodes[0].pods: Invalid value: 0: must be between 1 and 2147483647",
		}},
		{"node names", node("count: 1, cpu: 1, memory: 1Gi, namePrefix: A_, zones: [a, '', -]"), []string{
			`spec.nodes[0].namePrefix: Invalid value: "A_": a lowercase RFC 1123 label`,
			"spec.nodes[0].zones[1]: Required value: give it a name",
			`spec.nodes[0].zones[2]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters`,
		}},
		{"long node names", "  nodes: [{count: 1, cpu: 1, memory: 1Gi, namePrefix: n23456789-123456789-123456789-123456789-}, {count: 11, cpu: 1, memory: 1Gi, namePrefix: n23456789-123456789-123456789-1234567890}]\n" + onePod, []string{
			`spec.nodes[0].namePrefix: Invalid value: "n23456789-123456789-123456789-123456789-": a lowercase RFC 1123 label`,
			`spec.nodes[1].namePrefix: Invalid value: "n23456789-123456789-123456789-1234567890": the last node would be called n23456789-123456789-123456789-1234567890-10, with more than 42 characters`,
		}},
		{"long node names in two groups", "  nodes: [{count: 9, cpu: 1, memory: 1Gi, namePrefix: n23456789-123456789-123456789-1234567890}, {count: 2, cpu: 1, memory: 1Gi, namePrefix: n23456789-123456789-123456789-1234567890}]\n" + onePod, []string{
			`spec.nodes[1].namePrefix: Invalid value: "n23456789-123456789-123456789-1234567890": the last node would be called n23456789-123456789-123456789-1234567890-10, with more than 42 characters`,
		}},
		{"node labels", node("count: 1, cpu: 1, memory: 1Gi, labels: {'a b': c, kubernetes.io/hostname: x, nvidia.com/gpu.count: '3'}"), []string{
			`spec.nodes[0].labels: Invalid value: "a b": name part must consist of alphanumeric characters`,
			"spec.nodes[0].labels[kubernetes.io/hostname]: Forbidden: the benchmark sets it",
			"spec.nodes[0].labels[nvidia.com/gpu.count]: Forbidden: the benchmark sets it",
		}},
		{"node devices", node("count: 1, cpu: 1, memory: 1Gi, gpu: {count: 17}"), []string{
			"spec.nodes[0].gpu.model: Required value: give it a name",
			"spec.nodes[0].gpu.count: Invalid value: 17: must be between 1 and 16",
			"spec.nodes[0].gpu.memoryMiB: Invalid value: 0: must be between 1 and ",
		}},
		{"devices that cannot be shared", node("count: 1, cpu: 1, memory: 1Gi, gpu: {model: NVIDIA-A100-MIG-1g.5gb, count: 1, memoryMiB: 5000}"), []string{
			`spec.nodes[0].gpu.model: Invalid value: "NVIDIA-A100-MIG-1g.5gb": the devices of such a node cannot be shared: `,
		}},
		{"too many nodes", "  nodes: [{count: 15000, cpu: 1, memory: 1Gi}, {count: 15000, cpu: 1, memory: 1Gi}]\n" + onePod, []string{"spec.nodes: Invalid value: 30000: must be at most 20000 nodes in all"}},

		{"an empty group of pods", pods(""), []string{
			"spec.pods[0].name: Required value: give it a name",
			"spec.pods[0].count: Required value: set it, or weight: how many pods there are",
		}},
		{"count and weight", oneNode + "  totalPods: 3\n  pods: [{name: a, count: 1, weight: 1}, {name: b, weight: 2}]\n", []string{
			"spec.pods[0].weight: Forbidden: a group with a count has none: remove one of the two",
		}},
		{"a negative count", pods("name: a, count: -1"), []string{"spec.pods[0].count: Invalid value: -1: must be between 1 and 200000"}},
		{"a negative weight", oneNode + "  totalPods: 3\n  pods: [{name: a, weight: -1}]\n", []string{"spec.pods[0].weight: Invalid value: -1: must be between 1 and 1000000"}},
		{"weights without a total", pods("name: a, weight: 1"), []string{"spec.totalPods: Required value: set how many pods spec.pods has in all: some of its groups have a weight"}},
		{"a total without weights", more("  totalPods: 3\n"), []string{"spec.totalPods: Forbidden: no group of spec.pods has a weight: remove it, or give them a weight instead of a count"}},
		{"a total too small", oneNode + "  totalPods: 3\n  pods: [{name: a, count: 3}, {name: b, weight: 2}]\n", []string{
			"spec.totalPods: Invalid value: 3: must be more than the 3 pods of the groups with a count: nothing is left for those with a weight",
		}},
		{"too many pods", oneNode + "  pods: [{name: a, count: 150000}]\n  existing: [{name: b, count: 60000}]\n", []string{"spec: Invalid value: 210000: must be at most 200000 pods in all"}},
		{"too many pods of an application", app("name: a, copies: 1000, replicas: 201, services: [{name: b}]"), []string{"spec: Invalid value: 201000: must be at most 200000 pods in all"}},
		{"pod amounts", pods("name: a, count: 1, cpu: 1x, memory: -1Gi"), []string{
			`spec.pods[0].cpu: Invalid value: "1x": must be a quantity such as 4, 500m or 16Gi`,
			`spec.pods[0].memory: Invalid value: "-1Gi": must not be negative`,
		}},
		{"pod names", pods("name: A, count: 1"), []string{`spec.pods[0].name: Invalid value: "A": a lowercase RFC 1123 label`}},
		{"pod labels", pods("name: a, count: 1, labels: {app: b, berth.dev/x: z, ok: 'not ok'}"), []string{
			`spec.pods[0].labels: Invalid value: "not ok": a valid label must be an empty string or consist of alphanumeric characters`,
			"spec.pods[0].labels[app]: Forbidden: the benchmark sets it",
			"spec.pods[0].labels[berth.dev/x]: Forbidden: the benchmark sets it",
		}},
		{"node labels of pods", pods("name: a, count: 1, requireNodeLabels: ['', b], forbidNodeLabels: [c, c]"), []string{
			`spec.pods[0].requireNodeLabels[0]: Invalid value: "": name part must be non-empty`,
			`spec.pods[0].requireNodeLabels[0]: Invalid value: "": name part must consist of alphanumeric characters`,
			`spec.pods[0].forbidNodeLabels[1]: Duplicate value: "c"`,
		}},
		{"a label that is wanted and not", pods("name: a, count: 1, requireNodeLabels: [b], forbidNodeLabels: [c, b]"), []string{
			`spec.pods[0].forbidNodeLabels[1]: Invalid value: "b": is in requireNodeLabels, too: no node could be right`,
		}},
		{"lifetimes", pods("name: a, count: 1, lifetime: {distribution: Normal}"), []string{
			`spec.pods[0].lifetime.mean: Invalid value: "0s": must be between 1ms and 24h0m0s`,
			`spec.pods[0].lifetime.distribution: Unsupported value: "Normal": supported values: "Exponential", "Fixed"`,
		}},

		{"a share that is none", onGPU("milli: 1500"), []string{"spec.pods[0].gpu.milli: Invalid value: 1500: must be between 1 and 999"}},
		{"no devices", onGPU(""), []string{"spec.pods[0].gpu: Required value: set exactly one of milli, memory and count"}},
		{"devices in two ways", onGPU("milli: 100, count: 1"), []string{"spec.pods[0].gpu: Forbidden: set exactly one of milli, memory and count, not milli and count"}},
		{"too many devices", onGPU("count: 17"), []string{"spec.pods[0].gpu.count: Invalid value: 17: must be between 1 and 16"}},
		{"device memory", onGPU("memory: 1G"), []string{`spec.pods[0].gpu.memory: Invalid value: "1G": must be whole MiB, such as 10Gi or 512Mi`}},
		{"malformed device memory", onGPU("memory: lots"), []string{`spec.pods[0].gpu.memory: Invalid value: "lots": must be a quantity such as 4, 500m or 16Gi`}},
		{"models", onGPU("milli: 1, models: [A/B, '', 'a,b', NVIDIA-H*, Tesla-*]"), []string{
			`spec.pods[0].gpu.models[0]: Invalid value: "A/B": has the character '/', which no model contains`,
			`spec.pods[0].gpu.models[1]: Invalid value: "": is empty`,
			`spec.pods[0].gpu.models[2]: Invalid value: "a,b": must be one model: list them as items of their own`,
			`spec.pods[0].gpu.models[3]: Invalid value: "NVIDIA-H*": no group of spec.nodes has devices of such a model`,
		}},
		{"devices without nodes for them", pods("name: a, count: 1, gpu: {milli: 10}"), []string{"spec.pods[0].gpu: Forbidden: no group of spec.nodes has devices: give one of them gpu, or remove it"}},

		{"existing", more("  existing: [{name: b, weight: 1, gpu: {milli: 1}, lifetime: {mean: 1s}}]\n"), []string{
			"spec.existing[0].count: Invalid value: 0: must be between 1 and 200000",
			"spec.existing[0].gpu: Forbidden: an existing pod has none: remove it",
			"spec.existing[0].lifetime: Forbidden: an existing pod has none: remove it",
			"spec.existing[0].weight: Forbidden: an existing pod has none: remove it",
		}},
		{"names twice", more("  existing: [{name: a, count: 1}]\n"), []string{`spec.pods[0].name: Duplicate value: "a": the pods of spec.existing[0].name are called so already`}},
		{"names twice by numbers", oneNode + "  pods: [{name: shop-1-x, count: 1}]\n  applications: [{name: shop, copies: 2, services: [{name: x}]}]\n", []string{
			`spec.applications[0].name: Duplicate value: "shop-1-x": the pods of spec.pods[0].name are called so already`,
		}},

		{"an empty application", app(""), []string{
			"spec.applications[0].name: Required value: give it a name",
			"spec.applications[0].services: Required value: describe at least one service",
		}},
		{"an application's numbers", app("name: 1a, copies: 0, replicas: 0, services: [{name: b}, {name: c, replicas: -1}]"), []string{
			`spec.applications[0].name: Invalid value: "1a": a DNS-1035 label`,
			"spec.applications[0].copies: Invalid value: 0: must be between 1 and 200000",
			"spec.applications[0].replicas: Invalid value: 0: must be between 1 and 200000",
			"spec.applications[0].services[0].replicas: Invalid value: 0: must be between 1 and 200000",
			"spec.applications[0].services[1].replicas: Invalid value: -1: must be between 1 and 200000",
		}},
		{"colocate", app("name: a, colocate: Friends, services: [{name: b}]"), []string{
			`spec.applications[0].colocate: Unsupported value: "Friends": supported values: "Neighbours", "Callees", "Nobody"`,
		}},
		{"levels for nobody", app("name: a, colocate: Nobody, colocatePrefer: [zone, zone], services: [{name: b}]"), []string{
			`spec.applications[0].colocatePrefer[1]: Duplicate value: "zone"`,
			"spec.applications[0].colocatePrefer: Forbidden: colocate is Nobody: remove one of the two",
		}},
		{"too many levels", app("name: a, colocatePrefer: [a, b, c, d, e, f, g, h, i], services: [{name: b}]"), []string{
			"spec.applications[0].colocatePrefer: Too many: 9: must have at most 8 items",
		}},
		{"services", app("name: a, services: [{}, {name: b, cpu: x, memory: -1}, {name: b}, {name: 1}]"), []string{
			// A number is no string, which is told alone.
			"spec.applications.services.name: a number cannot be a value of this field",
		}},
		{"services by name", app("name: a, services: [{}, {name: b, cpu: x, memory: -1}, {name: b}]"), []string{
			`spec.applications[0].services[2].name: Duplicate value: "b"`,
			"spec.applications[0].services[0].name: Required value: give it a name",
			`spec.applications[0].services[1].cpu: Invalid value: "x": must be a quantity`,
			`spec.applications[0].services[1].memory: Invalid value: "-1": must not be negative`,
		}},
		{"calls", app("name: a, services: [{name: b, calls: [b, c, d, d]}, {name: d}]"), []string{
			`spec.applications[0].services[0].calls[0]: Invalid value: "b": must be another service: a pod that calls its own is near it anyway`,
			`spec.applications[0].services[0].calls[1]: Not found: "c"`,
			`spec.applications[0].services[0].calls[3]: Duplicate value: "d"`,
		}},
		{"long names", app("name: a23456789-123456789-123456789, copies: 1000, services: [{name: b23456789-123456789-123456789}, {name: b23456789-123456789-1234567890}]"), []string{
			`spec.applications[0].services[1].name: Invalid value: "b23456789-123456789-1234567890": its Service would be called "a23456789-123456789-123456789-999-b23456789-123456789-1234567890", which is longer than 63 characters`,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(t, tt.spec)
			if err == nil {
				t.Fatal("There is no error")
			}
			lines := strings.Split(err.Error(), "\n")
			for i := range max(len(lines), len(tt.want)) {
				switch {
				case i >= len(tt.want):
					t.Errorf("One error too many: %s", lines[i])
				case i >= len(lines):
					t.Errorf("Missing: %s", tt.want[i])
				case !strings.Contains(lines[i], "/test.yaml: "+tt.want[i]):
					t.Errorf("Line %d is %q, want %q", i, lines[i], tt.want[i])
				}
			}
		})
	}
}
