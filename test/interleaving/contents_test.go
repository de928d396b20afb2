// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/device"
)

// contents writes the state of the world as a text that is the same for two states only if
// everything that follows is the same. See the package comment.
//
// alias gives equal pods each other's names.
type contents struct {
	*server

	alias map[string]string
}

// state returns the text of the state. Pods that are alike have each other's names there, in the order of what
// can be said of each without the others. Where that does not tell two of them apart, two
// states that differ by their names alone may count as two.
func (w *world) state() string {
	alias := map[string]string{}
	ordered := slices.Clone(w.alike)
	about := map[string]string{}
	for _, name := range ordered {
		about[name] = w.about(name)
	}
	slices.SortStableFunc(ordered, func(a, b string) int { return strings.Compare(about[a], about[b]) })
	for i, name := range ordered {
		alias[name] = w.alike[i]
	}
	return (&contents{server: w.server, alias: alias}).world(w)
}

// about is what can be said of a pod without the names of others.
func (w *world) about(name string) string {
	c := &contents{server: w.server, alias: map[string]string{name: ""}}
	var text strings.Builder
	if pod := w.server.pods[name]; pod != nil {
		text.WriteString(c.pod(pod))
	}
	for _, p := range w.processes {
		if !p.alive {
			continue
		}
		fmt.Fprint(&text, p.attempts[name], p.binding[name], p.threads[name], p.queue[name] != nil)
		if known, there, _ := p.pods.store.GetByKey("default/" + name); there {
			text.WriteString(c.pod(known.(*corev1.Pod)))
		}
		for i, change := range w.server.podLog[p.pods.next:] {
			if change.old != nil && change.old.GetName() == name {
				text.WriteString(strconv.Itoa(i))
			}
		}
	}
	for _, r := range w.net.sorted() {
		if r.pod == name {
			fmt.Fprint(&text, r.process, r.verb, r.number, r.served, r.payload(c))
		}
	}
	return text.String()
}

func (c *contents) name(pod string) string {
	if other, ok := c.alias[pod]; ok {
		return other
	}
	return pod
}

// sorted joins texts in an order of their own.
func sorted(texts []string) string {
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

func (c *contents) world(w *world) string {
	var parts, pods, nodes, requests []string
	for _, pod := range c.pods {
		pods = append(pods, c.pod(pod))
	}
	for _, node := range c.nodes {
		nodes = append(nodes, node.Name+"@"+c.version(node.ResourceVersion))
	}
	for _, r := range w.net.sorted() {
		requests = append(requests, fmt.Sprintf("%s %s %s#%d %t%t %s", r.process, r.verb, c.name(r.pod), r.number, r.served, r.abandoned, r.payload(c)))
	}
	parts = append(parts, sorted(pods), sorted(nodes), sorted(requests), strconv.Itoa(len(c.saved)))
	for _, p := range w.processes {
		parts = append(parts, c.process(p))
	}
	parts = append(parts, fmt.Sprint(w.faults, w.ticks, w.delivered, slices.Sorted(maps.Keys(w.edited))))
	return strings.Join(parts, "\n")
}

// version is a resource version of an object. It is counted back from the newest one of the object,
// since versions of one object are compared with each other, and those of two objects are not, but by a watch: what a
// watch has not delivered yet is part of the text, in its order. After a restore of etcd versions are
// compared with epochs too, so where there may be one a version stays as it is.
func (c *contents) version(version string) string {
	known, ok := c.counts[version]
	if !ok || c.exact {
		return version
	}
	return strconv.Itoa(c.newest[known.object] - known.count)
}

// pod is what of a version of a pod differs between versions.
func (c *contents) pod(pod *corev1.Pod) string {
	text := fmt.Sprint(c.name(pod.Name), len(pod.UID), "@", c.version(pod.ResourceVersion), pod.Status.Phase, pod.DeletionTimestamp != nil, pod.Labels)
	if pod.Spec.NodeName != "" {
		return text + pod.Spec.NodeName + pod.Annotations[names.GPUAssignedAnnotation]
	}
	fences := []string{text}
	for i := range pod.Status.Conditions {
		if condition := &pod.Status.Conditions[i]; condition.Type == names.GPUFenceCondition {
			fences = append(fences, c.token(condition.Message), strconv.FormatInt(condition.LastTransitionTime.Unix(), 10))
		}
	}
	return strings.Join(fences, "")
}

// token is a token without its number, which several requests that are under way at once draw in any
// order and nothing depends on.
func (c *contents) token(token string) string {
	epoch, rest, _ := strings.Cut(token, "/")
	process, _, _ := strings.Cut(rest, "/")
	return c.epoch(epoch) + "/" + process
}

// epoch is the place of an epoch among all that were drawn: they are compared with each other.
func (c *contents) epoch(epoch string) string {
	if n, err := strconv.Atoi(epoch); err == nil && !c.exact {
		i, _ := slices.BinarySearch(c.epochs, n)
		return strconv.Itoa(i)
	}
	return epoch
}

// behind is how many changes of pods there are after a version.
func (c *contents) behind(version int) int {
	n := 0
	for _, change := range slices.Backward(c.podLog) {
		if change.version <= version {
			break
		}
		n++
	}
	return n
}

func (c *contents) process(p *process) string {
	if !p.alive {
		return p.client.process
	}
	var waiting, threads []string
	for name, pod := range p.queue {
		waiting = append(waiting, fmt.Sprint(c.pod(pod), p.attempts[name], p.binding[name]))
	}
	if len(p.world.edits) > 0 || len(p.world.group) > 0 { // a pod may be back under the same name
		waiting = append(waiting, fmt.Sprint(p.attempts, p.binding))
	}
	for name, thread := range p.threads {
		threads = append(threads, fmt.Sprint(c.name(name), thread))
	}
	parts := []string{
		p.client.process, fmt.Sprint(p.leading, p.past, p.looked == p.pods.version), sorted(waiting), sorted(threads),
		c.informer(p.pods, c.podLog), c.informer(p.nodes, c.nodeLog), c.cache(p),
	}
	if p.prepares() {
		parts = append(parts, fmt.Sprint(c.behind(p.epoch), p.pods.version >= p.epoch, c.behind(p.fenced)))
	}
	for _, cycle := range append([]*cycle{p.cycle}, p.members...) {
		if cycle != nil {
			parts = append(parts, fmt.Sprint(cycle.pod.Name, cycle.node, cycle.filtered, cycle.past))
		}
	}
	ledger := reflect.ValueOf(p.plugin).Elem().FieldByName("allocations").Elem()
	return strings.Join(append(parts, c.value(ledger), c.views(p)), "\n")
}

// informer is the store, what the watch has not delivered, and what the handlers were not told.
func (c *contents) informer(i *informer, log []change) string {
	var store, rest []string
	for _, object := range i.store.List() {
		store = append(store, c.value(reflect.ValueOf(object)))
	}
	for _, change := range log[i.next:] {
		rest = append(rest, c.change(change.old, change.updated))
	}
	rest = append(rest, "plugin")
	for _, told := range i.toPlugin {
		rest = append(rest, c.change(told.old, told.updated))
	}
	rest = append(rest, "cache")
	for _, told := range i.toCache {
		rest = append(rest, c.change(told.old, told.updated))
	}
	return sorted(store) + ";" + strings.Join(rest, ",")
}

func (c *contents) change(old, updated any) string {
	return c.value(reflect.ValueOf(old)) + ">" + c.value(reflect.ValueOf(updated))
}

// cache is what kube-scheduler's cache has.
func (c *contents) cache(p *process) string {
	var texts []string
	dump := p.cache.Dump()
	for name, node := range dump.Nodes {
		if node.Node() != nil {
			texts = append(texts, name+"@"+c.version(node.Node().ResourceVersion))
		}
		for _, pod := range node.GetPods() {
			texts = append(texts, fmt.Sprint(name, c.name(pod.GetPod().Name), len(pod.GetPod().UID), dump.AssumedPods.Has(string(pod.GetPod().UID))))
		}
	}
	return sorted(texts)
}

// phaseNames are those of gpudevice's phases, in their order.
var phaseNames = [...]string{"assumed", "bindingUnknown", "bound", "unrecorded"}

const absent = "absent"

// phaseChanges counts the changes of phases since the last step.
func (p *process) phaseChanges() {
	phases := map[string]string{}
	if p.alive {
		ledger := reflect.ValueOf(p.plugin).Elem().FieldByName("allocations").Elem()
		field[sync.Map](ledger.FieldByName("byPod")).Range(func(uid, held any) bool {
			phases[fmt.Sprint(uid)] = phaseNames[reflect.ValueOf(held).Elem().FieldByName("phase").Uint()]
			return true
		})
		for uid, before := range p.phases {
			if now := cmp.Or(phases[uid], absent); now != before {
				p.world.covered(before + " -> " + now)
			}
		}
		for uid, now := range phases {
			if _, before := p.phases[uid]; !before {
				p.world.covered(absent + " -> " + now)
			}
		}
	}
	p.phases = phases
}

// views are the views that the plugin would take for valid.
func (c *contents) views(p *process) string {
	var texts []string
	dump := p.cache.Dump()
	cells := field[sync.Map](reflect.ValueOf(p.plugin).Elem().FieldByName("nodes").FieldByName("cells"))
	cells.Range(func(name, cell any) bool {
		view := loaded(reflect.ValueOf(cell).Elem().FieldByName("view"))
		if view.IsNil() {
			return true
		}
		revision := loaded(reflect.ValueOf(cell).Elem().FieldByName("state").Elem().FieldByName("revision")).Uint()
		node := dump.Nodes[name.(string)]
		if node != nil && view.Elem().FieldByName("generation").Int() == node.GetGeneration() && view.Elem().FieldByName("revision").Uint() == revision {
			texts = append(texts, fmt.Sprint(name, c.value(view)))
		}
		return true
	})
	return sorted(texts)
}

// unread are the fields of the plugin that are not part of the state: what it is connected with, counters and times of
// which only metrics and messages are made, memos of what can be computed anew, and numbers that are only compared with what is
// read elsewhere. Any other field is part of the state, also one that is new.
var unread = map[string]bool{
	"allocationCache.ctx": true, "allocationCache.clock": true, "allocationCache.client": true, "allocationCache.config": true,
	"allocationCache.pods": true, "allocationCache.nodes": true, "allocationCache.synced": true, "allocationCache.plugins": true,
	"allocationCache.changes": true, "allocationCache.fenceWrites": true, "allocationCache.mu": true,
	"startupWait.version": true, "startupWait.retryAt": true, "startupWait.turnedAway": true, "startupWait.mu": true,
	"keptPods.mu": true, "podAllocation.since": true, "nodeState.revision": true, "Allocation.last": true,
	"nodeView.generation": true, "nodeView.revision": true, "nodeView.object": true, "nodeView.node": true, "nodeView.scores": true,
}

// value is the text of a value of the plugin.
func (c *contents) value(v reflect.Value) string {
	if !v.IsValid() {
		return "nil"
	}
	switch v.Kind() {
	case reflect.Func, reflect.UnsafePointer:
		return ""
	case reflect.Chan:
		return strconv.FormatBool(v.IsNil())
	case reflect.Interface, reflect.Pointer:
		return c.pointer(v)
	case reflect.Slice, reflect.Array:
		var texts []string
		for i := range v.Len() {
			texts = append(texts, c.value(v.Index(i)))
		}
		return "[" + strings.Join(texts, " ") + "]"
	case reflect.Map:
		var texts []string
		for entries := v.MapRange(); entries.Next(); {
			texts = append(texts, c.key(entries.Key())+":"+c.value(entries.Value()))
		}
		return "{" + sorted(texts) + "}"
	case reflect.Struct:
		return c.structure(v)
	default:
		return fmt.Sprint(v)
	}
}

// key is the text of the key of a map, which may be the UID of a pod: its name, and a digit where it is
// the second one of that name.
func (c *contents) key(v reflect.Value) string {
	text := fmt.Sprint(v)
	return c.name(text[:min(1, len(text))]) + text[min(1, len(text)):]
}

func (c *contents) pointer(v reflect.Value) string {
	if v.IsNil() {
		return "nil"
	}
	if v.CanInterface() || v.CanAddr() {
		if v.CanAddr() {
			v = reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Elem()
		}
		switch object := v.Interface().(type) {
		case *corev1.Pod:
			return c.pod(object)
		case *corev1.Node:
			return object.Name + "@" + c.version(object.ResourceVersion)
		case error:
			return errorText(object)
		}
	}
	return c.value(v.Elem())
}

func (c *contents) structure(v reflect.Value) string {
	if v.CanAddr() {
		switch at := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).Interface().(type) {
		case *sync.Map:
			var texts []string
			at.Range(func(key, value any) bool {
				texts = append(texts, c.key(reflect.ValueOf(key))+":"+c.value(reflect.ValueOf(value)))
				return true
			})
			return sorted(texts)
		case *device.Usage:
			var free []device.Share
			for i := range at.Devices() {
				free = append(free, at.Free(i))
			}
			return fmt.Sprint(free, at.Cordoned())
		}
		if value := loaded(v); value.IsValid() {
			return c.value(value)
		}
	}
	if v.Type() == reflect.TypeFor[time.Time]() {
		return ""
	}
	var texts []string
	for i := range v.NumField() {
		switch name := v.Type().Name() + "." + v.Type().Field(i).Name; {
		case unread[name]:
		case name == "podAllocation.pod": // for what it is called
			pod := *field[*corev1.Pod](v.Field(i))
			texts = append(texts, fmt.Sprint(c.name(pod.Name), len(pod.UID)))
		case name == "allocationCache.epoch":
			texts = append(texts, c.epoch(v.Field(i).String()))
		default:
			texts = append(texts, c.value(v.Field(i)))
		}
	}
	return "(" + strings.Join(texts, " ") + ")"
}

// field returns a field that is not exported.
func field[T any](v reflect.Value) *T { return (*T)(v.Addr().UnsafePointer()) }

// loaded returns what an atomic value holds, and the zero value of any other.
func loaded(v reflect.Value) reflect.Value {
	load := reflect.NewAt(v.Type(), v.Addr().UnsafePointer()).MethodByName("Load")
	if !load.IsValid() || load.Type().NumIn() != 0 {
		return reflect.Value{}
	}
	return load.Call(nil)[0]
}

// errorText is what an error says, without the name of the pod.
func errorText(err error) string {
	if err == nil {
		return ""
	}
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(err) {
		err = inner
	}
	return string(apierrors.ReasonForError(err)) + quoted.ReplaceAllString(err.Error(), "")
}

// quoted is a name in an error of the API server.
var quoted = regexp.MustCompile(`pods "[a-z0-9-]+"|pod [a-z0-9-]+|\([0-9a-z]*\)`)
