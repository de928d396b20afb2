// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// TestLostAnswers puts a proxy in front of the API server that loses the answers
// to Bindings: of every three, one after it was written, and one before. Every pod
// must be bound once, with the devices that it was promised, and no device may be
// given away twice meanwhile.
func TestLostAnswers(t *testing.T) {
	const pods, devices = 30, 8
	c := framework.Start(t, framework.Options{
		Nodes: []corev1.Node{gpuNode("a", "NVIDIA-A100", devices, 40960), gpuNode("b", "NVIDIA-A100", devices, 40960)},
		Audit: true,
	})
	c.ApplyManifests(t, "manifests/base")
	proxy := startProxy(t, c)
	scheduler := c.StartBerthScheduler(t, gpuProfile, framework.SchedulerOptions{Kubeconfig: proxy.kubeconfig(t, c)})

	for i := range pods {
		create(t, c, sharePod(fmt.Sprintf("p%02d", i), "500"))
	}
	used := map[string]int{}
	for i := range pods {
		pod := c.WaitForPodScheduled(t, metav1.NamespaceDefault, fmt.Sprintf("p%02d", i))
		device := placement(pod)
		if used[device]++; used[device] > 2 {
			t.Errorf("%s is given to %d pods of half a device", device, used[device])
		}
		if want := fmt.Sprintf("main=%s:500m:20480Mi", strings.Split(device, "/")[1]); pod.Annotations[names.GPUAssignedAnnotation] != want {
			t.Errorf("%s: want record %q, got %q", pod.Name, want, pod.Annotations[names.GPUAssignedAnnotation])
		}
	}
	if lost, dropped := proxy.lost.Load(), proxy.dropped.Load(); lost < pods/4 || dropped < pods/4 {
		t.Errorf("only %d answers and %d requests were lost: this test shows little", lost, dropped)
	}
	// The audit log has what came through. A pod whose answer was lost is not sent
	// a second time, because the API says that it is bound.
	for pod, got := range writes(t, c) {
		if len(got) != 1 || got[0] != "create pods/binding" {
			t.Errorf("%s: want one Binding, got %q", pod, got)
		}
	}
	scheduler.WaitForOutput(t, framework.WaitTimeout, "The pod was bound after all")
	for _, metric := range []string{
		`berth_gpudevice_allocated_milli{model="nvidia-a100",profile="berth-scheduler"} 15000`,
		`berth_gpudevice_reservations{profile="berth-scheduler"} 0`,
		"berth_gpudevice_assignment_conflicts_total 0",
	} {
		framework.WaitForCondition(t, framework.WaitTimeout, metric, func() (bool, error) {
			return strings.Contains(scheduler.Metrics(t), metric), nil
		})
	}
}

// proxy loses Bindings on their way to the API server and answers on their way
// back.
type proxy struct {
	server        *httptest.Server
	bindings      atomic.Int64
	lost, dropped atomic.Int64
}

// startProxy starts a proxy that asks the API server in the name of whoever asks
// it.
func startProxy(t *testing.T, c *framework.Cluster) *proxy {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	anonymous := rest.AnonymousClientConfig(c.Config)
	transport, err := rest.TransportFor(anonymous)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, forward.FlushInterval = transport, -1
	forward.ModifyResponse = func(response *http.Response) error {
		if response.Request.Header.Get(loseAnswer) != "" {
			p.lost.Add(1)
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
			switch p.bindings.Add(1) % 3 {
			case 1:
				r.Header.Set(loseAnswer, "true")
			case 2:
				p.dropped.Add(1)
				panic(http.ErrAbortHandler)
			}
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// loseAnswer is a header that marks requests within the proxy.
const loseAnswer = "X-Lose-Answer"

// kubeconfig returns the scheduler's own credential for the proxy.
func (p *proxy) kubeconfig(t *testing.T, c *framework.Cluster) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler))
	if err != nil {
		t.Fatal(err)
	}
	for _, cluster := range config.Clusters {
		cluster.Server, cluster.CertificateAuthority = p.server.URL, ""
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}
