// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	resourcehelper "k8s.io/component-helpers/resource"
)

// summary is what a cluster holds, by name, in order.
func summary(c *Cluster) []string {
	var all []string
	for _, node := range c.Nodes() {
		all = append(all, "Node "+node.Name)
	}
	for _, pod := range c.Pods() {
		state := "pending"
		if pod.Spec.NodeName != "" {
			state = "on " + pod.Spec.NodeName
		}
		all = append(all, "Pod "+pod.Namespace+"/"+pod.Name+" "+state)
	}
	for _, obj := range c.Others() {
		kind, _ := KindOf(obj)
		all = append(all, kind.Kind)
	}
	return all
}

// TestRead reads what kubectl prints, and what people write.
func TestRead(t *testing.T) {
	tests := []struct {
		name      string
		files     []string
		want      []string
		wantNotes []string
	}{
		{
			name:  "a list of mixed kinds as kubectl prints it",
			files: []string{"mixed.yaml"},
			want:  []string{"Node n1", "Node n2", "Pod default/bound on n1", "Pod default/pending pending", "Namespace", "Service"},
			wantNotes: []string{
				"testdata/mixed.yaml: 1 object(s) of kind ConfigMap (v1) were left out: no plugin reads them",
				"testdata/mixed.yaml: 1 object(s) of kind Deployment (apps/v1) were left out: their pods stand for themselves",
				"testdata/mixed.yaml: 1 pod(s) were left out: they have terminated",
			},
		},
		{
			name:      "the same as JSON",
			files:     []string{"mixed.json"},
			want:      []string{"Node n1", "Pod default/stray on gone", "Namespace"},
			wantNotes: []string{`1 pod(s) are bound to nodes that are not in the input and occupy nothing, for example default/stray on "gone"`},
		},
		{
			name:  "documents of single objects, written by hand",
			files: []string{"documents.yaml"},
			want:  []string{"Node n1", "Pod default/p pending"},
		},
		{
			name:  "several files",
			files: []string{"documents.yaml", "nodelist.json"},
			want:  []string{"Node n1", "Node from-a-node-list", "Pod default/p pending"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader()
			for _, file := range tt.files {
				path := filepath.Join("testdata", file)
				content, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if err := r.Read(path, content); err != nil {
					t.Fatal(err)
				}
			}
			c, notes := r.Cluster()
			if diff := cmp.Diff(tt.want, summary(c)); diff != "" {
				t.Errorf("Unexpected objects (-want,+got):\n%s", diff)
			}
			var got []string
			for _, note := range notes {
				got = append(got, note.String())
			}
			if diff := cmp.Diff(tt.wantNotes, got); diff != "" {
				t.Errorf("Unexpected notes (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestReadManifests reads what people give to kubectl apply.
func TestReadManifests(t *testing.T) {
	const template = "template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}"
	manifest := func(version, kind, spec string) string {
		return fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: web}\nspec: {%s}\n", version, kind, spec)
	}
	tests := []struct {
		name  string
		text  string
		want  []string
		err   string
		notes []string
	}{
		{
			name: "a pod without a namespace", text: manifest("v1", "Pod", "containers: [{name: c, image: i}]"),
			want: []string{"Pod team/web pending"},
		},
		{
			name: "a Deployment", text: manifest("apps/v1", "Deployment", "replicas: 2, "+template),
			want: []string{"Pod team/web-0 pending", "Pod team/web-1 pending"},
		},
		{
			name: "a Deployment of one", text: manifest("apps/v1", "Deployment", template),
			want: []string{"Pod team/web-0 pending"},
		},
		{
			name: "a StatefulSet, which plugins read too", text: manifest("apps/v1", "StatefulSet", "replicas: 1, "+template),
			want: []string{"Pod team/web-0 pending", "StatefulSet"},
		},
		{
			name: "a Job", text: manifest("batch/v1", "Job", "parallelism: 4, completions: 3, "+template),
			want: []string{"Pod team/web-0 pending", "Pod team/web-1 pending", "Pod team/web-2 pending"},
		},
		{
			name: "a CronJob", text: manifest("batch/v1", "CronJob", `schedule: "@daily", jobTemplate: {spec: {parallelism: 2, `+template+"}}"),
			want: []string{"Pod team/web-0 pending", "Pod team/web-1 pending"},
		},
		{
			name: "too many of a CronJob", text: manifest("batch/v1", "CronJob", `schedule: "@daily", jobTemplate: {spec: {parallelism: -1, `+template+"}}"),
			err: "input:1: CronJob team/web: spec.jobTemplate.spec.parallelism: Invalid value: -1: must be 0 to 100000",
		},
		{
			name: "a ReplicationController", text: manifest("v1", "ReplicationController", "replicas: 1, "+template),
			want: []string{"Pod team/web-0 pending", "ReplicationController"},
		},
		{
			name: "a ReplicationController without a template", text: manifest("v1", "ReplicationController", "replicas: 1"),
			err: "input:1: ReplicationController team/web, pod web-0: spec.containers: Required value: a pod has at least one container",
		},
		{
			name: "a DaemonSet", text: manifest("apps/v1", "DaemonSet", template),
			notes: []string{"input: 1 object(s) of kind DaemonSet (apps/v1) were left out: each of their pods names its node"},
		},
		{
			name: "a StatefulSet with volumes", text: manifest("apps/v1", "StatefulSet", "volumeClaimTemplates: [{metadata: {name: data}}], "+template),
			want: []string{"Pod team/web-0 pending", "StatefulSet"}, notes: []string{"input: StatefulSet team/web: its pods are placed without the volumes of spec.volumeClaimTemplates"},
		},
		{
			name: "a misspelled field", text: manifest("v1", "Pod", "containers: [{name: c, image: i}], nodeSelektor: {a: b}"),
			err: `input:1: Pod team/web: unknown field "spec.nodeSelektor": correct the spelling, or remove it`,
		},
		{
			name: "a misspelled field of a template", text: manifest("apps/v1", "Deployment", "replica: 2, "+template),
			err: `input:1: Deployment team/web: unknown field "spec.replica": correct the spelling, or remove it`,
		},
		{
			name: "a pod that cannot be", text: manifest("apps/v1", "Deployment", "replicas: 2"),
			err: "input:1: Deployment team/web, pod web-0: spec.containers: Required value: a pod has at least one container",
		},
		{
			name: "too many", text: manifest("apps/v1", "Deployment", "replicas: 1000000, "+template),
			err: "input:1: Deployment team/web: spec.replicas: Invalid value: 1000000: must be 0 to 100000",
		},
		{
			name: "a field of a newer API server", text: "apiVersion: v1\nkind: Pod\nmetadata: {name: web, uid: u}\nspec: {containers: [{name: c}], newer: 1}\n",
			want: []string{"Pod team/web pending"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader()
			r.Namespace = "team"
			err := r.Read("input", []byte(tt.text))
			if tt.err != "" {
				if err == nil || err.Error() != tt.err {
					t.Errorf("error %v, want %s", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			c, notes := r.Cluster()
			var got []string
			for _, note := range notes {
				got = append(got, note.String())
			}
			if diff := cmp.Diff(tt.notes, got); diff != "" {
				t.Errorf("notes (-want,+got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.want, summary(c)); diff != "" {
				t.Errorf("objects (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestReadLayouts reads the same node in every layout in which a list can be
// written.
func TestReadLayouts(t *testing.T) {
	tests := []struct{ name, text string }{
		{"kubectl's", "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: host\nkind: List\nmetadata:\n  resourceVersion: \"\"\n"},
		{"indented items", "kind: List\napiVersion: v1\nitems:\n  - apiVersion: v1\n    kind: Node\n    metadata:\n      name: host\n"},
		{"a dash of its own", "kind: List\napiVersion: v1\nitems:\n-\n  apiVersion: v1\n  kind: Node\n  metadata: {name: host}\n"},
		{"flow style", "{kind: List, apiVersion: v1, items: [{apiVersion: v1, kind: Node, metadata: {name: host}}]}\n"},
		{"flow style below a block", "kind: List\napiVersion: v1\nitems: [{apiVersion: v1, kind: Node, metadata: {name: host}}]\n"},
		{"DOS line ends", "kind: List\r\napiVersion: v1\r\nitems:\r\n- apiVersion: v1\r\n  kind: Node\r\n  metadata:\r\n    name: host\r\n"},
		{"comments and a byte order mark", "\xef\xbb\xbf# from production\nkind: List\napiVersion: v1\nitems: # all of them\n# the first\n- apiVersion: v1\n  kind: Node\n# still the first\n  metadata:\n    name: host\n"},
		{"a block scalar that looks like items", "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: host\n    annotations:\n      script: |\n        - one\n        items:\n        # three\n\n        ---x\n"},
		{"after an empty document", "---\n---\napiVersion: v1\nkind: Node\nmetadata:\n  name: host\n...\n"},
		{"text behind the dashes", "--- {apiVersion: v1, kind: Node, metadata: {name: host}}\n"},
		{"JSON within YAML", "---\n{\"apiVersion\": \"v1\", \"kind\": \"Node\", \"metadata\": {\"name\": \"host\"}}\n"},
		{"no line end at the end", "apiVersion: v1\nkind: Node\nmetadata:\n  name: host"},
		{"a typed list", `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"host"}}]}`},
		{"JSON objects in a row", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"host"}} {"kind":"PodList","apiVersion":"v1","items":null}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := NewReader()
			if err := r.Read("file", []byte(tt.text)); err != nil {
				t.Fatal(err)
			}
			c, _ := r.Cluster()
			if diff := cmp.Diff([]string{"Node host"}, summary(c)); diff != "" {
				t.Errorf("Unexpected objects (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestReadErrors makes sure that each error says where it is and what to do.
func TestReadErrors(t *testing.T) {
	node := "apiVersion: v1\nkind: Node\nmetadata:\n  name: host\n"
	list := "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Node\n  metadata:\n    name: host\n"
	pod := "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: default\nspec:\n  containers:\n  - name: main\n"
	tests := []struct{ name, text, want string }{
		{"nothing", "", `file: holds no Kubernetes object: want what "kubectl get nodes,pods -A -o yaml" (or json) prints`},
		{"comments alone", "# nothing\n---\n# at all\n", `file: holds no Kubernetes object: want what "kubectl get nodes,pods -A -o yaml" (or json) prints`},
		{"a name twice", node + "---\n" + node, `file:6: Node host: metadata.name: there are two nodes "host"`},
		{"a name twice in a list", list + "- apiVersion: v1\n  kind: Node\n  metadata:\n    name: host\nkind: List\n", `file:7: item 2 (Node host): metadata.name: there are two nodes "host"`},
		{"a UID twice", "apiVersion: v1\nkind: Node\nmetadata: {name: a, uid: u}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b, uid: u}\n", `file:5: Node b: metadata.uid: "u" is also that of nodes "a"`},
		{"no name", "apiVersion: v1\nkind: Node\n", "file:1: Node: metadata.name: Required value: every object has a name"},
		{"no namespace", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n", "file:1: Pod p: metadata.namespace: Required value: every Pod has one"},
		{"a namespace too many", "apiVersion: v1\nkind: Node\nmetadata:\n  name: host\n  namespace: default\n", `file:1: Node default/host: metadata.namespace: Invalid value: "default": a Node has none`},
		{"no kind", "apiVersion: v1\nmetadata:\n  name: host\n", "file:1: kind: required: what the object is"},
		{"no version", "kind: Node\nmetadata:\n  name: host\n", "file:1: Node: apiVersion: required: what the object is"},
		{"negative CPU of a node", node + "status:\n  allocatable:\n    cpu: \"-4\"\n", `file:1: Node host: status.allocatable[cpu]: Invalid value: "-4": must not be negative`},
		{
			"a negative request", pod + "    resources:\n      requests:\n        memory: -1Gi\n",
			`file:1: Pod default/p: spec.containers[0].resources.requests[memory]: Invalid value: "-1Gi": must not be negative`,
		},
		{
			"CPU that overflows", pod + "    resources:\n      limits:\n        cpu: 1e300\n",
			`file:1: Pod default/p: spec.containers[0].resources.limits[cpu]: Invalid value: "1e+300": must be at most 1Pi`,
		},
		{
			"CPU of a billion digits", pod + "    resources:\n      limits:\n        cpu: 1e1000000000\n",
			`file:1: Pod default/p: spec.containers[0].resources.limits[cpu]: Invalid value: "10e999999999": must be at most 1Pi`,
		},
		{"memory that overflows", node + "status:\n  capacity:\n    memory: 9E\n", `file:1: Node host: status.capacity[memory]: Invalid value: "9E": must be at most 1Ei`},
		{"a name that is none", "apiVersion: v1\nkind: Node\nmetadata: {name: \"a\\e[31m/..\"}\n", `file:1: Node a` + "\x1b[31m/.." + `: metadata.name: Invalid value: "a\x1b[31m/..": a lowercase RFC 1123 subdomain`},
		{"a name that is a path", "apiVersion: v1\nkind: Namespace\nmetadata: {name: a/b}\n", `file:1: Namespace a/b: metadata.name: Invalid value: "a/b": may not contain '/'`},
		{"an alias to another item", list + "  status: &s {}\n- apiVersion: v1\n  kind: Node\n  metadata: {name: other}\n  status: *s\nkind: List\n", "file:8: item 2: yaml: unknown anchor 's' referenced: items are read one by one, so an alias cannot refer to another item: write out what it stands for"},
		{"aliases that multiply", node + "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: [*e,*e,*e,*e,*e,*e,*e,*e,*e]\n", "file:1: yaml: document contains excessive aliasing"},
		{"nesting without end", node + "x: " + strings.Repeat("[", 20_000) + "\n", "file:1: yaml: "},
		{"a list that was cut off between two items", list, `file:1: kind: is "", but the document has items: want List`},
		{"no container", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: default\n", "file:1: Pod default/p: spec.containers: Required value: a pod has at least one container"},
		{"no quantity", node + "status:\n  allocatable:\n    cpu: many\n", "file:1: Node host: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		{"a string for a list", "apiVersion: v1\nkind: Pod\nmetadata:\n  name: p\n  namespace: default\nspec: none\n", "file:1: Pod default/p: json: cannot unmarshal string into Go struct field Pod.spec of type v1.PodSpec"},
		{"no YAML", node + "---\nkind: [\n", "file:6: yaml: line 6: did not find expected node content"},
		{"no YAML in an item", list + "- kind: [\n", "file:7: item 2: yaml: line 7: did not find expected node content"},
		{"items of something else", "apiVersion: v1\nitems:\n- a\n", "file:3: item 1: want a Kubernetes object, with kind and apiVersion"},
		{"items without a list", "kind: ConfigMap\napiVersion: v1\nitems: []\n", `file:1: kind: is "ConfigMap", but the document has items: want List`},
		{"cut off JSON", `{"kind":"List","apiVersion":"v1","items":[{"kind":"Node","apiVer`, "file: the file ends within an object: it is cut off"},
		{"JSON that is none", `{"kind":"Node",}`, "file: byte 16: invalid character '}'"},
		{"JSON items that are none", `{"kind":"List","items":7}`, "file: items: want a list, not 7"},
		{"a web page", "<!DOCTYPE html>\n<p>Forbidden</p>\n", "file:1: want a Kubernetes object, with kind and apiVersion"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := NewReader().Read("file", []byte(tt.text))
			if err == nil {
				t.Fatal("It was read")
			}
			if got := err.Error(); !strings.HasPrefix(got, tt.want) {
				t.Errorf("Unexpected error:\n got %s\nwant %s", got, tt.want)
			}
		})
	}
}

// TestHas tells a kind that is missing from one of which there is nothing.
func TestHas(t *testing.T) {
	r := NewReader()
	if err := r.Read("file", []byte(`{"kind":"ServiceList","apiVersion":"v1","items":[]}`)); err != nil {
		t.Fatal(err)
	}
	c, _ := r.Cluster()
	for resource, want := range map[string]bool{"services": true, "namespaces": false, "pods": false} {
		if got := c.Has(resource); got != want {
			t.Errorf("Has(%q) = %t, want %t", resource, got, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"mixed.yaml", "mixed.json", "documents.yaml"} {
		content, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	f.Fuzz(func(t *testing.T, text string) {
		r := NewReader()
		if err := r.Read("file", []byte(text)); err != nil {
			return
		}
		c, _ := r.Cluster()
		for _, node := range c.Nodes() {
			if node.Name == "" || node.UID == "" {
				t.Errorf("A node without a name or UID was let through: %+v", node.ObjectMeta)
			}
		}
	})
}

// TestDefaults: what an API server sets of an object is set of all that stand in files,
// whether they say that they come from one (a UID) or not.
func TestDefaults(t *testing.T) {
	for _, uid := range []string{"", ", uid: %s-1"} {
		head := func(kind, name string) string {
			text := "kind: " + kind + "\nmetadata: {name: " + name
			if uid != "" {
				text += fmt.Sprintf(uid, name)
			}
			return text + "}\n"
		}
		r := NewReader()
		r.Namespace = "default"
		err := r.Read("f.yaml", []byte("apiVersion: v1\n"+head("Node", "n1")+`status: {capacity: {cpu: "4"}}
---
apiVersion: v1
`+head("Pod", "limits")+`spec:
  nodeName: n1
  initContainers: [{name: i, image: i, resources: {limits: {cpu: "1"}}}]
  containers: [{name: c, image: i, resources: {limits: {cpu: "3", nvidia.com/gpu: 8}, requests: {cpu: "2"}}}]
---
apiVersion: v1
`+head("Pod", "ports")+`spec: {nodeName: n1, hostNetwork: true, containers: [{name: c, image: i, ports: [{containerPort: 80}]}]}
---
apiVersion: v1
`+head("Pod", "whole")+`spec: {nodeName: n1, resources: {limits: {cpu: "2", memory: 1Gi}}, containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
---
apiVersion: storage.k8s.io/v1
`+head("StorageClass", "s")+"provisioner: p\n"))
		if err != nil {
			t.Fatal(err)
		}
		c, _ := r.Cluster()
		requested := func(i int, name corev1.ResourceName) string {
			quantity := resourcehelper.PodRequests(c.Pods()[i], resourcehelper.PodResourcesOptions{})[name]
			return quantity.String()
		}
		got := []string{
			c.Nodes()[0].Status.Allocatable.Cpu().String(), requested(0, "cpu"), requested(0, "nvidia.com/gpu"),
			c.Pods()[0].Spec.InitContainers[0].Resources.Requests.Cpu().String(), c.Pods()[0].Spec.SchedulerName,
			strconv.Itoa(int(c.Pods()[1].Spec.Containers[0].Ports[0].HostPort)), requested(2, "cpu"), requested(2, "memory"),
		}
		for _, obj := range c.Others() {
			if class, ok := obj.(*storagev1.StorageClass); ok && class.VolumeBindingMode != nil {
				got = append(got, string(*class.VolumeBindingMode))
			}
		}
		want := []string{"4", "2", "8", "1", "default-scheduler", "80", "1", "1Gi", "Immediate"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("with UIDs like %q (-want,+got):\n%s", uid, diff)
		}
	}
}
