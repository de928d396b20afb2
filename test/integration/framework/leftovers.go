// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package framework

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Processes returns the command lines of all processes by their ids, with a zero
// byte after each argument.
func Processes(tb testing.TB) map[int]string {
	tb.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil || len(files) == 0 {
		tb.Fatalf("listing processes: found %d, error %v", len(files), err)
	}
	all := map[int]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			tb.Fatal(err)
		}
		all[pid] = string(content)
	}
	return all
}

// ProcessesOf returns the command lines of the processes that name a folder.
func ProcessesOf(tb testing.TB, dir string) []string {
	tb.Helper()
	var found []string
	for _, commandLine := range Processes(tb) {
		if strings.Contains(commandLine, dir) {
			found = append(found, strings.ReplaceAll(commandLine, "\x00", " "))
		}
	}
	return found
}

// CheckGone fails the test if a command left a file in its temporary folder, or a
// process that names the folder, as all do that it starts.
func CheckGone(tb testing.TB, temporary string) {
	tb.Helper()
	entries, err := os.ReadDir(temporary)
	if err != nil {
		tb.Fatal(err)
	}
	for _, entry := range entries {
		tb.Errorf("%s is left in the temporary folder", entry.Name())
	}
	for _, commandLine := range ProcessesOf(tb, temporary) {
		tb.Errorf("a process is left: %s", commandLine)
	}
}
