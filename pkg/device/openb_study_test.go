// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package device_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/device"
	"github.com/berth-scheduler/berth/pkg/simulator/baselines"
)

// TestOpenbStudy prints the tables of the plugin's DESIGN.md: how the strategy
// does on each list, what each of its parts is for, and how its constants were
// chosen. It takes half an hour, so it runs only when it is asked for:
//
//	BERTH_OPENB_STUDY=results,ablation,switch,leftover,constants,sizes go test ./pkg/device -run TestOpenbStudy -v -timeout 3h
func TestOpenbStudy(t *testing.T) {
	const variable = "BERTH_OPENB_STUDY"
	studies := map[string]func(*testing.T){"results": studyResults, "ablation": studyAblation, "switch": studySwitch, "leftover": studyLeftover, "constants": studyConstants, "sizes": studySizes}
	if os.Getenv(variable) == "" {
		t.Skip(variable + " names no study")
	}
	for name := range strings.SplitSeq(os.Getenv(variable), ",") {
		study, ok := studies[name]
		if !ok {
			t.Fatalf("%s names the unknown study %q", variable, name)
		}
		t.Run(name, study)
	}
}

// openbLists are the lists that lie beside the repository, and what the paper's
// simulator has published for its own policy.
var openbLists = []struct {
	name      string
	published float64
}{
	{"default", 95.23},
	{"gpushare40", 93.96},
	{"gpushare80", 89.08},
	{"gpushare100", 86.64},
	{"gpuspec10", 94.66},
	{"gpuspec33", 87.84},
	{"multigpu20", 95.53},
	{"multigpu30", 96.36},
	{"multigpu50", 97.09},
	{"cpu050", 95.00},
	{"cpu100", 95.21},
	{"cpu250", 93.20},
}

// Seeds of the paper, and others to choose constants with.
var (
	paperSeeds  = []int64{42, 43, 44, 45, 46, 47, 48, 49, 50, 51}
	choiceSeeds = []int64{1042, 1043}
)

// replayAll replays with each seed. The allocation is the mean, the failures are
// sums.
func (tr *openb) replayAll(variant openbVariant, seeds []int64, until float64) openbResult {
	var sum openbResult
	for _, seed := range seeds {
		r := tr.replay(variant, seed, until)
		sum.allocated += r.allocated / float64(len(seeds))
		for i := range r.failed {
			sum.failed[i] += r.failed[i]
			sum.failedAt100[i] += r.failedAt100[i]
		}
	}
	return sum
}

// mean writes failures as a mean over so many runs: all, of them without devices,
// of them constrained.
func (f openbFailures) mean(runs int) string {
	n := float64(runs)
	return fmt.Sprintf("%.0f / %.0f / %.0f", float64(f[0])/n, float64(f[1])/n, float64(f[2])/n)
}

// studyResults compares the strategy with the published one, and knowledge with
// learning.
func studyResults(t *testing.T) {
	variants := []openbVariant{
		{strategy: baselines.Published{}},
		{strategy: device.FragmentationGradient{}},
		{strategy: device.FragmentationGradient{}, learned: true},
	}
	fmt.Println("| list | published | FGD here | known | learned | failed at 100 %, FGD | known | learned | failed at 130 %, FGD | known | learned |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	for _, list := range openbLists {
		tr := loadOpenb(t, "openb_pod_list_"+list.name+".csv")
		var row, at100, at130 strings.Builder
		fmt.Fprintf(&row, "| %s | %.2f |", list.name, list.published)
		for _, variant := range variants {
			r := tr.replayAll(variant, paperSeeds, 130)
			fmt.Fprintf(&row, " %.2f |", r.allocated)
			fmt.Fprintf(&at100, " %s |", r.failedAt100.mean(len(paperSeeds)))
			fmt.Fprintf(&at130, " %s |", r.failed.mean(len(paperSeeds)))
		}
		fmt.Println(row.String() + at100.String() + at130.String())
	}
}

// studyAblation leaves out one part at a time.
func studyAblation(t *testing.T) {
	without := func(change func(*device.Tuning)) openbVariant {
		constants := device.Constants()
		change(&constants)
		return openbVariant{strategy: device.FragmentationGradient{}, tuning: &constants}
	}
	rows := []struct {
		name    string
		variant openbVariant
	}{
		{"best-fit", openbVariant{strategy: device.BestFit{}}},
		{"FGD as published", openbVariant{strategy: baselines.Published{}}},
		{"all", without(func(*device.Tuning) {})},
		{"gaps are alike (packing 0)", without(func(c *device.Tuning) { c.Packing = 0 })},
		{"CPU is trusted for all (trust 1000)", without(func(c *device.Tuning) { c.TrustNum, c.TrustDen = 1000, 1 })},
		{"no price of scarce models (scarcity 0)", without(func(c *device.Tuning) { c.Scarcity = 0 })},
		{"classes count alike whatever they accept", without(func(c *device.Tuning) { c.BySupply = false })},
		{"neither of the two", without(func(c *device.Tuning) { c.Scarcity, c.BySupply = 0, false })},
		{"no best-fit (leftover 0)", without(func(c *device.Tuning) { c.Leftover = 0 })},
	}
	lists := []string{"default", "gpushare100", "gpuspec10", "gpuspec33", "multigpu20", "multigpu50", "cpu250"}
	fmt.Println("| | " + strings.Join(lists, " | ") + " |")
	fmt.Println("|---|" + strings.Repeat("---|", len(lists)))
	table := make([]string, len(rows))
	for _, list := range lists {
		tr := loadOpenb(t, "openb_pod_list_"+list+".csv")
		for i, row := range rows {
			table[i] += fmt.Sprintf(" %.2f |", tr.replayAll(row.variant, paperSeeds, 100.5).allocated)
		}
	}
	for i, row := range rows {
		fmt.Println("| " + row.name + " |" + table[i])
	}
}

// studySizes compares strategies on pods of all sizes.
func studySizes(t *testing.T) {
	fmt.Println("| | GPUs allocated, % | pods placed, of 602 | with several GPUs not placed, of 32 |")
	fmt.Println("|---|---|---|---|")
	tr := loadSizes(t)
	for _, row := range []struct {
		name    string
		variant openbVariant
	}{
		{"chance", openbVariant{strategy: baselines.Random{}}},
		{"best-fit", openbVariant{strategy: device.BestFit{}}},
		{"FGD as published, known", openbVariant{strategy: baselines.Published{}}},
		{"known", openbVariant{strategy: device.FragmentationGradient{}}},
		{"learned", openbVariant{strategy: device.FragmentationGradient{}, learned: true}},
	} {
		r := tr.replayAll(row.variant, paperSeeds, 200)
		runs := float64(len(paperSeeds))
		fmt.Printf("| %s | %.2f | %.1f | %.1f |\n", row.name, r.allocated, float64(len(tr.Pods))-float64(r.failed[0])/runs, float64(r.failed[3])/runs)
	}
}

// studySwitch changes the list when half of the cluster is asked for.
func studySwitch(t *testing.T) {
	fmt.Println("| from | to | FGD, known | known | learned |")
	fmt.Println("|---|---|---|---|---|")
	for _, lists := range [][2]string{{"default", "gpuspec33"}, {"gpuspec33", "default"}, {"default", "gpushare100"}, {"default", "multigpu50"}, {"gpushare100", "multigpu50"}, {"multigpu50", "cpu250"}} {
		from, to := loadOpenb(t, "openb_pod_list_"+lists[0]+".csv"), loadOpenb(t, "openb_pod_list_"+lists[1]+".csv")
		var row strings.Builder
		fmt.Fprintf(&row, "| %s | %s |", lists[0], lists[1])
		for _, variant := range []openbVariant{
			{strategy: baselines.Published{}, then: to},
			{strategy: device.FragmentationGradient{}, then: to},
			{strategy: device.FragmentationGradient{}, learned: true, then: to},
		} {
			fmt.Fprintf(&row, " %.2f |", from.replayAll(variant, paperSeeds, 100.5).allocated)
		}
		fmt.Println(row.String())
	}
}

// studyLeftover varies the constant that matters where the pods change.
func studyLeftover(t *testing.T) {
	names := [][2]string{{"default"}, {"gpushare100"}, {"gpuspec33"}, {"cpu250"}, {"default", "multigpu50"}, {"default", "gpuspec33"}}
	leftovers := []int64{0, 1, 2, 3, 6}
	table := make([]string, len(leftovers))
	headers := []string{"leftover"}
	for _, name := range names {
		tr := loadOpenb(t, "openb_pod_list_"+name[0]+".csv")
		var then *openb
		header := name[0]
		if name[1] != "" {
			then = loadOpenb(t, "openb_pod_list_"+name[1]+".csv")
			header += " to " + name[1]
		}
		headers = append(headers, header)
		for i, leftover := range leftovers {
			c := device.Constants()
			c.Leftover = device.ValueUnit * leftover / 50
			r := tr.replayAll(openbVariant{strategy: device.FragmentationGradient{}, tuning: &c, then: then}, choiceSeeds, 100.5)
			table[i] += fmt.Sprintf(" %.2f |", r.allocated)
		}
	}
	fmt.Println("| " + strings.Join(headers, " | ") + " |")
	fmt.Println("|---|" + strings.Repeat("---|", len(names)))
	for i, leftover := range leftovers {
		fmt.Printf("| %d/50 |%s\n", leftover, table[i])
	}
}

// studyConstants chooses the other constants by all lists but one, and tells how
// they do on that one.
func studyConstants(t *testing.T) {
	type choice struct {
		name   string
		tuning device.Tuning
	}
	var choices []choice
	for _, packing := range []int64{3, 10, 30} {
		for _, trust := range [][2]int64{{3, 2}, {5, 3}, {2, 1}} {
			for _, scarcity := range []int64{1, 2, 4} {
				c := device.Constants()
				c.Packing, c.TrustNum, c.TrustDen, c.Scarcity = packing, trust[0], trust[1], device.ValueUnit*scarcity/2
				choices = append(choices, choice{fmt.Sprintf("packing %d, trust %d/%d, scarcity %d/2", packing, trust[0], trust[1], scarcity), c})
			}
		}
	}
	gains := make([][]float64, len(choices)) // by choice and list
	for _, list := range openbLists {
		tr := loadOpenb(t, "openb_pod_list_"+list.name+".csv")
		for i := range choices {
			variant := openbVariant{strategy: device.FragmentationGradient{}, tuning: &choices[i].tuning}
			gains[i] = append(gains[i], tr.replayAll(variant, choiceSeeds, 100.5).allocated-list.published)
		}
	}
	best := func(without int) (index int) {
		bestSum := 0.0
		for i := range choices {
			sum := 0.0
			for list, gain := range gains[i] {
				if list != without {
					sum += gain
				}
			}
			if i == 0 || sum > bestSum {
				index, bestSum = i, sum
			}
		}
		return index
	}
	fmt.Println("| left out | what the others choose | the left-out list then | with what all choose |")
	fmt.Println("|---|---|---|---|")
	all := best(-1)
	for list := range openbLists {
		chosen := best(list)
		fmt.Printf("| %s | %s | %.2f | %.2f |\n", openbLists[list].name, choices[chosen].name,
			openbLists[list].published+gains[chosen][list], openbLists[list].published+gains[all][list])
	}
	fmt.Printf("all choose: %s\n", choices[all].name)
}
