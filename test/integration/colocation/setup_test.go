// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocation shows what the plugin of that name does on a real API server,
// in a berth-scheduler process with the shipped profile and roles.
//
// All tests share one control plane and one scheduler. Each has a namespace and
// nodes of its own, which no pod of another selects.
package colocation

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

const (
	// shippedProfile is the profile of config/berth-scheduler/colocation.yaml.
	shippedProfile = names.Scheduler
	// plainProfile is the same under another name; only pods that name no Service
	// use it, so that its metrics are about those.
	plainProfile = "plain"
	// rulesProfile is the shipped one with a rule: see TestColocation.
	rulesProfile = "rules"
)

// priorities are PriorityClasses; the default is 0.
var priorities = map[string]int32{"low": -100, "high": 1000}

// TestColocation starts the control plane and the scheduler, and runs the tests.
func TestColocation(t *testing.T) {
	c := framework.Start(t, framework.Options{})
	install.Apply(t, c, "base")
	for name, value := range priorities {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := c.Client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("admission", func(t *testing.T) { admission(t, c) })
	config := profiles(t, map[string]map[string]any{
		plainProfile: {},
		rulesProfile: {"rules": []any{map[string]any{
			"podSelector":  map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"services":     []any{map[string]any{"name": "backend"}},
			"topologyKeys": []any{corev1.LabelTopologyZone},
		}}},
	})
	scheduler := c.StartBerthScheduler(t, config, framework.SchedulerOptions{
		// Log the score of each plugin for each node, and nothing else in detail.
		Args: []string{"--vmodule=schedule_one=10"},
	})

	for _, test := range []struct {
		name string
		run  func(*suite)
	}{
		{"callers-of-each-other", callersOfEachOther},
		{"wait-for-each-other", waitForEachOther},
		{"wait-for-binding", waitForBinding},
		{"wait-for-endpoint", waitForEndpoint},
		{"consent", consent},
		{"consent-comes-later", consentComesLater},
		{"mistakes", mistakes},
		{"near-and-spread", nearAndSpread},
		{"preemption", preemption},
		{"node-relabeled", nodeRelabeled},
		{"selector-changed", selectorChanged},
		{"service-deleted", serviceDeleted},
		{"service-deleted-while-waiting", serviceDeletedWhileWaiting},
		{"first-of-its-group", firstOfItsGroup},
		{"unrelated-consent", unrelatedConsent},
		{"pods-that-ask-for-nothing", podsThatAskForNothing},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &suite{T: t, c: c, scheduler: scheduler, ns: test.name}
			s.addNamespace(s.ns)
			test.run(s)
		})
	}
}

// profiles writes a copy of the shipped configuration that has, besides the
// shipped profile, copies of it with other names and arguments, and returns its
// path.
func profiles(t *testing.T, more map[string]map[string]any) string {
	t.Helper()
	content, err := os.ReadFile(install.Path("config/berth-scheduler/colocation.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config map[string]any
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatal(err)
	}
	for name, args := range more {
		var again map[string]any
		if err := yaml.Unmarshal(content, &again); err != nil {
			t.Fatal(err)
		}
		profile := again["profiles"].([]any)[0].(map[string]any)
		profile["schedulerName"] = name
		plugin := profile["pluginConfig"].([]any)[0].(map[string]any)
		if plugin["name"] != "Colocation" {
			t.Fatalf("the first pluginConfig of the shipped profile is %v's", plugin["name"])
		}
		maps.Copy(plugin["args"].(map[string]any), args)
		config["profiles"] = append(config["profiles"].([]any), profile)
	}
	if content, err = yaml.Marshal(config); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "profiles.yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// suite is one test and what it has to itself.
type suite struct {
	*testing.T
	c         *framework.Cluster
	scheduler *framework.Scheduler
	// ns is the test's namespace, and the value of suiteLabel on its nodes.
	ns string
}

// suiteLabel is the node label by which a test's pods select its nodes.
const suiteLabel = "suite"

func (s *suite) addNamespace(name string) {
	s.Helper()
	s.c.CreateNamespace(s, name, nil)
}

// addNodes creates nodes with 4 CPUs, each given as name=zone, and returns when
// they are ready. The names of both are prefixed with the test's.
func (s *suite) addNodes(nodes ...string) {
	s.Helper()
	for _, node := range nodes {
		name, zone, _ := strings.Cut(node, "=")
		n := framework.Node(s.named(name), map[string]string{corev1.LabelTopologyZone: s.named(zone), suiteLabel: s.ns})
		for _, list := range []corev1.ResourceList{n.Status.Capacity, n.Status.Allocatable} {
			list[corev1.ResourceCPU] = resource.MustParse("4")
		}
		s.c.CreateNode(s, n)
	}
	// Where a node is only preferred, the scheduler must know it.
	framework.WaitForCondition(s, framework.WaitTimeout, "the nodes to be ready", func() (bool, error) {
		list, err := s.c.Client.CoreV1().Nodes().List(s.Context(), metav1.ListOptions{LabelSelector: suiteLabel + "=" + s.ns})
		if err != nil {
			return false, err
		}
		return !slices.ContainsFunc(list.Items, func(n corev1.Node) bool {
			return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		}), nil
	})
}

func (s *suite) named(name string) string { return s.ns + "-" + name }

// addService creates a Service of the test's namespace that selects app=name.
func (s *suite) addService(name string) {
	s.Helper()
	s.addServiceIn(s.ns, name, nil)
}

func (s *suite) addServiceIn(namespace, name string, annotations map[string]string) {
	s.Helper()
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Annotations: annotations},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"app": name}, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	if _, err := s.c.Client.CoreV1().Services(namespace).Create(s.Context(), service, metav1.CreateOptions{}); err != nil {
		s.Fatal(err)
	}
}

// pod is a pod of the shipped profile, for the test's nodes. Its label app is name
// up to the first dash.
func (s *suite) pod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	app, _, _ := strings.Cut(name, "-")
	p := framework.Pod(s.ns, name, shippedProfile)
	p.Labels["app"] = app
	p.Spec.NodeSelector = map[string]string{suiteLabel: s.ns}
	// The taint of a node that was not ready goes some time after it is.
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	// Terminating pods are to be gone at once.
	p.Spec.TerminationGracePeriodSeconds = new(int64)
	for _, c := range change {
		c(p)
	}
	return p
}

func with(services string) func(*corev1.Pod) {
	return annotated(names.ColocateWithAnnotation, services)
}

func within(topologyKey string) func(*corev1.Pod) {
	return annotated(names.ColocateRequiredTopologyKeyAnnotation, topologyKey)
}

func annotated(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Annotations[key] = value }
}

func by(profile string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.SchedulerName = profile }
}

// cpus lets the pod request so many CPUs of the four of a node.
func cpus(n int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewQuantity(n, resource.DecimalSI)}
	}
}

func of(priority string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = priority }
}

// on lets somebody else have bound the pod.
func (s *suite) on(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName = s.named(node) }
}

// only restricts the pod to one node.
func (s *suite) only(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector[corev1.LabelHostname] = s.named(node) }
}

func (s *suite) create(p *corev1.Pod) {
	s.Helper()
	s.c.CreatePod(s, p)
}

// nodeOf waits until the pod has a node and returns its name without the test's.
// The wait ends long before the five minutes after which a pod that nothing wakes
// is tried again.
func (s *suite) nodeOf(name string) string {
	s.Helper()
	return strings.TrimPrefix(s.c.WaitForPodScheduled(s, s.ns, name).Spec.NodeName, s.ns+"-")
}

// place creates the pod and returns where it went.
func (s *suite) place(p *corev1.Pod) string {
	s.Helper()
	s.create(p)
	return s.nodeOf(p.Name)
}

// refused waits until a FailedScheduling event on the pod contains the text.
func (s *suite) refused(pod, text string) string {
	s.Helper()
	return s.c.WaitForEvent(s, s.ns, pod, "FailedScheduling", text)
}

// pending fails the test if the pod has a node.
func (s *suite) pending(name string) {
	s.Helper()
	p, err := s.c.Client.CoreV1().Pods(s.ns).Get(s.Context(), name, metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	if p.Spec.NodeName != "" {
		s.Errorf("pod %s has node %s", name, p.Spec.NodeName)
	}
}

// attempts returns how often the scheduler has tried the pod in vain.
func (s *suite) attempts(pod string) int {
	return strings.Count(s.scheduler.Output(), fmt.Sprintf(`"Unable to schedule pod; no fit; waiting" pod="%s/%s"`, s.ns, pod))
}

// patch changes an object of the core API by a merge patch.
func (s *suite) patch(resource, namespace, name, patch string) {
	s.Helper()
	err := s.c.Client.CoreV1().RESTClient().Patch(types.MergePatchType).NamespaceIfScoped(namespace, namespace != "").
		Resource(resource).Name(name).Body([]byte(patch)).Do(s.Context()).Error()
	if err != nil {
		s.Fatal(err)
	}
}
