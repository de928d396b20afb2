// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/localcluster"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchaos/faultproxy"
)

const (
	monitored        = "one"
	monitoredProfile = monitored + names.TenancySuffix
	monitoredSpace   = "berth-one"
)

// scene is a release with all plugins on, and without policies, which would refuse what is
// done to it here; a Prometheus that scrapes it; and a proxy that loses Bindings.
type scene struct {
	c          *framework.Cluster
	prometheus *prometheus
	profile    string
	schedulers map[string]*framework.Scheduler
	// stuck is closed when the Binding of the pod "stuck" may go on.
	stuck chan struct{}
}

func newScene(t *testing.T) *scene {
	t.Helper()
	c := framework.Start(t, framework.Options{NodeCount: 1, Nodes: []corev1.Node{
		framework.GPUNode("gpu-0", "NVIDIA-A100", 2, 40960), framework.GPUNode("gpu-1", "NVIDIA-A100", 2, 40960), tenantNode("of-a", "a"),
	}})
	c.CreateNamespace(t, monitoredSpace, nil)
	h := newHelm(t, "4", c.Kubeconfig)
	v := features("labelPresence", "gpu", "colocation", "tenancy")
	v["policies"] = values{"create": []any{}}
	v["gpu"] = values{"args": values{"nodeAndNamespaceMetrics": true}}
	v["monitoring"] = values{"readers": []any{values{"kind": "ServiceAccount", "name": "prometheus", "namespace": "default"}}}
	h.must(t, "install", monitored, chartPath, "--namespace="+monitoredSpace, "--values="+v.file(t))
	c.Kubectl(t, "create", "serviceaccount", "prometheus", "--namespace=default")
	s := &scene{
		c: c, stuck: make(chan struct{}), schedulers: map[string]*framework.Scheduler{},
		profile:    profile(t, h.render(t, monitored, monitoredSpace, v), monitored),
		prometheus: startPrometheus(t, c.Kubectl(t, "create", "token", "prometheus", "--namespace=default", "--duration=2h")),
	}
	return s
}

// start starts a scheduler with the profile on a lease, and has it scraped as a job.
func (s *scene) start(t *testing.T, job, lease, kubeconfig string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile.yaml")
	text := strings.Replace(s.profile, "resourceName: "+monitored, "resourceName: "+lease, 1)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.schedulers[job] = s.c.LaunchScheduler(t, framework.BerthScheduler, file, framework.SchedulerOptions{Kubeconfig: kubeconfig, LeaderElect: true})
	s.prometheus.scrape(t, s.schedulers)
}

func (s *scene) stop(t *testing.T, job string) {
	t.Helper()
	s.schedulers[job].Stop(t)
	delete(s.schedulers, job)
	s.prometheus.scrape(t, s.schedulers)
}

// answer loses the answer to the first Binding of the pod "doubt", and holds the Binding
// of "stuck".
func (s *scene) answer(b *faultproxy.Binding) *faultproxy.Answer {
	if b.Pod == "stuck" {
		<-s.stuck
	}
	answer, err := b.Send()
	if err != nil || b.Pod == "doubt" && b.Nth == 1 {
		return nil
	}
	return answer
}

// share returns a pod that asks for thousandths of a device. kwok leaves it alone.
func share(name, milli string) *corev1.Pod {
	pod := framework.Pod("default", name, monitoredProfile)
	pod.Annotations[localcluster.CustomStatusAnnotation] = localcluster.CustomStatus
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{names.GPUMilliResource: resource.MustParse(milli)}
	return pod
}

// lease makes one that somebody holds for long.
func (s *scene) lease(t *testing.T, name, holder string) {
	t.Helper()
	s.c.Apply(t, fmt.Sprintf(`
apiVersion: coordination.k8s.io/v1
kind: Lease
metadata: {name: %s, namespace: %s}
spec: {holderIdentity: %q, leaseDurationSeconds: 3600, acquireTime: "2026-01-01T00:00:00.000000Z", renewTime: "2026-01-01T00:00:00.000000Z", leaseTransitions: 1}
`, name, monitoredSpace, holder))
}

// provocation is what makes an alert fire.
type provocation struct {
	alert   string
	provoke func(*testing.T, *scene)
	// end, if there is one, makes it stop.
	end func(*testing.T, *scene)
}

func provocations() []provocation {
	return []provocation{
		{alert: "BerthBindingsUnknown", provoke: func(t *testing.T, s *scene) {
			s.c.PlacePod(t, share("doubt", "100"))
		}},
		{alert: "BerthReservationStuck", provoke: func(t *testing.T, s *scene) {
			s.c.CreatePod(t, share("stuck", "100"))
		}, end: func(t *testing.T, s *scene) {
			close(s.stuck)
			s.c.WaitForPodScheduled(t, "default", "stuck")
		}},
		{alert: "BerthDeviceConflict", provoke: func(t *testing.T, s *scene) {
			s.c.CreatePod(t, share("first", "600"))
			first := s.c.WaitForPodScheduled(t, "default", "first")
			second := share("second", "600")
			second.Annotations, second.Spec.NodeName = first.Annotations, first.Spec.NodeName
			s.c.CreatePod(t, second)
		}},
		{alert: "BerthNodesRefused", provoke: func(t *testing.T, s *scene) {
			node := framework.GPUNode("sliced", "NVIDIA-L4", 2, 24576)
			node.Labels["nvidia.com/gpu.replicas"] = "4"
			s.c.CreateNode(t, node)
		}},
		{alert: "BerthRecordDrift", provoke: func(t *testing.T, s *scene) {
			s.c.Kubectl(t, "annotate", "pod", "first", "--namespace=default", "--overwrite", names.GPUAssignedAnnotation+"=edited")
		}},
		{alert: "BerthNodesBlocked", provoke: func(t *testing.T, s *scene) {
			unrecorded := share("unrecorded", "100")
			unrecorded.Spec.NodeName = "gpu-1"
			s.c.CreatePod(t, unrecorded)
		}},
		{alert: "BerthTenancyViolation", provoke: func(t *testing.T, s *scene) {
			stray := framework.Pod("default", "stray", monitoredProfile)
			stray.Spec.NodeName = "of-a"
			s.c.CreatePod(t, stray)
		}},
		{alert: "BerthPodsPending", provoke: func(t *testing.T, s *scene) {
			large := share("large", "100")
			large.Annotations[names.GPUMinMemoryAnnotation] = "1Ti"
			s.c.CreatePod(t, large)
		}},
		{alert: "BerthDevicesSaturated", provoke: func(t *testing.T, s *scene) {
			// What is left of four devices is cordoned, so that what is held is all there is.
			s.c.Kubectl(t, "annotate", "node", "gpu-0", "gpu-1", "--overwrite", names.GPUCordonedAnnotation+"=0,1")
			s.c.CreateNode(t, framework.GPUNode("small", "NVIDIA-T4", 1, 16384))
			pod := share("fills", "990")
			pod.Annotations[names.GPUModelAnnotation] = "NVIDIA-T4"
			s.c.PlacePod(t, pod)
		}},
		{alert: "BerthLeaseHeldByAnother", provoke: func(t *testing.T, s *scene) {
			s.lease(t, "foreign", "host_1_other-scheduler")
			s.start(t, "foreign", "foreign", s.c.Kubeconfig)
		}, end: func(t *testing.T, s *scene) { s.stop(t, "foreign") }},
		{alert: "BerthNoLeader", provoke: func(t *testing.T, s *scene) {
			s.lease(t, "dead", "host_1_"+monitoredProfile)
			s.start(t, "dead", "dead", s.c.Kubeconfig)
		}, end: func(t *testing.T, s *scene) { s.stop(t, "dead") }},
	}
}

// TestAlerts provokes each alert on running schedulers that a real Prometheus scrapes. It
// fires, and none does that was not provoked. In the end every query of the dashboard has
// data, and so has every recording rule.
func TestAlerts(t *testing.T) {
	t.Parallel()
	tool(t, "prometheus")
	s := newScene(t)
	fired := []string{"BerthDown"}
	s.prometheus.waitFiring(t, "BerthDown")

	proxy := faultproxy.Start(t, s.c.ServiceAccountKubeconfig(t, monitoredSpace, monitored), faultproxy.Hooks{Binding: s.answer})
	s.start(t, monitored, monitored, proxy.Kubeconfig)
	s.schedulers[monitored].WaitReady(t)
	// What counters count before they are first scraped is in no rate.
	framework.WaitForCondition(t, framework.WaitTimeout, "the scheduler to be scraped", func() (bool, error) {
		count, err := s.prometheus.query(t, "berth_build_info")
		return count > 0, err
	})
	s.useEverything(t)
	s.prometheus.waitFiring(t)

	firing := []string{}
	for _, p := range provocations() {
		p.provoke(t, s)
		s.prometheus.waitFiring(t, append(slices.Clone(firing), p.alert)...)
		fired = append(fired, p.alert)
		if p.end == nil {
			firing = append(firing, p.alert)
			continue
		}
		p.end(t, s)
		s.prometheus.waitFiring(t, firing...)
	}

	records, alerts := rules(t)
	slices.Sort(alerts)
	slices.Sort(fired)
	if !slices.Equal(alerts, fired) {
		t.Errorf("the alerts of rules.yaml are %q, provoked were %q", alerts, fired)
	}
	queries := dashboardQueries(t)
	queries["recording rules"] = records
	for panel, expressions := range queries {
		for _, expression := range expressions {
			framework.WaitForCondition(t, framework.WaitTimeout, fmt.Sprintf("data of panel %q: %s", panel, expression), func() (bool, error) {
				count, err := s.prometheus.query(t, expression)
				return count > 0, err
			})
		}
	}
	s.prometheus.logDashboard(t)
}

// useEverything has pods placed by all plugins: enough of them that kube-scheduler, which
// measures plugins in a tenth of its cycles, has measured some.
func (s *scene) useEverything(t *testing.T) {
	t.Helper()
	s.c.PlacePod(t, share("share", "100"))
	s.c.Apply(t, `{apiVersion: v1, kind: Service, metadata: {name: backend, namespace: default}, spec: {selector: {app: backend}, ports: [{port: 80}]}}`)
	backend := framework.Pod("default", "backend", monitoredProfile)
	backend.Labels["app"] = "backend"
	s.c.PlacePod(t, backend)
	for i := range 60 {
		pod := framework.Pod("default", fmt.Sprintf("near-%d", i), monitoredProfile)
		pod.Annotations[names.ColocateWithAnnotation] = "backend"
		s.c.CreatePod(t, pod)
	}
	s.c.WaitForPodScheduled(t, "default", "near-59")
}
