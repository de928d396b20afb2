// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
)

// What pods and nodes say about devices. A test compares these with the names that the
// schedulers use.
const (
	milliResource       corev1.ResourceName = "berth.dev/gpu-milli"
	memoryResource      corev1.ResourceName = "berth.dev/gpu-memory"
	pluginResource      corev1.ResourceName = "nvidia.com/gpu"
	pluginPrefix                            = "nvidia.com/"
	modelAnnotation                         = "berth.dev/gpu-model"
	minMemoryAnnotation                     = "berth.dev/gpu-min-memory"
	recordAnnotation                        = "berth.dev/gpu-assigned"
	devicesPrefix                           = "gpu.berth.dev/"
	sharingLabel                            = "berth.dev/gpu-sharing"
	cordonedAnnotation                      = "berth.dev/gpu-cordoned"
	uuidsAnnotation                         = "berth.dev/gpu-uuids"
	tenantLabel                             = "berth.dev/tenant"
	tenantNodeLabel                         = "berth.dev.node-restriction.kubernetes.io/tenant"
	countLabel                              = "nvidia.com/gpu.count"
	memoryLabel                             = "nvidia.com/gpu.memory"
	modelLabel                              = "nvidia.com/gpu.product"
)

const (
	// whole is one device in thousandths.
	whole    = 1000
	mebibyte = 1 << 20
)

// amount is some of a device.
type amount struct{ milli, mib int64 }

func (a amount) plus(b amount) amount { return amount{a.milli + b.milli, a.mib + b.mib} }
func (a amount) String() string       { return fmt.Sprintf("%dm %dMi", a.milli, a.mib) }

// sharedNode is what a node offers that shares its devices.
type sharedNode struct {
	devices  int
	mib      int64
	model    string
	cordoned sets.Set[string]
}

// readNode returns what a node offers; false for one that does not share devices, or
// says so in a way that cannot be read.
func readNode(node *corev1.Node) (sharedNode, bool) {
	labels := node.Labels
	devices, err1 := strconv.Atoi(labels[countLabel])
	mib, err2 := strconv.ParseInt(labels[memoryLabel], 10, 64)
	if labels[sharingLabel] != "true" || err1 != nil || err2 != nil || devices < 1 || mib < 1 {
		return sharedNode{}, false
	}
	if q := node.Status.Capacity[pluginResource]; !q.IsZero() {
		return sharedNode{}, false
	}
	return sharedNode{
		devices: devices, mib: mib, model: labels[modelLabel],
		cordoned: sets.New(strings.Split(node.Annotations[cordonedAnnotation], ",")...),
	}, true
}

// readUUIDs returns the UUIDs that a node lists, by index; nil for none.
func readUUIDs(node *corev1.Node) []string {
	if list := node.Annotations[uuidsAnnotation]; list != "" {
		return strings.Split(list, ",")
	}
	return nil
}

// phase is a container's place in the life of its pod.
type phase int

const (
	initContainer phase = iota
	sidecarContainer
	mainContainer
)

// request is what one container requests.
type request struct {
	container string
	phase     phase
	// milli and mib are 0 where the container does not say. milli above 1000 is whole
	// devices.
	milli, mib int64
}

func (r request) devices() int { return max(1, int(r.milli/whole)) }

// of is what the container is to get of each of its devices on a node: of what it does
// not say, the same part, rounded down, and at least 1.
func (r request) of(node sharedNode) amount {
	a := amount{milli: min(r.milli, whole), mib: r.mib}
	if r.mib == 0 {
		a.mib = max(1, node.mib*a.milli/whole)
	}
	if r.milli == 0 {
		a.milli = max(1, whole*r.mib/node.mib)
	}
	return a
}

// readRequests returns what the pod's containers request, those that request something.
func readRequests(pod *corev1.Pod) (requests []request, err error) {
	add := func(c *corev1.Container, p phase) {
		milli, memory := c.Resources.Limits[milliResource], c.Resources.Limits[memoryResource]
		if milli.IsZero() && memory.IsZero() {
			return
		}
		r := request{container: c.Name, phase: p, milli: milli.Value(), mib: (memory.Value() + mebibyte - 1) / mebibyte}
		if r.milli < 0 || r.mib < 0 || r.milli > whole && r.milli%whole != 0 {
			err = fmt.Errorf("container %q requests %s %s and %s %s, which is neither a share nor whole devices",
				c.Name, milli.String(), milliResource, memory.String(), memoryResource)
		}
		requests = append(requests, r)
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c, sidecarContainer)
		} else {
			add(c, initContainer)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i], mainContainer)
	}
	return requests, err
}

// requestsDevices reports whether the pod requests shares.
func requestsDevices(pod *corev1.Pod) bool {
	requests, _ := readRequests(pod)
	return len(requests) > 0
}

// RequestsOther reports whether the pod requests devices of something else: a device
// plugin, or a driver of claims.
func RequestsOther(pod *corev1.Pod) bool {
	for i := range pod.Spec.Containers {
		for name, q := range pod.Spec.Containers[i].Resources.Limits {
			if strings.HasPrefix(string(name), pluginPrefix) && !q.IsZero() {
				return true
			}
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// recorded is what one container was given of each of its devices.
type recorded struct {
	// indexes are the devices as the record has them, reads as the container reads them:
	// indexes too, or UUIDs.
	indexes []int
	reads   []string
	amount  amount
}

// readsIndexes reports whether the container reads indexes.
func (r recorded) readsIndexes() bool {
	return !slices.ContainsFunc(r.reads, func(device string) bool {
		_, err := strconv.Atoi(device)
		return err != nil
	})
}

// device is the k-th device: what the container reads, or where it reads none the index.
func (r recorded) device(k int) string {
	if k < len(r.reads) {
		return r.reads[k]
	}
	return strconv.Itoa(r.indexes[k])
}

// entry is one container's entry of the record.
var entry = regexp.MustCompile(`^([a-z0-9]([-a-z0-9]*[a-z0-9])?)=(\d+(?:,\d+)*):(\d+)m:(\d+)Mi$`)

// readRecord returns what the annotations say that each container was given.
func readRecord(pod *corev1.Pod) (map[string]recorded, error) {
	text, ok := pod.Annotations[recordAnnotation]
	if !ok {
		return nil, fmt.Errorf("annotation %s is missing", recordAnnotation)
	}
	record := map[string]recorded{}
	for part := range strings.SplitSeq(text, ";") {
		fields := entry.FindStringSubmatch(part)
		if fields == nil {
			return nil, fmt.Errorf("annotation %s: %q is not container=devices:thousandths:memory", recordAnnotation, part)
		}
		var r recorded
		if reads := pod.Annotations[devicesPrefix+fields[1]]; reads != "" {
			r.reads = strings.Split(reads, ",")
		}
		var numbers []int
		for _, digits := range append(strings.Split(fields[3], ","), fields[4], fields[5]) {
			n, err := strconv.ParseUint(digits, 10, 31)
			if err != nil {
				return nil, fmt.Errorf("annotation %s: %q: %w", recordAnnotation, part, err)
			}
			numbers = append(numbers, int(n))
		}
		last := len(numbers) - 2
		r.indexes, r.amount = numbers[:last], amount{int64(numbers[last]), int64(numbers[last+1])}
		if _, again := record[fields[1]]; again {
			return nil, fmt.Errorf("annotation %s: container %q has two entries", recordAnnotation, fields[1])
		}
		record[fields[1]] = r
	}
	return record, nil
}

// refusals returns what keeps the pod from the devices of a node, free or not.
func refusals(pod *corev1.Pod, node *corev1.Node) []string {
	requests, err := readRequests(pod)
	if err != nil {
		return []string{err.Error()}
	}
	if len(requests) == 0 {
		return nil
	}
	shared, ok := readNode(node)
	if !ok {
		return []string{fmt.Sprintf("node %q does not share devices, and the pod requests a share", node.Name)}
	}
	var refused []string
	if list, ok := pod.Annotations[modelAnnotation]; ok && !accepts(list, shared.model) {
		refused = append(refused, fmt.Sprintf("node %q has devices of model %q, and the pod accepts %q", node.Name, shared.model, list))
	}
	if text, ok := pod.Annotations[minMemoryAnnotation]; ok {
		if least, err := resource.ParseQuantity(text); err != nil || least.Value() > shared.mib*mebibyte {
			refused = append(refused, fmt.Sprintf("node %q has devices with %dMi, and the pod accepts at least %q", node.Name, shared.mib, text))
		}
	}
	for _, r := range requests {
		if r.devices() > shared.devices {
			refused = append(refused, fmt.Sprintf("node %q has %d devices, and container %q requests %d", node.Name, shared.devices, r.container, r.devices()))
		}
		if r.mib > shared.mib {
			refused = append(refused, fmt.Sprintf("node %q has devices with %dMi, and container %q requests %dMi", node.Name, shared.mib, r.container, r.mib))
		}
	}
	return refused
}

// accepts reports whether one of the patterns in list stands for model. A * is any run
// of characters, and case does not matter.
func accepts(list, model string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(pattern string) bool {
		quoted := regexp.QuoteMeta(strings.TrimSpace(pattern))
		matched, err := regexp.MatchString("(?i)^"+strings.ReplaceAll(quoted, `\*`, ".*")+"$", model)
		return err == nil && matched
	})
}

// written returns the annotations that the Binding writes.
func written(pod *corev1.Pod) map[string]string {
	record := maps.Clone(pod.Annotations)
	maps.DeleteFunc(record, func(key, _ string) bool { return key != recordAnnotation && !strings.HasPrefix(key, devicesPrefix) })
	return record
}

// terminated reports whether the pod's containers have ended for good.
func terminated(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// podName returns namespace/name.
func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// podScheduled returns the condition PodScheduled, or nil.
func podScheduled(pod *corev1.Pod) *corev1.PodCondition {
	i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return nil
	}
	return &pod.Status.Conditions[i]
}
