// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package gpuchaos

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/berth-scheduler/berth/pkg/apis/names"
	"github.com/berth-scheduler/berth/pkg/oracle"
	"github.com/berth-scheduler/berth/test/integration/framework"
	"github.com/berth-scheduler/berth/test/integration/gpuchurn"
)

// patch is code that goes in front of everything that a function does.
type patch struct{ receiver, function, code string }

// forgetful lets the allocation cache forget what it has assumed and not seen bound.
var forgetful = patch{
	receiver: "allocationCache", function: "allocationOn",
	code: "if h := c.get(uid); h != nil && h.phase != bound { return &podAllocation{pod: h.pod, node: node, phase: h.phase, allocation: noAllocation} }",
}

// buildBroken builds berth-scheduler from the current tree with one function of
// pkg/plugins/gpudevice changed, and returns the path of the binary. The tree is
// left alone: the compiler is given another file in the place of one.
func buildBroken(t *testing.T, p patch) string {
	t.Helper()
	folder := filepath.Join(framework.Root(), "pkg", "plugins", "gpudevice")
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replaced := map[string]string{}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, name, content, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			function, ok := declaration.(*ast.FuncDecl)
			if !ok || function.Name.Name != p.function || receiverOf(function) != p.receiver {
				continue
			}
			at := fset.Position(function.Body.Lbrace).Offset + 1
			changed := string(content[:at]) + "\n" + p.code + "\n" + string(content[at:])
			copied := filepath.Join(dir, filepath.Base(name))
			if err := os.WriteFile(copied, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			replaced[name] = copied
		}
	}
	if len(replaced) != 1 {
		t.Fatalf("%d functions (%s).%s in %s, want 1: adapt the patch to the plugin", len(replaced), p.receiver, p.function, folder)
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "make", "--silent", "build-binary", "BINARY="+framework.BerthScheduler, "BIN="+dir)
	build.Dir = framework.Root()
	build.Env = append(os.Environ(), "GOFLAGS=-overlay="+file)
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a broken scheduler: %v\n%s", err, output)
	}
	return filepath.Join(dir, framework.BerthScheduler)
}

// receiverOf returns the name of a method's type, "" for a function.
func receiverOf(function *ast.FuncDecl) string {
	if function.Recv == nil {
		return ""
	}
	expr := function.Recv.List[0].Type
	if star, ok := expr.(*ast.StarExpr); ok {
		expr = star.X
	}
	if ident, ok := expr.(*ast.Ident); ok {
		return ident.Name
	}
	return ""
}

// TestProtection runs the same pods through the scheduler as it is and through one
// whose allocation cache forgets what it assumed. The oracle must pass the first and fail
// the second, or it proves nothing.
func TestProtection(t *testing.T) {
	const nodes, devices, pods = 4, 4, 60
	tests := []struct {
		name   string
		binary func(*testing.T) string
		want   bool
	}{
		{"as shipped", func(t *testing.T) string { return framework.Binary(t, framework.BerthScheduler) }, false},
		{"with an allocation cache that forgets", func(t *testing.T) string { return buildBroken(t, forgetful) }, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			binary := tt.binary(t)
			c := startPool(t, nodes, devices)
			for i := range pods {
				c.CreatePod(t, gpuchurn.SharePod(fmt.Sprintf("pod-%d", i), "600"))
			}
			s := c.LaunchScheduler(t, binary, gpuProfile, framework.SchedulerOptions{
				Kubeconfig: c.ServiceAccountKubeconfig(t, names.Namespace, names.Scheduler),
			})
			s.WaitReady(t)
			r, _ := gpuchurn.WaitSettled(t, c, -1)
			over := r.Violations.Of(oracle.Overcommitted)
			t.Logf("%d bound, %d pending, %d devices allocated more than once", r.Bound, r.Pending, len(over))
			if failed := len(over) > 0; failed != tt.want {
				t.Errorf("the oracle found overcommitted devices: %t, want %t\n%s", failed, tt.want, over)
			}
			if rest := len(r.Violations) - len(over); rest > 0 {
				t.Error(r.Violations)
			}
		})
	}
}
