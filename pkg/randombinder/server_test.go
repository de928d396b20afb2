// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
)

func TestAddressInUseIsAnErrorAtStart(t *testing.T) {
	var config net.ListenConfig
	taken, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	options := testOptions(FitConstraints)
	port := taken.Addr().(*net.TCPAddr).Port
	options.SecureServing.BindPort = port
	b := newBinder(fake.NewClientset(), events.NewFakeRecorder(1), options, newRand(testSeed))
	err = serve(t.Context(), options, b, healthz.PingHealthz)
	if want := fmt.Sprintf("--secure-port=%d", port); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one that contains %s", err, want)
	}
}
