// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package version

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/component-base/metrics/legacyregistry"
)

func TestFlag(t *testing.T) {
	tests := []struct {
		name string
		args []string
		// want are parts of what is printed; none: nothing is.
		want    []string
		wantErr string
	}{
		{name: "not given"},
		{name: "switched off", args: []string{"--version=false"}},
		{name: "alone", args: []string{"--version"}, want: []string{"some-program v0.0.0-unset (Kubernetes "}},
		{name: "true", args: []string{"--version=true"}, want: []string{"some-program v0.0.0-unset (Kubernetes "}},
		{name: "raw", args: []string{"--version=raw"}, want: []string{"some-program v0.0.0-unset version.Info{", `Major:"`, `BuildDate:"`}},
		{name: "another", args: []string{"--version=long"}, wantErr: `invalid argument "long" for "--version" flag: must be true, false or raw`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			version := AddFlag(flags)
			err := flags.Parse(tt.args)
			if tt.wantErr != "" {
				if err == nil || err.Error() != tt.wantErr {
					t.Errorf("error is %v, want %s", err, tt.wantErr)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if printed := version.Printed(&out, "some-program"); printed != (len(tt.want) > 0) {
				t.Errorf("printed: %t", printed)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("want %q in %q", want, out.String())
				}
			}
			if len(tt.want) == 0 && out.Len() > 0 {
				t.Errorf("unexpected output %q", out.String())
			}
		})
	}
}

func TestMetric(t *testing.T) {
	RegisterMetric()
	RegisterMetric() // again does nothing
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "berth_build_info" {
			continue
		}
		series := family.GetMetric()
		if len(series) != 1 || series[0].GetGauge().GetValue() != 1 {
			t.Fatalf("want one series of value 1, got %v", series)
		}
		for _, label := range series[0].GetLabel() {
			if label.GetValue() == "" {
				t.Errorf("label %s is empty", label.GetName())
			}
		}
		return
	}
	t.Error("no metric berth_build_info")
}
