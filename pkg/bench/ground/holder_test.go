// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package ground

import (
	"os/exec"
	"testing"
)

func TestHolder(t *testing.T) {
	this := thisHolder()
	if this.place == "" {
		t.Skip("this system does not tell in which namespace a process runs")
	}
	if got := parseHolder(this.String()); got != this {
		t.Errorf("parseHolder(%q) = %+v, want %+v", this.String(), got, this)
	}
	if this.gone() {
		t.Error("this process is said to have ended")
	}
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	ended := this
	ended.pid = child.Process.Pid
	if !parseHolder(ended.String()).gone() {
		t.Errorf("%s is not said to have ended", ended)
	}
	// The same number elsewhere says nothing.
	elsewhere := ended
	elsewhere.place = "another-boot/pid:[1]"
	for _, text := range []string{elsewhere.String(), holder{host: "h", pid: ended.pid}.String(), "", "a b c", "h -1 " + this.place, "h 0 " + this.place} {
		if parseHolder(text).gone() {
			t.Errorf("%q is said to have ended, which nobody can know", text)
		}
	}
}
