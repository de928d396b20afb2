// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readme runs the commands of README.md, and of the pages that it sends a
// new user to, as a reader would: in order, in a checkout, against a cluster. (That
// their YAML decodes is tested in pkg/apis/config/scheme.)
package readme

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// pages are README.md and those that it sends a new user to.
var pages = []string{"README.md", "config/README.md", "cmd/berth-local/README.md"}

// elsewhere are the commands that are not run here as they stand, and why not.
var elsewhere = map[string]string{
	"git clone https://github.com/berth-scheduler/berth && cd berth": "the test runs in a checkout",
	"make demo": "run by test/integration/demo",
	"make test": "runs this test",
}

// replaced are commands that are run with other arguments, to save time.
var replaced = map[string]string{
	"make bench": "BENCH_WORKLOADS=smoke:1 BENCH_OUT=$(mktemp -d) hack/bench.sh || [ $? -eq 4 ]",
}

// binFolder is where a page's commands find binaries.
var binFolder = regexp.MustCompile(`(?m)(^|\s)bin/`)

// blockTimeout is how long the commands of one block may take.
const blockTimeout = 10 * time.Minute

// gpuOperator is what NVIDIA's operator brings to a cluster and pods with shares need.
const gpuOperator = `{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}`

func TestCommands(t *testing.T) {
	var blocks [][]string
	for _, page := range pages {
		blocks = append(blocks, shellBlocks(t, page)...)
	}
	if len(blocks) == 0 {
		t.Fatal("no shell commands found")
	}
	c := framework.Start(t, framework.Options{NodeCount: 3})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	c.Apply(t, gpuOperator)
	c.Kubectl(t, "label", "nodes", "--all", "nvidia.com/gpu.count=2", "nvidia.com/gpu.memory=40960", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB")
	// kwok only pretends to run the Deployment's container, so the real process stands
	// in for it, with the credential and the profile that were just installed.
	profiles := map[string]string{
		"kubectl apply -k manifests/base":         "config/berth-scheduler/all-plugins.yaml",
		"kubectl apply -k manifests/overlays/gpu": "config/berth-scheduler/gpu.yaml",
	}
	var running *framework.Scheduler
	bin := filepath.Dir(framework.Binary(t, framework.KubectlBinary))
	env := append(os.Environ(),
		"BIN="+bin,
		"KUBECONFIG="+c.Kubeconfig,
		"KUBECACHEDIR="+t.TempDir(),
		"PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))

	for _, commands := range blocks {
		// A block is one shell, as in the terminal that it is pasted into.
		var script []string
		for _, command := range commands {
			if other, ok := replaced[command]; ok {
				command = other
			} else if _, ok := elsewhere[command]; ok {
				continue
			}
			script = append(script, command)
		}
		// Where the binaries are of Kubernetes 1.36, bin/ may be empty.
		text := binFolder.ReplaceAllString(strings.Join(script, "\n"), "${1}"+bin+"/")
		ctx, cancel := context.WithTimeout(t.Context(), blockTimeout)
		defer cancel()
		cmd := exec.CommandContext(ctx, "bash", "-euxo", "pipefail", "-c", text)
		cmd.Dir, cmd.Env = framework.Root(), env
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", strings.Join(commands, "\n"), err, output)
		}
		t.Logf("%s", output)
		for command, profile := range profiles {
			if slices.Contains(commands, command) {
				if running != nil {
					running.Stop(t)
				}
				running = c.StartBerthScheduler(t, profile, framework.SchedulerOptions{LeaderElect: true})
			}
		}
	}

	all := slices.Concat(blocks...)
	for _, list := range []map[string]string{elsewhere, replaced} {
		for command := range list {
			if !slices.Contains(all, command) {
				t.Errorf("no page has the command %q any more", command)
			}
		}
	}
}

// TestVersions compares the versions that README.md names with the module files.
func TestVersions(t *testing.T) {
	for _, file := range []string{"go.mod", "hack/k8s-1.36.mod"} {
		t.Run(file, func(t *testing.T) { testVersions(t, file) })
	}
}

func testVersions(t *testing.T, file string) {
	readme := read(t, "README.md")
	module := read(t, file)
	for name, path := range map[string]string{
		"Kubernetes": "k8s.io/kubernetes", "etcd": "go.etcd.io/etcd/server/v3", "kwok": "sigs.k8s.io/kwok",
	} {
		version := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(path) + ` v(\S+)`).FindStringSubmatch(module)
		if version == nil {
			t.Errorf("%s does not require %s", file, path)
			continue
		}
		if want := name + " " + version[1]; !strings.Contains(readme, want) {
			t.Errorf("README.md does not say %q", want)
		}
	}
}

// TestNothingIsLeftOpen finds a word in capitals alone on a line, which is how a
// figure that is still to come was marked once.
func TestNothingIsLeftOpen(t *testing.T) {
	if open := regexp.MustCompile(`(?m)^[A-Z-]{4,}$`).FindString(read(t, "README.md")); open != "" {
		t.Errorf("README.md has a line %q", open)
	}
}

// TestLinks makes sure that what the pages point at in this repository is there.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, page := range pages {
		for _, found := range link.FindAllStringSubmatch(read(t, page), -1) {
			if strings.Contains(found[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(framework.Root(), filepath.Dir(page), found[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, found[1], err)
			}
		}
	}
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// shellBlocks returns, for each of the page's shell blocks, its lines without
// comments.
func shellBlocks(t *testing.T, page string) [][]string {
	t.Helper()
	var blocks [][]string
	for _, block := range shellBlock.FindAllStringSubmatch(read(t, page), -1) {
		var commands []string
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, "  # ")
			if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
				commands = append(commands, command)
			}
		}
		blocks = append(blocks, commands)
	}
	return blocks
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(framework.Root(), file))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
