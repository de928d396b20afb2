// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Command printdevices is what hack/kind-gpu.sh runs in containers: it prints the
// devices that the container was given, in the variable from which NVIDIA's
// container runtime takes them. With the argument "wait" it stays until it is
// told to end.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

func main() {
	const variable = "NVIDIA_VISIBLE_DEVICES"
	value, ok := os.LookupEnv(variable)
	if !ok {
		value = "(not set)"
	}
	fmt.Printf("%s=%s\n", variable, value)
	if slices.Contains(os.Args[1:], "wait") {
		ends := make(chan os.Signal, 1)
		signal.Notify(ends, syscall.SIGTERM, os.Interrupt)
		<-ends
	}
}
