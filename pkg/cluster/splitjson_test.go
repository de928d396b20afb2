// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const listText = `{
    "apiVersion": "v1",
    "items": [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n-\"}]\\", "uid": "1"}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default", "uid": "2", "annotations": {"a": "{[\"", "b": "é\u00e9\\"}},
            "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}], "priority": 3}
        },
        {"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "default", "uid": "3"}}
    ],
    "kind": "List",
    "metadata": {"resourceVersion": ""}
}
`

// TestListIsReadAlike: whatever becomes of a list by losing, changing or repeating bytes,
// the quick way says and reads what the slow way does.
func TestListIsReadAlike(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 5))
	quick := 0
	for i := range 6000 {
		text := []byte(listText)
		if i > 0 {
			at := random.IntN(len(text))
			switch random.IntN(4) {
			case 0:
				text = text[:at]
			case 1:
				text[at] = `{}[]",:\ 0a`[random.IntN(11)]
			case 2:
				end := min(len(text), at+random.IntN(60))
				text = append(text[:at:at], text[end:]...)
			default:
				end := min(len(text), at+random.IntN(60))
				text = append(text[:end:end], text[at:]...)
			}
		}
		if _, _, ok := splitList(text); ok {
			quick++
		}
		got, gotErr := readWith(text, (*source).readJSON)
		want, wantErr := readWith(text, (*source).readDocuments)
		if gotErr != wantErr {
			t.Fatalf("the error is %q, the slow way has %q, of\n%s", gotErr, wantErr, text)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); wantErr == "" && diff != "" {
			t.Fatalf("objects (-slow,+quick):\n%s\nof\n%s", diff, text)
		}
	}
	if quick < 300 {
		t.Errorf("%d lists were read the quick way", quick)
	}
}

func readWith(text []byte, read func(*source, []byte) error) ([]string, string) {
	s := &source{file: "f.json", reader: NewReader()}
	if err := read(s, text); err != nil {
		return nil, err.Error()
	}
	c, notes := s.reader.Cluster()
	var found []string
	for _, value := range []any{c.Nodes(), c.Pods(), c.Others(), notes} {
		content, err := json.Marshal(value)
		if err != nil {
			return nil, err.Error()
		}
		found = append(found, string(content))
	}
	return found, ""
}

// TestUsual: what is decoded in one step is what the decoder makes of it.
func TestUsual(t *testing.T) {
	pod := &corev1.Pod{TypeMeta: metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}, ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b", UID: types.UID("c")}}
	content, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	content = bytes.Replace(content, []byte(`"kind":"Pod","apiVersion":"v1"`), []byte(`"apiVersion":"v1","kind":"Pod"`), 1)
	want, gvk, err := fromServer.Decode(content, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, order := range []string{`"apiVersion":"v1","kind":"Pod"`, `"kind":"Pod","apiVersion":"v1"`} {
		got, kind := decodeUsual(bytes.Replace(content, []byte(`"apiVersion":"v1","kind":"Pod"`), []byte(order), 1))
		if diff := cmp.Diff(want, got); diff != "" || kind == nil || *kind != *gvk {
			t.Errorf("%v (-want,+got):\n%s", kind, diff)
		}
	}
	for what, text := range map[string]string{
		"another kind later":  strings.Replace(string(content), `"spec"`, `"kind":"Node","spec"`, 1),
		"no namespace":        strings.Replace(string(content), `"namespace":"a",`, "", 1),
		"a number for a text": strings.Replace(string(content), `"name":"b"`, `"name":1`, 1),
		"no version":          strings.Replace(string(content), `"apiVersion":"v1",`, "", 1),
		"another beginning":   strings.Replace(string(content), `{`, `{"status":{},`, 1),
	} {
		if got, _ := decodeUsual([]byte(text)); got != nil {
			t.Errorf("%s: %v", what, got)
		}
	}
}
