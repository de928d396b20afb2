// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package randombinder

import (
	"net"
	"strings"
	"testing"

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
	address := taken.Addr().String()
	b := newBinder(fake.NewClientset(), events.NewFakeRecorder(1), testOptions(FitConstraints), newRand(testSeed))
	err = serve(t.Context(), address, b)
	if want := "--bind-address=" + address; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one that contains %s", err, want)
	}
}
