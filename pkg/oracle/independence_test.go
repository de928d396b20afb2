// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package oracle

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestIndependence: what checks the schedulers shares no code with them.
func TestIndependence(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	for imported := range strings.FieldsSeq(string(out)) {
		for _, denied := range []string{"github.com/berth-scheduler/", "k8s.io/kubernetes", "k8s.io/kube-scheduler"} {
			if strings.HasPrefix(imported, denied) && imported != "github.com/berth-scheduler/berth/pkg/oracle" {
				t.Errorf("the oracle imports %s", imported)
			}
		}
	}
}

// TestNames: the names that are written down a second time are those of the API.
func TestNames(t *testing.T) {
	want := []string{
		names.GPUMilliResource, names.GPUMemoryResource, names.GPUModelAnnotation, names.GPUMinMemoryAnnotation, names.GPUAssignedAnnotation,
		names.GPUDevicesAnnotationPrefix, names.GPUSharingLabel, names.GPUCordonedAnnotation, names.GPUUUIDsAnnotation, names.TenantLabel, names.TenantNodeLabel,
	}
	got := []string{
		string(milliResource), string(memoryResource), modelAnnotation, minMemoryAnnotation, recordAnnotation,
		devicesPrefix, sharingLabel, cordonedAnnotation, uuidsAnnotation, tenantLabel, tenantNodeLabel,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Unexpected names (-want,+got):\n%s", diff)
	}
}
