// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package interleaving

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// mutant is a change of the product that takes a mend out again. It is made in an overlay that only
// its own build sees.
type mutant struct {
	// name is that of the defect in the reviews of 2026-11-22 (G) and 2026-11-23 (D), or says what is
	// taken out.
	name string
	// file is below pkg, and old what stands there, once, in the place of which new is put.
	file, old, new string
	// scenario is the one that finds it.
	scenario string
	// and is what is changed beside that, of the same mend; nil as a rule.
	and *mutant
}

const (
	ledger = "plugins/gpudevice/allocationcache.go"
	fence  = "plugins/gpudevice/fence.go"
	usage  = "plugins/gpudevice/nodeusage.go"
	view   = "plugins/gpudevice/nodeview.go"
	binds  = "plugins/gpudevice/binding.go"
	starts = "plugins/gpudevice/startupwait.go"
)

// mutants are G1 to G12 and D1 and D2, as far as they are of the ledger, and others. Not here are
// what no order of events decides, which other tests find: G3 and G4 (admission policies), G6 (how a
// request is read), G9 (memory that names of nodes take), G10 (a metric). Nor that assume refuses a pod that is gone:
// taken out alone it changes nothing here, since Bind asks the informer again; that the ledger forgets pods that
// are gone, which takes memory and no devices, since Reserve asks the informer too; that a change of the ledger raises
// the revision of its node, since Reserve counts anew what the snapshot does not show; that a Binding undone by a restore
// is noticed, since the scenario restarts the processes, as one has to after a restore.
//
// The first one is what make test has: it shows that the explorer and the oracle find anything at all.
var mutants = []mutant{
	{
		"the ledger forgets what it has assumed", ledger, "	if h := c.get(uid); h != nil && h.node == node {\n\t\treturn h\n\t}\n",
		"	if h := c.get(uid); h != nil && h.node == node {\n\t\tif h.phase != bound {\n\t\t\treturn &podAllocation{pod: h.pod, node: node, phase: h.phase, allocation: noAllocation}\n\t\t}\n\t\treturn h\n\t}\n",
		"given up", nil,
	},
	{"G1 a device plugin's pods do not count", usage, "v.usedOutsideShares = true", "v.usedOutsideShares = false", "sharing begins", nil},
	{"G1 shares do not keep a device plugin's pods away", usage, "v.sharesHeld = pl.holdsShares(v.object.Name, nodeInfo, without)", "v.sharesHeld = false", "sharing ends", nil},
	{"G2 devices by index where the container reads UUIDs", "device/allocation.go", "if a.uuids == nil || a.uuids[i] == nil {", "if true {", "UUIDs", nil},
	{"G5 a pod that was unreserved counts as unrecorded", ledger, "\t\treturn noAllocation\n", "\t\treturn nil\n", "given up", nil},
	{"G7 derived memory is frozen", "device/allocation.go", "\t\tnow.Shares[i] = a.share(i, n.MemoryMiB)\n", "", "less memory", nil},
	{"G8 no fence", fence, "	pods := c.toFence()\n", "	if true {\n\t\treturn false, nil\n\t}\n\tpods := c.toFence()\n", "handover", nil},
	{"G11 a 4xx is taken for no", binds, "	if err := pl.resolve(", "	if isClientError(err) {\n\t\treturn fwk.AsStatus(err)\n\t}\n\tif err := pl.resolve(", "lost answers", nil},
	{"G12 Reserve reads the snapshot alone", view, "	if len(notShown) == 0 {", "	if len(notShown) >= 0 {", "group", &mutant{file: "plugins/gpudevice/reserving.go", old: "\t\ts.chosen = &kept\n", new: "\t\t_ = kept\n"}},
	{"D1 Reserve chooses without nominated pods", "plugins/gpudevice/reserving.go", "beside = pl.besideNominatedPods(v, nodeInfo, pod)", "beside = v", "nominated", nil},
	{"D2 a later process's token is not heeded", fence, "if newer, _ := c.isSuccessor(pod); newer {", "if newer, _ := c.isSuccessor(pod); newer && false {", "overlap", nil},

	{"a Binding is sent again to whom another process has fenced", binds, "if err := pl.allocations.heedToken(current); err != nil {", "if err := pl.allocations.heedToken(current); err != nil && false {", "overlap", nil},
	{"a Binding is for any version", binds, "ResourceVersion: version.ResourceVersion,", "ResourceVersion: version.ResourceVersion[:0],", "handover", nil},
	{"a Binding in doubt is given up without a fence", binds, "case expired && u.unknown:", "case expired && u.unknown && false:", "lost answers", nil},
	{"a standby trusts its informer", starts, "	logger := klog.FromContext(ctx)\n	for {\n", "	logger := klog.FromContext(ctx)\n	for {\n\t\tif true {\n\t\t\treturn true, nil\n\t\t}\n", "stale standby", nil},
	{"the start prepares nothing", starts, "	err := c.waitForSyncAndFence(ctx)\n", "	var err error\n", "handover", nil},
	{"the first cycle trusts its snapshot", starts, "	shown := map[string]map[types.UID]struct{}{}\n", "	shown := map[string]map[types.UID]struct{}{}\n\tif true {\n\t\treturn nil\n\t}\n", "slow handlers", nil},
	{"pods that are kept back take nothing", usage, "		v.usage.TakeAnywhere(kept)\n", "", "not fenced", nil},
	{"a lost answer is taken for no", binds, "unknown: !isClientError(cause),", "unknown: isClientError(cause) && false,", "lost answers", nil},
	{"a pod without a record uses nothing", usage, "		v.unrecorded = true\n\t\treturn\n", "		return\n", "foreign", nil},
	{"pods that have become known meanwhile are not fenced", starts, "	if fresh {\n\t\t// What", "	if fresh && false {\n\t\t// What", "stale standby", nil},
	{"Unreserve takes nothing back", ledger, "h != nil && h.phase == assumed {\n		c.removeLocked(h)", "h != nil && h.phase == bound {\n		c.removeLocked(h)", "denied", nil},
}

// foundLine is what TestOrders prints of a violation.
var foundLine = regexp.MustCompile(`found: (.*)`)

// TestMutants takes one mend after the other out of the product, and requires that one
// scenario finds it: in a minute of depth-first orders, or in a minute of random ones. It prints what each of the two has found.
//
// It builds the test for each of them, so without BERTH_LONG=1 it is the first alone. With MUTANT=regexp it is those
// of such names.
func TestMutants(t *testing.T) {
	only, tried := regexp.MustCompile(os.Getenv("MUTANT")), mutants
	if os.Getenv("BERTH_LONG") != "1" {
		tried = mutants[:1]
	}
	for _, m := range tried {
		if !only.MatchString(m.name) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			binary := m.build(t)
			inOrder, output := m.find(t, binary, "orders", time.Minute)
			t.Logf("orders: %s", cmp.Or(inOrder, "not found"))
			atRandom := ""
			if inOrder == "" || len(tried) > 1 {
				atRandom, output = m.find(t, binary, "random", 4*time.Minute) // a quarter is for random orders
				t.Logf("at random: %s", cmp.Or(atRandom, "not found"))
			}
			if inOrder == "" && atRandom == "" {
				t.Errorf("not found by %q:\n%s", m.scenario, output)
			}
		})
	}
}

// find returns after what the scenario finds the mutant in that way, "" if it does not, and what it printed.
func (m *mutant) find(t *testing.T, binary, way string, budget time.Duration) (found, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, "-test.v", "-test.run", "^TestOrders$/^"+strings.ReplaceAll(m.scenario, " ", "_")+"$")
	command.Env = append(os.Environ(), "INTERLEAVING_WAY="+way, "INTERLEAVING_BUDGET="+budget.String())
	printed, err := command.CombinedOutput()
	if match := foundLine.FindSubmatch(printed); err != nil && match != nil {
		found = string(match[1])
	}
	return found, string(printed)
}

// build returns a binary of these tests with the mutant in it.
func (m *mutant) build(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for part := m; part != nil; part = part.and {
		path, err := filepath.Abs(filepath.Join("..", "..", "pkg", part.file))
		if err != nil {
			t.Fatal(err)
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(source, []byte(part.old)); n != 1 {
			t.Fatalf("%s has %d times what is to be changed, want 1: mend the table of mutants: %q", part.file, n, part.old)
		}
		replace[path] = filepath.Join(dir, filepath.Base(path))
		write(t, replace[path], bytes.Replace(source, []byte(part.old), []byte(part.new), 1))
	}
	overlay, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutant.test")
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	write(t, overlay, data)
	if output, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("building: %v\n%s", err, output)
	}
	return binary
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// foundAfter returns after what a violation was found.
func (r *result) foundAfter() string {
	first, _, _ := strings.Cut(r.wrong, "\n")
	return fmt.Sprintf("found: after %d orders, %d states, %v, in %d steps: %s", r.runs, r.states, r.took.Round(time.Millisecond), len(r.order), first)
}
