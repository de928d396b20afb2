// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const (
	nodeHeader = "sn,cpu_milli,memory_mib,gpu,model\n"
	podHeader  = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n"
)

func TestRead(t *testing.T) {
	tests := []struct {
		name  string
		files []string
		want  Trace
	}{
		{
			name: "the columns of the openb lists",
			files: []string{
				nodeHeader + "n0,32000,262144,0,\nn1,96000,393216,8,G2\n",
				"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n" +
					"p0,12000,16384,1,1000,,LS,Running,0,12537496,0\n" +
					"p1,6000,12288,1,460,V100M16|V100M32,LS,Pending,427061,12902960,\n" +
					"p2,88000,327680,8,1000,G2,BE,Failed,1,2,3\n" +
					"p3,8000,0,0,0,,BE,Running,1,2,3\n",
			},
			want: Trace{
				Nodes: []Node{
					{Name: "n0", CPUMilli: 32000, MemoryMiB: 262144},
					{Name: "n1", CPUMilli: 96000, MemoryMiB: 393216, Devices: 8, Model: "G2"},
				},
				Pods: []Pod{
					{Name: "p0", CPUMilli: 12000, MemoryMiB: 16384, Devices: 1, Milli: 1000},
					{Name: "p1", CPUMilli: 6000, MemoryMiB: 12288, Devices: 1, Milli: 460, Models: "V100M16|V100M32"},
					{Name: "p2", CPUMilli: 88000, MemoryMiB: 327680, Devices: 8, Milli: 1000, Models: "G2"},
					{Name: "p3", CPUMilli: 8000},
				},
			},
		},
		{
			name:  "a list without models and times",
			files: []string{"name,cpu_milli,memory_mib,num_gpu,gpu_milli\np0,1,2,1,3\n"},
			want:  Trace{Pods: []Pod{{Name: "p0", CPUMilli: 1, MemoryMiB: 2, Devices: 1, Milli: 3}}},
		},
		{
			name:  "columns in another order, quotes, CRLF, a byte order mark and empty lines",
			files: []string{"\ufeff\"gpu\",model,sn,memory_mib,cpu_milli\r\n\r\n2,\"T4\",n0,5,7\r\n\r\n"},
			want:  Trace{Nodes: []Node{{Name: "n0", CPUMilli: 7, MemoryMiB: 5, Devices: 2, Model: "T4"}}},
		},
		{
			name:  "several files of a kind",
			files: []string{nodeHeader + "n0,1,1,0,\n", nodeHeader + "n1,2,2,0,\n", podHeader + "n0,1,1,0,0,\n"},
			want: Trace{
				Nodes: []Node{{Name: "n0", CPUMilli: 1, MemoryMiB: 1}, {Name: "n1", CPUMilli: 2, MemoryMiB: 2}},
				Pods:  []Pod{{Name: "n0", CPUMilli: 1, MemoryMiB: 1}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got Trace
			for i, file := range tt.files {
				if err := got.Read("file.csv", []byte(file)); err != nil {
					t.Fatalf("file %d: %v", i, err)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(Trace{})); diff != "" {
				t.Errorf("Trace (-want,+got):\n%s", diff)
			}
		})
	}
}

// TestReadErrors: every way in which a file is wrong is said with its position.
func TestReadErrors(t *testing.T) {
	tests := []struct {
		name, file string
		want       string
	}{
		{name: "empty", file: "", want: "f.csv: is empty: want a header and rows"},
		{name: "header alone", file: podHeader, want: "f.csv: has a header and no row"},
		{name: "node header alone", file: nodeHeader, want: "f.csv: has a header and no row"},
		{name: "another table", file: "a,b,cpu_milli\n1,2,3\n", want: `f.csv:1:1: the header "a,b,cpu_milli" is neither that of a node list, which has a column "sn", nor that of a pod list, which has a column "name"`},
		{name: "both kinds", file: "sn,name\n1,2\n", want: `f.csv:1:1: the header "sn,name" is neither`},
		{name: "missing column of pods", file: "name,cpu_milli,memory_mib,num_gpu\np,1,1,1\n", want: `f.csv:1:1: column "gpu_milli" is missing: the header is "name,cpu_milli,memory_mib,num_gpu"`},
		{name: "missing column of nodes", file: "sn,cpu_milli,memory_mib,gpu\nn,1,1,1\n", want: `f.csv:1:1: column "model" is missing`},
		{name: "misspelled column", file: "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_sepc\np,1,1,1,1,T4\n", want: `f.csv:1:45: unknown column "gpu_sepc": want name, cpu_milli, memory_mib, num_gpu, gpu_milli, gpu_spec, qos,`},
		{name: "column twice", file: "name,cpu_milli,cpu_milli\np,1,1\n", want: `f.csv:1:16: column "cpu_milli" is given more than once`},
		{name: "cut off within a row", file: podHeader + "p0,1,1,1,10,T4\np1,1,1\n", want: "f.csv:3:1: the row has 3 fields, and the header 6 columns"},
		{name: "cut off within the last field", file: podHeader + "p0,1,1,1,10,T4\np1,1,1,1,10,V1", want: "f.csv:3:15: the file ends within this line: it was cut off, or its last line lacks a line feed"},
		{name: "cut off within quotes", file: podHeader + "p0,1,1,1,10,\"T4\n", want: `f.csv:2:17: extraneous or missing " in quoted-field`},
		{name: "stray quote", file: podHeader + "p0,1,1,1,10,T\"4\n", want: `f.csv:2:14: bare " in non-quoted-field`},
		{name: "too many fields", file: podHeader + "p0,1,1,1,10,T4,LS\n", want: "f.csv:2:1: the row has 7 fields, and the header 6 columns"},
		{name: "duplicate pod", file: podHeader + "p0,1,1,1,10,\np1,1,1,1,10,\np0,2,2,1,10,\n", want: `f.csv:4:1: name: "p0" is given more than once, first at f.csv:2`},
		{name: "duplicate node", file: nodeHeader + "n0,1,1,0,\nn0,2,2,0,\n", want: `f.csv:3:1: sn: "n0" is given more than once, first at f.csv:2`},
		{name: "name that is none", file: podHeader + "P_0,1,1,1,10,\n", want: `f.csv:2:1: name: "P_0" is not the name of an object: `},
		{name: "no name", file: nodeHeader + ",1,1,0,\n", want: "f.csv:2:1: sn: is empty: want a name"},
		{name: "negative CPU", file: podHeader + "p0,-1,1,1,10,\n", want: "f.csv:2:4: cpu_milli: -1 is negative"},
		{name: "negative memory", file: nodeHeader + "n0,1,-7,0,\n", want: "f.csv:2:6: memory_mib: -7 is negative"},
		{name: "empty number", file: podHeader + "p0,,1,1,10,\n", want: "f.csv:2:4: cpu_milli is empty: want a whole number"},
		{name: "fraction", file: podHeader + "p0,0.5,1,1,10,\n", want: `f.csv:2:4: cpu_milli: "0.5" is not a whole number`},
		{name: "space", file: podHeader + "p0, 5,1,1,10,\n", want: `f.csv:2:4: cpu_milli: " 5" is not a whole number`},
		{name: "beyond 64 bits", file: podHeader + "p0,99999999999999999999,1,1,10,\n", want: "f.csv:2:4: cpu_milli: 99999999999999999999 is out of range: want 0 to 1099511627776"},
		{name: "memory beyond what bytes can count", file: nodeHeader + "n0,1,1099511627777,0,\n", want: "f.csv:2:6: memory_mib: 1099511627777 is out of range: want 0 to 1099511627776"},
		{name: "more devices than a node can have", file: nodeHeader + "n0,1,1,17,T4\n", want: "f.csv:2:8: gpu: 17 is out of range: want 0 to 16"},
		{name: "more devices than a pod can ask for", file: podHeader + "p0,1,1,17,1000,\n", want: "f.csv:2:8: num_gpu: 17 is out of range: want 0 to 16"},
		{name: "more than a device", file: podHeader + "p0,1,1,1,1001,\n", want: "f.csv:2:10: gpu_milli: 1001 is out of range: want 0 to 1000"},
		{name: "share without a device", file: podHeader + "p0,1,1,0,10,\n", want: "f.csv:2:10: gpu_milli: must be 0 with num_gpu 0, not 10"},
		{name: "device without a share", file: podHeader + "p0,1,1,1,0,\n", want: "f.csv:2:10: gpu_milli: must be 1 to 1000 with num_gpu 1, not 0"},
		{name: "share of two devices", file: podHeader + "p0,1,1,2,500,\n", want: "f.csv:2:10: gpu_milli: must be 1000 with num_gpu 2, not 500: a share is of one device"},
		{name: "model without a device", file: podHeader + "p0,1,1,0,0,T4\n", want: `f.csv:2:12: gpu_spec: is "T4" on a pod with num_gpu 0: a model without a device`},
		{name: "empty model in a list", file: podHeader + "p0,1,1,1,10,T4|\n", want: `f.csv:2:13: gpu_spec: "T4|": a model is empty`},
		{name: "too many models", file: podHeader + "p0,1,1,1,10," + strings.Repeat("T4|", 40) + "T4\n", want: `f.csv:2:13: gpu_spec: "T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|T4|…" has 41 patterns: list at most 32`},
		{name: "pattern as a model", file: podHeader + "p0,1,1,1,10,V100*\n", want: `f.csv:2:13: gpu_spec: "V100*": "V100*" is not a device model, which is the value of a label: `},
		{name: "node model that is no label value", file: nodeHeader + "n0,1,1,1,Tesla T4\n", want: `f.csv:2:10: model: "Tesla T4" is not a device model`},
		{name: "model of devices in parts", file: nodeHeader + "n0,1,1,1,A100-MIG-1g.5gb\n", want: "f.csv:2:10: model: the devices of such a node cannot be shared: "},
		{name: "negative time", file: "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time\np0,1,1,0,0,-3\n", want: "f.csv:2:12: creation_time: -3 is negative"},
		{name: "time that is none", file: "name,cpu_milli,memory_mib,num_gpu,gpu_milli,deletion_time\np0,1,1,0,0,soon\n", want: `f.csv:2:12: deletion_time: "soon" is not a whole number`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var trace Trace
			err := trace.Read("f.csv", []byte(tt.file))
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("want an *Error, got %T: %v", err, err)
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Read:\ngot  %v\nwant %v…", err, tt.want)
			}
		})
	}
}

func TestDuplicateAcrossFiles(t *testing.T) {
	var trace Trace
	if err := trace.Read("a.csv", []byte(podHeader+"p0,1,1,0,0,\n")); err != nil {
		t.Fatal(err)
	}
	err := trace.Read("b.csv", []byte(podHeader+"p0,1,1,0,0,\n"))
	if want := `b.csv:2:1: name: "p0" is given more than once, first at a.csv:2`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestIsHeader(t *testing.T) {
	tests := []struct {
		line string
		want bool
	}{
		{line: strings.TrimSuffix(nodeHeader, "\n"), want: true},
		{line: "\ufeffcpu_milli,name\r\n", want: true},
		{line: `"name","cpu_milli"`, want: true},
		{line: "apiVersion: v1"},
		{line: `{"apiVersion": "v1", "cpu_milli": 1}`},
		{line: "# cpu_milli"},
		{line: ""},
	}
	for _, tt := range tests {
		if got := IsHeader([]byte(tt.line)); got != tt.want {
			t.Errorf("IsHeader(%q) = %v, want %v", tt.line, got, tt.want)
		}
	}
}

func TestUnknownModels(t *testing.T) {
	var trace Trace
	for _, file := range []string{
		nodeHeader + "n0,1,1,1,T4\nn1,1,1,1,A10\nn2,1,1,1,\n",
		podHeader + "p0,1,1,1,1,T4\np1,1,1,1,1,T4|V100\np2,1,1,1,1,V100\np3,1,1,1,1,t4|a10|H100\n",
	} {
		if err := trace.Read("f.csv", []byte(file)); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, err := range trace.UnknownModels() {
		got = append(got, err.Error())
	}
	want := []string{
		`f.csv:3:1: gpu_spec of pod p1: no node has the model "V100"; the nodes have A10, T4`,
		`f.csv:5:1: gpu_spec of pod p3: no node has the model "H100"; the nodes have A10, T4`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("UnknownModels (-want,+got):\n%s", diff)
	}
}

// FuzzRead: no file makes it panic, and what it accepts becomes valid objects.
func FuzzRead(f *testing.F) {
	f.Add(nodeHeader + "n0,1,1,1,T4\n")
	f.Add(podHeader + "p0,1,1,1,1,T4|A10\n")
	f.Add("sn,cpu_milli\n\"")
	f.Fuzz(func(t *testing.T, file string) {
		var trace Trace
		if err := trace.Read("f.csv", []byte(file)); err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Errorf("want an *Error, got %T", err)
			}
			return
		}
		for i := range trace.Nodes {
			trace.Nodes[i].Object()
		}
		for i := range trace.Pods {
			trace.Pods[i].Object("")
		}
		trace.UnknownModels()
	})
}
