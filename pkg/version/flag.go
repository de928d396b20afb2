// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"fmt"
	"io"

	"github.com/spf13/pflag"
	kubeversion "k8s.io/component-base/version"
)

// Flag is --version as Kubernetes' own programs have it: without a value, or
// "true", one line for people; "raw" everything that is known.
type Flag struct{ value string }

var _ pflag.Value = &Flag{}

const raw = "raw"

// AddFlag adds --version to flags.
func AddFlag(flags *pflag.FlagSet) *Flag {
	f := &Flag{value: "false"}
	flags.Var(f, "version", "Print Berth's version and that of the Kubernetes compiled in, and exit; --version=raw prints all that is known of them")
	flags.Lookup("version").NoOptDefVal = "true"
	return f
}

// String implements pflag.Value.
func (f *Flag) String() string { return f.value }

// Type implements pflag.Value.
func (f *Flag) Type() string { return "version" }

// Set implements pflag.Value.
func (f *Flag) Set(value string) error {
	switch value {
	case "true", "false", raw:
		f.value = value
		return nil
	}
	return fmt.Errorf("must be true, false or %s", raw)
}

// Printed writes the version if the flag asks for it, and reports whether it did.
func (f *Flag) Printed(w io.Writer, program string) bool {
	switch f.value {
	case "true":
		Print(w, program)
	case raw:
		fmt.Fprintf(w, "%s %s %#v\n", program, version, kubeversion.Get())
	default:
		return false
	}
	return true
}
