// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/install"
)

var (
	shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")
	yamlBlock  = regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
)

func blocks(t *testing.T, expression *regexp.Regexp) []string {
	t.Helper()
	content, err := os.ReadFile(install.Path(chartPath, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, block := range expression.FindAllStringSubmatch(string(content), -1) {
		found = append(found, block[1])
	}
	if len(found) == 0 {
		t.Fatal("the chart's README has none")
	}
	return found
}

// The commands of the chart's README, in order, as an administrator pastes them.
func TestReadmeCommands(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	h := newHelm(t, "4", c.Kubeconfig)
	path := t.TempDir()
	for name, binary := range map[string]string{"helm": h.binary, "kubectl": framework.Binary(t, framework.KubectlBinary)} {
		if err := os.Symlink(binary, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	var scheduler *framework.Scheduler
	for _, block := range blocks(t, shellBlock) {
		for command := range strings.Lines(block) {
			command = strings.TrimSpace(command)
			if strings.HasPrefix(command, "helm test") {
				scheduler = install.StartDeployment(t, c, names.Namespace, names.Scheduler)
				playKubelet(t, c, names.Namespace, names.Scheduler)
			}
			if strings.HasPrefix(command, "helm uninstall") {
				scheduler.Stop(t)
			}
			cmd := exec.CommandContext(t.Context(), "bash", "-euc", command)
			cmd.Dir = framework.Root()
			cmd.Env = append(os.Environ(), "KUBECONFIG="+c.Kubeconfig, "PATH="+path+string(os.PathListSeparator)+os.Getenv("PATH"),
				"HELM_CACHE_HOME="+h.home, "HELM_CONFIG_HOME="+h.home, "HELM_DATA_HOME="+h.home, "KUBECACHEDIR="+h.home)
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", command, err, output)
			}
		}
	}
	c.KubectlErr(t, "get", "deployment", names.Scheduler, "--namespace="+names.Namespace)
}

// The values files of the README render, and berth-scheduler takes their profiles.
func TestReadmeValues(t *testing.T) {
	h := newHelm(t, "4", "")
	for _, block := range blocks(t, yamlBlock) {
		var v values
		if err := yaml.UnmarshalStrict([]byte(block), &v); err != nil {
			t.Fatalf("%v\n%s", err, block)
		}
		load(t, block, profile(t, h.render(t, "berth", "ns", v), "berth"))
	}
}

// twoInstances returns the values of the README's section "Two instances".
func twoInstances(t *testing.T) (first, second values) {
	t.Helper()
	for _, block := range blocks(t, yamlBlock) {
		v := values{}
		if err := yaml.UnmarshalStrict([]byte(block), &v); err != nil {
			t.Fatal(err)
		}
		switch {
		case strings.Contains(block, `of the first, "berth" in namespace berth-system`):
			first = v
		case strings.Contains(block, `of the second, "berth-batch" in namespace berth-batch`):
			second = v
		}
	}
	if first == nil || second == nil {
		t.Fatal("the README does not say how to install two instances")
	}
	return first, second
}
