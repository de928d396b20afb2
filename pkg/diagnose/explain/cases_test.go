// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	apitypes "k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain"
	"github.com/berth-scheduler/berth/pkg/diagnose/explain/source"
	"github.com/berth-scheduler/berth/pkg/scheduler/podgroup"
	"github.com/berth-scheduler/berth/pkg/simulator/engine"
)

const (
	clusterFile    = "testdata/cluster.yaml"
	podGroupsFile  = "testdata/podgroups.yaml"
	profilesFile   = "testdata/profiles.yaml"
	tenancyProfile = "../../../config/berth-scheduler/tenancy.yaml"
)

// testCase is an entry of cases.yaml.
type testCase struct {
	Name    string        `json:"name"`
	Tenancy bool          `json:"tenancy"`
	State   explain.State `json:"state"`
	Causes  []string      `json:"causes"`
	First   string        `json:"first"`
	// Command is that of the first change, if it is not empty.
	Command string `json:"command"`
	// Not is said nowhere.
	Not []string `json:"not"`
	// Others are further objects of the cluster, and Region is that of all its nodes.
	Others   string `json:"others"`
	Region   string `json:"region"`
	Manifest string `json:"manifest"`
}

// placeGangs has profiles place the PodGroups of Kubernetes, if this release's can be.
func placeGangs(t *testing.T) {
	t.Helper()
	for gate, on := range engine.GangGates() {
		featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, featuregate.Feature(gate), on)
	}
}

func readCases(t *testing.T) []testCase {
	t.Helper()
	content, err := os.ReadFile("testdata/cases.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var cases []testCase
	if err := yaml.UnmarshalStrict(content, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// read reads the cluster and the pods of a case.
func (c *testCase) read(t *testing.T) *explain.Input {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	options := &source.Options{
		Namespace: corev1.NamespaceDefault, Manifests: []string{write("manifest.yaml", c.Manifest)}, Snapshots: []string{clusterFile, podGroupsFile},
		Config: profilesFile, Now: time.Unix(0, 0),
	}
	if c.Region != "" {
		nodes, err := os.ReadFile(clusterFile)
		if err != nil {
			t.Fatal(err)
		}
		region := strings.NewReplacer(corev1.LabelTopologyZone, corev1.LabelTopologyRegion+": "+c.Region+", "+corev1.LabelTopologyZone, "    "+corev1.LabelTopologyZone, "    "+corev1.LabelTopologyRegion+": "+c.Region+"\n    "+corev1.LabelTopologyZone)
		options.Snapshots[0] = write("cluster.yaml", region.Replace(string(nodes)))
	}
	if c.Others != "" {
		options.Snapshots = append(options.Snapshots, write("others.yaml", c.Others))
	}
	if c.Tenancy {
		options.Config = tenancyProfile
	}
	inputs, err := source.Read(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	return inputs[0]
}

func explainIt(t *testing.T, in *explain.Input) *explain.Explanation {
	t.Helper()
	x, err := explain.Explain(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// table is an explanation as people read it.
func table(t *testing.T, x *explain.Explanation, wide bool) string {
	t.Helper()
	var out strings.Builder
	if err := x.WriteTable(&out, wide); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// applied returns the input as it is when a change was made: with other objects, and
// with pods that were created anew. Nothing is shared with the engine that tried it.
func applied(t *testing.T, in *explain.Input, change *explain.Change) *explain.Input {
	t.Helper()
	set, removed := change.Objects()
	other := map[string]runtime.Object{}
	for _, object := range set {
		other[key(t, object)] = object
	}
	gone := map[string]bool{}
	for _, pod := range removed {
		gone[key(t, pod)] = true
	}
	after := *in
	after.Objects = &cluster.Cluster{}
	for _, object := range all(in.Objects) {
		if replaced, ok := other[key(t, object)]; ok {
			object = replaced
			delete(other, key(t, object))
		}
		if !gone[key(t, object)] {
			add(t, after.Objects, released(object, removed))
		}
	}
	for _, object := range other {
		add(t, after.Objects, object)
	}
	after.Pods = nil
	for i := range change.Count(len(in.Pods)) {
		pod := in.Pods[min(i, len(in.Pods)-1)].DeepCopy()
		if i >= len(in.Pods) {
			pod.Name, pod.UID = fmt.Sprintf("%s-more-%d", pod.Name, i), ""
		}
		if pod.UID == "" {
			pod.UID = apitypes.UID("of-" + pod.Name)
		}
		change.Edit(pod)
		after.Pods = append(after.Pods, pod)
	}
	if len(after.Pods) == 1 {
		after.Pods = explain.Members(&after, after.Pods[0])
	}
	if change.Gang() > 0 {
		after.PodGroups = nil
		for _, group := range in.PodGroups {
			if group.Name == podgroup.Of(after.Pods[0]).Name {
				group.MinMember = change.Gang()
			}
			after.PodGroups = append(after.PodGroups, group)
		}
	}
	return &after
}

// released returns the object or, for a claim that only pods use which are gone, the claim
// without its devices, as kube-controller-manager leaves it.
func released(object runtime.Object, gone []*corev1.Pod) runtime.Object {
	claim, ok := object.(*resourcev1.ResourceClaim)
	if !ok || slices.ContainsFunc(claim.Status.ReservedFor, func(r resourcev1.ResourceClaimConsumerReference) bool {
		return !slices.ContainsFunc(gone, func(pod *corev1.Pod) bool { return pod.Namespace == claim.Namespace && pod.Name == r.Name })
	}) {
		return object
	}
	claim = claim.DeepCopy()
	claim.Status = resourcev1.ResourceClaimStatus{}
	return claim
}

func all(c *cluster.Cluster) []runtime.Object {
	objects := c.Others()
	for _, node := range c.Nodes() {
		objects = append(slices.Clip(objects), node)
	}
	for _, pod := range c.Pods() {
		objects = append(slices.Clip(objects), pod)
	}
	return objects
}

func add(t *testing.T, c *cluster.Cluster, object runtime.Object) {
	t.Helper()
	if err := c.Add(object.DeepCopyObject()); err != nil {
		t.Fatal(err)
	}
}

func key(t *testing.T, object runtime.Object) string {
	t.Helper()
	accessor, err := meta.Accessor(object)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%T %s/%s", object, accessor.GetNamespace(), accessor.GetName())
}

// TestCases explains pods that wait for causes that are known, and makes the first
// change that is proposed.
func TestCases(t *testing.T) {
	placeGangs(t)
	for _, tt := range readCases(t) {
		t.Run(tt.Name, func(t *testing.T) {
			if len(engine.GangGates()) == 0 && strings.Contains(tt.Manifest, "schedulingGroup") {
				t.Skip("the PodGroups of this release cannot be simulated")
			}
			in := tt.read(t)
			x := explainIt(t, in)
			text := table(t, x, true)
			t.Log("\n" + table(t, x, false) + "\n-o wide:\n" + text)
			checkFirstScreen(t, x)
			for _, not := range tt.Not {
				if strings.Contains(text, not) {
					t.Errorf("it says %q:\n%s", not, text)
				}
			}
			if x.State != tt.State {
				t.Errorf("state: got %s, want %s", x.State, tt.State)
			}
			for _, cause := range tt.Causes {
				if !strings.Contains(x.Answer, cause) {
					t.Errorf("the answer does not say %q: %s", cause, x.Answer)
				}
			}
			if tt.First == "" && len(x.Changes) == 0 {
				return
			}
			if len(x.Changes) == 0 {
				t.Fatalf("no change is proposed, want first: %s", tt.First)
			}
			if first := &x.Changes[0]; !strings.Contains(first.Text, tt.First) {
				t.Errorf("first change: got %q, want %q in it", first.Text, tt.First)
			}
			if first := &x.Changes[0]; tt.Command != "" && first.Command != tt.Command {
				t.Errorf("first command: got %s, want %s", first.Command, tt.Command)
			}
			for i := range x.Changes {
				if c := &x.Changes[i]; strings.Contains(c.Command, "label node") && (strings.Contains(c.Text, " nvidia.com/") || strings.Contains(c.Text, " feature.node.")) {
					t.Errorf("a label that feature discovery writes is to be set by hand: %s", c.Text)
				}
				after := explainIt(t, applied(t, in, &x.Changes[i]))
				if after.State != explain.Fits {
					t.Errorf("with the change %q it is %s: %s", x.Changes[i].Text, after.State, after.Answer)
				}
			}
		})
	}
}

// maxFirstScreen is how many lines the first screen has at most.
const maxFirstScreen = 12

// checkFirstScreen checks that the first screen is short, tells each thing once, and has the
// answer and the smallest changes.
func checkFirstScreen(t *testing.T, x *explain.Explanation) {
	t.Helper()
	text := table(t, x, false)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if len(lines) > maxFirstScreen {
		t.Errorf("the first screen has %d lines, want %d or fewer:\n%s", len(lines), maxFirstScreen, text)
	}
	if lines[0] != x.Answer {
		t.Errorf("the first line is %q, want the answer %q", lines[0], x.Answer)
	}
	for _, wrong := range []string{"1 nodes", "1 node were", "1 node are", "node(s)", "taint(s)", "; and had", " their devices (label", "?.", ".. ", "..\n"} {
		if strings.Contains(text, wrong) {
			t.Errorf("the first screen says %q:\n%s", wrong, text)
		}
	}
	if strings.Count(text, "cordoned") > 0 && strings.Contains(text, corev1.TaintNodeUnschedulable) {
		t.Errorf("a cordon is told twice:\n%s", text)
	}
	for i := range x.Changes {
		if told := strings.Contains(text, x.Changes[i].Text); told != (i < 3) && !x.State.Placed() {
			t.Errorf("change %d of %d is told: %v, want %v:\n%s", i, len(x.Changes), told, i < 3, text)
		}
	}
}

// TestCapture makes sure that what the page about pending pods shows is what is printed.
func TestCapture(t *testing.T) {
	page, err := os.ReadFile("../../scheduler/pending/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, capture, found := strings.Cut(string(page), "```text\n$ kubectl berth explain pod/share-900\n")
	if !found {
		t.Fatal("the page shows no explanation of pod share-900 any more")
	}
	capture, _, _ = strings.Cut(capture, "```")
	for _, tt := range readCases(t) {
		if tt.Name != "no free share" {
			continue
		}
		text := table(t, explainIt(t, tt.read(t)), false)
		for line := range strings.Lines(capture) {
			if line = strings.TrimSuffix(line, "\n"); line != "…" && !strings.Contains(text, line) {
				t.Errorf("the page has the line\n%s\nwhich is not in\n%s", line, text)
			}
		}
	}
}
