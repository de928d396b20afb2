// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"bufio"
	"encoding/json"
	"os"
	"slices"
	"testing"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// maxAuditLine is longer than any request or answer in a test.
const maxAuditLine = 16 << 20

// AuditEvents returns what the API server has answered to those for whom keep is
// true, in the order of its log. The test must have asked for it: see Options.Audit.
func (c *Cluster) AuditEvents(tb testing.TB, keep func(*auditv1.Event) bool) []auditv1.Event {
	tb.Helper()
	file, err := os.Open(c.AuditLog)
	if err != nil {
		tb.Fatal(err)
	}
	defer file.Close()
	var events []auditv1.Event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxAuditLine)
	for lines.Scan() {
		var event auditv1.Event
		if err := json.Unmarshal(lines.Bytes(), &event); err != nil {
			tb.Fatalf("reading the audit log: %v", err)
		}
		if keep(&event) {
			events = append(events, event)
		}
	}
	if err := lines.Err(); err != nil {
		tb.Fatalf("reading the audit log: %v", err)
	}
	return events
}

// WritesToPods keeps what a ServiceAccount of Berth's namespace wrote to the pods
// of a namespace.
func WritesToPods(account, namespace string) func(*auditv1.Event) bool {
	user := "system:serviceaccount:" + names.Namespace + ":" + account
	return func(event *auditv1.Event) bool {
		ref := event.ObjectRef
		return event.User.Username == user && ref != nil && ref.Resource == "pods" && ref.Namespace == namespace &&
			!slices.Contains([]string{"get", "list", "watch"}, event.Verb)
	}
}
