// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

// fromOneOverlayToAnother follows the section of manifests/README.md: what is refused is
// told before anything is written, and nothing of the old overlay is left.
func fromOneOverlayToAnother(t *testing.T, c *framework.Cluster) {
	t.Helper()
	defer c.Kubectl(t, "delete", "-k", install.Path("manifests/overlays/gpu"))
	install.Apply(t, c, "overlays/gpu")
	want := installed(t, c)
	c.Kubectl(t, "delete", "-k", install.Path("manifests/overlays/gpu"))
	install.Apply(t, c, "overlays/ha-tenancy")

	steps := readmeSteps(t, "kubectl delete -k manifests/components/tenancy", "kubectl delete -k manifests/components/ha")
	ask := steps[1]

	t.Run("what is refused is told first", func(t *testing.T) {
		before := installed(t, c)
		got := c.KubectlErr(t, ask...)
		for _, text := range []string{"remove tenancy first (kubectl delete -k manifests/components/tenancy)", `see "From one overlay to another" in manifests/README.md`} {
			if !strings.Contains(got, text) {
				t.Errorf("want %q in\n%s", text, got)
			}
		}
		if diff := cmp.Diff(before, installed(t, c)); diff != "" {
			t.Errorf("%v wrote something (-before,+after):\n%s", ask, diff)
		}
	})

	t.Run("what was refused in part is taken back", func(t *testing.T) {
		before := installed(t, c)
		c.KubectlErr(t, "apply", "-k", install.Path("manifests/overlays/gpu"))
		if diff := cmp.Diff(before, installed(t, c)); diff == "" {
			t.Fatal("kubectl did not leave anything behind")
		}
		c.Kubectl(t, "delete", "-k", install.Path("manifests/components/gpu"))
		if diff := cmp.Diff(before, installed(t, c)); diff != "" {
			t.Errorf("something is left (-before,+after):\n%s", diff)
		}
	})

	t.Run("the way in the README", func(t *testing.T) {
		c.Kubectl(t, steps[0]...)
		framework.WaitForCondition(t, framework.WaitTimeout, "the API server to let go of the policies", func() (bool, error) {
			_, err := c.KubectlAs(t, c.Kubeconfig, "", ask...)
			return err == nil, nil
		})
		for _, step := range steps[2:] {
			c.Kubectl(t, step...)
		}
		if diff := cmp.Diff(want, installed(t, c)); diff != "" {
			t.Errorf("not what the overlay installs by itself (-fresh,+changed):\n%s", diff)
		}
	})
}

// installed returns what an overlay can consist of, and of the Deployment what it says.
func installed(t *testing.T, c *framework.Cluster) string {
	t.Helper()
	return c.Kubectl(t, "get", "clusterroles,clusterrolebindings,priorityclasses,validatingadmissionpolicies,validatingadmissionpolicybindings,mutatingadmissionpolicies,mutatingadmissionpolicybindings,"+
		"serviceaccounts,roles,rolebindings,poddisruptionbudgets", "--all-namespaces", "--selector=app.kubernetes.io/part-of=berth", "--output=name") +
		c.Kubectl(t, "get", "deployments", "--all-namespaces",
			"--output=jsonpath={range .items[*]}{.metadata.name} {.spec.replicas} {.spec.template.spec.containers[0].args} {.spec.template.spec.priorityClassName} {.spec.template.spec.topologySpreadConstraints}{end}")
}

// readmeSteps returns the commands of the block that begins with one and ends with another,
// as arguments of kubectl.
func readmeSteps(t *testing.T, first, last string) [][]string {
	t.Helper()
	content, err := os.ReadFile(install.Path("manifests/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, begins := strings.Cut(string(content), "\n"+first)
	text, _, ends := strings.Cut(first+text, "\n```")
	if !begins || !ends {
		t.Fatalf("manifests/README.md does not say %q", first)
	}
	var steps [][]string
	for line := range strings.Lines(text) {
		command, _, _ := strings.Cut(line, "#")
		steps = append(steps, strings.Fields(command)[1:])
	}
	if got := "kubectl " + strings.Join(steps[len(steps)-1], " "); got != last {
		t.Fatalf("the last command is %q, want %q", got, last)
	}
	return steps
}
