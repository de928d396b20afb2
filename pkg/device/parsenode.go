// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// NodeKeys are the labels and resources in which a vendor describes devices.
type NodeKeys struct {
	// Count, Memory (MiB per device) and Product are labels of GPU feature
	// discovery.
	Count, Memory, Product string
	// Replicas is the label with the time-slicing replicas of a device. GPU
	// feature discovery writes 1 for none, and 0 for devices in MIG mode.
	Replicas string
	// MIGPrefix starts the labels and resources of MIG devices of the mixed
	// strategy, such as nvidia.com/mig-1g.5gb.count.
	MIGPrefix string
	// PluginResources are what device plugins advertise devices as.
	PluginResources []corev1.ResourceName
	// Pool is the pool of the nodes whose devices are shared (names.GPUPoolLabel), nil for
	// those of all pools.
	Pool *string
}

// AllPools returns the keys for nodes of whatever pool.
func (k NodeKeys) AllPools() *NodeKeys {
	k.Pool = nil
	return &k
}

// inPool reports whether the node, if it is shared, is of the pool.
func (k *NodeKeys) inPool(node *corev1.Node) bool {
	return k.Pool == nil || node.Labels[names.GPUPoolLabel] == *k.Pool
}

// sharedSuffix ends the name of a resource that NVIDIA's device plugin advertises in
// place of the resource itself where devices are time-sliced (renameByDefault).
const sharedSuffix = ".shared"

// IsDevicePluginResource reports whether a device plugin advertises devices or parts of devices as
// the resource. It allocates nothing.
func (k *NodeKeys) IsDevicePluginResource(name corev1.ResourceName) bool {
	return slices.Contains(k.PluginResources, name) || k.isPart(name)
}

// isPart reports whether a device plugin advertises parts of devices as the resource:
// MIG devices, or slices of time.
func (k *NodeKeys) isPart(name corev1.ResourceName) bool {
	if k.MIGPrefix != "" && strings.HasPrefix(string(name), k.MIGPrefix) {
		return true
	}
	of, shared := strings.CutSuffix(string(name), sharedSuffix)
	return shared && slices.Contains(k.PluginResources, corev1.ResourceName(of))
}

// DefaultNodeKeys are those of NVIDIA's GPU feature discovery and device plugin.
func DefaultNodeKeys() NodeKeys {
	return NodeKeys{
		Count:           "nvidia.com/gpu.count",
		Memory:          "nvidia.com/gpu.memory",
		Product:         "nvidia.com/gpu.product",
		Replicas:        "nvidia.com/gpu.replicas",
		MIGPrefix:       "nvidia.com/mig-",
		PluginResources: []corev1.ResourceName{"nvidia.com/gpu"},
	}
}

// migProduct stands in the product label of a node whose MIG devices are
// advertised by the single strategy, also while they are invalid. The label
// nvidia.com/mig.strategy tells nothing: it is there without any MIG device.
const migProduct = "-mig-"

// ParseNode returns what the node says about its devices. It accepts any node
// object. What it does not understand makes a node NodeInvalid rather than
// guessed at.
func ParseNode(node *corev1.Node, keys *NodeKeys) *Node {
	n := &Node{Model: strings.ToLower(node.Labels[keys.Product])}
	if memory, ok := parseCount(node.Labels[keys.Memory], MaxMemoryMiB); ok {
		n.MemoryMiB = memory
	}
	invalid := n.parse(node, keys)
	if invalid.Reason != "" {
		return &Node{Kind: NodeInvalid, Invalid: invalid, Model: n.Model, MemoryMiB: n.MemoryMiB}
	}
	return n
}

// parse sets the kind and what belongs to it.
func (n *Node) parse(node *corev1.Node, keys *NodeKeys) InvalidError {
	plugin, advertised := advertisedDevices(node, keys)
	switch sharing, ok := node.Labels[names.GPUSharingLabel]; {
	case ok && sharing != "false" && !keys.inPool(node):
		n.Kind = NodeInOtherPool
		return InvalidError{}
	case ok && sharing != "true" && sharing != "false":
		return InvalidError{
			Reason: InvalidSharing, Field: labelField(names.GPUSharingLabel), Value: sharing,
			Detail: `is neither "true" nor "false": set one of them, or remove the label`,
		}
	case sharing != "true":
		if plugin != "" {
			n.Kind, n.Devices = NodeDevicePlugin, int(min(advertised, 1<<20))
		}
		return InvalidError{}
	case plugin != "":
		detail := "is advertised on a node labeled %s=true, and only one can hand out its devices: keep the device plugin off the node (nvidia.com/gpu.deploy.device-plugin=false), or remove the label"
		if allocatable := node.Status.Allocatable[plugin]; allocatable.Sign() <= 0 {
			detail = "is still there on a node labeled %s=true, so the device plugin may be restarting: the kubelet removes it five minutes after the plugin is gone"
		}
		return InvalidError{
			Reason: AdvertisesDevicePlugin, Field: fmt.Sprintf("status.capacity[%s]", plugin),
			Detail: fmt.Sprintf(detail, names.GPUSharingLabel),
		}
	}
	n.Kind = NodeShared
	for _, step := range []func(*corev1.Node, *NodeKeys) InvalidError{checkUndivided, n.parseSize, n.parseCordon, n.parseUUIDs} {
		if invalid := step(node, keys); invalid.Reason != "" {
			return invalid
		}
	}
	return InvalidError{}
}

// advertisedDevices returns the first device-plugin or MIG resource that the
// node has any of, and the number of device-plugin devices it can hand out.
// Capacity counts beside allocatable: while a device plugin is away, for an update as for
// good, the kubelet shows the one for five minutes and none of the other. Its pods go on
// running, and a share that was placed meanwhile would be on their devices once it is back.
func advertisedDevices(node *corev1.Node, keys *NodeKeys) (first corev1.ResourceName, devices int64) {
	var found []corev1.ResourceName
	for _, list := range []corev1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		for name, q := range list {
			if q.Sign() > 0 && keys.IsDevicePluginResource(name) {
				found = append(found, name)
			}
		}
	}
	if len(found) == 0 {
		return "", 0
	}
	for _, name := range keys.PluginResources {
		capacity, allocatable := node.Status.Capacity[name], node.Status.Allocatable[name]
		devices += max(0, min(max(capacity.Value(), allocatable.Value()), 1<<20))
	}
	return slices.Min(found), devices
}

// checkUndivided refuses devices that are split already.
func checkUndivided(node *corev1.Node, keys *NodeKeys) InvalidError {
	const undivide = "turn that off on this node, or remove the label " + names.GPUSharingLabel
	if product := node.Labels[keys.Product]; strings.Contains(strings.ToLower(product)+"-", migProduct) {
		return InvalidError{Reason: Partitioned, Field: labelField(keys.Product), Value: product, Detail: "indicates MIG devices, which take no shares: " + undivide}
	}
	if keys.MIGPrefix != "" {
		var mig []string
		for key := range node.Labels {
			if strings.HasPrefix(key, keys.MIGPrefix) {
				mig = append(mig, key)
			}
		}
		if len(mig) > 0 {
			key := slices.Min(mig)
			return InvalidError{Reason: Partitioned, Field: labelField(key), Value: node.Labels[key], Detail: "indicates MIG devices, which take no shares: " + undivide}
		}
	}
	value, ok := node.Labels[keys.Replicas]
	if !ok {
		return InvalidError{}
	}
	replicas, ok := parseCount(value, 1<<20)
	switch {
	case !ok:
		return InvalidError{Reason: InvalidReplicas, Field: labelField(keys.Replicas), Value: value, Detail: "is not a number of replicas: GPU feature discovery writes 1 for a device that is not time-sliced"}
	case replicas == 0:
		return InvalidError{Reason: Partitioned, Field: labelField(keys.Replicas), Value: value, Detail: "indicates devices in MIG mode, which take no shares: " + undivide}
	case replicas > 1:
		return InvalidError{Reason: TimeSliced, Field: labelField(keys.Replicas), Value: value, Detail: "indicates time-slicing, which hands out the same devices: " + undivide}
	}
	return InvalidError{}
}

// parseSize reads how many devices there are, and their memory.
func (n *Node) parseSize(node *corev1.Node, keys *NodeKeys) InvalidError {
	value := node.Labels[keys.Count]
	count, ok := parseCount(value, MaxDevices)
	if !ok || count == 0 {
		return InvalidError{Reason: InvalidCount, Field: labelField(keys.Count), Value: value, Detail: fmt.Sprintf("must be the number of devices of a shared node, 1 to %d: run GPU feature discovery, or set it", MaxDevices)}
	}
	n.Devices = int(count)
	if n.MemoryMiB == 0 {
		return InvalidError{Reason: InvalidDeviceMemory, Field: labelField(keys.Memory), Value: node.Labels[keys.Memory], Detail: "must be the memory of each device of a shared node in MiB: run GPU feature discovery, or set it"}
	}
	return InvalidError{}
}

// The annotations of a node are read up to these lengths: each device has an index, or a UUID of
// up to 64 characters, and two for what separates them.
const (
	maxCordonedLength = MaxDevices * 4
	maxUUIDsLength    = MaxDevices * 66
)

// parseCordon reads which devices take nothing new.
func (n *Node) parseCordon(node *corev1.Node, _ *NodeKeys) InvalidError {
	value := node.Annotations[names.GPUCordonedAnnotation]
	invalid := func() InvalidError {
		return InvalidError{Reason: InvalidCordon, Field: annotationField(names.GPUCordonedAnnotation), Value: value, Detail: fmt.Sprintf("is not a list of devices: write indexes from 0 to %d separated by commas, or remove it", n.Devices-1)}
	}
	switch {
	case len(value) > maxCordonedLength:
		return invalid()
	case strings.TrimSpace(value) == "":
		return InvalidError{}
	}
	for part := range strings.SplitSeq(value, ",") {
		i, ok := parseCount(strings.TrimSpace(part), int64(n.Devices)-1)
		if !ok {
			return invalid()
		}
		n.Cordoned = n.Cordoned.With(int(i))
	}
	return InvalidError{}
}

// parseUUIDs reads by which names the devices are handed out.
func (n *Node) parseUUIDs(node *corev1.Node, _ *NodeKeys) InvalidError {
	value := node.Annotations[names.GPUUUIDsAnnotation]
	invalid := func(detail string) InvalidError {
		return InvalidError{Reason: InvalidUUIDs, Field: annotationField(names.GPUUUIDsAnnotation), Value: value, Detail: detail}
	}
	switch {
	case len(value) > maxUUIDsLength:
		return invalid(fmt.Sprintf("has %d characters: list the UUID of each device, in the order of their indexes, or remove it", len(value)))
	case strings.TrimSpace(value) == "":
		return InvalidError{}
	}
	if got := strings.Count(value, ",") + 1; got != n.Devices {
		return invalid(fmt.Sprintf("names %d devices of %d: list the UUID of each, in the order of their indexes, or remove it", got, n.Devices))
	}
	for part := range strings.SplitSeq(value, ",") {
		uuid := strings.TrimSpace(part)
		if !validUUID(uuid) {
			return invalid("is not a list of device UUIDs: write them as nvidia-smi -L shows them, separated by commas, or remove it")
		}
		if slices.Contains(n.UUIDs, uuid) {
			return invalid("names a device twice: list the UUID of each, or remove it")
		}
		n.UUIDs = append(n.UUIDs, uuid)
	}
	return InvalidError{}
}

// validUUID reports whether a container runtime takes s as the name of one
// device: not as an index, nor as one of the words all, none and void. A device's
// UUID has a prefix and a dash (GPU-...); requiring the dash rules those out.
func validUUID(s string) bool {
	if len(s) < 3 || len(s) > 64 || !strings.Contains(s[1:], "-") {
		return false
	}
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c >= '0' && c <= '9' || c == '-'):
		default:
			return false
		}
	}
	return true
}

// labelField is the path of a node's label.
func labelField(key string) string {
	return fmt.Sprintf("metadata.labels[%s]", key)
}

// annotationField is the path of a node's annotation.
func annotationField(key string) string {
	return fmt.Sprintf("metadata.annotations[%s]", key)
}
