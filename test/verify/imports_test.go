// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package verify

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// importRule is one rule of depguard in .golangci.yaml. The rules stand there
// alone; this file reads them, applies them to the repository without the linter,
// and shows for each that it refuses what it is there to refuse.
type importRule struct {
	ListMode string   `json:"list-mode"`
	Files    []string `json:"files"`
	Allow    []string `json:"allow"`
	Deny     []struct {
		Package string `json:"pkg"`
		Reason  string `json:"desc"`
	} `json:"deny"`
}

// readImportRules returns the rules by name.
func readImportRules(t *testing.T) map[string]importRule {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), ".golangci.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Linters struct {
			Enable   []string `json:"enable"`
			Settings struct {
				Depguard struct {
					Rules map[string]importRule `json:"rules"`
				} `json:"depguard"`
			} `json:"settings"`
		} `json:"linters"`
	}
	if err := yaml.Unmarshal(content, &config); err != nil {
		t.Fatalf("reading .golangci.yaml: %v", err)
	}
	if !slices.Contains(config.Linters.Enable, "depguard") {
		t.Fatal(".golangci.yaml: linters.enable: depguard is not there")
	}
	rules := config.Linters.Settings.Depguard.Rules
	if len(rules) == 0 {
		t.Fatal(".golangci.yaml: linters.settings.depguard.rules: none")
	}
	return rules
}

// appliesTo reports whether the rule is about a file of the repository.
func (r importRule) appliesTo(file string) bool {
	included, positive := false, false
	for _, pattern := range r.Files {
		negated := strings.HasPrefix(pattern, "!")
		matches := matchesFile(strings.TrimPrefix(pattern, "!"), file)
		if negated && matches {
			return false
		}
		if !negated {
			positive = true
			included = included || matches
		}
	}
	return included || !positive
}

// matchesFile matches the two kinds of patterns that the rules use: $test, and a
// glob below ${base-path}, in which ** crosses slashes.
func matchesFile(pattern, file string) bool {
	if pattern == "$test" {
		return strings.HasSuffix(file, "_test.go")
	}
	expression := regexp.QuoteMeta(strings.TrimPrefix(pattern, "${base-path}/"))
	expression = strings.ReplaceAll(expression, `\*\*`, ".*")
	expression = strings.ReplaceAll(expression, `\*`, "[^/]*")
	return regexp.MustCompile("^" + expression + "$").MatchString(file)
}

// refuses returns why the rule refuses an import, or nothing if it allows it.
func (r importRule) refuses(imported string) string {
	var allowed, denied int
	reason := "not on the list of allowed packages"
	for _, prefix := range r.Allow {
		allowed = max(allowed, matchesPackage(prefix, imported))
	}
	for _, deny := range r.Deny {
		if n := matchesPackage(deny.Package, imported); n > denied {
			denied, reason = n, deny.Reason
		}
	}
	switch {
	case r.ListMode == "strict" && allowed > denied:
		return ""
	case r.ListMode == "lax" && (denied == 0 || allowed > denied):
		return ""
	}
	return reason
}

// matchesPackage returns the length of the match, or 0: of a prefix, of a whole
// path if the pattern ends in $, or of $gostd, the standard library.
func matchesPackage(pattern, imported string) int {
	first, _, _ := strings.Cut(imported, "/")
	isStandard := !strings.Contains(first, ".")
	whole, exact := strings.CutSuffix(pattern, "$")
	switch {
	case pattern == "$gostd" && isStandard:
		return 1
	case exact && imported == whole:
		return len(pattern)
	case !exact && strings.HasPrefix(imported, pattern) && strings.Contains(pattern, ".") != isStandard:
		return len(pattern)
	}
	return 0
}

// refusals applies all rules to one import of one file. It returns why each rule
// that refuses it does so, by name.
func refusals(rules map[string]importRule, file, imported string) map[string]string {
	reasons := map[string]string{}
	for name, rule := range rules {
		if rule.appliesTo(file) {
			if reason := rule.refuses(imported); reason != "" {
				reasons[name] = reason
			}
		}
	}
	return reasons
}

// listedPackage is what `go list -json` says of a package.
type listedPackage struct {
	Dir, ImportPath                                                              string
	GoFiles, TestGoFiles, XTestGoFiles, Imports, TestImports, Deps, XTestImports []string
}

// listPackages asks go for the packages of the repository.
func listPackages(t *testing.T) []listedPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=Dir,ImportPath,GoFiles,TestGoFiles,XTestGoFiles,Imports,TestImports,XTestImports,Deps", "./...")
	list.Dir = root(t)
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, stderr.String())
	}
	var packages []listedPackage
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("decoding go list: %v", err)
		}
		packages = append(packages, p)
	}
	if len(packages) < 5 {
		t.Fatalf("go list found %d packages; is this the repository?", len(packages))
	}
	return packages
}

// folder is the package's path inside the repository.
func (p listedPackage) folder() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

func TestImportRulesBite(t *testing.T) {
	rules := readImportRules(t)
	tests := []struct {
		name     string
		file     string
		imported string
		want     string // the rule that refuses; none means allowed
	}{
		{"testify", "pkg/device/fit_test.go", "github.com/stretchr/testify/assert", "everywhere"},
		{"gomega in test/", "test/integration/x/x_test.go", "github.com/onsi/gomega", "everywhere"},
		{"log", "cmd/berth-local/main.go", "log", "everywhere"},
		{"log/slog", "cmd/berth-local/main.go", "log/slog", "everywhere"},
		{"log is exact", "cmd/berth-local/main.go", "logging.example.com/x", ""},
		{"klog", "cmd/berth-local/main.go", "k8s.io/klog/v2", ""},
		{"go-cmp in code", "pkg/registry/registry.go", "github.com/google/go-cmp/cmp", "shipped-code"},
		{"go-cmp in a test", "pkg/registry/registry_test.go", "github.com/google/go-cmp/cmp", ""},
		{"testing in code", "pkg/registry/registry.go", "testing", "shipped-code"},
		{"testing in the builders", "pkg/schedtest/pods.go", "testing", ""},
		{"testing in the framework of tests", "test/integration/framework/framework.go", "testing", ""},

		{"command imports test", "cmd/berth-local/main.go", module + "/test/integration/framework", "product-code"},
		{"package imports test", "pkg/localcluster/up.go", module + "/test/integration/framework", "product-code"},
		{"package's test imports test", "pkg/localcluster/up_test.go", module + "/test/integration/framework", "product-code"},
		{"demo imports test", "hack/demo/main.go", module + "/test/integration/framework", "product-code"},
		{"test imports test", "test/integration/x/x_test.go", module + "/test/integration/framework", ""},
		{"package imports command", "pkg/bench/run.go", module + "/cmd/berth-local", "product-code"},
		{"command imports package", "cmd/berth-local/main.go", module + "/pkg/localcluster", ""},

		{"Kubernetes in any package", "pkg/localcluster/up.go", "k8s.io/kubernetes/pkg/scheduler", "kubernetes"},
		{"Kubernetes in the demo", "hack/demo/main.go", "k8s.io/kubernetes/pkg/scheduler", "kubernetes"},
		{"Kubernetes in a command", "cmd/berth-local/main.go", "k8s.io/kubernetes/cmd/kube-apiserver/app", ""},
		{"Kubernetes in explanations", "pkg/diagnose/explain/nearness.go", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/names", ""},
		{"explanations connect", "pkg/diagnose/explain/source/server.go", "k8s.io/client-go/tools/clientcmd", "explain"},
		{"explanations make a client", "pkg/diagnose/explain/source/server.go", "k8s.io/client-go/rest", "explain"},
		{"explanations import the benchmark", "pkg/diagnose/explain/answer.go", module + "/pkg/bench/run", "explain"},
		{"Kubernetes in the registry", "pkg/registry/registry.go", "k8s.io/kubernetes/pkg/scheduler/framework/runtime", ""},
		{"framework in any package", "pkg/scheduler/preflight/preflight.go", "k8s.io/client-go/kubernetes", ""},

		{"names import anything", "pkg/apis/names/names.go", "k8s.io/api/core/v1", "names"},
		{"names import strings", "pkg/apis/names/names.go", "strings", ""},
		{"device imports the framework", "pkg/device/fit.go", "k8s.io/kube-scheduler/framework", "device"},
		{"device imports a client", "pkg/device/fit.go", "k8s.io/client-go/kubernetes", "device"},
		{"device imports Kubernetes", "pkg/device/fit.go", "k8s.io/kubernetes/pkg/scheduler/framework", "device; kubernetes"},
		{"device imports args", "pkg/device/fit.go", module + "/pkg/apis/config", "device"},
		{"device imports quantities", "pkg/device/fit.go", "k8s.io/apimachinery/pkg/api/resource", ""},
		{"device imports what a pod requests", "pkg/device/typical.go", "k8s.io/component-helpers/resource", ""},
		{"device imports strings", "pkg/device/fit.go", "strings", ""},

		{"args import a plugin", "pkg/apis/config/types.go", module + "/pkg/plugins/labelpresence", "args"},
		{"args import device", "pkg/apis/config/v1/defaults.go", module + "/pkg/device", "args"},
		{"validation imports args", "pkg/apis/config/validation/labelpresence.go", module + "/pkg/apis/config", ""},
		{"args import Kubernetes", "pkg/apis/config/v1/defaults.go", "k8s.io/kubernetes/pkg/scheduler/apis/config", "kubernetes"},
		{"scheme imports Kubernetes' configuration", "pkg/apis/config/scheme/scheme.go", "k8s.io/kubernetes/pkg/scheduler/apis/config/v1", ""},
		{"scheme imports the scheduler", "pkg/apis/config/scheme/scheme.go", "k8s.io/kubernetes/pkg/scheduler", "scheme"},

		{"plugin imports plugin", "pkg/plugins/labelpresence/plugin.go", module + "/pkg/plugins/gpudevice", "plugin-labelpresence"},
		{"plugin's test imports plugin", "pkg/plugins/gpudevice/plugin_test.go", module + "/pkg/plugins/colocation", "plugin-gpudevice"},
		{"the plugin to copy imports plugin", "pkg/plugins/example/plugin.go", module + "/pkg/plugins/colocation", "plugin-example"},
		{"third plugin imports plugin", "pkg/plugins/colocation/plugin.go", module + "/pkg/plugins/gpudevice", "plugin-colocation"},
		{"fourth plugin imports plugin", "pkg/plugins/nodecandidates/plugin.go", module + "/pkg/plugins/gpudevice", "plugin-nodecandidates"},
		{"fifth plugin imports plugin", "pkg/plugins/deviceclaims/plugin.go", module + "/pkg/plugins/gpudevice", "plugin-deviceclaims"},
		{"fifth plugin imports the plugin that it runs", "pkg/plugins/deviceclaims/plugin.go", "k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources", ""},
		{"plugin imports another project's plugin", "pkg/plugins/gpudevice/plugin.go", "sigs.k8s.io/scheduler-plugins/pkg/coscheduling", "scheduler-plugins"},
		{"shared code imports plugin", "pkg/plugins/internal/state/state.go", module + "/pkg/plugins/gpudevice", "plugin-internal"},
		{"plugin imports shared code", "pkg/plugins/gpudevice/plugin.go", module + "/pkg/plugins/internal/state", ""},
		{"plugin imports device", "pkg/plugins/gpudevice/plugin.go", module + "/pkg/device", ""},
		{"plugin imports util", "pkg/plugins/gpudevice/plugin.go", "k8s.io/kubernetes/pkg/scheduler/util", ""},
		{"plugin imports what a profile runs", "pkg/plugins/nodecandidates/framework.go", "k8s.io/kubernetes/pkg/scheduler/apis/config", ""},
		{"plugin imports the scheduler's framework", "pkg/plugins/gpudevice/plugin.go", "k8s.io/kubernetes/pkg/scheduler/framework", "plugins"},
		{"plugin's test imports the scheduler's framework", "pkg/plugins/gpudevice/plugin_test.go", "k8s.io/kubernetes/pkg/scheduler/framework", ""},
		{"plugin imports the registry", "pkg/plugins/gpudevice/plugin.go", module + "/pkg/registry", "plugins"},
		{"plugin imports the simulator", "pkg/plugins/gpudevice/plugin.go", module + "/pkg/simulator/engine", "plugins"},

		{"registry imports plugin", "pkg/registry/registry.go", module + "/pkg/plugins/labelpresence", ""},
		{"registry imports the simulator", "pkg/registry/registry.go", module + "/pkg/simulator/engine", "berth-scheduler"},
		{"scheduler imports the simulator", "cmd/berth-scheduler/command.go", module + "/pkg/simulator/engine", "berth-scheduler"},
		{"scheduler imports the benchmark", "cmd/berth-scheduler/command.go", module + "/pkg/bench/run", "berth-scheduler"},
		{"scheduler imports the check of a cluster", "cmd/berth-scheduler/command.go", module + "/pkg/diagnose/check", "berth-scheduler"},
		{"settings import the check of a cluster", "pkg/scheduler/settings/profile.go", module + "/pkg/diagnose/check", "berth-scheduler"},
		{"scheduler imports explanations", "pkg/scheduler/pending/explainer.go", module + "/pkg/diagnose/explain", "berth-scheduler"},
		{"scheduler imports what nodes are short of", "pkg/scheduler/pending/nearest.go", module + "/pkg/diagnose/shortfall", ""},
		{"scheduler reads files of a cluster", "pkg/scheduler/settings/settings.go", module + "/pkg/cluster", "berth-scheduler"},
		{"scheduler imports the oracle", "pkg/registry/registry.go", module + "/pkg/oracle", "berth-scheduler"},
		{"scheduler imports the RBAC authorizer", "cmd/berth-scheduler/rights.go", "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac", "berth-scheduler"},
		{"scheduler imports the roles of an API server", "cmd/berth-scheduler/rights.go", "k8s.io/kubernetes/plugin/pkg/auth/authorizer/rbac/bootstrappolicy", "berth-scheduler"},
		{"benchmark imports the simulator", "pkg/bench/run/experiment.go", module + "/pkg/simulator/engine", "bench"},
		{"the report on devices imports a plugin", "pkg/cluster/deviceusage/compute.go", module + "/pkg/plugins/gpudevice", "cluster"},
		{"the schedulers of a cluster import explanations", "pkg/cluster/schedulers/schedulers.go", module + "/pkg/diagnose/explain", "cluster"},
		{"the objects of a cluster import the simulator", "pkg/cluster/read.go", module + "/pkg/simulator/engine", "cluster"},
		{"the objects of a cluster open a connection", "pkg/cluster/list.go", "k8s.io/client-go/rest", "cluster"},
		{"check simulates", "pkg/diagnose/check/pods.go", module + "/pkg/simulator/engine", "check"},
		{"check reads the cluster", "pkg/diagnose/check/cluster.go", module + "/pkg/cluster", ""},
		{"check builds a scheduler", "pkg/diagnose/check/profile.go", "k8s.io/kubernetes/pkg/scheduler", ""},
		{"simulator opens a connection", "pkg/simulator/engine/informer.go", "k8s.io/client-go/rest", "simulator"},
		{"simulator uses fake informers", "pkg/simulator/engine/informer.go", "k8s.io/client-go/kubernetes/fake", ""},

		{"random binder imports a plugin", "pkg/randombinder/binder.go", module + "/pkg/plugins/labelpresence", "random-binder"},
		{"random binder imports Kubernetes", "pkg/randombinder/binder.go", "k8s.io/kubernetes/pkg/scheduler", "kubernetes; random-binder"},
		{"its command imports Kubernetes", "cmd/random-scheduler/main.go", "k8s.io/kubernetes/pkg/scheduler", "random-binder"},
		{"random binder imports client-go", "pkg/randombinder/binder.go", "k8s.io/client-go/kubernetes", ""},

		{"builders import a plugin", "pkg/schedtest/pods.go", module + "/pkg/plugins/labelpresence", "schedtest"},
		{"code imports the builders", "pkg/registry/registry.go", module + "/pkg/schedtest", "shipped-code"},
		{"test imports the builders", "pkg/registry/registry_test.go", module + "/pkg/schedtest", ""},

		{"oracle imports something of ours", "pkg/oracle/check.go", module + "/pkg/apis/names", "oracle"},
		{"oracle imports the scheduler", "pkg/oracle/check.go", "k8s.io/kubernetes/pkg/scheduler", "kubernetes; oracle"},
		{"oracle's test imports the names", "pkg/oracle/oracle_test.go", module + "/pkg/apis/names", ""},
	}
	bitten := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := slices.Sorted(maps.Keys(refusals(rules, tt.file, tt.imported)))
			for _, name := range got {
				bitten[name] = true
			}
			if got := strings.Join(got, "; "); got != tt.want {
				t.Errorf("%s importing %s: refused by %q, want %q", tt.file, tt.imported, got, tt.want)
			}
		})
	}
	for name := range rules {
		if !bitten[name] {
			t.Errorf("rule %s: no case above shows that it refuses anything", name)
		}
	}
}

// TestImportRulesAreUnderstood keeps the rules within what both depguard and this
// file read alike.
func TestImportRulesAreUnderstood(t *testing.T) {
	for name, rule := range readImportRules(t) {
		if rule.ListMode != "lax" && rule.ListMode != "strict" {
			t.Errorf("rule %s: list-mode %q, want lax or strict", name, rule.ListMode)
		}
		for _, pattern := range rule.Files {
			pattern = strings.TrimPrefix(pattern, "!")
			if pattern != "$test" && !strings.HasPrefix(pattern, "${base-path}/") {
				t.Errorf("rule %s: files: %q: want $test, or a path below ${base-path}", name, pattern)
			}
		}
		var denied []string
		for _, deny := range rule.Deny {
			denied = append(denied, deny.Package)
		}
		for _, list := range [][]string{rule.Allow, denied} {
			slices.Sort(list)
			for i := 1; i < len(list); i++ {
				if strings.HasPrefix(list[i], list[i-1]) {
					t.Errorf("rule %s: %q contains %q; depguard looks at the nearest of a list alone", name, list[i-1], list[i])
				}
			}
		}
	}
}

func TestImports(t *testing.T) {
	rules := readImportRules(t)
	for _, p := range listPackages(t) {
		check := func(files, imports []string) {
			// go list gives the imports per package and kind of file; the rules tell
			// the kinds apart, and folders, but not the single files.
			if len(files) == 0 {
				return
			}
			file := path.Join(p.folder(), files[0])
			for _, imported := range imports {
				for name, reason := range refusals(rules, file, imported) {
					t.Errorf("%s must not import %s: %s (rule %s in .golangci.yaml)", p.folder(), imported, reason, name)
				}
			}
		}
		check(p.GoFiles, p.Imports)
		check(p.TestGoFiles, p.TestImports)
		check(p.XTestGoFiles, p.XTestImports)
	}
}

// TestEveryPluginHasItsRule finds a new plugin that the rules do not know.
func TestEveryPluginHasItsRule(t *testing.T) {
	rules := readImportRules(t)
	plugins, err := fs.Glob(os.DirFS(root(t)), "pkg/plugins/*")
	if err != nil {
		t.Fatal(err)
	}
	if len(plugins) == 0 {
		t.Fatal("pkg/plugins: nothing there")
	}
	for _, plugin := range plugins {
		other := module + "/pkg/plugins/another"
		if len(refusals(rules, plugin+"/plugin.go", other)) == 0 {
			t.Errorf("%s: no rule in .golangci.yaml keeps it from importing another plugin; add plugin-%s", plugin, path.Base(plugin))
		}
	}
}

// reach are packages that must not end up in a program or a package even through
// something in between, where a rule about imports sees nothing. A trailing $ makes a
// package exact.
var reach = []struct {
	folder    string
	forbidden []string
}{
	{"pkg/randombinder", []string{"k8s.io/kubernetes/"}},
	{"cmd/random-scheduler", []string{"k8s.io/kubernetes/"}},
	{"pkg/device", []string{"k8s.io/client-go/", "k8s.io/kube-scheduler/"}},
	{"pkg/oracle", []string{module + "/pkg/"}},
	{"pkg/apis/config", []string{"k8s.io/kubernetes/"}},
	{"pkg/apis/config/v1", []string{"k8s.io/kubernetes/"}},
	{"cmd/berth-scheduler", []string{
		module + "/cmd/", module + "/manifests", module + "/pkg/bench", module + "/pkg/cluster", module + "/pkg/diagnose/check", module + "/pkg/diagnose/explain",
		module + "/pkg/localcluster", module + "/pkg/oracle", module + "/pkg/randombinder", module + "/pkg/schedtest", module + "/pkg/simulator", module + "/test",
		"k8s.io/kubernetes/pkg/registry/", "k8s.io/kubernetes/pkg/scheduler/testing", "k8s.io/kubernetes/plugin/", "testing$",
	}},
	{"cmd/kubectl-berth", []string{module + "/cmd/", module + "/pkg/schedtest", module + "/test", "k8s.io/kubernetes/pkg/scheduler/testing", "testing$"}},
}

// reaches returns a dependency of the package that lies below forbidden, or is it.
func reaches(p listedPackage, forbidden string) (string, bool) {
	i := slices.IndexFunc(p.Deps, func(dep string) bool {
		if whole, exact := strings.CutSuffix(forbidden, "$"); exact {
			return dep == whole
		}
		return dep != p.ImportPath && strings.HasPrefix(dep, forbidden)
	})
	if i < 0 {
		return "", false
	}
	return p.Deps[i], true
}

func TestReach(t *testing.T) {
	packages := listPackages(t)
	slices.SortFunc(packages, func(a, b listedPackage) int { return cmp.Compare(a.ImportPath, b.ImportPath) })
	for _, tt := range reach {
		t.Run(tt.folder, func(t *testing.T) {
			i := slices.IndexFunc(packages, func(p listedPackage) bool { return p.folder() == tt.folder })
			if i < 0 {
				t.Fatal("no such package")
			}
			for _, forbidden := range tt.forbidden {
				if dep, ok := reaches(packages[i], forbidden); ok {
					t.Errorf("%s depends on %s; see with: go mod why -m, go list -deps", tt.folder, dep)
				}
			}
		})
	}
	t.Run("finds violations", func(t *testing.T) {
		for _, p := range packages {
			if p.folder() == "cmd/berth-scheduler" {
				if _, ok := reaches(p, module+"/pkg/plugins/"); !ok {
					t.Error("cmd/berth-scheduler reaches no plugin: the check sees nothing")
				}
				return
			}
		}
		t.Error("cmd/berth-scheduler: no such package")
	})
}
