// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiserver/pkg/audit/policy"

	"github.com/berth-scheduler/berth/pkg/cluster"
	"github.com/berth-scheduler/berth/pkg/diagnose/check"
)

// at is a second of a day, as audit events have it.
func at(second int) string {
	return time.Date(2026, 11, 23, 0, 0, second, 0, time.UTC).Format("2006-01-02T15:04:05.000000Z07:00")
}

// write is an event of a request that was answered in a second, and sent half a second before.
func write(second int, verb, subresource, name string, code int, request, response string) string {
	sent := strings.Replace(at(second-1), ".000000", ".500000", 1)
	line := fmt.Sprintf(`{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","stage":"ResponseComplete","requestURI":"/api/v1","verb":%q,`+
		`"user":{"username":"scheduler"},"userAgent":"berth/1","objectRef":{"resource":"pods","namespace":"ns","name":%q,"subresource":%q},"responseStatus":{"code":%d},`+
		`"requestReceivedTimestamp":%q,"stageTimestamp":%q`, verb, name, subresource, code, sent, at(second))
	if request != "" {
		line += `,"requestObject":` + request
	}
	if response != "" {
		line += `,"responseObject":` + response
	}
	return line + "}\n"
}

// pod is a pod with a share, of a version; more are further fields of it.
func podJSON(name string, version int, node, device, milli, phase, more string) string {
	record := ""
	if device != "" {
		record = fmt.Sprintf(`"annotations":{"berth.dev/gpu-assigned":"main=%s:%sm:1Mi","gpu.berth.dev/main":%q},`, device, milli, device)
	}
	return fmt.Sprintf(`{"kind":"Pod","apiVersion":"v1","metadata":{%s"namespace":"ns","name":%q,"uid":"uid-%s","resourceVersion":"%d","creationTimestamp":"2026-11-23T00:00:05Z"%s},`+
		`"spec":{"nodeName":%q,"containers":[{"name":"main","resources":{"limits":{"berth.dev/gpu-milli":%q}}}]},"status":{"phase":%q}}`,
		record, name, name, version, more, node, milli, phase)
}

func created(second int, name, milli string) string {
	return write(second, "create", "", name, 201, "", podJSON(name, second*10, "", "", milli, "Pending", ""))
}

func bound(second int, name, node, device, milli string) string {
	annotations := ""
	if device != "" {
		annotations = fmt.Sprintf(`,"annotations":{"berth.dev/gpu-assigned":"main=%s:%sm:1Mi","gpu.berth.dev/main":%q}`, device, milli, device)
	}
	return write(second, "create", "binding", name, 201, fmt.Sprintf(`{"kind":"Binding","metadata":{"uid":"uid-%s"%s},"target":{"kind":"Node","name":%q}}`, name, annotations, node), "")
}

func status(second int, name, node, device, milli, phase string) string {
	return write(second, "patch", "status", name, 200, "{}", podJSON(name, second*10, node, device, milli, phase, ""))
}

func deleted(second int, name, node, device, milli string) string {
	return write(second, "delete", "", name, 200, `{"kind":"DeleteOptions"}`,
		podJSON(name, second*10, node, device, milli, "Running", `,"deletionTimestamp":"2026-11-23T00:00:59Z","deletionGracePeriodSeconds":0`))
}

func watched(kind, object string) string {
	return fmt.Sprintf(`{"type":%q,"object":%s}`+"\n", kind, object)
}

func node(name, tenant string) string {
	label := ""
	if tenant != "" {
		label = fmt.Sprintf(`,"labels":{"berth.dev.node-restriction.kubernetes.io/tenant":%q}`, tenant)
	}
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%q%s}}`, name, label)
}

func namespace(name, tenant string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{"berth.dev/tenant":%q}}}`, name, tenant)
}

// logCase is a log, and what is found in it.
type logCase struct {
	name, log string
	// before are the objects of before the log. Default: none is known.
	before string
	// want are the violations: kind, object, from and to, pods.
	want []string
	// gaps are contained in those that are reported, one each.
	gaps []string
}

// TestLogs: what logs show of devices, records and tenants, and what they do not show.
func TestLogs(t *testing.T) {
	const n = "n"
	free := node(n, "") + "\n" + namespace("ns", "a")
	start := created(10, "a", "600") + bound(11, "a", n, "0", "600") + status(12, "a", n, "0", "600", "Running") + created(13, "b", "600")
	second := bound(20, "b", n, "0", "600")
	metadata := func(line string) string {
		line = strings.Replace(line, `"level":"RequestResponse"`, `"level":"Metadata"`, 1)
		head, _, _ := strings.Cut(line, `,"responseObject"`)
		return head + "}\n"
	}
	tests := []logCase{
		{name: "one after the other", before: free, log: start + deleted(15, "a", n, "0", "600") + second},
		{name: "twice", before: free, log: start + second + deleted(30, "a", n, "0", "600"), want: []string{"Overcommitted n/0 20.000000 29.500000 ns/a,ns/b scheduler berth/1"}},
		{name: "twice, to the end", before: free, log: start + second, want: []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/b scheduler berth/1"}},
		{name: "ended before", before: free, log: start + status(15, "a", n, "0", "600", "Succeeded") + second},
		{name: "deleted while the other one is bound", before: free, log: start + bound(20, "b", n, "0", "600") + deleted(20, "a", n, "0", "600")},
		{
			name: "asked to end, and not gone", before: free, log: start +
				write(15, "delete", "", "a", 200, `{"kind":"DeleteOptions"}`, podJSON("a", 150, n, "0", "600", "Running", `,"deletionTimestamp":"2026-11-23T00:00:59Z","deletionGracePeriodSeconds":30`)) + second,
			want: []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/b scheduler berth/1"},
		},
		{
			name: "evicted, and not gone", before: free, log: start + write(15, "create", "eviction", "a", 201, `{"kind":"Eviction"}`, "") + second,
			want: []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/b scheduler berth/1"},
		},
		{name: "deleted with all others", before: free, log: start + write(15, "deletecollection", "", "", 200, `{"kind":"DeleteOptions","gracePeriodSeconds":0}`,
			`{"kind":"PodList","items":[`+podJSON("a", 120, n, "0", "600", "Running", "")+`]}`) + second},
		{name: "without a record", before: free, log: start + bound(20, "b", n, "", "") + deleted(30, "a", n, "0", "600"), want: []string{"Torn ns/b 20.000000 20.000000 ns/b scheduler berth/1"}},
		{name: "a record that changes", before: free, log: start + status(25, "a", n, "1", "600", "Running"), want: []string{"Moved ns/a 25.000000 25.000000 ns/a scheduler berth/1"}},
		{name: "a refused Binding", before: free, log: start + strings.Replace(second, `"code":201`, `"code":409`, 1)},
		{name: "an answer after the Binding's", before: free, log: bound(11, "a", n, "0", "600") + created(12, "a", "600") + status(13, "a", n, "0", "600", "Running")},
		{name: "a stranger", before: node(n, "t") + "\n" + namespace("ns", "a"), log: start, want: []string{"WrongTenant ns/a 11.000000 11.000000 ns/a scheduler berth/1"}},
		{name: "the tenant's own", before: node(n, "a") + "\n" + namespace("ns", "a"), log: start},
		{
			name: "from before", before: free + "\n" + podJSON("old", 1, n, "0", "600", "Running", ""), log: start + deleted(15, "a", n, "0", "600"),
			want: []string{"Overcommitted n/0 11.000000 14.500000 ns/a,ns/old scheduler berth/1"},
		},
		{name: "nothing", gaps: []string{"no write to a pod is in the log"}},
		{name: "from before, unknown", log: deleted(15, "a", n, "0", "600"), gaps: []string{"1 pod(s) existed before the log began"}},
		{name: "nodes unknown", log: start, gaps: []string{"1 node(s) that pods entered are not in the log (n, …)"}},
		{name: "namespaces unknown", before: node(n, "t"), log: start, gaps: []string{"1 pod(s) entered a tenant's node, and their Namespace is not in the log"}},
		{name: "level Metadata", before: free, log: metadata(created(10, "a", "600")) + start, gaps: []string{"1 write(s) to pods are logged without their content: the policy has level Metadata"}},
		{name: "level Metadata of an end", before: free, log: start + metadata(status(15, "a", n, "0", "600", "Succeeded")) + second, gaps: []string{"level Metadata"}},
		{name: "level Request of an end", before: free, log: start + write(15, "patch", "status", "a", 200, "{}", "") + second, gaps: []string{"1 write(s) to bound pods are logged without a readable answer"}},
		{name: "level Request", before: free, log: write(10, "create", "", "a", 201, podJSON("a", 0, "", "", "600", "", ""), "") + bound(11, "a", n, "0", "600") +
			write(12, "patch", "status", "x", 200, "{}", "") + write(15, "delete", "", "a", 200, `{"kind":"DeleteOptions","gracePeriodSeconds":0}`, "")},
		{name: "level Request, generateName", before: free, log: write(10, "create", "", "", 201, `{"kind":"Pod","metadata":{"generateName":"a-"}}`, ""), gaps: []string{"1 pod(s) were created with generateName"}},
		{name: "no status", before: free, log: created(10, "a", "600") + bound(11, "a", n, "0", "600"), gaps: []string{"no write to pods/status is in the log"}},
		{name: "an end that was left out", before: free, log: start + strings.Replace(deleted(15, "a", n, "0", "600"), `"Running"`, `"Succeeded"`, 1), gaps: []string{"1 pod(s) ended, and the write of their status is not in the log"}},
		{name: "a Binding that was left out", before: free, log: created(10, "a", "600") + status(12, "a", n, "0", "600", "Running"), gaps: []string{"1 pod(s) have a node, and their Binding is not in the log"}},
		{
			name: "a creation that was left out", before: free, log: strings.ReplaceAll(start, "00:00:05Z", "00:00:11Z") + strings.Replace(status(20, "c", n, "1", "1", "Running"), "00:00:05Z", "00:00:15Z", 1),
			gaps: []string{"1 pod(s) were created while the log was written"},
		},
		{name: "replaced", before: free, log: start + strings.Replace(created(30, "a", "600"), `"uid-a"`, `"uid-2"`, 1), gaps: []string{"1 pod(s) were replaced"}},
		{name: "an unknown outcome", before: free, log: start + strings.Replace(second, `"code":201`, `"code":504`, 1), gaps: []string{"1 write(s) to pods were answered with an error of the server"}},
		{
			name: "an unknown outcome, and it was written", before: free, log: start + strings.Replace(second, `"ResponseComplete"`, `"Panic"`, 1) + status(21, "b", n, "0", "600", "Running"),
			want: []string{"Overcommitted n/0 21.000000 21.000000 ns/a,ns/b scheduler berth/1"}, gaps: []string{"1 write(s) to pods were answered with an error of the server"},
		},
		{name: "a Binding of unknown requests", before: free, log: start + bound(20, "x", n, "", ""), gaps: []string{"1 pod(s) were bound without a record, and what they request"}},
		{name: "lines that are none", before: free, log: "{\n" + start + "null\n" + `{"kind":"Event","apiVersion":"v1"}`, gaps: []string{"3 line(s) could not be read: standard input:1 (no JSON object: "}},
		{
			name: "a long line", before: free, log: strings.Replace(start, `"userAgent":"berth/1"`, `"userAgent":"`+strings.Repeat("x", 10<<20)+`"`, 1) + second,
			want: []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/b scheduler berth/1"},
		},
		{name: "a watch", log: watched("ADDED", node(n, "")) + watched("ADDED", podJSON("a", 10, "", "", "600", "Pending", "")) + watched("MODIFIED", podJSON("a", 11, n, "0", "600", "Running", "")) +
			watched("BOOKMARK", podJSON("", 12, "", "", "", "", "")) + watched("DELETED", podJSON("a", 13, n, "0", "600", "Running", "")) +
			watched("ADDED", podJSON("b", 14, "", "", "600", "", "")) + watched("MODIFIED", podJSON("b", 15, n, "0", "600", "Running", ""))},
		{
			name: "a watch of a device given twice", log: watched("ADDED", node(n, "")) + watched("ADDED", podJSON("a", 10, n, "0", "600", "Running", "")) + watched("ADDED", podJSON("b", 15, n, "0", "600", "Running", "")),
			want: []string{"Overcommitted n/0 15 15 ns/a,ns/b  "},
		},
		{name: "a watch that ended", log: watched("ADDED", podJSON("a", 10, "", "", "600", "", "")) + watched("ERROR", `{"kind":"Status"}`), gaps: []string{"1 time(s) a watch ended with an error"}},
	}
	dryRun := func(second int, name, options string) string {
		return write(second, "delete", "", name, 200, options, podJSON(name, second*10, n, "0", "600", "Running", `,"deletionTimestamp":"2026-11-23T00:00:59Z","deletionGracePeriodSeconds":0`))
	}
	twice := []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/b scheduler berth/1"}
	evicted := write(15, "create", "eviction", "b", 201, `{"kind":"Eviction"}`, "")
	about := func(line, resource string) string {
		return strings.Replace(line, `"resource":"pods","namespace":"ns"`, `"resource":"`+resource+`"`, 1)
	}
	tests = append(tests, []logCase{
		{name: "pods from before unknown", log: start, gaps: []string{"the pods that existed before the log began are not known"}},
		{name: "from the cluster's start", log: about(write(1, "create", "", "kube-system", 201, "", namespace("kube-system", "")), "namespaces") + about(write(2, "create", "", n, 201, "", node(n, "")), "nodes") + start},
		{name: "a dry run", before: free, log: start + dryRun(15, "a", `{"kind":"DeleteOptions","dryRun":["All"]}`) + second, want: twice},
		{name: "a deletion whose query is not read", before: free, log: start + strings.Replace(deleted(15, "a", n, "0", "600"), `"requestURI":"/api/v1"`, `"requestURI":"/api/v1/x?dryRun=All"`, 1) + second},
		{name: "a dry run of an eviction", before: free, log: start + write(15, "create", "eviction", "b", 201, `{"kind":"Eviction","deleteOptions":{"dryRun":["All"]}}`, "") + second, want: twice},
		{name: "dryRun in another parameter", before: free, log: start + strings.Replace(second, `"requestURI":"/api/v1"`, `"requestURI":"/api/v1/x?fieldManager=dryRun="`, 1), want: twice},
		{
			name: "evicted, and bound after that", before: free, log: start + evicted + bound(20, "b", n, "0", "600") + status(25, "b", n, "0", "600", "Running"),
			want: []string{"Overcommitted n/0 20.000000 25.000000 ns/a,ns/b scheduler berth/1"}, gaps: []string{"1 pod(s) were written to after their deletion"},
		},
		{name: "a record that cannot be read", before: free, log: start + strings.Replace(second, "main=0:600m:1Mi", "main=zero", 1), want: []string{"Torn ns/b 20.000000 20.000000 ns/b scheduler berth/1"}},
		{name: "a record of another container", before: free, log: start + strings.Replace(second, "main=0:", "other=0:", 1), want: []string{"Torn ns/b 20.000000 20.000000 ns/b scheduler berth/1"}},
		{name: "a record of less than the request", before: free, log: start + strings.Replace(second, ":600m:", ":1m:", 1), want: []string{"WrongRecord ns/b 20.000000 20.000000 ns/b scheduler berth/1"}},
		{
			name: "bound while it is evicted", before: free, log: start + evicted + strings.Replace(bound(16, "b", n, "0", "600"), "00:00:15.500000", "00:00:14.200000", 1),
			want: []string{"Overcommitted n/0 16.000000 16.000000 ns/a,ns/b scheduler berth/1"}, gaps: []string{"1 pod(s) were written to after their deletion"},
		},
		{
			name: "a tenant that nodes/status changes", before: free, log: about(write(9, "patch", "status", n, 200, "{}", node(n, "b")), "nodes") + start,
			want: []string{"WrongTenant ns/a 11.000000 11.000000 ns/a scheduler berth/1"},
		},
		{
			name: "requests that admission has added, level Request", before: free, log: start + write(14, "create", "", "c", 201, `{"kind":"Pod","metadata":{"name":"c"},"spec":{"containers":[{"name":"main"}]}}`, "") + bound(20, "c", n, "0", "600"),
			want: []string{"Overcommitted n/0 20.000000 20.000000 ns/a,ns/c scheduler berth/1"},
		},
		{name: "by index and by UUID", before: free, log: start + strings.Replace(second, `"gpu.berth.dev/main":"0"`, `"gpu.berth.dev/main":"GPU-1"`, 1), gaps: []string{"1 node(s) gave out devices by index and by UUID"}},
		{
			name: "a later file before an earlier one", before: free, log: strings.ReplaceAll(start, "2026-11-23T00:00", "2026-11-23T00:20") + start,
			gaps: []string{"4 event(s) are more than 10m0s older than one before them in their file"},
		},
		{name: "the older resource of Bindings", before: free, log: start + strings.Replace(strings.Replace(second, `"pods"`, `"bindings"`, 1), `"subresource":"binding"`, `"subresource":""`, 1), want: twice},
		{name: "a creation without its content", before: free, log: start + write(20, "create", "", "c", 201, "", ""), gaps: []string{"1 write(s) to pods are logged without their content"}},
		{name: "a tenant that is not shown", before: node(n, "a") + "\n" + namespace("ns", "a"), log: metadata(about(write(9, "patch", "", n, 200, "{}", ""), "nodes")) + start, gaps: []string{"1 node(s) that pods entered are not in the log"}},
		{name: "timed out", before: free, log: start + strings.Replace(second, `"code":201`, `"code":408`, 1), gaps: []string{"1 write(s) to pods were answered with an error of the server"}},
		{name: "listed after the log began", before: node(n, "") + "\n" + podJSON("old", 120, n, "0", "600", "Running", ""), log: write(10, "patch", "status", "old", 200, "{}", podJSON("old", 100, "", "", "600", "Pending", "")) + status(13, "old", n, "0", "600", "Running")},
		{
			name: "another watch in the same file", log: watched("ADDED", node(n, "")) + watched("ADDED", podJSON("a", 10, "", "", "600", "Pending", "")) + watched("ADDED", podJSON("a", 10, "", "", "600", "Pending", "")),
			gaps: []string{"another one began"},
		},
	}...)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := &check.LogOptions{Files: []string{"-"}, Stdin: strings.NewReader(tt.log)}
			if tt.before != "" {
				o.Before = readBefore(t, tt.before)
			}
			report, err := check.Logs(o)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range report.Violations {
				got = append(got, fmt.Sprintf("%s %s %s %s %s %s %s", v.Kind, v.Object, short(v.First), short(v.Last), strings.Join(v.Pods, ","), v.Writer.User, v.Writer.UserAgent))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("violations (-want,+got):\n%s", diff)
			}
			gaps := strings.Join(report.Gaps, "\n")
			for _, gap := range tt.gaps {
				if !strings.Contains(gaps, gap) {
					t.Errorf("want the gap %q, got\n%s", gap, gaps)
				}
			}
			want := check.Clean
			switch {
			case tt.want != nil:
				want = check.Violated
			case tt.gaps != nil:
				want = check.Insufficient
			case gaps != "":
				t.Errorf("gaps: %s", gaps)
			}
			if report.Verdict != want {
				t.Errorf("verdict %s, want %s", report.Verdict, want)
			}
		})
	}
}

// short leaves the seconds of a time.
func short(time string) string {
	return strings.TrimSuffix(strings.TrimPrefix(time, "2026-11-23T00:00:"), "Z")
}

func readBefore(t *testing.T, objects string) *cluster.Cluster {
	t.Helper()
	reader := cluster.NewReader()
	if err := reader.ReadFile("-", strings.NewReader(objects)); err != nil {
		t.Fatal(err)
	}
	before, _ := reader.Cluster()
	return before
}

// TestLogFiles: the rotated, compressed files of several API servers are one log, in the order of
// time; two kinds of events are not.
func TestLogFiles(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err := w.Write([]byte(bound(11, "a", "n", "0", "600") + created(13, "b", "600")))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file("one.log", created(10, "a", "600")+status(12, "a", "n", "0", "600", "Running")+deleted(40, "a", "n", "0", "600"))
	file("two.log.gz", packed.String())
	file("two.log", bound(20, "b", "n", "0", "600")+deleted(30, "b", "n", "0", "600"))
	report, logsErr := check.Logs(&check.LogOptions{Files: []string{dir}, Before: readBefore(t, node("n", ""))})
	if err != nil || logsErr != nil {
		t.Fatal(err, logsErr)
	}
	var table strings.Builder
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Overcommitted   n/0      2026-11-23T00:00:20.000000Z   2026-11-23T00:00:29.500000Z   ns/a,ns/b   scheduler berth/1",
		"1 violation: 7 writes to pods, 7 versions of pods with shares, 2 Bindings from 2026-11-23T00:00:09.500000Z to 2026-11-23T00:00:40.000000Z",
	} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("want %q in\n%s", want, table.String())
		}
	}
	file("two.log.gz", packed.String()[:packed.Len()/2])
	if report, err = check.Logs(&check.LogOptions{Files: []string{dir}}); err != nil || !strings.Contains(strings.Join(report.Gaps, "\n"), "two.log.gz:") {
		t.Errorf("a file that was cut off: %v, %v", report, err)
	}
	file("watch", watched("ADDED", podJSON("c", 10, "", "", "600", "", "")))
	if _, err = check.Logs(&check.LogOptions{Files: []string{dir}}); err == nil || !strings.Contains(err.Error(), "cannot be read together") {
		t.Errorf("audit events beside watch events: %v", err)
	}
	if _, err = check.Logs(&check.LogOptions{Files: []string{t.TempDir()}}); err == nil || !strings.Contains(err.Error(), "the folder has no files") {
		t.Errorf("an empty folder: %v", err)
	}
}

// TestAuditPolicy: the API server's code takes the policy that kubectl-berth's README names. That a
// log that is written by it suffices, test/failure shows.
func TestAuditPolicy(t *testing.T) {
	loaded, err := policy.LoadPolicyFromFile("../../../cmd/kubectl-berth/audit-policy.yaml")
	if err != nil || len(loaded.Rules) != 3 {
		t.Errorf("the policy is %v (%v)", loaded, err)
	}
}
