// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/bench/datasets"
	"github.com/berth-scheduler/berth/pkg/localcluster/process"
	"github.com/berth-scheduler/berth/pkg/oracle"
)

func write(t *testing.T, file, content string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Flags and environment mean the same, and the environment is what make passes: empty
// where nothing was said. Each mistake is an error that names the flag or the variable.
func TestParseOptions(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, sampleShop), "")
	own := write(t, filepath.Join(root, "own.yaml"), "")
	data := filepath.Join(t.TempDir(), "data")
	shared := write(t, filepath.Join(data, datasets.OnlineBoutique), "")
	t.Chdir(root)
	kept := filepath.Join(root, "out", "demo")
	tests := []struct {
		name              string
		args              []string
		keep, broken, env string
		want              options
		wantErr           string
	}{
		{name: "nothing said", want: options{dir: kept, shop: sampleShop}},
		{name: "environment", keep: "1", broken: "1", want: options{dir: kept, shop: sampleShop, keep: true, breakRules: true}},
		{name: "environment says no", keep: "0", broken: "false", want: options{dir: kept, shop: sampleShop}},
		{name: "flags", args: []string{"--keep", "--break", "--shop=" + own}, want: options{dir: kept, shop: own, keep: true, breakRules: true}},
		{name: "flag against the environment", args: []string{"--keep=false"}, keep: "1", want: options{dir: kept, shop: sampleShop}},
		{name: "data", env: data, want: options{dir: kept, shop: shared}},
		{name: "data without it", env: root, want: options{dir: kept, shop: sampleShop}},
		{name: "folder", args: []string{"--stop", "--dir=there"}, want: options{dir: filepath.Join(root, "there"), shop: sampleShop, stop: true}},
		{name: "unknown flag", args: []string{"--bogus"}, wantErr: "-bogus"},
		{name: "argument", args: []string{"now"}, wantErr: `unexpected argument "now"`},
		{name: "environment that is neither yes nor no", keep: "maybe", wantErr: `KEEP="maybe": must be 1 or 0`},
		{name: "shop that does not exist", args: []string{"--shop=nowhere.yaml"}, wantErr: "--shop nowhere.yaml: there is no such file"},
		{name: "shop that is a folder", args: []string{"--shop=hack"}, wantErr: "--shop hack: there is no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("KEEP", tt.keep)
			t.Setenv("DEMO_BREAK", tt.broken)
			if tt.env == "" {
				tt.env = root // without the data
			}
			t.Setenv(datasets.Variable, tt.env)
			got, err := parseOptions(tt.args, io.Discard)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Errorf("got error %v, want one with %q", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, *got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("unexpected options (-want,+got):\n%s", diff)
			}
		})
	}
	var usage strings.Builder
	if _, err := parseOptions([]string{"--help"}, &usage); !errors.Is(err, flag.ErrHelp) || !strings.Contains(usage.String(), "-keep") {
		t.Errorf("help: got error %v and usage %q", err, usage.String())
	}
	t.Chdir(t.TempDir())
	if _, err := parseOptions(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "is not the root of a checkout of Berth") {
		t.Errorf("outside a checkout: got error %v", err)
	}
}

// What one run leaves running, another one refuses to trample on, and stops. The folder of
// a demo that was not stopped in order is used again; one with anything else in it is not.
func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "demo")
	if err := claimKept(dir); err != nil {
		t.Fatal(err)
	}
	p, err := process.Start(process.Options{LogFile: filepath.Join(dir, "log"), Detached: true}, "sleep", "600")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	if err := writeRecords(dir, []*process.Process{p}); err != nil {
		t.Fatal(err)
	}
	if err := claimKept(dir); err == nil || !strings.Contains(err.Error(), "a demo is running already") {
		t.Errorf("claiming the folder of a running demo: got error %v", err)
	}
	records, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sleep stopped.\n", "Nothing is running.\n"} {
		var out strings.Builder
		if err := stopKept(t.Context(), dir, &out); err != nil || out.String() != want {
			t.Errorf("stopping: got error %v, output %q, want %q", err, out.String(), want)
		}
	}
	<-p.Done() // it has really ended
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there (error %v)", err)
	}

	write(t, filepath.Join(dir, recordFile), string(records))
	if err := claimKept(dir); err != nil {
		t.Errorf("the folder of a demo that has ended: %v", err)
	}
	notes := write(t, filepath.Join(dir, "thesis.tex"), "")
	if err := claimKept(dir); err == nil || !strings.Contains(err.Error(), "contains other files") || !isFile(notes) {
		t.Errorf("a folder with something else in it: got error %v", err)
	}
}

// The time may be over while an observation is under way: it is finished and counts. What
// was injected is not waited for.
func TestSettled(t *testing.T) {
	for _, injected := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			client := fake.NewClientset()
			observations := 0
			client.PrependReactor("list", "nodes", func(clienttesting.Action) (bool, runtime.Object, error) {
				time.Sleep(settleTimeout - time.Second) //nolint:forbidigo // the time is what is tested
				observations++
				return false, nil, nil
			})
			wrong := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "gpu", Name: "wrong"}}
			if injected {
				wrong.Name = "injected"
			}
			former := expectation
			defer func() { expectation = former }()
			expectation = &oracle.Expectation{Namespaces: []string{"gpu"}}
			if err := client.Tracker().Add(&wrong); err != nil {
				t.Fatal(err)
			}
			d := newDemo(&options{}, io.Discard)
			d.client = client
			_, report, err := d.settled(t.Context())
			if want := map[bool]int{false: 2, true: 1}[injected]; err != nil || len(report.Violations) != 1 || observations != want {
				t.Errorf("injected %t: got %v, %v after %d observations, want one violation after %d", injected, report, err, observations, want)
			}
		})
	}
}

// deployments decodes manifests. It returns the kinds and names of all objects, and the
// Deployments.
func deployments(t *testing.T, manifests string) (objects []string, found []appsv1.Deployment) {
	t.Helper()
	var list struct{ Items []appsv1.Deployment }
	if err := json.Unmarshal([]byte(manifests), &list); err != nil {
		t.Fatal(err)
	}
	for _, d := range list.Items {
		objects = append(objects, d.Kind+" "+d.Name)
		if d.Kind == "Deployment" {
			found = append(found, d)
		}
	}
	return objects, found
}

// Deployments are dealt out by turns in the order of the file, and come after everything
// that their pods may refer to.
func TestSplit(t *testing.T) {
	const deployment = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: NAME}\n" +
		"spec: {selector: {matchLabels: {app: NAME}}, template: {metadata: {labels: {app: NAME}}, spec: {schedulerName: somebody-else, containers: [{name: main}]}}}\n"
	named := func(name string) string { return strings.ReplaceAll(deployment, "NAME", name) }
	file := write(t, filepath.Join(t.TempDir(), "shop.yaml"), "# A comment.\n---\n"+named("one")+`---
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Service
  metadata: {name: one}
  spec: {ports: [{port: 80}], selector: {app: one}}
---
`+named("two")+"---\n"+named("three")+"---\napiVersion: v1\nkind: ServiceAccount\nmetadata: {name: one}\n")
	manifests, dealt, err := split(file, []string{"left", "right"})
	if err != nil || dealt != "left 2, right 1" {
		t.Fatalf("dealt %q, error %v", dealt, err)
	}
	objects, found := deployments(t, manifests)
	if diff := cmp.Diff([]string{"Service one", "ServiceAccount one", "Deployment one", "Deployment two", "Deployment three"}, objects); diff != "" {
		t.Errorf("unexpected objects (-want,+got):\n%s", diff)
	}
	for i, want := range []string{"left", "right", "left"} {
		if got := found[i].Spec.Template.Spec.SchedulerName; got != want {
			t.Errorf("%s is given to %q, want %q", found[i].Name, got, want)
		}
	}
	for content, want := range map[string]string{
		"{apiVersion: v1, kind: Service, metadata: {name: one}}": "has 0 Deployments, and 2 are needed",
		"a: b: c":                 "shop.yaml",
		"metadata: {name: one}\n": "Object 'Kind' is missing",
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: one}, spec: {template: none}}": "Deployment one",
	} {
		write(t, file, content)
		if _, _, err := split(file, []string{"left", "right"}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q", content, err, want)
		}
	}
}

// The demo's own sample keeps all three schedulers busy. Where calls are counted its
// Deployments get three pods each, spread over the zones; those of Colocation name both
// the Services that they call and those that call them.
func TestSample(t *testing.T) {
	sample := filepath.Join("sample", "shop.yaml")
	if _, dealt, err := split(sample, schedulerNames); err != nil || dealt != "default-scheduler 3, berth-scheduler 3, random-scheduler 3" {
		t.Errorf("dealt %q, error %v", dealt, err)
	}
	for _, side := range comparison {
		manifests, err := spread(sample, side.scheduler)
		if err != nil {
			t.Fatal(err)
		}
		named := map[string]string{}
		_, found := deployments(t, manifests)
		for _, d := range found {
			spec := &d.Spec.Template.Spec
			if *d.Spec.Replicas != 3 || spec.SchedulerName != side.scheduler || len(spec.TopologySpreadConstraints) != 1 ||
				spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["app"] != d.Name {
				t.Errorf("%s: got %d replicas, scheduler %q, spread %+v", d.Name, *d.Spec.Replicas, spec.SchedulerName, spec.TopologySpreadConstraints)
			}
			if services, ok := d.Spec.Template.Annotations[names.ColocateWithAnnotation]; ok {
				named[d.Name] = services
			}
		}
		want := map[string]string{}
		if side.scheduler == names.Scheduler {
			want = map[string]string{
				"storefront":   "basket=25,catalogue=25,orders=25,recommender=25",
				"catalogue":    "recommender=100,stockroom=100,storefront=25",
				"basket":       "basket-store=100,orders=33,storefront=25",
				"basket-store": "basket=100",
				"orders":       "basket=33,payments=33,stockroom=33,storefront=25",
				"payments":     "orders=33",
				"recommender":  "catalogue=100,storefront=25",
				"stockroom":    "catalogue=100,orders=33",
			}
		}
		if diff := cmp.Diff(want, named); diff != "" {
			t.Errorf("%s: unexpected Services (-want,+got):\n%s", side.scheduler, diff)
		}
	}
}

// The tables name what is there; how wide the columns are is no matter of tests.
func TestTables(t *testing.T) {
	pod := func(namespace, name, scheduler, node string) corev1.Pod {
		return corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
			Spec:       corev1.PodSpec{SchedulerName: scheduler, NodeName: node},
		}
	}
	cluster := &oracle.Cluster{
		Nodes: []corev1.Node{
			{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelTopologyZone: "a", "selectable": "", "device": "gpu"}}},
			{
				ObjectMeta: metav1.ObjectMeta{Name: "n2"},
				Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "old", Effect: corev1.TaintEffectNoSchedule}}},
			},
		},
		Pods: []corev1.Pod{
			pod("shop", "basket", "berth-scheduler", "n1"), pod("shop", "orders", "random-scheduler", "n2"),
			pod("shop", "waits", "random-scheduler", ""), pod("near", "basket", "berth-scheduler", "n1"),
		},
	}
	report := &oracle.Report{Pods: []oracle.Pod{
		{Pod: &cluster.Pods[3]}, {Pod: &cluster.Pods[0], Why: "Scheduled: to n1"}, {Pod: &cluster.Pods[1]}, {Pod: &cluster.Pods[2], Why: "FailedScheduling: nowhere"},
	}}
	var out strings.Builder
	printNodes(&out, cluster)
	printDevices(&out, []oracle.Device{
		{Node: "n1", Model: "Tesla-T4", FreeMilli: -100, FreeMiB: 6656, Allocations: []oracle.Allocation{{Pod: "gpu/half", Container: "main", Milli: 500, MemoryMiB: 7680}, {Pod: "gpu/pair", Container: "side", Milli: 600, MemoryMiB: 1024}}},
		{Node: "n1", Model: "Tesla-T4", Index: 1, FreeMilli: 1000, FreeMiB: 15360},
	})
	printCalls(&out, cluster, nil)
	printVerdict(&out, cluster, report)
	report.Violations = oracle.Violations{{Kind: oracle.Misplaced, Object: "shop/basket", Detail: "first"}, {Kind: oracle.Missing, Object: "shop/orders", Detail: "a pod is missing"}}
	printVerdict(&out, cluster, report)
	want := `
The nodes, and how many pods each scheduler put there:
NODE ZONE SELECTABLE DEVICE TAINTS default-scheduler berth-scheduler random-scheduler
n1 a true gpu - 0 2 0
n2 - - - old:NoSchedule 0 0 1

The devices of the shared nodes and their allocations, from the pods' annotations:
NODE MODEL DEVICE FREE ALLOCATED TO
n1 Tesla-T4 0 -100m 6656Mi gpu/half main (500m 7680Mi), gpu/pair side (600m 1024Mi)
n1 Tesla-T4 1 1000m 15360Mi -

The calls between the shop's pods, three of each Deployment, that stay within a node and within a zone,
by the trafficDistribution of the Services that they go to:
NAMESPACE SCHEDULER NODE, none NODE, PreferSameZone NODE, PreferSameNode ZONE, none ZONE, PreferSameZone ZONE, PreferSameNode
near-stock default-scheduler none of 4 pods calls a Service
near berth-scheduler none of 4 pods calls a Service

The pods; WHY is the text of the event or condition in the API:
POD SCHEDULER NODE VERDICT WHY
shop/basket berth-scheduler n1 (selectable, device=gpu) ok Scheduled: to n1
shop/orders random-scheduler n2 ok -
shop/waits random-scheduler (pending) ok FailedScheduling: nowhere

Verdict: all 4 pods are where their schedulers' rules allow (1 of them pending, as expected; the 1 whose calls were counted are not listed).

The pods; WHY is the text of the event or condition in the API:
POD SCHEDULER NODE VERDICT WHY
shop/basket berth-scheduler n1 (selectable, device=gpu) VIOLATION Scheduled: to n1
shop/orders random-scheduler n2 VIOLATION -
shop/waits random-scheduler (pending) ok FailedScheduling: nowhere

VIOLATION shop/basket: first
VIOLATION shop/orders: a pod is missing
Verdict: 2 violations among 4 pods.
`
	var got strings.Builder
	for line := range strings.Lines(out.String()) {
		got.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("unexpected output (-want,+got):\n%s", diff)
	}
}
