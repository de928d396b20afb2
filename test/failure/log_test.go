// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/diagnose/check"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// auditLog is the part of the API server's audit log that belongs to one scene.
type auditLog struct {
	path string
	// from is where the part begins, and before a file with what existed then.
	from   int64
	before string
	// others are the logs of further API servers.
	others []string
}

// startLog begins a part.
func (s *scene) startLog() {
	s.t.Helper()
	info, err := os.Stat(s.c.AuditLog)
	if err != nil {
		s.t.Fatal(err)
	}
	objects := s.c.Kubectl(s.t, "get", "nodes,namespaces,pods", "--all-namespaces", "--output=json")
	s.log = &auditLog{path: s.c.AuditLog, from: info.Size(), before: write(s.t, filepath.Join(s.c.LogDir, fmt.Sprintf("before-%d.json", info.Size())), []byte(objects))}
}

// content returns the part.
func (l *auditLog) content(t *testing.T) []byte {
	t.Helper()
	file, err := os.Open(l.path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.NewSectionReader(file, l.from, 1<<40))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// check has kubectl berth check a log.
func (l *auditLog) check(t *testing.T, content []byte) *check.LogReport {
	t.Helper()
	args := []string{"check", "--audit-log=-", "--filename=" + l.before, "--output=json"}
	for _, other := range l.others {
		args = append(args, "--audit-log="+other)
	}
	cmd := exec.CommandContext(t.Context(), framework.Binary(t, framework.PluginBinary), args...)
	cmd.Stdin = bytes.NewReader(content)
	var problem bytes.Buffer
	cmd.Stderr = &problem
	output, err := cmd.Output()
	report := &check.LogReport{}
	if decoding := json.Unmarshal(output, report); decoding != nil {
		t.Fatalf("kubectl berth check: %v: %v\n%s", err, decoding, problem.String())
	}
	code := 0
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		code = ended.ExitCode()
	}
	if want := map[check.Verdict]int{check.Clean: 0, check.Insufficient: 1, check.Violated: 5}[report.Verdict]; code != want {
		t.Errorf("verdict %s with exit code %d, want %d", report.Verdict, code, want)
	}
	return report
}

// requireHistory fails if there are violations, these or one in the audit log, or if the log of
// an API server that has run all the time does not show everything.
func (s *scene) requireHistory(violations oracle.Violations) {
	s.t.Helper()
	report := s.log.check(s.t, s.log.content(s.t))
	s.versions, s.bindings = report.Versions+s.earlier.versions, report.Bindings+s.earlier.bindings
	for i := range report.Violations {
		v := &report.Violations[i]
		violations = append(violations, oracle.Violation{Kind: oracle.Kind(v.Kind), Object: v.Object, Pods: v.Pods, Detail: v.Message + " at " + v.First + " by " + v.Writer.User})
	}
	if s.expected != nil {
		violations = slices.DeleteFunc(violations, s.expected)
	}
	if len(violations) > 0 {
		s.t.Error(violations)
	}
	// A request whose client was killed is answered so.
	gaps := slices.DeleteFunc(report.Gaps, func(gap string) bool { return strings.Contains(gap, "answered with an error of the server") })
	if len(gaps) > 0 && !s.away {
		s.t.Errorf("the audit log does not show everything: %q", gaps)
	}
	if report.Bindings == 0 {
		s.t.Error("the audit log has no Binding: this shows nothing")
	}
}

// oneContainer is the record of a pod with the container main alone.
var oneContainer = regexp.MustCompile(`^main=(\d+)[:,]`)

// requireForgedFound forges the record of one Binding in a log in which nothing is wrong, so
// that it gives a device to another pod that has it, and fails if that is not found.
func (l *auditLog) requireForgedFound(t *testing.T) {
	t.Helper()
	lines := bytes.SplitAfter(l.content(t), []byte("\n"))
	const maxForged = 10
	var former *corev1.Binding
	var misses []string
	for i, line := range lines {
		var event auditv1.Event
		if json.Unmarshal(line, &event) != nil || event.ObjectRef == nil || event.ObjectRef.Subresource != "binding" || event.ResponseStatus.Code != 201 {
			continue
		}
		binding := &corev1.Binding{}
		if err := json.Unmarshal(event.RequestObject.Raw, binding); err != nil {
			t.Fatal(err)
		}
		device := oneContainer.FindStringSubmatch(binding.Annotations[names.GPUAssignedAnnotation])
		if device == nil {
			continue
		}
		binding.Name = event.ObjectRef.Name
		if former == nil {
			former = binding
			continue
		}
		index := oneContainer.FindStringSubmatch(former.Annotations[names.GPUAssignedAnnotation])[1]
		binding.Target, former.Target.APIVersion = former.Target, ""
		binding.Annotations[names.GPUAssignedAnnotation] = "main=" + index + ":1000m:40960Mi"
		binding.Annotations[names.GPUDevicesAnnotationPrefix+"main"] = index
		var err error
		if event.RequestObject.Raw, err = json.Marshal(binding); err != nil {
			t.Fatal(err)
		}
		forged, err := json.Marshal(&event)
		if err != nil {
			t.Fatal(err)
		}
		report := l.check(t, slices.Concat(bytes.Join(lines[:i], nil), forged, []byte("\n"), bytes.Join(lines[i+1:], nil)))
		want := []string{gpuchurn.Namespace + "/" + former.Name, gpuchurn.Namespace + "/" + binding.Name}
		found := slices.IndexFunc(report.Violations, func(v check.LogViolation) bool {
			return v.Kind == string(oracle.Overcommitted) && v.Object == former.Target.Name+"/"+index && sets.New(v.Pods...).HasAll(want...)
		})
		if found < 0 { // gone by then: the next two
			misses = append(misses, fmt.Sprintf("%v on device %s of node %s: %+v", want, index, former.Target.Name, report))
			if former = binding; len(misses) == maxForged {
				break
			}
			continue
		}
		v := report.Violations[found]
		if account := "system:serviceaccount:" + names.Namespace + ":" + names.Scheduler; v.Writer.User != account || !strings.HasPrefix(v.Writer.UserAgent, framework.BerthScheduler) {
			t.Errorf("the writer is %+v, want %s", v.Writer, account)
		}
		if v.First != event.StageTimestamp.UTC().Format("2006-01-02T15:04:05.000000Z07:00") || v.Last <= v.First {
			t.Errorf("it was so from %s to %s, want from %s", v.First, v.Last, event.StageTimestamp)
		}
		return
	}
	t.Errorf("no forged record was found:\n%s", strings.Join(misses, "\n"))
}
