// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpupolicies

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"

	"github.com/berth-scheduler/berth/pkg/apis/config"
	_ "github.com/berth-scheduler/berth/pkg/apis/config/scheme" // GPUDeviceArgs
	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// TestPoliciesAgree: what the two policies on devices both say must be the same,
// or what one sets the other refuses. And what the policies are told must be what
// the profiles say, one of which the Deployment runs.
func TestPoliciesAgree(t *testing.T) {
	for overlay, profile := range map[string]string{"gpu": "gpu.yaml", "gpu-gang": "gpu-gang.yaml"} {
		t.Run(overlay, func(t *testing.T) {
			built := install.Build(t, install.Path("manifests/overlays", overlay))
			mutation := install.Find[admissionregistrationv1.MutatingAdmissionPolicy](t, built, "MutatingAdmissionPolicy", "berth-gpu-devices")
			validation := install.Find[admissionregistrationv1.ValidatingAdmissionPolicy](t, built, "ValidatingAdmissionPolicy", "berth-gpu-devices")
			quota := install.Find[admissionregistrationv1.ValidatingAdmissionPolicy](t, built, "ValidatingAdmissionPolicy", "berth-gpu-quota")
			sets, judges, counts := map[string]string{}, map[string]string{}, map[string]string{}
			for _, variable := range mutation.Spec.Variables {
				sets[variable.Name] = variable.Expression
			}
			for _, variable := range validation.Spec.Variables {
				judges[variable.Name] = variable.Expression
			}
			for _, variable := range quota.Spec.Variables {
				counts[variable.Name] = variable.Expression
			}
			for _, name := range []string{
				"exempt", "deviceResources", "migPrefix", "longLived", "asking", "usesDevicePlugin", "named", "tolerates", "reaches", "concerned",
			} {
				if sets[name] == "" {
					t.Errorf("the mutation has no variable %q", name)
				}
				if diff := cmp.Diff(sets[name], judges[name]); diff != "" {
					t.Errorf("variable %q differs (-mutation,+validation):\n%s", name, diff)
				}
			}
			if diff := cmp.Diff(mutation.Spec.MatchConditions[0].Expression, validation.Spec.MatchConditions[0].Expression); diff != "" {
				t.Errorf("the match conditions differ (-mutation,+validation):\n%s", diff)
			}

			schedulerNames, args := gpuProfile(t, profile)
			for name, tt := range map[string]struct{ want, got string }{
				"profiles":                       {list(schedulerNames), judges["profiles"]},
				"deviceResources":                {list(args.DeviceResources), judges["deviceResources"]},
				"deviceResources of the quota's": {list(args.DeviceResources), counts["deviceResources"]},
				"migPrefix of the quota's":       {"'" + args.NodeLabels.MIGPrefix + "'", counts["migPrefix"]},
				"countingSchedulers":             {list([]string{corev1.DefaultSchedulerName}), judges["countingSchedulers"]},
				"migPrefix":                      {"'" + args.NodeLabels.MIGPrefix + "'", judges["migPrefix"]},
				"exempt":                         {list([]string{"kube-system", names.Namespace, "gpu-operator"}), judges["exempt"]},
				"runtimeClass":                   {"'nvidia'", sets["runtimeClass"]},
			} {
				if tt.got != tt.want {
					t.Errorf("variable %s is %s, want %s", name, tt.got, tt.want)
				}
			}

			deployment := install.Find[appsv1.Deployment](t, built, "Deployment", names.Scheduler)
			want := "--config=/etc/berth-scheduler/" + profile
			if got := deployment.Spec.Template.Spec.Containers[0].Args[0]; got != want {
				t.Errorf("the Deployment runs with %q, want %q", got, want)
			}
		})
	}
}

// list writes texts as a list in CEL.
func list(texts []string) string {
	return "['" + strings.Join(texts, "', '") + "']"
}

// gpuProfile returns the schedulerNames of a file of config/berth-scheduler whose
// profiles run GPUDevice, and the plugin's arguments.
func gpuProfile(t *testing.T, file string) ([]string, *config.GPUDeviceArgs) {
	t.Helper()
	logger, _ := ktesting.NewTestContext(t)
	decoded, err := options.LoadConfigFromFile(logger, install.Path("config/berth-scheduler", file))
	if err != nil {
		t.Fatal(err)
	}
	var schedulerNames []string
	var args *config.GPUDeviceArgs
	for i := range decoded.Profiles {
		for _, pluginConfig := range decoded.Profiles[i].PluginConfig {
			if found, ok := pluginConfig.Args.(*config.GPUDeviceArgs); ok {
				schedulerNames, args = append(schedulerNames, decoded.Profiles[i].SchedulerName), found
			}
		}
	}
	if args == nil {
		t.Fatalf("%s: no profile has GPUDevice", file)
	}
	return schedulerNames, args
}
