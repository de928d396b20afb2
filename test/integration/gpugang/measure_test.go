// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpugang

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/compat"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

const (
	measuredNodes, measuredGangs, measuredSize = 1000, 500, 8
	// measuredQPS is high enough that no client waits for its rate limit.
	measuredQPS = 5000
	// measuredTimeout is how long the slowest way may take on a busy machine.
	measuredTimeout = 20 * time.Minute
)

// TestMeasureGangs prints what it takes to place 500 gangs of 8 halves of a device on
// 1,000 nodes with two devices each, which is all of them: by Kubernetes' PodGroups, and
// on Kubernetes 1.36 by Coscheduling too. It fails where a gang is left in part or a
// device is given twice, and not where it is slow.
//
//	BERTH_LONG=1 go test ./test/integration/gpugang -run TestMeasureGangs -v
func TestMeasureGangs(t *testing.T) {
	framework.OnlyLong(t)
	var nodes []corev1.Node
	for i := range measuredNodes {
		nodes = append(nodes, gpuNode(fmt.Sprintf("gpu-%d", i), 2))
	}
	// create creates gang i, and join lets a pod be a member of it.
	measure := func(t *testing.T, c *framework.Cluster, profile string, args []string, create func(name string), join func(name string, pod *corev1.Pod)) {
		t.Helper()
		scheduler := c.StartBerthScheduler(t, unlimited(t, profile), framework.SchedulerOptions{Args: args})
		for i := range measuredGangs {
			create(fmt.Sprintf("gang-%d", i))
		}
		before := cpuSeconds(t, scheduler)
		creators, ctx := errgroup.WithContext(t.Context())
		creators.SetLimit(16)
		for i := range measuredGangs {
			for j := range measuredSize {
				pod := framework.SharePod(fmt.Sprintf("gang-%d-%d", i, j), "500")
				join(fmt.Sprintf("gang-%d", i), pod)
				creators.Go(func() error {
					_, err := c.Client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
					return err
				})
			}
		}
		if err := creators.Wait(); err != nil {
			t.Fatal(err)
		}
		pods := waitForAll(t, c)
		report(t, c, pods, cpuSeconds(t, scheduler)-before)
	}

	t.Run("native", func(t *testing.T) {
		c := startNative(t, nodes, true)
		measure(t, c, gpuProfile, []string{featureGates},
			func(name string) { createGroup(t, c, name, measuredSize, "") },
			func(name string, pod *corev1.Pod) { member(name, pod) })
	})
	t.Run("Coscheduling", func(t *testing.T) {
		if compat.Release != "1.36" {
			t.Skip("Coscheduling is built for Kubernetes 1.36 alone")
		}
		c := framework.Start(t, framework.Options{Nodes: nodes, Audit: true})
		c.ApplyManifests(t, "manifests/base", "manifests/components/gang/podgroups.yaml", "manifests/components/gang/rbac.yaml")
		c.Kubectl(t, "wait", "--for=condition=Established", "--timeout=30s", "crd/podgroups.scheduling.x-k8s.io")
		var groups strings.Builder
		for i := range measuredGangs {
			fmt.Fprintf(&groups, "---\napiVersion: scheduling.x-k8s.io/v1alpha1\nkind: PodGroup\nmetadata: {name: gang-%d, namespace: default}\nspec: {minMember: %d, scheduleTimeoutSeconds: 60}\n", i, measuredSize)
		}
		c.Apply(t, groups.String())
		measure(t, c, gangProfile, nil, func(string) {}, func(name string, pod *corev1.Pod) { pod.Labels[gangLabel] = name })
	})
}

// unlimited returns a copy of a profile whose client does not wait.
func unlimited(t *testing.T, profile string) string {
	t.Helper()
	config := decode(t, profile)
	config["clientConnection"] = map[string]any{"qps": measuredQPS, "burst": measuredQPS}
	content, err := yaml.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "profile.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// waitForAll waits until every pod has a node, and returns the pods; or those that there
// are when the time is over.
func waitForAll(t *testing.T, c *framework.Cluster) []corev1.Pod {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), measuredTimeout)
	defer cancel()
	for {
		list, err := c.Client.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(list.Items, func(pod corev1.Pod) bool { return pod.Spec.NodeName == "" }) {
			return list.Items
		}
		select {
		case <-ctx.Done():
			return list.Items
		case <-time.After(2 * time.Second):
		}
	}
}

// cpuSeconds is what the scheduler's process has used.
func cpuSeconds(t *testing.T, s *framework.Scheduler) float64 {
	t.Helper()
	found := regexp.MustCompile(`(?m)^process_cpu_seconds_total (\S+)$`).FindStringSubmatch(s.Metrics(t))
	if found == nil {
		t.Fatal("the scheduler serves no process_cpu_seconds_total")
	}
	seconds, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return seconds
}

// report prints what happened, by the API server's audit log, and fails where it must not
// have.
func report(t *testing.T, c *framework.Cluster, pods []corev1.Pod, cpu float64) {
	t.Helper()
	bound := map[string]int{}
	for i := range pods {
		if pods[i].Spec.NodeName != "" {
			name := pods[i].Name
			bound[name[:strings.LastIndex(name, "-")]]++
		}
	}
	all, whole := 0, 0
	for gang, n := range bound {
		all += n
		if n == measuredSize {
			whole++
		} else {
			t.Errorf("%d of the %d pods of %s have a node", n, measuredSize, gang)
		}
	}
	requireDevicesRight(t, c)

	var first, last time.Time
	requests := map[string]int{}
	c.AuditEvents(t, func(event *auditv1.Event) bool {
		ref := event.ObjectRef
		// Pods are listed to ask what became of a Binding.
		if ref == nil || event.Verb == "get" || event.Verb == "watch" || event.Verb == "list" && ref.Resource != "pods" {
			return false
		}
		if first.IsZero() && ref.Resource == "pods" && ref.Subresource == "" && event.Verb == "create" && ref.Namespace == metav1.NamespaceDefault {
			first = event.RequestReceivedTimestamp.Time
		}
		if event.User.Username != "system:serviceaccount:"+names.Namespace+":"+names.Scheduler || first.IsZero() {
			return false
		}
		kind := event.Verb + " " + ref.Resource
		if ref.Subresource != "" {
			kind += "/" + ref.Subresource
		}
		if status := event.ResponseStatus; status != nil && status.Code >= http.StatusMultipleChoices {
			kind = fmt.Sprintf("%s: %d", kind, status.Code)
		}
		if requests[kind]++; kind == "create pods/binding" {
			last = event.StageTimestamp.Time
		}
		return false
	})
	seconds := last.Sub(first).Seconds()
	t.Logf("Kubernetes %s: %d of %d gangs whole, %d in part, %d of %d pods bound, in %.1f s: %.1f pods/s; the scheduler used %.2f ms of CPU a pod",
		compat.Release, whole, measuredGangs, len(bound)-whole, all, len(pods), seconds, float64(all)/seconds, 1000*cpu/float64(all))
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(requests)) {
		t.Logf("  %-28s %6d", kind, requests[kind])
		if !strings.HasPrefix(kind, "list ") {
			total += requests[kind]
		}
	}
	t.Logf("  requests that write: %d, %.2f a pod, those that were refused among them", total, float64(total)/float64(all))
	if whole != measuredGangs {
		t.Errorf("%d of %d gangs are whole", whole, measuredGangs)
	}
}
