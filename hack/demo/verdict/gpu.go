// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verdict

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// milliPerDevice is what one device has to give.
const milliPerDevice = 1000

// GPU declares by which names pods ask for shares of devices, nodes say which
// they have, and pods are told what they were given. The names are all that the
// verdict is told: what they mean is written down a second time in this package.
type GPU struct {
	// MilliResource and MemoryResource are limits of a container: thousandths of
	// one device or, in multiples of 1000, whole devices; and memory of each.
	MilliResource, MemoryResource corev1.ResourceName
	// ModelAnnotation of a pod lists patterns of models.
	ModelAnnotation string
	// RecordAnnotation of a bound pod says what its containers were given:
	// "main=0,1:1000m:40960Mi;side=2:250m:10240Mi".
	RecordAnnotation string
	// DevicesPrefix starts the annotation of a bound pod that a container reads its
	// devices from; the container's name follows.
	DevicesPrefix string
	// SharingLabel is "true" on nodes whose devices are shared. CountLabel,
	// MemoryLabel (MiB of each device) and ModelLabel say what they have.
	SharingLabel, CountLabel, MemoryLabel, ModelLabel string
	// Unknown are annotations of pods and nodes that change what is allowed, and
	// that this package does not check.
	Unknown []string
}

// resources are what no node lists as allocatable: they are counted by device.
func (g *GPU) resources() []corev1.ResourceName {
	if g == nil {
		return nil
	}
	return []corev1.ResourceName{g.MilliResource, g.MemoryResource}
}

// ask is what one container asks for.
type ask struct {
	container string
	devices   int
	// milli and memoryMiB are asked of each device; zero is left to the scheduler,
	// which must take the same part of both.
	milli, memoryMiB int64
}

// asks returns what the containers of pod ask for, none for a pod without shares.
// The error is a request that cannot be met, or not be checked here.
func (g *GPU) asks(pod *corev1.Pod) ([]ask, error) {
	for i := range pod.Spec.InitContainers {
		limits := pod.Spec.InitContainers[i].Resources.Limits
		if _, ok := limits[g.MilliResource]; ok {
			return nil, fmt.Errorf("spec.initContainers[%d] asks for %s, which this verdict cannot check", i, g.MilliResource)
		}
		if _, ok := limits[g.MemoryResource]; ok {
			return nil, fmt.Errorf("spec.initContainers[%d] asks for %s, which this verdict cannot check", i, g.MemoryResource)
		}
	}
	var asks []ask
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		milli, hasMilli := container.Resources.Limits[g.MilliResource]
		memory, hasMemory := container.Resources.Limits[g.MemoryResource]
		if !hasMilli && !hasMemory {
			continue
		}
		a := ask{container: container.Name, devices: 1, milli: milli.Value()}
		if a.milli > milliPerDevice {
			a.devices, a.milli = int(a.milli/milliPerDevice), milliPerDevice
		}
		if hasMilli && (milli.Sign() <= 0 || milli.Value() != int64(a.devices)*a.milli) {
			return nil, fmt.Errorf("container %q asks for %s %s, which is neither a share nor whole devices", a.container, milli.String(), g.MilliResource)
		}
		if hasMemory && memory.Sign() <= 0 {
			return nil, fmt.Errorf("container %q asks for %s %s, which is nothing", a.container, memory.String(), g.MemoryResource)
		}
		const mebibyte = 1 << 20
		a.memoryMiB = (memory.Value() + mebibyte - 1) / mebibyte
		asks = append(asks, a)
	}
	return asks, nil
}

// refusals returns what keeps pod from the devices of node, whoever holds them:
// whether they are free is a matter of the devices themselves.
func (g *GPU) refusals(pod *corev1.Pod, node *corev1.Node) []string {
	if g == nil {
		return nil
	}
	asks, err := g.asks(pod)
	if err != nil {
		return []string{err.Error()}
	}
	if len(asks) == 0 {
		return nil
	}
	if node.Labels[g.SharingLabel] != "true" {
		return []string{fmt.Sprintf("node %q does not share devices (label %s=true), and the pod asks for a share", node.Name, g.SharingLabel)}
	}
	count, memory, err := g.size(node)
	if err != nil {
		return []string{err.Error()}
	}
	var refused []string
	if list, ok := pod.Annotations[g.ModelAnnotation]; ok && !accepts(list, node.Labels[g.ModelLabel]) {
		refused = append(refused, fmt.Sprintf("node %q has devices of model %q, and the pod wants %q", node.Name, node.Labels[g.ModelLabel], list))
	}
	for _, a := range asks {
		if a.devices > count {
			refused = append(refused, fmt.Sprintf("node %q has %d devices, and container %q asks for %d", node.Name, count, a.container, a.devices))
		}
		if a.memoryMiB > memory {
			refused = append(refused, fmt.Sprintf("node %q has devices with %dMi, and container %q asks for %dMi", node.Name, memory, a.container, a.memoryMiB))
		}
	}
	return refused
}

// size returns how many devices a shared node has, and the memory of each in MiB.
func (g *GPU) size(node *corev1.Node) (count int, memoryMiB int64, err error) {
	number := func(label string) int64 {
		n, ok := parseNumber(node.Labels[label])
		if !ok || n == 0 {
			err = errors.Join(err, fmt.Errorf("node %q shares devices, and its label %s=%q is no positive number", node.Name, label, node.Labels[label]))
		}
		return n
	}
	count, memoryMiB = int(number(g.CountLabel)), number(g.MemoryLabel)
	return count, memoryMiB, err
}

// accepts reports whether one of the patterns in list stands for model. A * is any
// run of characters, and case does not matter.
func accepts(list, model string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(pattern string) bool {
		quoted := regexp.QuoteMeta(strings.TrimSpace(pattern))
		matched, err := regexp.MatchString("(?i)^"+strings.ReplaceAll(quoted, `\*`, ".*")+"$", model)
		return err == nil && matched
	})
}

// unknown returns a violation for each annotation that is not checked.
func (g *GPU) unknown(what string, annotations map[string]string) []string {
	var violations []string
	for _, key := range g.Unknown {
		if _, ok := annotations[key]; ok {
			violations = append(violations, fmt.Sprintf("%sannotation %s changes what is allowed in a way that this verdict cannot check", what, key))
		}
	}
	return violations
}
