// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

const (
	milliResource  = corev1.ResourceName(names.GPUMilliResource)
	memoryResource = corev1.ResourceName(names.GPUMemoryResource)
)

// ParsePod returns what the pod asks for. keys has the resource names that vendors'
// device plugins advertise, such as nvidia.com/gpu; nil for none.
//
// A limit of zero asks for nothing, as it does for the scheduler and the kubelet. A
// pod that asks for nothing gives a Request of RequestNone. A pod that can never be
// served, whatever the cluster looks like, gives an *InvalidError. ParsePod accepts
// any pod object, also one that no API server would have let through.
func ParsePod(pod *corev1.Pod, keys *NodeKeys) (*Request, error) {
	if keys == nil {
		keys = &NodeKeys{}
	}
	if isPlain(pod, keys) {
		return &Request{}, nil
	}
	p := requestParser{keys: keys, leastMemory: leastMemory}
	if err := misplaced(pod); err != nil {
		return nil, err
	}
	request, err := p.pod(pod)
	if err != nil {
		return nil, err
	}
	if err := constraints(pod, request, keys.PluginResources); err != nil {
		return nil, err
	}
	return request, nil
}

// isPlain reports whether nothing stands in the pod that ParsePod reads, as in most pods.
func isPlain(pod *corev1.Pod, keys *NodeKeys) bool {
	if pod.Spec.Resources != nil || len(pod.Spec.EphemeralContainers) > 0 {
		return false // rare
	}
	for _, key := range constraintAnnotations {
		if _, ok := pod.Annotations[key]; ok {
			return false
		}
	}
	for _, containers := range [...][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for _, list := range [...]corev1.ResourceList{containers[i].Resources.Limits, containers[i].Resources.Requests} {
				for name := range list {
					if strings.HasPrefix(string(name), names.Prefix) || keys.IsDevicePluginResource(name) {
						return false
					}
				}
			}
		}
	}
	return true
}

// pod reads the containers.
func (p *requestParser) pod(pod *corev1.Pod) (*Request, error) {
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		kind := Init
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			kind = Sidecar
		}
		if err := p.container(fmt.Sprintf("spec.initContainers[%d]", i), c, kind); err != nil {
			return nil, err
		}
	}
	for i := range pod.Spec.Containers {
		if err := p.container(fmt.Sprintf("spec.containers[%d]", i), &pod.Spec.Containers[i], Main); err != nil {
			return nil, err
		}
	}
	return p.request()
}

// requestParser gathers what the containers of one pod ask for.
type requestParser struct {
	keys *NodeKeys
	// leastMemory is how many bytes of memory a container must ask for at least.
	leastMemory int64

	containers []ContainerRequest
	// firstShare, firstPlugin and firstPart name the first field of each form.
	firstShare, firstPlugin, firstPart string
	shareContainer                     string

	// pluginRunning and pluginPeak count device-plugin devices as the scheduler
	// counts CPU over the life of a pod.
	pluginRunning, pluginPeak int64
}

// container reads one container.
func (p *requestParser) container(path string, c *corev1.Container, kind ContainerKind) error {
	if err := ourResources(path, c); err != nil {
		return err
	}
	if err := p.pluginDevices(path, c, kind); err != nil {
		return err
	}
	container := ContainerRequest{Container: c.Name, Kind: kind, Devices: 1}
	if q, ok := c.Resources.Limits[milliResource]; ok && !q.IsZero() {
		if err := setMilli(&container, path, &q); err != nil {
			return err
		}
		p.sawShare(limitField(path, milliResource), c.Name)
	}
	if q, ok := c.Resources.Limits[memoryResource]; ok && !q.IsZero() {
		mebibytes, problem := memoryMiB(&q, p.leastMemory)
		if problem != "" {
			return &InvalidError{Reason: InvalidMemory, Container: c.Name, Field: limitField(path, memoryResource), Value: q.String(), Detail: problem}
		}
		container.MemoryMiB = mebibytes
		p.sawShare(limitField(path, memoryResource), c.Name)
	}
	if container.Milli == 0 && container.MemoryMiB == 0 {
		return nil
	}
	if len(p.containers) == MaxContainers {
		return &InvalidError{
			Reason: TooManyContainers, Container: c.Name, Field: path + ".resources.limits",
			Detail: fmt.Sprintf("exceeds the limit of %d containers with shares in a pod: split the pod", MaxContainers),
		}
	}
	p.containers = append(p.containers, container)
	return nil
}

// sawShare remembers where the first share was asked for.
func (p *requestParser) sawShare(field, container string) {
	if p.firstShare == "" {
		p.firstShare, p.shareContainer = field, container
	}
}

// pluginDevices counts the device-plugin resources of one container. Zero of
// them is a common way of writing none.
func (p *requestParser) pluginDevices(path string, c *corev1.Container, kind ContainerKind) error {
	var devices int64
	p.parts(path, c)
	for _, name := range p.keys.PluginResources {
		q, ok := c.Resources.Limits[name]
		if !ok || q.IsZero() {
			continue
		}
		n, ok := wholeNumber(&q)
		if !ok || n < 0 || n > 1<<20 {
			return &InvalidError{Reason: InvalidDeviceCount, Container: c.Name, Field: limitField(path, name), Value: q.String(), Detail: "is not a number of devices: ask for 1 or more whole ones"}
		}
		devices += n
		if p.firstPlugin == "" {
			p.firstPlugin = limitField(path, name)
		}
	}
	if kind == Init {
		p.pluginPeak = max(p.pluginPeak, p.pluginRunning+devices)
		return nil
	}
	p.pluginRunning += devices
	p.pluginPeak = max(p.pluginPeak, p.pluginRunning)
	return nil
}

// parts looks for parts of devices that a device plugin hands out.
func (p *requestParser) parts(path string, c *corev1.Container) {
	if p.firstPart != "" {
		return
	}
	var found []corev1.ResourceName
	for name, q := range c.Resources.Limits {
		if p.keys.isPart(name) && !q.IsZero() {
			found = append(found, name)
		}
	}
	if len(found) > 0 {
		p.firstPart = limitField(path, slices.Min(found))
	}
}

// request puts the pieces together.
func (p *requestParser) request() (*Request, error) {
	other, what := p.firstPlugin, "whole devices"
	if other == "" {
		other, what = p.firstPart, "parts of devices"
	}
	switch {
	case p.firstShare != "" && other != "":
		return nil, &InvalidError{
			Reason: BothForms, Container: p.shareContainer, Field: p.firstShare,
			Detail: fmt.Sprintf("asks for a share while %s asks for %s of a device plugin, and no node offers both: use one of them, %s: \"1000\" is a whole device too", other, what, milliResource),
		}
	case p.firstShare != "":
		return &Request{Kind: RequestShares, Containers: p.containers}, nil
	case p.firstPlugin != "":
		whole := ContainerRequest{Kind: Main, Devices: int(p.pluginPeak), Milli: MilliPerDevice}
		return &Request{Kind: RequestDevicePlugin, Containers: []ContainerRequest{whole}}, nil
	case p.firstPart != "":
		return &Request{Kind: RequestPartitions}, nil
	default:
		return &Request{}, nil
	}
}

// setMilli reads a gpu-milli limit into the container request.
func setMilli(container *ContainerRequest, path string, q *resource.Quantity) error {
	n, ok := wholeNumber(q)
	switch {
	case ok && n > 0 && n < MilliPerDevice:
		container.Milli = n
		return nil
	case ok && n > 0 && n%MilliPerDevice == 0 && n <= MaxDevices*MilliPerDevice:
		container.Devices, container.Milli = int(n/MilliPerDevice), MilliPerDevice
		return nil
	}
	return &InvalidError{
		Reason: InvalidMilli, Container: container.Container, Field: limitField(path, milliResource), Value: q.String(),
		Detail: fmt.Sprintf("is neither a share nor whole devices: ask for 1 to %d thousandths of one device, or a multiple of %d up to %d", MilliPerDevice-1, MilliPerDevice, MaxDevices*MilliPerDevice),
	}
}

// ourResources refuses names of our domain that mean nothing, and requests that
// contradict the limit. The API server holds extended resources to equal
// requests and limits; a pod may come from elsewhere.
func ourResources(path string, c *corev1.Container) error {
	var unknown []string
	for _, list := range []corev1.ResourceList{c.Resources.Limits, c.Resources.Requests} {
		for name := range list {
			if strings.HasPrefix(string(name), names.Prefix) && !slices.Contains(names.ShareResources[:], string(name)) {
				unknown = append(unknown, string(name))
			}
		}
	}
	if len(unknown) > 0 {
		return &InvalidError{
			Reason: UnknownResource, Container: c.Name, Field: path + ".resources", Value: slices.Min(unknown),
			Detail: "is not a resource that Berth supports: use " + strings.Join(names.ShareResources[:], " or "),
		}
	}
	for _, name := range names.ShareResources {
		request := c.Resources.Requests[corev1.ResourceName(name)]
		if limit := c.Resources.Limits[corev1.ResourceName(name)]; !request.IsZero() && limit.Cmp(request) != 0 {
			return &InvalidError{
				Reason: RequestDiffers, Container: c.Name, Field: fmt.Sprintf("%s.resources.requests[%s]", path, name), Value: request.String(),
				Detail: "differs from the limit: set the limit and leave the request out",
			}
		}
	}
	return nil
}

// misplaced refuses our resources where no container is given devices from.
func misplaced(pod *corev1.Pod) error {
	check := func(path, container string, resources *corev1.ResourceRequirements) error {
		for _, list := range []corev1.ResourceList{resources.Limits, resources.Requests} {
			for name, q := range list {
				if strings.HasPrefix(string(name), names.Prefix) && !q.IsZero() {
					return &InvalidError{
						Reason: MisplacedResource, Container: container, Field: path + ".resources", Value: string(name),
						Detail: "is given to containers and init containers alone: move it to the limits of the one that uses the device",
					}
				}
			}
		}
		return nil
	}
	if pod.Spec.Resources != nil {
		if err := check("spec", "", pod.Spec.Resources); err != nil {
			return err
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		if err := check(fmt.Sprintf("spec.ephemeralContainers[%d]", i), c.Name, &c.Resources); err != nil {
			return err
		}
	}
	return nil
}

// constraintAnnotations narrow the choice of devices.
var constraintAnnotations = [...]string{names.GPUModelAnnotation, names.GPUMinMemoryAnnotation}

// constraints reads them.
func constraints(pod *corev1.Pod, request *Request, pluginResources []corev1.ResourceName) error {
	for _, key := range constraintAnnotations {
		value, ok := pod.Annotations[key]
		if !ok {
			continue
		}
		field := fmt.Sprintf("metadata.annotations[%s]", key)
		if request.Kind == RequestNone {
			return &InvalidError{
				Reason: ConstraintWithoutDevice, Field: field, Value: value,
				Detail: fmt.Sprintf("constrains devices, but no container has a limit of %v: add one, or remove the annotation", append([]corev1.ResourceName{milliResource, memoryResource}, pluginResources...)),
			}
		}
		if key == names.GPUModelAnnotation {
			models, err := ParseModels(value)
			if err != nil {
				return &InvalidError{Reason: InvalidModel, Field: field, Value: value, Detail: err.Error()}
			}
			request.Models = models
			continue
		}
		q, err := parseQuantity(value)
		if err != nil {
			return &InvalidError{Reason: InvalidMinMemory, Field: field, Value: value, Detail: "is not a quantity of bytes: write it like 40Gi"}
		}
		mebibytes, problem := memoryMiB(&q, leastMemory)
		if problem != "" {
			return &InvalidError{Reason: InvalidMinMemory, Field: field, Value: value, Detail: problem}
		}
		request.MinMemoryMiB = mebibytes
	}
	return nil
}

func limitField(path string, name corev1.ResourceName) string {
	return fmt.Sprintf("%s.resources.limits[%s]", path, name)
}
