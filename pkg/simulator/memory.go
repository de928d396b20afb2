// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"os"
	"runtime"
	"runtime/debug"
)

// garbageBudget is how much memory garbage may take beside what is in use before
// it is collected, in bytes, where that is from 1 to 4 times what is in use.
const garbageBudget = 256 << 20

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
	return int(min(max(garbageBudget*100/max(1, inUse), 100), 400)) //nolint:gosec // at most 400
}
