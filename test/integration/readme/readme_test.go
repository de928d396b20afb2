// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

// Package readme runs the commands of README.md as a reader would: in order, in
// a checkout, against a cluster. (That its YAML decodes is tested in
// pkg/apis/config/scheme.)
package readme

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/test/integration/framework"
)

// elsewhere are the commands that are not run here as they stand, and why not.
var elsewhere = map[string]string{
	"git clone https://github.com/berth-scheduler/berth && cd berth": "the test runs in a checkout",
	"make demo": "run by test/integration/demo",
	"make test": "runs this test",
}

// replaced are commands that are run with other arguments, to save time.
var replaced = map[string]string{
	"go test ./test/perf -run '^$' -bench . -count 10 | tee out/perf.txt":    "go test ./test/perf -run '^$' -bench . -count 1 -benchtime 1x",
	"go tool -modfile=hack/tools/go.mod benchstat -col /plugin out/perf.txt": "true",
}

func TestCommands(t *testing.T) {
	commands := shellCommands(t, filepath.Join(framework.Root(), "README.md"))
	c := framework.Start(t, framework.Options{NodeCount: 3})
	c.StartStockScheduler(t, "", framework.SchedulerOptions{})
	env := append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig,
		"KUBECACHEDIR="+t.TempDir(),
		"PATH="+filepath.Dir(framework.Binary(t, framework.KubectlBinary))+string(os.PathListSeparator)+os.Getenv("PATH"))

	for _, command := range commands {
		if _, ok := elsewhere[command]; ok {
			continue
		}
		run := command
		if other, ok := replaced[command]; ok {
			run = other
		}
		cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", run)
		cmd.Dir, cmd.Env = framework.Root(), env
		output, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", command, err, output)
		}
		t.Logf("$ %s\n%s", command, output)
		if strings.HasPrefix(command, "kubectl apply -k manifests/base") {
			// kwok only pretends to run the Deployment's container, so the real
			// process stands in for it, with the credential that was just installed.
			c.StartBerthScheduler(t, "config/berth-scheduler/berth-scheduler.yaml", framework.SchedulerOptions{LeaderElect: true})
		}
	}

	for _, list := range []map[string]string{elsewhere, replaced} {
		for command := range list {
			if !slices.Contains(commands, command) {
				t.Errorf("README.md does not have the command %q any more", command)
			}
		}
	}
}

// TestLinks makes sure that what README.md points at in this repository is there.
func TestLinks(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(framework.Root(), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	links := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`).FindAllStringSubmatch(string(readme), -1)
	if len(links) == 0 {
		t.Fatal("no links found")
	}
	for _, link := range links {
		if strings.Contains(link[1], "://") {
			continue
		}
		if _, err := os.Stat(filepath.Join(framework.Root(), link[1])); err != nil {
			t.Errorf("README.md links to %s: %v", link[1], err)
		}
	}
}

var shellBlock = regexp.MustCompile("(?ms)^```sh\n(.*?)^```$")

// shellCommands returns each line of the file's shell blocks, without comments.
func shellCommands(t *testing.T, file string) []string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(block[1]) {
			command, _, _ := strings.Cut(line, "  # ")
			if command = strings.TrimSpace(command); command != "" && !strings.HasPrefix(command, "#") {
				commands = append(commands, command)
			}
		}
	}
	if len(commands) == 0 {
		t.Fatalf("%s has no shell commands", file)
	}
	return commands
}
