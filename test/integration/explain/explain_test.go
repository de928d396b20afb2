// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package explain has pods wait on a real API server, with a real berth-scheduler,
// explains them as `kubectl berth explain` does, and makes the first change that is
// proposed: the pods must then get their nodes.
package explain

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
	"github.com/berth-scheduler/berth/pkg/scheduler/lease"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	data           = "pkg/diagnose/explain/testdata/"
	profiles       = data + "profiles.yaml"
	tenancyProfile = "config/berth-scheduler/tenancy.yaml"

	exitOK        = 0
	exitFailed    = 1
	exitNotPlaced = 3
)

// always are the cases that are run without BERTH_LONG=1: one of each kind of change.
var always = []string{
	"a wrong amount", "two wrong amounts, each in a container of its own", "a rule about labels", "no node of the tenant", "a model pattern without *",
	"a forgotten toleration of the nodes with devices", "a misspelled schedulerName", "a share under a profile that counts none",
	"a gang that is not whole", "a gang that is not whole, Kubernetes' own", "a gang without room, Kubernetes' own", "too little CPU", "a node that is cordoned", "a gate", "no free devices", "two causes: a pattern and a taint",
}

// testCase is an entry of cases.yaml; see there.
type testCase struct {
	Name     string        `json:"name"`
	Tenancy  bool          `json:"tenancy"`
	State    explain.State `json:"state"`
	Causes   []string      `json:"causes"`
	First    string        `json:"first"`
	Manifest string        `json:"manifest"`
	Not      []string      `json:"not"`
	// Others and Region change the cluster: such a case is pkg/diagnose/explain's alone.
	Others string `json:"others"`
	Region string `json:"region"`
}

// ofPodGroup reports whether the pods are of one of Kubernetes' own PodGroups.
func (c *testCase) ofPodGroup() bool { return strings.Contains(c.Manifest, "schedulingGroup") }

func TestExplain(t *testing.T) {
	for gate, on := range engine.GangGates() {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, featuregate.Feature(gate), on)
	}
	s := start(t)
	t.Run("cases", func(t *testing.T) {
		var cases []testCase
		if err := yaml.UnmarshalStrict(content(t, data+"cases.yaml"), &cases); err != nil {
			t.Fatal(err)
		}
		run := 0
		for _, tt := range cases {
			long := os.Getenv("BERTH_LONG") == "1"
			// A pod that preempts has its node before it could be explained.
			if tt.State == explain.Preempting || tt.Others+tt.Region != "" || !long && !slices.Contains(always, tt.Name) {
				continue
			}
			run++
			if strings.Contains(tt.Manifest, "scheduling.x-k8s.io/pod-group") && !coscheduling || tt.ofPodGroup() && coscheduling {
				continue
			}
			t.Run(tt.Name, func(t *testing.T) { s.explain(t, &tt) })
		}
		if run < len(always) {
			t.Errorf("%d cases were run, want %d at least: cases have other names now", run, len(always))
		}
	})
	t.Run("preemption for a gang", s.preemptionForGang)
	t.Run("command", s.command)
	t.Run("rights", s.rights)
	t.Run("admission", s.admission)
	t.Run("load", s.load)
	t.Run("profile", s.profile)
}

// suite is the cluster of all tests.
type suite struct {
	*framework.Cluster
	// whole is the test of which the others are parts: what they clean up ends with it.
	whole *testing.T
}

// start starts the cluster of cluster.yaml, its pods and its schedulers. Their
// profiles stand where those of an installation do.
func start(t *testing.T) *suite {
	t.Helper()
	var nodes []corev1.Node
	var others []string
	for document := range documents(t, string(content(t, data+"cluster.yaml"))) {
		var head metav1.TypeMeta
		unmarshal(t, document, &head)
		if head.Kind != "Node" {
			others = append(others, document)
			continue
		}
		var node corev1.Node
		unmarshal(t, document, &node)
		nodes = append(nodes, node)
	}
	options, scheduler := framework.Options{Nodes: nodes, Audit: true}, framework.SchedulerOptions{LeaderElect: true}
	if !coscheduling {
		const gates = "--feature-gates=GenericWorkload=true"
		options.APIServerArgs = []string{gates, "--runtime-config=" + compat.PodGroups + "=true"}
		options.ControllerManagerArgs, scheduler.Args = []string{gates}, []string{gates}
		others = append(others, string(content(t, data+"podgroups.yaml")))
	}
	s := &suite{framework.Start(t, options), t}
	s.ApplyManifests(t, "manifests/base", "manifests/components/gangscheduling/rbac.yaml")
	for _, file := range []string{"gang/podgroups.yaml", "gang/rbac.yaml"} {
		s.Kubectl(t, "apply", "-f", filepath.Join(framework.Root(), "manifests/components", file))
	}
	s.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/podgroups.scheduling.x-k8s.io")
	s.Apply(t, strings.Join(others, "\n---\n"))
	served := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(served, servedProfiles(t), 0o600); err != nil {
		t.Fatal(err)
	}
	s.StartBerthScheduler(t, served, scheduler)
	// The lease is the other one's.
	tenancy := filepath.Join(t.TempDir(), "tenancy.yaml")
	alone := strings.Replace(string(content(t, tenancyProfile)), "tenants: Confined", "tenants: Confined\n        allowNoLeaderElection: true", 1)
	if err := os.WriteFile(tenancy, []byte(alone), 0o600); err != nil {
		t.Fatal(err)
	}
	s.StartBerthScheduler(t, tenancy, framework.SchedulerOptions{})
	s.Kubectl(t, "-n", names.Namespace, "create", "configmap", "profiles", "--from-file=profiles.yaml="+served)
	s.Kubectl(t, "-n", names.Namespace, "patch", "deployment", names.Scheduler, "--type=strategic", "-p", `
spec:
  template:
    spec:
      containers: [{name: berth-scheduler, args: [--config=/etc/berth-scheduler/profiles.yaml]}]
      volumes: [{name: config, configMap: {name: profiles}}]`)
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler to lead", func() (bool, error) {
		l, err := s.Client.CoordinationV1().Leases(names.Namespace).Get(t.Context(), names.Scheduler, metav1.GetOptions{})
		return err == nil && l.Spec.HolderIdentity != nil && len(lease.Serves(*l.Spec.HolderIdentity)) > 0, err
	})
	return s
}

// coscheduling is whether the build has the gangs of the cases.
const coscheduling = compat.Release == "1.36"

// servedProfiles are the profiles of the cases, without Coscheduling where the build does
// not have it.
func servedProfiles(t *testing.T) []byte {
	t.Helper()
	text := string(content(t, profiles))
	if !coscheduling {
		const others = "      - name: DynamicResources\n"
		text = strings.NewReplacer("      - name: Coscheduling\n", "", "      disabled:\n      - name: PrioritySort\n"+others, "      disabled:\n"+others, "      disabled:\n      - name: PrioritySort\n", "").Replace(text)
	}
	return []byte(text)
}

// content reads a file of the repository.
func content(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(framework.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// documents are those of a YAML text.
func documents(t *testing.T, text string) func(func(string) bool) {
	t.Helper()
	return func(yield func(string) bool) {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(document) != "" && !yield(document) {
				return
			}
		}
	}
}

func unmarshal(t *testing.T, document string, into any) {
	t.Helper()
	if err := utilyaml.Unmarshal([]byte(document), into); err != nil {
		t.Fatalf("%v in\n%s", err, document)
	}
}

// explain has the pods of a case wait, explains the first, and makes the first change.
func (s *suite) explain(t *testing.T, tt *testCase) {
	t.Helper()
	var pods []*corev1.Pod
	for document := range documents(t, tt.Manifest) {
		pod := &corev1.Pod{}
		unmarshal(t, document, pod)
		pods = append(pods, s.create(t, pod))
	}
	defer func() { s.delete(t, pods) }()
	first := pods[0]
	// A PodGroup that is not complete does not enter the queue, and nothing is said of it.
	if tt.State != explain.NotServed && tt.State != explain.Gated && (tt.State != explain.Waiting || !tt.ofPodGroup()) {
		for _, pod := range pods {
			s.WaitForPodUnschedulable(t, pod.Namespace, pod.Name)
		}
	}
	in := s.read(t, tt, first)
	x, err := explain.Explain(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := x.WriteTable(&text, true); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", text.String())
	if x.State != tt.State {
		t.Errorf("state: got %s, want %s", x.State, tt.State)
	}
	for _, cause := range tt.Causes {
		if !strings.Contains(x.Answer, cause) {
			t.Errorf("the answer does not say %q: %s", cause, x.Answer)
		}
	}
	for _, not := range tt.Not {
		if strings.Contains(text.String(), not) {
			t.Errorf("it says %q", not)
		}
	}
	if tt.First == "" && len(x.Changes) == 0 {
		return
	}
	if len(x.Changes) == 0 || !strings.Contains(x.Changes[0].Text, tt.First) {
		t.Fatalf("want a change, and the first with the text %q", tt.First)
	}
	pods = s.apply(t, in, pods, &x.Changes[0])
	needed := len(pods)
	if gang := x.Changes[0].Gang(); gang > 0 {
		needed = gang
	}
	framework.WaitForCondition(t, framework.WaitTimeout, "the pods to be scheduled", func() (bool, error) {
		scheduled := 0
		for _, pod := range pods {
			now, err := s.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			if now.Spec.NodeName != "" {
				scheduled++
			}
		}
		return scheduled >= needed, nil
	})
}

// read reads what explain needs of the API server.
func (s *suite) read(t *testing.T, tt *testCase, pod *corev1.Pod) *explain.Input {
	t.Helper()
	options := &source.Options{Namespace: pod.Namespace, Pod: pod.Name, Client: s.Client, Host: s.Config.Host, Now: time.Now()}
	if tt.Tenancy {
		options.Config = filepath.Join(framework.Root(), tenancyProfile)
	}
	inputs, err := source.Read(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	in := inputs[0]
	if len(in.NotSeen) > 0 {
		t.Errorf("an administrator cannot see: %v", in.NotSeen)
	}
	return in
}

// create creates a pod as somebody would who has written it.
func (s *suite) create(t *testing.T, pod *corev1.Pod) *corev1.Pod {
	t.Helper()
	written := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, Labels: pod.Labels, Annotations: pod.Annotations},
		Spec:       *pod.Spec.DeepCopy(),
	}
	if written.Namespace == "" {
		written.Namespace = corev1.NamespaceDefault
	}
	created, err := s.Client.CoreV1().Pods(written.Namespace).Create(t.Context(), written, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return created
}

// delete deletes pods and waits until they are gone.
func (s *suite) delete(t *testing.T, pods []*corev1.Pod) {
	t.Helper()
	for _, pod := range pods {
		if err := s.Client.CoreV1().Pods(pod.Namespace).Delete(t.Context(), pod.Name, *metav1.NewDeleteOptions(0)); err != nil {
			t.Fatal(err)
		}
	}
	for _, pod := range pods {
		s.WaitForPodGone(t, pod.Namespace, pod.Name)
	}
}

// apply makes a change: objects are updated and pods deleted until the end of the test,
// and the pods that wait are created anew. It returns those.
func (s *suite) apply(t *testing.T, in *explain.Input, pods []*corev1.Pod, change *explain.Change) []*corev1.Pod {
	t.Helper()
	// First, so that they do not get a node in between.
	s.delete(t, pods)
	set, removed := change.Objects()
	for _, object := range set {
		s.set(t, object)
	}
	s.delete(t, removed)
	t.Cleanup(func() {
		for _, pod := range removed {
			s.create(s.whole, pod)
		}
	})
	if change.Gang() > 0 {
		s.setMinMember(t, in, change.Gang())
	}
	changed := map[string]*corev1.Pod{}
	for _, pod := range in.Pods {
		pod = pod.DeepCopy()
		change.Edit(pod)
		changed[pod.Name] = pod
	}
	var created []*corev1.Pod
	for _, pod := range pods {
		if changed[pod.Name] != nil {
			pod = changed[pod.Name]
		}
		created = append(created, s.create(t, pod))
	}
	for i := len(in.Pods); i < change.Count(len(in.Pods)); i++ {
		more := changed[in.Pods[len(in.Pods)-1].Name].DeepCopy()
		more.Name = more.Name + "-" + string(rune('a'+i))
		created = append(created, s.create(t, more))
	}
	return created
}

// run runs kubectl berth explain with a credential, and returns what it prints.
func (s *suite) run(t *testing.T, kubeconfig string, wantCode int, args ...string) (stdout, stderr string) {
	t.Helper()
	got := framework.Plugin(t, kubeconfig, "", append([]string{"berth", "explain"}, args...)...)
	if got.Code != wantCode {
		t.Errorf("exit code %d, want %d\n%s%s", got.Code, wantCode, got.Stdout, got.Stderr)
	}
	return got.Stdout, got.Stderr
}
