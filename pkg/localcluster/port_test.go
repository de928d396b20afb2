// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

func listen(t *testing.T) (port int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener.Addr().(*net.TCPAddr).Port
}

func TestChoosePortWaitsForTheLastOne(t *testing.T) {
	for _, asked := range []bool{false, true} {
		t.Run(fmt.Sprintf("asked for=%v", asked), func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			port := listener.Addr().(*net.TCPAddr).Port
			wanted := 0
			if asked {
				wanted = port
			}
			// It gets free while choosePort waits for it, or just before.
			go func() { _ = listener.Close() }()
			got, err := choosePort(t.Context(), wanted, fmt.Sprintf("https://127.0.0.1:%d", port), time.Minute)
			if err != nil || got != port {
				t.Errorf("want %d, got %d, %v", port, got, err)
			}
		})
	}
}

func TestChoosePort(t *testing.T) {
	taken := listen(t)
	free, err := FreePort()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name     string
		wanted   int
		previous string
		want     int // 0: any but the taken one
		wantErr  string
	}{
		{name: "any", previous: ""},
		{name: "wanted", wanted: free, previous: "https://127.0.0.1:1", want: free},
		{name: "wanted but taken", wanted: taken, wantErr: fmt.Sprintf("--port %d: 127.0.0.1:%d cannot be used: ", taken, taken)},
		{name: "the last one", previous: fmt.Sprintf("https://127.0.0.1:%d", free), want: free},
		{name: "the last one is taken", previous: fmt.Sprintf("https://127.0.0.1:%d", taken)},
		{name: "the last one makes no sense", previous: "::"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := choosePort(t.Context(), tt.wanted, tt.previous, 0)
			if tt.wantErr != "" {
				if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
					t.Fatalf("want an error that contains %q, got %v", tt.wantErr, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if tt.want != 0 && got != tt.want || got == taken {
				t.Errorf("want %d (0: any free one), got %d", tt.want, got)
			}
		})
	}
}
