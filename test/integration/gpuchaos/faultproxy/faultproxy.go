// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faultproxy stands between a scheduler process and a real API server and
// loses what a network can lose: requests, answers, and the order of both.
//
// Every request goes through with the caller's own credential; a Binding is held
// until the test has decided what becomes of it.
package faultproxy

import (
	"bytes"
	"context"
	"encoding/pem"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Answer is what the API server said, or what the test says in its stead.
type Answer struct {
	Code   int
	Header http.Header
	Body   []byte
}

// Binding is one request for a pod to be bound.
type Binding struct {
	// Namespace and Pod are the pod's name, and Nth counts its Bindings from 1.
	Namespace, Pod string
	Nth            int

	proxy   *Proxy
	request *http.Request
	body    []byte
}

// Send carries the Binding to the API server and returns what that says. It may
// be called at any time, after the scheduler has given up too, and again.
func (b *Binding) Send() (*Answer, error) {
	// Whoever sent the request may be gone: what is on its way arrives even so.
	request := b.request.Clone(context.WithoutCancel(b.request.Context()))
	upstream := b.proxy.server()
	request.URL.Scheme, request.URL.Host = upstream.Scheme, upstream.Host
	request.RequestURI, request.Host = "", upstream.Host
	request.Body = io.NopCloser(bytes.NewReader(b.body))
	response, err := b.proxy.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	return &Answer{Code: response.StatusCode, Header: response.Header, Body: body}, nil
}

// Hooks decide what is lost. All may be called from several goroutines, and may take their
// time: then the request is slow.
type Hooks struct {
	// Binding returns what the scheduler is answered; nil is a lost connection.
	Binding func(*Binding) *Answer
	// Drop reports whether any other request is lost. Nil loses none.
	Drop func(*http.Request) bool
	// Answer returns what any other request is answered in the API server's stead; nil has
	// it passed on. Nil answers none.
	Answer func(*http.Request) *Answer
	// Lose reports whether the answer to any other request is lost, after the API server
	// has done what was asked. Nil loses none.
	Lose func(*http.Request) bool
	// Server returns the API server that a request goes to, a Binding too; nil is that of the
	// kubeconfig. Nil has all go there.
	Server func() *url.URL
}

// errLost is what becomes of an answer that is lost.
var errLost = errors.New("the answer is lost")

// Proxy is a running one.
type Proxy struct {
	// Kubeconfig is a file with the original's credential and the proxy's address.
	Kubeconfig string

	upstream  *url.URL
	transport http.RoundTripper
	hooks     Hooks

	mu   sync.Mutex
	seen map[string]int
}

// server is the API server that the next request goes to.
func (p *Proxy) server() *url.URL {
	if p.hooks.Server != nil {
		if server := p.hooks.Server(); server != nil {
			return server
		}
	}
	return p.upstream
}

// serve does with a request what the hooks say, and forwards the others.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, forward http.Handler) {
	switch {
	case r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/binding"):
		p.bind(w, r)
		return
	case p.hooks.Drop != nil && p.hooks.Drop(r):
		panic(http.ErrAbortHandler)
	}
	if p.hooks.Answer != nil {
		if answer := p.hooks.Answer(r); answer != nil {
			answer.write(w)
			return
		}
	}
	forward.ServeHTTP(w, r)
}

// Start starts a proxy before the API server of a kubeconfig that has a token. It
// ends with the test.
func Start(tb testing.TB, kubeconfig string, hooks Hooks) *Proxy {
	tb.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	upstream, err := url.Parse(config.Host)
	if err != nil {
		tb.Fatal(err)
	}
	// Without a credential: that is in the requests.
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(config))
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{upstream: upstream, transport: transport, hooks: hooks, seen: map[string]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(p.server()) },
		Transport:     transport,
		FlushInterval: -1, // a watch is read as it is written
		// An API server that is away looks like one to the scheduler too.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	if hooks.Lose != nil {
		forward.ModifyResponse = func(r *http.Response) error {
			if hooks.Lose(r.Request) {
				return errLost
			}
			return nil
		}
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, forward) }))
	server.EnableHTTP2 = true
	server.StartTLS()
	tb.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})

	raw, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		tb.Fatal(err)
	}
	for _, cluster := range raw.Clusters {
		cluster.Server = server.URL
		cluster.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	}
	content, err := clientcmd.Write(*raw)
	if err != nil {
		tb.Fatal(err)
	}
	p.Kubeconfig = filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(p.Kubeconfig, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return p
}

// bind hands a Binding to the test.
func (p *Proxy) bind(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	// /api/v1/namespaces/NAMESPACE/pods/POD/binding
	pod := path.Dir(r.URL.Path)
	b := &Binding{Namespace: path.Base(path.Dir(path.Dir(pod))), Pod: path.Base(pod), proxy: p, request: r, body: body}
	p.mu.Lock()
	p.seen[b.Namespace+"/"+b.Pod]++
	b.Nth = p.seen[b.Namespace+"/"+b.Pod]
	p.mu.Unlock()
	answer := p.hooks.Binding(b)
	if answer == nil {
		panic(http.ErrAbortHandler)
	}
	answer.write(w)
}

func (a *Answer) write(w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header)
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body) // a scheduler that was killed does not read it
}

// PassOn sends a Binding and returns the API server's answer, nil if there is none.
func PassOn(b *Binding) *Answer {
	answer, err := b.Send()
	if err != nil {
		return nil
	}
	return answer
}
