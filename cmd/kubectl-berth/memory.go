// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	// garbageBudget is how much memory garbage may take beside what is in use
	// before it is collected, in bytes, where maxGCPercent of that is not less.
	garbageBudget = 256 << 20
	// minGCPercent is Go's own default: garbage may take as much as what is in use.
	minGCPercent = 100
	maxGCPercent = 400
)

// relaxGC lets garbage lie for longer. A simulation makes much of it, and keeps
// little; collecting it takes an eighth of the time at Go's default. It is called
// when the input was read, which is most of what is kept, and leaves large inputs
// alone. The environment variable GOGC has precedence.
func relaxGC() {
	if os.Getenv("GOGC") != "" {
		return
	}
	runtime.GC() // what reading left behind does not count
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	debug.SetGCPercent(gcPercent(stats.HeapAlloc))
}

// gcPercent returns how much garbage may lie, in percent of what is in use, which
// is given in bytes.
func gcPercent(inUse uint64) int {
	percent := garbageBudget * 100 / max(1, inUse)
	return int(min(max(percent, minGCPercent), maxGCPercent)) //nolint:gosec // at most maxGCPercent
}
