// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

// digest is a sum over a sequence of texts.
type digest uint64

var digestSeed = maphash.MakeSeed()

func (d *digest) add(text string) {
	*d = digest(maphash.String(digestSeed, fmt.Sprintf("%x %s", uint64(*d), text)))
}

// touches says whom a step is about, which decides whether it puts off what a watch has delivered.
type touches struct {
	// processes is a bit for each.
	processes uint8
	// all is a step in which time passes for everybody.
	all bool
	// fault is one that takes from the common budget of faults.
	fault bool
}

// step is something that may happen next.
type step struct {
	label   string
	touches touches
	// deliver is whether a watch delivers something, and nothing else happens.
	deliver bool
	do      func()
}

// bounds limit what happens in an order.
type bounds struct {
	// attempts is how often a process tries a pod.
	attempts int
	// faults is how many of: an answer lost, a request refused, a process killed, a list instead of a watch.
	faults int
	// ticks are how far time goes at a time; each once, in this order.
	ticks []time.Duration
	// looks is whether 25 ms pass while a process that leads is not prepared: it looks then whether its
	// informer has caught up, once for each version.
	looks bool
	// handlers is whether the two handlers of an informer and its store are told at different
	// times; else at once.
	handlers bool
	// cycles is in how many steps a cycle takes place between which something may happen: the
	// snapshot, Filter, and Reserve.
	cycles int
	// answers is whether something may happen between the effect of a write and its answer.
	answers bool
}

// scenario is a cluster and what may happen in it.
type scenario struct {
	name   string
	bounds bounds
	// nodes and pods are there at the beginning; bind are Bindings written before, by "pod device".
	nodes []*corev1.Node
	pods  []*corev1.Pod
	// standbys is how many stand by beside the first process, which leads at the beginning.
	standbys int
	// overlap is whether another one may lead while the first goes on.
	overlap bool
	// kill is whether the first process may be killed. Where nobody stands by it starts again.
	kill bool
	// relist, lose, refuse, refuseBind and repeat are which faults there are.
	relist, lose, refuse, refuseBind, repeat bool
	// edits are what people do, each once, at any time and in any order unless after says
	// otherwise.
	edits []edit
	// budget is how long the long test explores its orders; that of all if 0.
	budget time.Duration
	// alike are pods that differ in their names alone, and that nothing else in the scenario names.
	alike []string
	// highFirst gives the first process the greater name.
	highFirst bool
	// group are pods that are scheduled as one group.
	group []string
	// nominated is a pod that has the first node as its nominated one.
	nominated string
	// strandable is where it is not asked that every pod that fits is bound in the end.
	strandable bool
	// restarted is where processes are restarted before the end, as after a restore of etcd.
	restarted bool
	// full is a pod to which nothing can be written, and denied one that a policy keeps from being bound.
	full, denied string
	// bound are pods that are bound in the end, whatever the oracle says of room.
	bound []string
	// foreign is whether somebody binds a pod without a record.
	foreign bool
	// shrinks is whether somebody takes memory from devices that are in use.
	shrinks bool
	// rule is what must hold at any moment beside what holds in all scenarios: it returns what is wrong.
	rule func(*server) string
	args func(*config.GPUDeviceArgs)
}

// edit is what a person or a controller does at the API server.
type edit struct {
	name  string
	after string
	do    func(*server)
}

// world is one execution of a scenario.
type world struct {
	*scenario

	t         testing.TB
	ctx       context.Context
	server    *server
	net       network
	processes []*process
	faults    int
	ticks     int
	reversed  bool
	// delivered is a bit for each process to which a watch has delivered something, and which has not done anything since.
	delivered uint8
	edited    map[string]bool
	// checked is the version of the store that was checked last.
	checked int
	// known is whether the state is one that was checked in an order before.
	known bool

	mu       sync.Mutex
	failures []string
	coverage map[string]int
}

func newWorld(ctx context.Context, tb testing.TB, s *scenario, coverage map[string]int) *world {
	tb.Helper()
	w := &world{scenario: s, t: tb, ctx: ctx, server: newServer(), edited: map[string]bool{}, coverage: coverage}
	for _, node := range s.nodes {
		w.server.putNode(node.DeepCopy())
	}
	for _, pod := range s.pods {
		w.server.putPod(pod.DeepCopy())
	}
	for i := range s.count() {
		w.processes = append(w.processes, startProcess(tb, w, i))
	}
	w.server.full, w.server.denied = s.full, s.denied
	w.server.exact = s.restarted
	w.server.backup()
	w.processes[0].lead()
	w.settle()
	for range 50 { // the first process is prepared before anything else happens
		if !w.processes[0].prepares() {
			break
		}
		for _, r := range w.net.sorted() {
			w.serve(r)
			w.net.finish(r)
		}
		w.processes[0].catchUp()
		pass(50 * time.Millisecond)
		w.settle()
	}
	return w
}

func (s *scenario) count() int { return 1 + s.standbys }

// settle returns when every goroutine waits for a step.
func (w *world) settle() { synctest.Wait() }

func (w *world) identity(p *process) byte {
	if w.highFirst {
		return byte(9 - p.index)
	}
	return byte(1 + p.index)
}

func (w *world) locked(do func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	do()
}

func (w *world) fail(format string, args ...any) {
	w.locked(func() { w.failures = append(w.failures, fmt.Sprintf(format, args...)) })
}

// withoutRecord is in the reason for which a node is rejected where a pod without a record runs. The scenarios in which
// there is such a pod show that it is still worded so.
const withoutRecord = "without an allocation record"

// refused counts the reasons for which pods were not placed, and covered what else was seen: the
// coverage of an exploration.
//
// Where no pod is bound without a record, none may be taken for one.
func (w *world) refused(reason string) {
	if !w.foreign && strings.Contains(reason, withoutRecord) {
		w.fail("a pod is taken for one without a record: %s", reason)
	}
	w.covered("refused: " + reason)
}

func (w *world) covered(what string) { w.locked(func() { w.coverage[what]++ }) }

// args are those of the plugin.
func (w *world) arguments() *config.GPUDeviceArgs {
	args := gpuArgs()
	if w.args != nil {
		w.args(args)
	}
	return args
}

// pass lets the time of the bubble pass, which takes none.
func pass(d time.Duration) { time.Sleep(d) } //nolint:forbidigo // virtual time

// steps returns what may happen next, in a fixed order.
func (w *world) steps() []step {
	var steps []step
	add := func(touches touches, do func(), format string, args ...any) {
		steps = append(steps, step{label: fmt.Sprintf(format, args...), touches: touches, do: do})
	}
	deliver := func(p *process) {
		for i := range steps {
			if s := &steps[i]; s.touches.processes == 1<<p.index && strings.HasPrefix(s.label, p.name+" sees ") {
				s.deliver = true
			}
		}
	}
	for _, r := range w.net.sorted() {
		w.requestSteps(r, add)
	}
	for _, p := range w.processes {
		w.processSteps(p, add)
		deliver(p)
	}
	for _, e := range w.edits {
		if !w.edited[e.name] && (e.after == "" || w.edited[e.after]) {
			add(touches{}, func() {
				w.edited[e.name] = true
				e.do(w.server)
			}, "%s", e.name)
		}
	}
	if w.ticks < len(w.bounds.ticks) {
		d := w.bounds.ticks[w.ticks]
		add(touches{all: true}, func() {
			w.ticks++
			w.pass(d)
		}, "%v pass", d)
	}
	if w.bounds.looks && slices.ContainsFunc(w.processes, (*process).looks) {
		add(touches{all: true}, func() {
			for _, p := range w.processes {
				p.looked = p.pods.version
			}
			w.pass(look)
		}, "%v pass", look)
	}
	return steps
}

// next returns those of the steps that an order goes on with. What a watch delivers to a process
// changes nothing for any other, so of the equivalent orders only that one is executed in which the process does
// something with it before others do anything; where several wait for time to pass, the first of them comes first.
//
// A process that does nothing any more gets all deliveries at once, whatever else may happen.
func (w *world) next() (next []step, more bool) {
	steps := w.steps()
	for i, s := range steps {
		if s.deliver && slices.ContainsFunc(w.processes, func(p *process) bool { return s.touches.processes == 1<<p.index && p.isIdle() }) {
			return steps[i : i+1], false
		}
	}
	for _, s := range steps {
		if s.deliver && s.touches.processes >= w.delivered || !s.deliver && (s.touches.all || w.delivered&^s.touches.processes == 0) {
			next = append(next, s)
		}
	}
	return next, len(steps) > len(next)
}

// isIdle reports whether the process does nothing any more before the end.
func (p *process) isIdle() bool {
	w := p.world
	if !p.leading || p.cycle != nil || len(w.edits) > 0 || len(w.group) > 0 || w.relist || w.kill && w.standbys == 0 || p.prepares() {
		return false
	}
	if p.asks(func(*request) bool { return true }) || len(p.threads) > 0 || w.kept(p) {
		return false
	}
	for name := range p.queue {
		if p.attempts[name] < w.bounds.attempts && p.plugin.Ready() == nil {
			return false
		}
	}
	return true
}

// kept reports whether the process keeps pods back, which it tries to fence in the background.
func (w *world) kept(p *process) bool {
	return slices.ContainsFunc(w.pods, func(pod *corev1.Pod) bool {
		status := p.plugin.PreEnqueue(w.ctx, pod)
		return !status.IsSuccess() && p.plugin.Ready() == nil
	})
}

// look is a little longer than a process waits before it looks at its informer again.
const look = 25 * time.Millisecond

// pass lets time pass.
func (w *world) pass(d time.Duration) {
	for _, p := range w.processes {
		for name := range p.threads {
			if d > look || name != "" && !p.asks(func(r *request) bool { return r.pod == name }) {
				p.remember(name, d.String())
			}
		}
		if d > look && p.alive && (p.leading || p.cycle != nil) {
			p.past.add(d.String())
		}
	}
	pass(d)
}

type adder func(touches touches, do func(), format string, args ...any)

// requestSteps are what may happen to a request.
func (w *world) requestSteps(r *request, add adder) {
	p := w.processOf(r)
	bit := uint8(1) << p.index
	switch {
	case r.verb == verbForget:
		add(touches{processes: bit}, func() { w.answer(p, r) }, "%v", r)
		return
	case r.abandoned:
		add(touches{}, func() {
			w.serve(r)
			w.net.finish(r)
			w.covered("late " + r.verb)
		}, "late %v", r)
		return
	case !r.writes():
		add(touches{processes: bit}, func() {
			w.serve(r)
			w.answer(p, r)
		}, "%v", r)
		return
	case !r.served && !w.bounds.answers:
		add(touches{processes: bit}, func() {
			w.serve(r)
			w.answer(p, r)
		}, "%v", r)
	case !r.served:
		add(touches{}, func() { w.serve(r) }, "%v is written", r)
	default:
		add(touches{processes: bit}, func() { w.answer(p, r) }, "%v is answered", r)
	}
	if w.lose && w.faults < w.bounds.faults {
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			p.remember(r.pod, "lost "+r.verb)
			w.net.lose(r, errLost)
		}, "the connection of %v is lost", r)
		if !w.bounds.answers && !r.served {
			add(touches{processes: bit, fault: true}, func() {
				w.faults++
				w.serve(r)
				p.remember(r.pod, "lost "+r.verb)
				w.net.lose(r, errLost)
			}, "the answer of %v is lost", r)
		}
	}
	if w.repeat && r.verb == verbBind && !r.served && w.faults < w.bounds.faults {
		// As client-go does it by itself where an API server answers 5xx or 429 with Retry-After.
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			w.serve(r)
			w.serve(r)
			w.answer(p, r)
		}, "%v is sent twice", r)
	}
	if w.refuseBind && r.verb == verbBind && !r.served && w.faults < w.bounds.faults {
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			r.err, r.served = apierrors.NewForbidden(podsResource, r.pod, errors.New("a policy does not allow it")), true
			w.answer(p, r)
		}, "%v is refused by a policy", r)
	}
	if w.refuse && r.verb == verbPatch && !r.served && w.faults < w.bounds.faults {
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			r.err, r.served = apierrors.NewInternalError(errors.New("a webhook does not answer")), true
			w.answer(p, r)
		}, "%v is refused by a webhook", r)
	}
}

func (w *world) processOf(r *request) *process {
	name := strings.TrimRight(r.process, "'")
	return w.processes[slices.IndexFunc(w.processes, func(p *process) bool { return p.name == name })]
}

// serve has the API server do what is asked.
func (w *world) serve(r *request) {
	r.value, r.err = r.serve(w.server)
	r.served = true
}

// answer has the process read the answer. What it does next depends on that, and on what it reads
// then.
func (w *world) answer(p *process, r *request) {
	read := []string{r.verb + errorText(r.err)}
	switch value := r.value.(type) {
	case *corev1.Pod:
		if value != nil {
			version, _ := strconv.Atoi(value.ResourceVersion)
			p.fenced = max(p.fenced, version)
		}
	case *corev1.PodList:
		if r.pod == "" {
			p.epoch = w.server.version
		}
		for i := range value.Items {
			if !p.binding[r.pod] {
				break
			}
			read = append(read, (&contents{server: w.server, alias: map[string]string{value.Items[i].Name: ""}}).pod(&value.Items[i]))
		}
	case *finishedWatch:
		p.looked = p.pods.version
	}
	if r.verb != verbBind || r.err != nil {
		p.remember(r.pod, strings.Join(read, ""))
	}
	w.net.finish(r)
}

// forgetThreads forgets the goroutines that have ended: what came of them is in the ledger.
func (p *process) forgetThreads() {
	prepares := p.prepares()
	maps.DeleteFunc(p.threads, func(pod string, _ digest) bool {
		switch {
		case pod == "":
			return !prepares
		case p.binding[pod] || !prepares && p.world.kept(p):
			return false
		}
		return !p.asks(func(r *request) bool { return r.pod == pod })
	})
}

// remember adds to what the goroutine that works for a pod has read: its state is a function of that.
func (p *process) remember(pod, text string) {
	if pod != "" && !p.binding[pod] { // a fence: what it makes of what it reads is in its next request
		d := p.threads[pod]
		d.add(text)
		p.threads[pod] = d
		return
	}
	c := &contents{server: p.world.server, alias: map[string]string{pod: ""}}
	if known, there, _ := p.pods.store.GetByKey("default/" + pod); there {
		text += c.pod(known.(*corev1.Pod))
	}
	var nodes []string
	for _, node := range p.nodes.store.List() {
		nodes = append(nodes, c.value(reflect.ValueOf(node)))
	}
	d := p.threads[pod]
	d.add(text + strings.Join(nodes, "") + strconv.FormatBool(p.plugin.Ready() == nil))
	p.threads[pod] = d
}

// processSteps are what a process may do by itself.
func (w *world) processSteps(p *process, add adder) {
	bit := uint8(1) << p.index
	own := touches{processes: bit}
	local := func(label string, do func()) {
		add(own, func() {
			do()
			for _, c := range append([]*cycle{p.cycle}, p.members...) {
				if c != nil {
					c.past.add((&contents{server: w.server}).process(p))
				}
			}
		}, "%s %s", p.name, label)
	}
	if !p.alive {
		if w.standbys == 0 && p.starts < 2 {
			add(touches{processes: bit}, func() {
				p.start(w.t)
			}, "%s starts again", p.name)
		}
		return
	}
	w.informerSteps(p, local)
	if w.relist && w.faults < w.bounds.faults && (p.pods.next < len(w.server.podLog) || p.nodes.next < len(w.server.nodeLog)) {
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			p.relist()
			p.nodes.drain()
			p.pods.drain()
		}, "%s lists anew", p.name)
	}
	if w.kill && p.index == 0 && w.faults < w.bounds.faults {
		add(touches{processes: bit, fault: true}, func() {
			w.faults++
			p.kill()
		}, "%s is killed", p.name)
	}
	if !p.leading {
		if w.overlap || !slices.ContainsFunc(w.processes, func(other *process) bool { return other.leading }) {
			// Whether there is a leader is in the state of all.
			add(touches{processes: 1<<len(w.processes) - 1}, func() {
				p.lead()
			}, "%s leads", p.name)
		}
		return
	}
	if c := p.cycle; c != nil {
		switch {
		case !c.filtered:
			local("looks for a node for "+c.pod.Name, p.filter)
		default:
			local("reserves for "+c.pod.Name, p.reserve)
		}
		return
	}
	if len(w.group) > 0 && p.attempts["group"] < w.bounds.attempts && !slices.ContainsFunc(w.group, func(name string) bool { return p.queue[name] == nil || !p.mayTry(p.queue[name]) }) {
		local("tries the group", func() {
			p.attempts["group"]++
			p.tryGroup(w.group)
		})
	}
	for _, name := range slices.Sorted(maps.Keys(p.queue)) {
		if !slices.Contains(w.group, name) && name != w.nominated && p.attempts[name] < w.bounds.attempts && p.mayTry(p.queue[name]) {
			local("tries "+name, func() {
				p.begin(name)
				if w.bounds.cycles < 3 {
					p.filter()
				}
				if w.bounds.cycles < 2 && p.cycle != nil {
					p.reserve()
				}
			})
		}
	}
}

// informerSteps are the moves of the informers of a process.
func (w *world) informerSteps(p *process, local func(label string, do func())) {
	for _, kind := range []struct {
		name     string
		informer *informer
		log      []change
	}{{"pods", p.pods, w.server.podLog}, {"nodes", p.nodes, w.server.nodeLog}} {
		i := kind.informer
		if i.next < len(kind.log) {
			c := kind.log[i.next]
			object := c.updated
			if object == nil {
				object = c.old
			}
			label := fmt.Sprintf("sees version %d of %s", w.server.counts[object.GetResourceVersion()].count, object.GetName())
			if c.updated == nil {
				label = fmt.Sprintf("sees that %s is gone", object.GetName())
			}
			if pod, ok := object.(*corev1.Pod); ok && pod.Spec.NodeName != "" && c.updated != nil {
				label += " on " + pod.Spec.NodeName
			}
			local(label, func() {
				i.take(kind.log)
				if !w.bounds.handlers {
					i.drain()
				}
			})
		}
		if len(i.toPlugin) > 0 {
			local("tells the plugin of "+kind.name, func() { popFirst(&i.toPlugin).do() })
		}
		if len(i.toCache) > 0 {
			local("tells its cache of "+kind.name, func() { popFirst(&i.toCache).do() })
		}
	}
}

// catchUp has the process see all that there is.
func (p *process) catchUp() {
	for p.nodes.next < len(p.world.server.nodeLog) {
		p.nodes.take(p.world.server.nodeLog)
	}
	p.nodes.drain()
	for p.pods.next < len(p.world.server.podLog) {
		p.pods.take(p.world.server.podLog)
	}
	p.pods.drain()
}

// check returns what is wrong at this moment, of what must hold at any.
func (w *world) check() string {
	var wrong []string
	w.locked(func() { wrong = append(wrong, w.failures...) })
	if (w.known || w.checked == w.server.version) && len(wrong) == 0 {
		return ""
	}
	w.checked = w.server.version
	nodes, pods := w.server.lists()
	pods = slices.DeleteFunc(pods, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" })
	for _, v := range oracle.CheckDevices(nodes, pods).Violations.Of(oracle.Overcommitted, oracle.OvercommittedMemory, oracle.Unrecorded, oracle.Torn, oracle.WrongRecord) {
		allowed := w.shrinks || w.foreign && (v.Kind == oracle.Unrecorded || v.Kind == oracle.Torn)
		if v.Kind == oracle.Overcommitted || !allowed {
			wrong = append(wrong, v.String())
		}
	}
	if w.rule != nil {
		if broken := w.rule(w.server); broken != "" {
			wrong = append(wrong, broken)
		}
	}
	return strings.Join(wrong, "\n")
}

// complete lets everything go on without faults, in a fair order, and returns what is wrong in
// the end: a pod that waits although there is room, or devices that stay taken when all pods are gone.
func (w *world) complete() string {
	if w.restarted {
		for _, p := range w.processes {
			p.kill()
		}
		w.settle()
	}
	if !slices.ContainsFunc(w.processes, func(p *process) bool { return p.alive && p.leading }) {
		next := slices.IndexFunc(w.processes, func(p *process) bool { return p.alive })
		if next < 0 {
			next = 0
			w.processes[0].start(w.t)
		}
		w.processes[next].lead()
	}
	if wrong := w.finish(); wrong != "" {
		return wrong
	}
	if twice, _, _ := w.server.history.Violations(); len(twice.Of(oracle.Overcommitted)) > 0 {
		return twice.Of(oracle.Overcommitted).String()
	}
	nodes, pods := w.server.lists()
	if stranded := oracle.CheckDevices(nodes, pods).Violations.Of(oracle.Stranded); len(stranded) > 0 && !w.strandable {
		return fmt.Sprintf("in the end: %v", stranded)
	}
	for _, name := range w.bound {
		if w.server.pods[name].Spec.NodeName == "" {
			return fmt.Sprintf("in the end %s has no node", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.server.pods)) {
		w.server.deletePod(name)
	}
	for _, name := range slices.Sorted(maps.Keys(w.server.nodes)) {
		if devices := sharedDevices(w.server.nodes[name]); devices > 0 {
			w.server.putPod(onNode(sharePod("all-of-"+name, 1000*devices), name))
		}
	}
	if wrong := w.finish(); wrong != "" {
		return wrong
	}
	for _, name := range slices.Sorted(maps.Keys(w.server.pods)) {
		if w.server.pods[name].Spec.NodeName == "" && (!w.strandable || w.full != "") {
			return fmt.Sprintf("when all pods are gone, %s is not given its devices: something stays taken", name)
		}
	}
	return ""
}

// finish lets things go on until nothing changes any more.
func (w *world) finish() string {
	const rounds = 20 // a pod that is refused each time is tried as long
	for idle, round := 0, 0; idle < 3 && round < rounds; round++ {
		before := w.server.version
		for range 40 {
			requests := w.net.sorted()
			for _, r := range requests {
				if !r.served {
					w.serve(r)
				}
				w.net.finish(r)
			}
			w.settle()
			for _, p := range w.processes {
				if p.alive {
					p.catchUp()
				}
			}
			w.settle()
			if wrong := w.check(); wrong != "" {
				return wrong
			}
			if len(requests) == 0 && len(w.net.sorted()) == 0 {
				break
			}
			pass(30 * time.Millisecond)
		}
		w.cycles()
		if w.server.version == before && len(w.net.sorted()) == 0 {
			idle++
			pass(time.Minute)
		} else {
			pass(time.Second)
		}
		w.settle()
	}
	return ""
}

// cycles has each process try each pod that waits.
func (w *world) cycles() {
	for _, p := range w.processes {
		if !p.alive || !p.leading {
			continue
		}
		if p.cycle != nil {
			if !p.cycle.filtered {
				p.filter()
			}
			if p.cycle != nil {
				p.reserve()
			}
		}
		names := slices.Sorted(maps.Keys(p.queue))
		if w.reversed = !w.reversed; w.reversed { // nobody is always the first
			slices.Reverse(names)
		}
		for _, name := range names {
			if !p.mayTry(p.queue[name]) {
				continue
			}
			p.begin(name)
			p.filter()
			if p.cycle != nil {
				p.reserve()
			}
			w.settle()
		}
	}
}
