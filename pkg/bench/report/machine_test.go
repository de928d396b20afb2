// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"runtime"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"
)

func TestDescribeMachine(t *testing.T) {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	file := func(content string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(content)} }
	tests := []struct {
		name string
		root fstest.MapFS
		want Machine
	}{
		{name: "no /proc", want: Machine{OS: platform, Cores: runtime.NumCPU()}},
		{
			name: "Linux",
			root: fstest.MapFS{
				"etc/os-release":            file("ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
				"proc/sys/kernel/osrelease": file("6.1.0-18-amd64\n"),
				"proc/cpuinfo":              file("processor\t: 0\nmodel name\t: AMD EPYC 7B13   64-Core\n\nprocessor\t: 1\nmodel name\t: another\n"),
				"proc/meminfo":              file("MemTotal:       24678400 kB\nMemFree: 1 kB\n"),
				"proc/loadavg":              file("0.42 0.30 0.21 1/345 6789\n"),
			},
			want: Machine{OS: platform + ", Debian GNU/Linux 12 (bookworm), kernel 6.1.0-18-amd64", CPU: "AMD EPYC 7B13 64-Core", Cores: runtime.NumCPU(), MemoryMiB: 24100, LoadBefore: ptr.To(0.42)},
		},
		{
			name: "files that say something else",
			root: fstest.MapFS{"proc/cpuinfo": file("BogoMIPS : 50\n"), "proc/meminfo": file("MemTotal: many kB\n"), "proc/loadavg": file("NaN 0 0")},
			want: Machine{OS: platform, Cores: runtime.NumCPU()},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, describeMachine(tt.root)); diff != "" {
				t.Errorf("machine (-want,+got):\n%s", diff)
			}
		})
	}
	t.Run("this one", func(t *testing.T) {
		machine := DescribeMachine()
		if machine.Cores < 1 || machine.OS == "" {
			t.Errorf("machine %+v", machine)
		}
		if runtime.GOOS == "linux" && (machine.MemoryMiB < 16 || machine.LoadBefore == nil) {
			t.Errorf("memory or load not found: %+v", machine)
		}
	})
}
