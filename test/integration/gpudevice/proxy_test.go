// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpudevice

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
)

// treatment is what the proxy does to a Binding.
type treatment uint8

const (
	// pass forwards it and its answer.
	pass treatment = iota
	// loseAnswer forwards it and cuts the connection instead of answering.
	loseAnswer
	// dropRequest cuts the connection instead of forwarding it.
	dropRequest
)

// proxy stands between a scheduler and the API server, and treats Bindings as a
// test wants it.
type proxy struct {
	server *httptest.Server
	// bindings counts them, given by treatment.
	bindings atomic.Int64
	given    [dropRequest + 1]atomic.Int64
}

// treatmentHeader carries the treatment within the proxy.
const treatmentHeader = "X-Lose-Answer"

// startProxy starts a proxy that asks the API server in the name of whoever asks
// it. treat is asked about every Binding, the first one being 0; it may block.
func startProxy(t *testing.T, c *framework.Cluster, treat func(n int64) treatment) *proxy {
	t.Helper()
	target, err := url.Parse(c.Config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(c.Config))
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(target)
	forward.Transport, forward.FlushInterval = transport, -1
	forward.ModifyResponse = func(response *http.Response) error {
		if response.Request.Header.Get(treatmentHeader) != "" {
			panic(http.ErrAbortHandler)
		}
		return nil
	}
	p := &proxy{}
	// With TLS, because a client sends no token without it.
	p.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding") {
			given := treat(p.bindings.Add(1) - 1)
			p.given[given].Add(1)
			switch given {
			case loseAnswer:
				r.Header.Set(treatmentHeader, "true")
			case dropRequest:
				panic(http.ErrAbortHandler)
			case pass:
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
