// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	"github.com/berth-scheduler/berth/pkg/device"
)

// TestValidate validates the args of each file in testdata. They are laid over a copy of valid
// ones, and want says how each error begins: what follows may be in the words of Kubernetes.
func TestValidate(t *testing.T) {
	t.Run("LabelPresence", func(t *testing.T) {
		checkFile(t, "labelpresence", &config.LabelPresenceArgs{DaemonSets: config.DaemonSetsExempt}, ValidateLabelPresenceArgs)
	})
	t.Run("Colocation", func(t *testing.T) { checkFile(t, "colocation", validColocationArgs(), ValidateColocationArgs) })
	t.Run("GPUDevice", func(t *testing.T) { checkFile(t, "gpudevice", validGPUDeviceArgs(), ValidateGPUDeviceArgs) })
}

func checkFile[T runtime.Object](t *testing.T, name string, valid T, validate func(*field.Path, T) error) {
	t.Helper()
	content, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	var tests []struct {
		Name   string
		Args   json.RawMessage
		Errors []string
	}
	if err := yaml.UnmarshalStrict(content, &tests); err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.Name, func(t *testing.T) {
			args, _ := valid.DeepCopyObject().(T)
			if err := yaml.UnmarshalStrict(tt.Args, args); err != nil {
				t.Fatal(err)
			}
			before := args.DeepCopyObject()
			var got []string
			for _, err := range errorsIn(validate(field.NewPath("args"), args)) {
				text, longest := err.Error(), ""
				for _, want := range tt.Errors {
					if strings.HasPrefix(text, want) && len(want) > len(longest) {
						longest = want
					}
				}
				got = append(got, cmp.Or(longest, text))
			}
			// Several errors may concern one value, in Kubernetes' words.
			if diff := gocmp.Diff(tt.Errors, slices.Compact(got)); diff != "" {
				t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
			}
			if diff := gocmp.Diff(before, runtime.Object(args)); diff != "" {
				t.Errorf("Validation changed the args (-before,+after):\n%s", diff)
			}
		})
	}
}

func errorsIn(err error) []error {
	if aggregate := utilerrors.Aggregate(nil); errors.As(err, &aggregate) {
		return aggregate.Errors()
	}
	return nil
}

// reported is the kind and the field of an error, for what is too large for a file.
type reported struct {
	Type  field.ErrorType
	Field string
}

func reportedBy(t *testing.T, err error) []reported {
	t.Helper()
	if err == nil {
		return nil
	}
	var aggregate utilerrors.Aggregate
	if !errors.As(err, &aggregate) {
		t.Fatalf("want an aggregate of field errors, got %T: %v", err, err)
	}
	var got []reported
	for _, one := range aggregate.Errors() {
		var fieldErr *field.Error
		if !errors.As(one, &fieldErr) {
			t.Fatalf("want a field error, got %T: %v", one, one)
		}
		got = append(got, reported{fieldErr.Type, fieldErr.Field})
	}
	return got
}

// TestValidateTooMany is about lists above their bounds.
func TestValidateTooMany(t *testing.T) {
	colocation := func(rules ...config.ColocationRule) error {
		args := validColocationArgs()
		args.Rules = rules
		return ValidateColocationArgs(nil, args)
	}
	services := slices.Repeat([]config.ColocationService{{Name: "a", Weight: 1}}, MaxServices+1)
	gpu := validGPUDeviceArgs()
	gpu.ExpectedWorkload = slices.Repeat([]config.GPUDeviceWorkloadClass{{Weight: 1, GPUMilli: 1}}, 129)
	for _, tt := range []struct {
		field string
		err   error
	}{
		{"rules", colocation(slices.Repeat([]config.ColocationRule{{Services: services[:1], Weight: 1}}, 1001)...)},
		{"rules[0].services", colocation(config.ColocationRule{Services: services, Weight: 1})},
		{"expectedWorkload", ValidateGPUDeviceArgs(nil, gpu)},
	} {
		if diff := gocmp.Diff([]reported{{field.ErrorTypeTooMany, tt.field}}, reportedBy(t, tt.err)); diff != "" {
			t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
		}
	}
}

func TestValidateLabelPresenceArgsWithoutPath(t *testing.T) {
	err := ValidateLabelPresenceArgs(nil, &config.LabelPresenceArgs{Rules: []config.LabelPresenceRule{{}}, DaemonSets: config.DaemonSetsExempt})
	want := []reported{{field.ErrorTypeRequired, "rules[0].labels"}, {field.ErrorTypeRequired, "rules[0].presence"}}
	if diff := gocmp.Diff(want, reportedBy(t, err)); diff != "" {
		t.Errorf("Unexpected errors (-want,+got):\n%s", diff)
	}
}

func validColocationArgs() *config.ColocationArgs {
	return &config.ColocationArgs{TopologyKeys: []string{"kubernetes.io/hostname", "topology.kubernetes.io/zone"}}
}

func validGPUDeviceArgs() *config.GPUDeviceArgs {
	return &config.GPUDeviceArgs{
		DeviceResources: []string{"nvidia.com/gpu"},
		NodeLabels: config.GPUDeviceNodeLabels{
			Count: "nvidia.com/gpu.count", Memory: "nvidia.com/gpu.memory", Product: "nvidia.com/gpu.product",
			Replicas: "nvidia.com/gpu.replicas", MIGPrefix: "nvidia.com/mig-",
		},
		ScoringStrategy: config.GPUDeviceScoringStrategy{Type: config.GPUDeviceFragmentationGradient},
		NonGPUPods:      config.NonGPUPodsAvoid,
	}
}

// The bounds here are those of the model of devices, which this package must not
// import.
func TestBoundsOfTheDeviceModel(t *testing.T) {
	if milliPerDevice != device.MilliPerDevice || maxDevices != device.MaxDevices || maxDeviceMemory != device.MaxMemoryMiB<<20 {
		t.Errorf("package device has %d, %d and %d MiB", device.MilliPerDevice, device.MaxDevices, device.MaxMemoryMiB)
	}
	for list, valid := range map[string]bool{"a": true, "A-1_2.3*, b": true, "a,": false, "a b": false, "ä": false, ",": false} {
		_, err := device.ParseModels(list)
		if got := len(validateModelPatterns(field.NewPath("x"), list)) == 0; got != valid || (err == nil) != valid {
			t.Errorf("%q: valid here %t, in package device %t, want %t", list, got, err == nil, valid)
		}
	}
}
