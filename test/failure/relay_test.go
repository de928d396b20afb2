// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package failure

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

const (
	// chunk is how much a relay reads at once, and chunks how many of them may wait.
	chunk, chunks = 32 << 10, 1 << 12
	// lastWords is how long after its last bytes the end of a connection arrives, so that the
	// server answers what was sent before it ends too.
	lastWords = 3 * time.Second
)

// relay carries bytes between clients and a server, without reading them, and can delay or
// hold back each direction. What is held back arrives later, even from a client that has
// ended, as from a network that was partitioned.
type relay struct {
	// address is the host and port that it listens on.
	address            string
	toServer, toClient direction
}

// direction is one way through a relay.
type direction struct {
	// delay is how long bytes take, as a time.Duration.
	delay atomic.Int64
	// held counts the bytes that have waited for open.
	held atomic.Int64

	mu     sync.Mutex
	closed chan struct{}
}

// shut holds back what is sent from now on.
func (d *direction) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed == nil {
		d.closed = make(chan struct{})
	}
}

// open lets through what was held back, and what is sent from now on.
func (d *direction) open() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed != nil {
		close(d.closed)
		d.closed = nil
	}
}

// pass returns when bytes may pass.
func (d *direction) pass(bytes int) {
	d.mu.Lock()
	closed := d.closed
	d.mu.Unlock()
	if closed != nil {
		d.held.Add(int64(bytes))
		<-closed
	}
}

// carry copies what one end sends to the other until it ends.
func (d *direction) carry(to, from net.Conn) {
	type sent struct {
		due  time.Time
		data []byte
	}
	onTheirWay := make(chan sent, chunks)
	go func() {
		defer close(onTheirWay)
		for {
			data := make([]byte, chunk)
			n, err := from.Read(data)
			if n > 0 {
				onTheirWay <- sent{time.Now().Add(time.Duration(d.delay.Load())), data[:n]}
			}
			if err != nil {
				return
			}
		}
	}()
	receives := true
	for s := range onTheirWay {
		<-time.After(time.Until(s.due)) // the fault, not a wait for something
		d.pass(len(s.data))
		if receives {
			_, err := to.Write(s.data)
			receives = err == nil
		}
	}
	<-time.After(lastWords)
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // it may have ended itself
	}
}

// startRelay starts a relay before a server. It ends with the test.
func startRelay(t *testing.T, network, server string) *relay {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: listener.Addr().String()}
	var mu sync.Mutex
	var ends []net.Conn
	t.Cleanup(func() {
		_ = listener.Close()
		r.toServer.open()
		r.toClient.open()
		mu.Lock()
		defer mu.Unlock()
		for _, end := range ends {
			_ = end.Close() // most have ended
		}
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return // the test has ended
			}
			upstream, err := (&net.Dialer{}).DialContext(t.Context(), network, server)
			if err != nil {
				_ = client.Close() // a server that is away refuses connections
				continue
			}
			mu.Lock()
			ends = append(ends, client, upstream)
			mu.Unlock()
			go r.toServer.carry(upstream, client)
			go r.toClient.carry(client, upstream)
		}
	}()
	return r
}

// relayed starts a relay before the API server of a kubeconfig, and returns it and a kubeconfig
// that leads through it.
func relayed(t *testing.T, kubeconfig string) (*relay, string) {
	t.Helper()
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	var r *relay
	for _, cluster := range config.Clusters {
		server, err := url.Parse(cluster.Server)
		if err != nil {
			t.Fatal(err)
		}
		r = startRelay(t, "tcp", server.Host)
		cluster.Server = "https://" + r.address
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return r, path
}
