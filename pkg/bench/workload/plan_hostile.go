// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

const (
	// hostilePeer and hostileStranger are labels app in the hostile namespace: a pod with
	// the first is behind every Service, one with the second behind none.
	hostilePeer     = "hostile-peer"
	hostileStranger = "hostile-stranger"
	// hostileGate is the scheduling gate of the pods that are gated.
	hostileGate = "example.com/hostile"
	// gatedPods is how many of them there are.
	gatedPods = 20
	// flippingPeer is the index of the bound pod that FlipPeer is about.
	flippingPeer = 1
)

// RequirementAnnotation is the annotation in which the waiting pods require what
// [HostilePlan.Affinity] requires.
const RequirementAnnotation = names.ColocateRequiredTopologyKeyAnnotation

// The namespaces of the hostile owner, as long as a name may be. All that waits names
// Services of the first; half of it is in the second, which they let near or do not:
// across namespaces a scheduler has to read what both say.
var (
	HostileNamespace    = longName("hostile-")
	AccompliceNamespace = longName("hostile-accomplice-")
)

// HostilePlan is what somebody writes who is out to slow others down: objects that the
// API server takes from anybody who may write to two namespaces. Their pods have no
// spec.schedulerName, which the run decides.
//
// Where its own policies are installed, Berth refuses some of it at admission. The
// scheduler is measured without them: it must not depend on them for its speed.
type HostilePlan struct {
	// WritesPerSecond bounds the writes of [HostilePlan.Write].
	WritesPerSecond float64
	// Services have the longest lists of namespaces that they let near.
	Services []corev1.Service
	// Bound pods have their nodes. The first is behind every Service, the second is by
	// turns; the others, one on each node with devices, have a limit of zero thousandths
	// of a device.
	Bound []corev1.Pod
	// Waiting pods require pods behind the Services on a node that has none. They say it
	// in the annotations of Colocation.
	Waiting []corev1.Pod
	// Affinity says the same to a scheduler that does not have Colocation.
	Affinity *corev1.Affinity
	// Gated pods have a scheduling gate, and otherwise are as the waiting ones.
	Gated []corev1.Pod
	// Forger is a pod with a limit of zero and the records of devices that only a
	// Binding may write, on a node with devices if there is one.
	Forger corev1.Pod

	// consents are lists of namespaces, of each two of which only the first has the
	// accomplice's: as long as Colocation reads them, and far longer.
	consents, overlong [2]string
	terms              [2]string
}

// HostileWriteKind is what one write of the hostile namespace is.
type HostileWriteKind int

// The writes, in their order; then they begin again.
const (
	// FlapConsent replaces the list of namespaces of a Service by another.
	FlapConsent HostileWriteKind = iota
	// FlipPeer takes the second bound pod from behind the Services, or puts it back.
	FlipPeer
	// RewriteTerms changes the weights of the Services that a waiting pod names.
	RewriteTerms
	// Ungate removes the gate of a gated pod, which becomes one more that waits.
	Ungate
	// Forge creates the forger, Unforge deletes it.
	Forge
	// DeleteUngated deletes the pod whose gate was removed.
	DeleteUngated
	// Regate creates it again, gated.
	Regate
	// Unforge deletes the forger.
	Unforge

	hostileWriteKinds
)

// HostileWrite is one write of the hostile namespace.
type HostileWrite struct {
	Kind HostileWriteKind
	// Index is that of the object in the plan's list.
	Index int
	// Key and Value are the annotation or label to set, for FlapConsent, FlipPeer and
	// RewriteTerms.
	Key, Value string
}

// Write returns the write with that number, from 0.
func (h *HostilePlan) Write(number int) HostileWrite {
	// Every object has its turn, and gets the other value when its turn comes again.
	turn := number / int(hostileWriteKinds)
	write := HostileWrite{Kind: HostileWriteKind(number % int(hostileWriteKinds))}
	other := func(count int, values [2]string) {
		write.Index = turn % count
		write.Value = values[(turn/count+1)%2]
	}
	switch write.Kind {
	case FlapConsent:
		write.Key = names.AllowColocationFromAnnotation
		write.Index = turn % len(h.Services)
		write.Value = h.consent(write.Index, turn/len(h.Services)+1)
	case FlipPeer:
		write.Key = appLabel
		other(1, [2]string{hostilePeer, hostileStranger})
		write.Index = flippingPeer
	case RewriteTerms:
		write.Key = names.ColocateWithAnnotation
		other(len(h.Waiting), h.terms)
	case Ungate, DeleteUngated, Regate:
		write.Index = turn % len(h.Gated)
	case Forge, Unforge, hostileWriteKinds:
	}
	return write
}

const (
	// consentEntries is how many namespaces Colocation reads of a Service's list.
	consentEntries = 128
	// overlongEvery is of how many Services one has a list that is longer than that.
	overlongEvery = 4
)

// consent is the list of a Service after some flips. About half of those that Colocation
// reads let the accomplice near at any time.
func (h *HostilePlan) consent(service, flips int) string {
	if service%overlongEvery == overlongEvery-1 {
		return h.overlong[flips%2]
	}
	return h.consents[(service+flips)%2]
}

// writeHostile writes the hostile namespace out for at least two nodes.
func writeHostile(spec *Hostile, nodes []corev1.Node) *HostilePlan {
	h := &HostilePlan{
		WritesPerSecond: spec.WritesPerSecond,
		consents: [2]string{
			longConsent(consentEntries-1, "a") + "," + AccompliceNamespace,
			longConsent(consentEntries, "b"),
		},
		overlong: [2]string{
			consent(spec.ConsentKiB<<10-len(AccompliceNamespace)-1, "a") + "," + AccompliceNamespace,
			consent(spec.ConsentKiB<<10, "b"),
		},
		Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{appLabel: hostilePeer}}, TopologyKey: corev1.LabelHostname, Namespaces: []string{HostileNamespace},
		}}}},
	}
	var services [2][]string
	for i := range spec.Services {
		service := writeService(longName(fmt.Sprintf("hostile-%d-", i)))
		service.Namespace = HostileNamespace
		service.Annotations = map[string]string{names.AllowColocationFromAnnotation: h.consent(i, 0)}
		service.Spec.Selector = map[string]string{appLabel: hostilePeer}
		h.Services = append(h.Services, service)
		services[0] = append(services[0], fmt.Sprintf("%s/%s=%d", HostileNamespace, service.Name, 100-i))
		services[1] = append(services[1], fmt.Sprintf("%s/%s=%d", HostileNamespace, service.Name, 1+i))
	}
	h.terms = [2]string{strings.Join(services[0], ","), strings.Join(services[1], ",")}

	// One stays, so that there is always a pod to be near; the other comes to a node
	// where there is none, which may help whoever waits.
	peer := template(map[string]string{appLabel: hostilePeer}, nil, nil, nil)
	h.Bound = []corev1.Pod{*named(&peer, podName(hostilePeer, 0)), *named(&peer, podName(hostilePeer, flippingPeer))}
	h.Bound[0].Spec.NodeName, h.Bound[flippingPeer].Spec.NodeName = nodes[0].Name, nodes[len(nodes)-1].Name
	if len(nodes) == 2 {
		h.Bound[flippingPeer].Spec.NodeName = nodes[0].Name
	}
	// Its pods wait where no peer is, and forge where devices are.
	waitOn, forgeOn := nodes[1].Name, nodes[1].Name
	zero := corev1.ResourceList{names.GPUMilliResource: *resource.NewQuantity(0, resource.DecimalSI)}
	asks := template(map[string]string{appLabel: hostileStranger}, nil, zero, zero)
	for i := range nodes {
		if nodes[i].Name == waitOn || !hasDevices(&nodes[i]) {
			continue
		}
		pod := named(&asks, podName("hostile-zero", len(h.Bound)))
		pod.Spec.NodeName, forgeOn = nodes[i].Name, nodes[i].Name
		h.Bound = append(h.Bound, *pod)
	}
	forger := named(&asks, "hostile-forger")
	forger.Annotations = map[string]string{
		names.GPUAssignedAnnotation: device.FormatRecords([]device.Record{{
			Container: container, Devices: device.SetOf(0), Share: device.Share{Milli: device.MilliPerDevice, MemoryMiB: 1024},
		}}),
		names.GPUDevicesAnnotationPrefix + container: "0",
	}
	forger.Spec.NodeSelector = map[string]string{corev1.LabelHostname: forgeOn}
	h.Forger = *forger

	waiting := template(map[string]string{appLabel: hostileStranger}, map[string]string{
		names.ColocateWithAnnotation:         h.terms[0],
		names.ColocateTopologyKeysAnnotation: longTopologyKeys(),
		RequirementAnnotation:                corev1.LabelHostname,
	}, nil, nil)
	waiting.Spec.NodeSelector = map[string]string{corev1.LabelHostname: waitOn}
	for i := range spec.WaitingPods {
		h.Waiting = append(h.Waiting, *named(&waiting, podName("hostile-waiting", i)))
	}
	for i := range gatedPods {
		pod := named(&waiting, podName("hostile-gated", i))
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: hostileGate}}
		h.Gated = append(h.Gated, *pod)
	}
	for namespace, pods := range map[string][][]corev1.Pod{HostileNamespace: {h.Bound}, AccompliceNamespace: {h.Waiting, h.Gated}} {
		for i := range pods {
			for k := range pods[i] {
				pods[i][k].Namespace = namespace
			}
		}
	}
	for i := 1; i < len(h.Waiting); i += 2 {
		h.Waiting[i].Namespace = HostileNamespace // where nobody asks for consent
	}
	h.Forger.Namespace = HostileNamespace
	return h
}

// hasDevices reports whether a node of a plan has devices.
func hasDevices(node *corev1.Node) bool {
	for key := range node.Labels {
		if isDeviceLabel(key) {
			return true
		}
	}
	return false
}

// longName makes a name as long as it may be.
func longName(start string) string {
	return start + strings.Repeat("x", validation.DNS1123LabelMaxLength-len(start))
}

// consent is a list of namespaces, as long as is asked for; start makes it differ from
// others.
func consent(bytes int, start string) string {
	var list strings.Builder
	for i := 0; list.Len()+validation.DNS1123LabelMaxLength < bytes; i++ {
		// Short names are the most entries for the same length.
		fmt.Fprintf(&list, "%s%x,", start, i)
	}
	return strings.TrimSuffix(list.String(), ",")
}

// longConsent is a list of that many namespaces, each with the longest name.
func longConsent(entries int, start string) string {
	list := make([]string, entries)
	for i := range list {
		list[i] = longName(fmt.Sprintf("%s%d-", start, i))
	}
	return strings.Join(list, ",")
}

// longTopologyKeys are as many keys as a pod may name, each as long as it may be.
func longTopologyKeys() string {
	var keys []string
	for i := range maxTopologyKeys {
		domain := strings.Repeat(strings.Repeat("d", 61)+".", 4)[:validation.DNS1123SubdomainMaxLength-8]
		keys = append(keys, strings.TrimSuffix(domain, ".")+".example/"+longName(fmt.Sprintf("k%d", i)))
	}
	return strings.Join(keys, ",")
}
