// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

const (
	// MaxDisorder is by how much events of an audit log may be out of order.
	MaxDisorder = 10 * time.Minute
	// settleEvery is after how many events a Replay looks for devices that were given twice and
	// forgets what has ended longer ago than MaxDisorder.
	settleEvery = 4096
	late        = uint64(MaxDisorder / time.Microsecond)
)

// Writer is who wrote something, as an audit log names it.
type Writer struct {
	User      string `json:"user,omitempty"`
	UserAgent string `json:"userAgent,omitempty"`
}

// Found is a violation that a Replay has found.
type Found struct {
	Violation
	// Node is the node that it is on.
	Node string
	// First and Last are between when it certainly was so: microseconds since 1970 in audit
	// logs, resourceVersions in watch events. Last is MaxUint64 if the log does not show an end.
	First, Last uint64
	// By is who wrote what made it so.
	By Writer
}

// Replay checks what audit logs or watch events say of pods: whether a device was given twice at
// any moment, a pod was bound without a record, a record changed, or a pod entered the node of a
// tenant that is not its own. A pod has a device from the answer to its Binding to the request
// that ends it, so that requests that overlap accuse nobody. Memory is that of the pods
// that exist at a time. What a log does not show is counted: see Gaps.
type Replay struct {
	// Exempt are the namespaces whose pods may run on all tenants' nodes.
	Exempt sets.Set[string]

	history *History
	pods    map[string]*replayed
	// gone are the UIDs of pods that were deleted: answers may come later.
	gone       map[types.UID]end
	nodes      map[string]string // tenants, by name
	namespaces map[string]string
	// before is what existed before the log; nil if nothing is known about it.
	before map[string]*corev1.Pod
	// fromStart is whether the log shows the creation of the namespace kube-system: no pod existed before it.
	fromStart bool
	found     map[string]*Found
	gaps      map[gap]int
	// forms are how the pods of each node name its devices.
	forms map[string]deviceForms

	first, last      uint64
	events, bindings int
	statusWrites     int
	unknownNodes     sets.Set[string]
}

// replayed is a pod as a log has shown it so far.
type replayed struct {
	*corev1.Pod
	version uint64
	// at is when the version was written.
	at moment
	// created and bound are whether the log shows its creation and its Binding, and guessed that
	// its requests are not known but from its record.
	created, bound, guessed bool
	boundAt                 moment
	boundBy                 Writer
}

// deviceForms are the ways in which containers are given the devices of a node.
type deviceForms struct{ index, uuid bool }

// end is that a pod is gone, and since when certainly. guessed is whether no answer shows it: a Binding may have
// come before the deletion, and then the pod runs.
type end struct {
	at      uint64
	guessed bool
}

// gap is something that a log does not show.
type gap string

// The gaps, as they are reported: how often, and what.
const (
	metadataOnly    gap = "write(s) to pods are logged without their content: the policy has level Metadata for them, and at least Request is needed"
	noAnswer        gap = "write(s) to bound pods are logged without a readable answer: what they changed is not known; level RequestResponse shows it"
	unknownOutcome  gap = "write(s) to pods were answered with an error of the server, and may have taken effect"
	missingBinding  gap = "pod(s) have a node, and their Binding is not in the log: events were dropped, or the policy leaves out pods/binding"
	missingCreation gap = "pod(s) were created while the log was written, and their creation is not in it: events were dropped, or the policy leaves some out"
	missingDeletion gap = "pod(s) were replaced by another one of the same name, and their deletion is not in the log"
	missingStatus   gap = "pod(s) ended, and the write of their status is not in the log: events were dropped, or the policy leaves out pods/status"
	existedBefore   gap = "pod(s) existed before the log began: what they had before it first shows them is not known; give the objects of that time with -f"
	unknownRequests gap = "pod(s) were bound without a record, and what they request is not in the log"
	unnamed         gap = "pod(s) were created with generateName and logged without the answer, which has their name: level RequestResponse shows it"
	unknownTenant   gap = "pod(s) entered a tenant's node, and their Namespace is not in the log: give the namespaces with -f"
	watchEnded      gap = "time(s) a watch ended with an error, or another one began: what happened in between is not known"
	stillThere      gap = "pod(s) were written to after their deletion: it was not carried out, or the log is not in order"
	bothForms       gap = "node(s) gave out devices by index and by UUID: whether they are the same is not known"
)

// NewReplay returns one that has seen nothing. The objects are those that existed before the
// log began, as far as they are known; without nodes, namespaces and pods leave them nil.
func NewReplay(exempt []string, nodes []corev1.Node, namespaces []corev1.Namespace, pods []corev1.Pod) *Replay {
	r := &Replay{
		Exempt: sets.New(exempt...), history: NewHistory(), pods: map[string]*replayed{}, gone: map[types.UID]end{},
		nodes: map[string]string{}, namespaces: map[string]string{}, found: map[string]*Found{}, gaps: map[gap]int{}, forms: map[string]deviceForms{}, unknownNodes: sets.New[string](),
	}
	for i := range nodes {
		r.nodes[nodes[i].Name] = nodes[i].Labels[tenantNodeLabel]
	}
	for i := range namespaces {
		r.namespaces[namespaces[i].Name] = namespaces[i].Labels[tenantLabel]
	}
	if pods != nil {
		r.before = map[string]*corev1.Pod{}
	}
	for i := range pods {
		r.before[podName(&pods[i])] = trimmed(&pods[i])
	}
	return r
}

// begin takes note of the time of the first event, and of what existed then.
func (r *Replay) begin(at moment) {
	r.events++
	r.last = max(r.last, at.latest)
	if r.first != 0 {
		return
	}
	r.first = at.earliest
	for name, pod := range r.before {
		if r.isAudit() && pod.CreationTimestamp.UnixMicro() > int64(at.latest) {
			continue // listed after the log began, which has its creation
		}
		r.pods[name] = &replayed{Pod: pod, version: versionOf(pod), at: moment{1, 1}, created: true, bound: true, boundAt: moment{1, 1}}
		r.history.observe(pod, moment{1, 1}, Writer{})
	}
}

// isAudit reports whether moments are times: no cluster has had so many writes.
func (r *Replay) isAudit() bool { return r.first > 1e15 }

// seen takes note of a version of a pod. creation and status are whether it was written by its
// creation, or to its status.
func (r *Replay) seen(pod *corev1.Pod, at moment, by Writer, creation, status bool) {
	if r.isGone(pod.UID, at, !ended(pod), false) {
		return
	}
	version := versionOf(pod)
	p := r.pods[podName(pod)]
	if p != nil && isOther(p.UID, pod.UID) {
		if version != 0 && version < p.version {
			return // of a pod before this one, answered late
		}
		r.gaps[missingDeletion]++
		r.drop(p, moment{p.at.latest, p.at.latest})
		p = nil
	}
	next := &replayed{Pod: trimmed(pod), version: version, at: at, created: creation}
	if p == nil {
		next.bound = creation && pod.Spec.NodeName != ""
		r.keep(next, by, pod.Spec.NodeName != "")
		return
	}
	switch {
	case creation && !p.created:
		r.completed(p, pod)
	case version != 0 && version <= p.version: // answered late
	default:
		if terminated(pod) && !terminated(p.Pod) && !status {
			r.gaps[missingStatus]++
			r.history.end(p.UID, p.at.latest)
		}
		r.replace(p, next, by)
	}
}

// isGone reports whether a pod was deleted that was written to, or bound, at a moment. lives is whether what was
// written does not end it: if that was requested after the deletion was answered, the pod is there after all.
func (r *Replay) isGone(uid types.UID, at moment, lives, binding bool) bool {
	gone, was := r.gone[uid]
	if was && lives && (at.earliest > gone.at || binding && gone.guessed) {
		r.gaps[stillThere]++
		delete(r.gone, uid)
		return false
	}
	return was
}

// replace puts the next version of a pod into the place of p.
func (r *Replay) replace(p, next *replayed, by Writer) {
	if p.UID != next.UID {
		r.history.rename(p.UID, next.UID)
	}
	next.created, next.bound, next.boundAt, next.boundBy = p.created, p.bound, p.boundAt, p.boundBy
	r.keep(next, by, p.Spec.NodeName == "" && next.Spec.NodeName != "")
}

// keep has a version of a pod checked, and whether the pod may enter its node.
func (r *Replay) keep(p *replayed, by Writer, enters bool) {
	r.pods[podName(p.Pod)] = p
	r.apply(p, by)
	if enters {
		r.enter(p, by)
	}
}

// apply has a version of a pod checked.
func (r *Replay) apply(p *replayed, by Writer) {
	before := len(r.history.violations)
	r.history.observe(p.Pod, p.at, by)
	for _, v := range r.history.violations[before:] {
		v.Detail = strings.TrimPrefix(v.Detail, "version "+p.ResourceVersion+" ") // it is that of a time
		r.add(&Found{Violation: v, Node: p.Spec.NodeName, First: p.at.latest, Last: p.at.latest, By: by})
	}
	r.history.violations = r.history.violations[:0]
	if held := r.history.holds[p.UID]; held != nil {
		for name := range held.milli {
			r.nameDevice(p.Spec.NodeName, name)
		}
	}
}

// nameDevice takes note of how a device of a node is named, as node/index or node/UUID.
func (r *Replay) nameDevice(node, name string) {
	forms := r.forms[node]
	if forms.index && forms.uuid {
		return
	}
	_, err := strconv.Atoi(strings.TrimPrefix(name, node+"/"))
	forms.index, forms.uuid = forms.index || err == nil, forms.uuid || err != nil
	r.forms[node] = forms
	if forms.index && forms.uuid {
		r.gaps[bothForms]++
	}
}

// add keeps what was found, once for each object and kind, from the first to the last time.
func (r *Replay) add(found *Found) {
	key := fmt.Sprint(found.Kind, found.Object, found.Pods)
	if known := r.found[key]; known != nil {
		known.First, known.Last = min(known.First, found.First), max(known.Last, found.Last)
		return
	}
	r.found[key] = found
}

// enter checks whether a pod may be on the node that it has got.
func (r *Replay) enter(p *replayed, by Writer) {
	tenant, known := r.nodes[p.Spec.NodeName]
	_, mirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	switch own, ok := r.namespaces[p.Namespace]; {
	case mirror, r.Exempt.Has(p.Namespace):
	case !known:
		r.unknownNodes.Insert(p.Spec.NodeName)
	case tenant == "":
	case !ok:
		r.gaps[unknownTenant]++
	case own != tenant:
		r.add(&Found{
			Violation: Violation{
				Kind: WrongTenant, Object: podName(p.Pod), Pods: []string{podName(p.Pod)},
				Detail: fmt.Sprintf("entered node %q of tenant %q, and its namespace is of tenant %q", p.Spec.NodeName, tenant, own),
			},
			Node: p.Spec.NodeName, First: p.at.latest, Last: p.at.latest, By: by,
		})
	}
}

// bind takes note of a Binding.
func (r *Replay) bind(binding *corev1.Binding, namespace, name string, at moment, by Writer) {
	if r.isGone(binding.UID, at, true, true) {
		return
	}
	r.bindings++
	p := r.pods[namespace+"/"+name]
	if p != nil && isOther(p.UID, binding.UID) {
		r.gaps[missingDeletion]++
		r.drop(p, moment{p.at.latest, p.at.latest})
		p = nil
	}
	if p == nil {
		unknown := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: binding.UID}}
		p = &replayed{Pod: trimmed(&unknown), guessed: true}
	}
	p.bound, p.boundAt, p.boundBy = true, at, by
	if p.Spec.NodeName != "" {
		return // a later version was answered before it
	}
	pod := p.DeepCopy()
	pod.Spec.NodeName = binding.Target.Name
	maps.Copy(pod.Annotations, binding.Annotations)
	if p.guessed {
		guessRequests(pod)
	}
	p.Pod, p.at = pod, at
	r.keep(p, by, true)
}

// completed takes note of the creation of a pod that was answered after its Binding.
func (r *Replay) completed(p *replayed, created *corev1.Pod) {
	p.created = true
	if !p.guessed {
		return
	}
	p.guessed = false
	pod := trimmed(created)
	pod.Spec.NodeName, pod.Status.Phase = p.Spec.NodeName, p.Status.Phase
	maps.Copy(pod.Annotations, p.Annotations)
	r.history.forget(p.UID)
	p.Pod, p.at = pod, p.boundAt
	r.apply(p, p.boundBy)
}

// guessRequests gives a pod whose requests are not known those that its record answers, no two
// of them at a time, so that it has no more than it certainly had.
func guessRequests(pod *corev1.Pod) {
	record, err := readRecord(pod)
	if err != nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(record)) {
		given := record[name]
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, corev1.Container{Name: name, Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
			milliResource: *resource.NewQuantity(given.amount.milli*int64(len(given.indexes)), resource.DecimalSI),
		}}})
	}
}

// opaque takes note that a pod was written to in an unknown way: what it has is certain until then.
func (r *Replay) opaque(namespace, name string, at moment) {
	p := r.pods[namespace+"/"+name]
	if p == nil || p.Spec.NodeName == "" || !requestsDevices(p.Pod) {
		return
	}
	r.gaps[noAnswer]++
	r.history.end(p.UID, at.earliest)
}

// deleted takes note of a request to delete a pod whose answer does not show whether it is gone.
// Pods that run are only asked to end: their kubelets delete them then, with grace period 0.
func (r *Replay) deleted(namespace, name string, grace *int64, at moment) {
	p := r.pods[namespace+"/"+name]
	if p == nil {
		return
	}
	period := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if own := p.Spec.TerminationGracePeriodSeconds; own != nil {
		period = *own
	}
	if grace != nil {
		period = *grace
	}
	if len(p.Finalizers) == 0 && (period == 0 || p.Spec.NodeName == "" || terminated(p.Pod)) {
		r.drop(p, at)
		r.gone[p.UID] = end{at.latest, true}
	}
}

// drop takes note that a pod is gone, and of what the log did not show of it.
func (r *Replay) drop(p *replayed, at moment) {
	r.history.end(p.UID, at.earliest)
	r.history.forget(p.UID)
	delete(r.pods, podName(p.Pod))
	r.gone[p.UID] = end{at: at.latest}
	r.missing(p)
}

// missing counts what the log did not show of a pod.
func (r *Replay) missing(p *replayed) {
	switch {
	case p.guessed && !p.created && p.Annotations[recordAnnotation] == "":
		r.gaps[unknownRequests]++
	case p.created:
	case r.isAudit() && p.CreationTimestamp.UnixMicro() > int64(r.first):
		r.gaps[missingCreation]++
	default:
		r.gaps[existedBefore]++
	}
	if p.created && p.Spec.NodeName != "" && !p.bound {
		r.gaps[missingBinding]++
	}
}

// settle looks for devices that were given twice, and forgets what ended long ago.
func (r *Replay) settle() {
	for _, o := range r.history.overlaps() {
		node, _, _ := strings.Cut(o.device, "/")
		r.add(&Found{
			Violation: Violation{
				Kind: Overcommitted, Object: o.device, Pods: o.pods(),
				Detail: fmt.Sprintf("%dm of %dm of the device were allocated at a time", o.milli, whole),
			},
			Node: node, First: o.from, Last: o.to, By: o.holds[len(o.holds)-1].by,
		})
	}
	old := r.last - min(r.last, late)
	r.history.ended = slices.DeleteFunc(r.history.ended, func(held *hold) bool { return held.to < old })
	maps.DeleteFunc(r.gone, func(_ types.UID, gone end) bool { return gone.at < old })
}

// Result is what a Replay has found.
type Result struct {
	// Found are sorted by kind, object and time.
	Found []Found
	// Gaps say what the logs do not show, a line each. Where there are any, that nothing was
	// found shows nothing.
	Gaps []string
	// First and Last are the moments of the first and the last event.
	First, Last uint64
	// Events, Versions of pods with shares, and Bindings were read.
	Events, Versions, Bindings int
}

// Result returns what was found. It ends the Replay.
func (r *Replay) Result() *Result {
	r.settle()
	for _, p := range r.pods {
		r.missing(p)
	}
	result := &Result{First: r.first, Last: r.last, Events: r.events, Versions: r.history.versions, Bindings: r.bindings}
	for _, f := range r.found {
		if f.Last == math.MaxUint64 {
			f.Last = r.last
		}
		result.Found = append(result.Found, *f)
	}
	slices.SortFunc(result.Found, func(a, b Found) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Object, b.Object), cmp.Compare(a.First, b.First))
	})
	for _, g := range slices.Sorted(maps.Keys(r.gaps)) {
		result.Gaps = append(result.Gaps, fmt.Sprintf("%d %s", r.gaps[g], g))
	}
	if r.events == 0 {
		result.Gaps = append(result.Gaps, "no write to a pod is in the log")
	} else if r.isAudit() && r.bindings > 0 && r.statusWrites == 0 {
		result.Gaps = append(result.Gaps, "no write to pods/status is in the log: if the policy leaves them out, pods that have ended look as if they ran")
	}
	if r.isAudit() && r.before == nil && !r.fromStart {
		result.Gaps = append(result.Gaps, "the pods that existed before the log began are not known: give them with -f, as kubectl get pods,nodes,namespaces -A -o yaml prints them")
	}
	if n := r.unknownNodes.Len(); n > 0 {
		result.Gaps = append(result.Gaps, fmt.Sprintf("%d node(s) that pods entered are not in the log (%s, …), so their tenants are not known: give the nodes with -f", n, slices.Min(r.unknownNodes.UnsortedList())))
	}
	return result
}

// trimmed returns what a Replay needs of a pod.
func trimmed(pod *corev1.Pod) *corev1.Pod {
	small := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
			CreationTimestamp: pod.CreationTimestamp, Finalizers: pod.Finalizers, Annotations: written(pod),
		},
		Spec:   corev1.PodSpec{NodeName: pod.Spec.NodeName, TerminationGracePeriodSeconds: pod.Spec.TerminationGracePeriodSeconds},
		Status: corev1.PodStatus{Phase: pod.Status.Phase},
	}
	if small.UID == "" {
		small.UID = types.UID(podName(pod)) // as long as no answer has shown it
	}
	if small.Annotations == nil {
		small.Annotations = map[string]string{}
	}
	if mirror, ok := pod.Annotations[corev1.MirrorPodAnnotationKey]; ok {
		small.Annotations[corev1.MirrorPodAnnotationKey] = mirror
	}
	if !requestsDevices(pod) {
		return small
	}
	container := func(c *corev1.Container) corev1.Container {
		return corev1.Container{Name: c.Name, RestartPolicy: c.RestartPolicy, Resources: corev1.ResourceRequirements{Limits: c.Resources.Limits}}
	}
	for i := range pod.Spec.InitContainers {
		small.Spec.InitContainers = append(small.Spec.InitContainers, container(&pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		small.Spec.Containers = append(small.Spec.Containers, container(&pod.Spec.Containers[i]))
	}
	return small
}

// isOther reports whether two UIDs are those of two pods, as far as they are known.
func isOther(a, b types.UID) bool {
	return a != b && a != "" && b != "" && !strings.Contains(string(a), "/") && !strings.Contains(string(b), "/")
}

// versionOf returns the version of a pod; 0 if it is not known.
func versionOf(pod *corev1.Pod) uint64 {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return version
}
