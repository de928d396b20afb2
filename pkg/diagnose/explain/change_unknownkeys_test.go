// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"os/exec"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// TestCommandsQuote: whoever pastes a command that writes an annotation writes the annotation,
// and runs nothing that stands in its value.
func TestCommandsQuote(t *testing.T) {
	const value = `x'; echo "$HOME"; 'y`
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Annotations: map[string]string{"berth.dev/colocate-prefer": value}}}
	s := &situation{in: &Input{}, pod: pod, pods: []*corev1.Pod{pod}}
	key := names.ColocateTopologyKeysAnnotation
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	changes := s.proposed(proposeKeys)
	if len(changes) != 1 {
		t.Fatalf("%d changes are proposed, want 1", len(changes))
	}
	of := value
	for _, tt := range []struct{ command, want string }{
		{changes[0].Command, "-n\ndefault\nannotate\npod\np\nberth.dev/colocate-prefer-\n" + key + "=" + value + "\n"},
		{setAnnotation(s, 1, key, value, "").Command, "-n\ndefault\nannotate\npod\np\n--overwrite\n" + key + "=" + value + "\n"},
		{labelling(1, node, "", []string{"a/b", "c"}, map[string]*string{"a/b": &of, "c": nil}).Command, "label\nnode\nn\n--overwrite\na/b=" + value + "\nc-\n"},
	} {
		out, err := exec.CommandContext(t.Context(), "sh", "-c", `kubectl() { printf '%s\n' "$@"; }; `+tt.command).Output()
		if err != nil || string(out) != tt.want {
			t.Errorf("a shell reads %s as\n%s(%v), want\n%s", tt.command, out, err, tt.want)
		}
	}
}
