// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package colocation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/apis/config/validation"
	"github.com/berth-scheduler/berth/pkg/messages"
)

func TestTermOf(t *testing.T) {
	byDefault := []string{hostname, zone}
	tests := []struct {
		name        string
		annotations []string
		want        term
		wantNone    bool
	}{
		{name: "no annotation", wantNone: true},
		{name: "one of somebody else", annotations: []string{"example.com/colocate-with", "x"}, wantNone: true},
		{
			name: "one Service", annotations: []string{with, "backend"},
			want: term{rule: byAnnotations, services: []serviceRef{{name: "backend", weight: 1}}, topologyKeys: byDefault, weight: 1},
		},
		{
			name: "weights, namespaces and spaces", annotations: []string{with, " backend = 3 , other/db=100,cache=1 "},
			want: term{
				rule: byAnnotations, topologyKeys: byDefault, weight: 1,
				services: []serviceRef{{name: "backend", weight: 3}, {namespace: "other", name: "db", weight: 100}, {name: "cache", weight: 1}},
			},
		},
		{
			name: "levels", annotations: []string{with, "a", prefer, "example.com/rack, " + zone, require, " topology.kubernetes.io/region "},
			want: term{
				rule: byAnnotations, services: []serviceRef{{name: "a", weight: 1}}, weight: 1,
				topologyKeys: []string{"example.com/rack", zone}, requiredTopologyKey: "topology.kubernetes.io/region",
			},
		},
		{
			name: "the same name in two namespaces", annotations: []string{with, "a,other/a"},
			want: term{rule: byAnnotations, services: []serviceRef{{name: "a", weight: 1}, {namespace: "other", name: "a", weight: 1}}, topologyKeys: byDefault, weight: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, asks, err := termOf(asking(tt.annotations...), byDefault)
			if err != nil {
				t.Fatal(err)
			}
			if asks == tt.wantNone {
				t.Fatalf("asks for something: %t", asks)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(term{}, serviceRef{})); diff != "" {
				t.Errorf("term (-want,+got):\n%s", diff)
			}
		})
	}
}

func TestMalformedAnnotations(t *testing.T) {
	long := strings.Repeat("x", 500)
	tests := []struct {
		name        string
		annotations []string
		// want are parts of the text: the annotation, and the way out.
		want []string
	}{
		{name: "empty list", annotations: []string{with, " "}, want: []string{with, "names no Service", "remove it"}},
		{name: "empty item", annotations: []string{with, "a,,b"}, want: []string{with, `"" names no Service`}},
		{name: "a name that no Service can have", annotations: []string{with, "Back_end"}, want: []string{with, `"Back_end" names no Service`, "DNS label"}},
		{name: "too many slashes", annotations: []string{with, "a/b/c"}, want: []string{`"a/b/c" names no Service`}},
		{name: "no namespace", annotations: []string{with, "/b"}, want: []string{`"/b" names no Service`}},
		{name: "a name that is too long", annotations: []string{with, long}, want: []string{"names no Service", "xxx\"..."}},
		{name: "weight 0", annotations: []string{with, "a=0"}, want: []string{with, `the weight in "a=0"`, "from 1 to 100"}},
		{name: "weight 101", annotations: []string{with, "a=101"}, want: []string{`the weight in "a=101"`}},
		{name: "weight that is no number", annotations: []string{with, "a=high"}, want: []string{`the weight in "a=high"`}},
		{name: "fraction", annotations: []string{with, "a=1.5"}, want: []string{`the weight in "a=1.5"`}},
		{name: "empty weight", annotations: []string{with, "a="}, want: []string{`the weight in "a="`}},
		{name: "a sign", annotations: []string{with, "a=+3"}, want: []string{`the weight in "a=+3"`}},
		{name: "a zero before it", annotations: []string{with, "a=03"}, want: []string{`the weight in "a=03"`}},
		{name: "two weights", annotations: []string{with, "a=1=2"}, want: []string{`the weight in "a=1=2"`}},
		{name: "semicolons", annotations: []string{with, "a;b"}, want: []string{`"a;b" names no Service`, "commas"}},
		{name: "twice", annotations: []string{with, "a,a=3"}, want: []string{with, `names Service "a=3" twice`, "add up"}},
		{name: "too many Services", annotations: []string{with, strings.Repeat("a,", 32) + "b"}, want: []string{with, "33 Services", "32"}},
		{name: "levels without a Service", annotations: []string{prefer, zone}, want: []string{prefer, with, "missing"}},
		{name: "a requirement without a Service", annotations: []string{require, zone}, want: []string{require, with, "missing"}},
		{name: "no level", annotations: []string{with, "a", prefer, ""}, want: []string{prefer, `"" is not a topology key`}},
		{name: "a level that no label can have", annotations: []string{with, "a", prefer, "a b"}, want: []string{prefer, `"a b" is not a topology key`}},
		{name: "a level twice", annotations: []string{with, "a", prefer, zone + "," + zone}, want: []string{prefer, "twice"}},
		{name: "too many levels", annotations: []string{with, "a", prefer, "a,b,c,d,e,f,g,h,i"}, want: []string{prefer, "9 topology keys", "8"}},
		{name: "a list as requirement", annotations: []string{with, "a", require, zone + "," + hostname}, want: []string{require, "is not a topology key"}},
		{name: "empty requirement", annotations: []string{with, "a", require, ""}, want: []string{require, `"" is not a topology key`}},
		{name: "a list of Services that is too long to be read", annotations: []string{with, "a" + strings.Repeat(" ", maxBytes)}, want: []string{with, "8193 bytes", "8192"}},
		{name: "levels that are too long to be read", annotations: []string{with, "a", prefer, strings.Repeat("a", 200_000)}, want: []string{prefer, "200000 bytes", "8192"}},
		{name: "a requirement that is too long to be read", annotations: []string{with, "a", require, strings.Repeat("a", 200_000)}, want: []string{require, "200000 bytes", "8192"}},
		{
			name: "several at once", annotations: []string{with, "A=0,B=0,C=0", require, ""},
			want: []string{`"A=0" names no Service`, `"" is not a topology key`, "and 3 more"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, wanted, err := termOf(asking(tt.annotations...), []string{zone})
			if !wanted || err == nil {
				t.Fatalf("want an error, got %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("want %q in %q", want, err)
				}
			}
			if len(err.Error()) > 900 {
				t.Errorf("the text has %d bytes, too long for an event", len(err.Error()))
			}
		})
	}
}

// The longest annotations that say something valid are not too long.
func TestLongestAnnotations(t *testing.T) {
	var services, levels []string
	for i := range validation.MaxServices {
		services = append(services, fmt.Sprintf("%s/%s%02d=100", strings.Repeat("n", 63), strings.Repeat("s", 61), i))
	}
	for i := range validation.MaxTopologyKeys {
		levels = append(levels, fmt.Sprintf("%s%d/%s", strings.Repeat("p", 252), i, strings.Repeat("k", 63)))
	}
	w, _, err := termOf(asking(with, strings.Join(services, " , "), prefer, strings.Join(levels, " , "), require, levels[0]), []string{zone})
	if err != nil || len(w.services) != validation.MaxServices || len(w.topologyKeys) != validation.MaxTopologyKeys || w.requiredTopologyKey != levels[0] {
		t.Errorf("got %d Services, %d levels, %v", len(w.services), len(w.topologyKeys), err)
	}
}

// Whatever an annotation holds, it is understood or refused, and what is refused
// has a text that a scheduler can use as a format string.
func FuzzTermOf(f *testing.F) {
	f.Add("backend=3,cache", hostname+","+zone, zone)
	f.Add("a/b/c=%d", "%", "é")
	f.Add(strings.Repeat("é", 60), "", "")
	f.Fuzz(func(t *testing.T, services, levels, within string) {
		w, wanted, err := termOf(asking(with, services, prefer, levels, require, within), []string{zone})
		if !wanted {
			t.Fatal("the annotations were not seen")
		}
		if err != nil {
			if text := messages.Escape(err.Error()); strings.Contains(text, "%") || len(text) > 2000 {
				t.Errorf("unusable text %q", text)
			}
			return
		}
		if len(w.services) == 0 || len(w.topologyKeys) == 0 || w.requiredTopologyKey == "" {
			t.Errorf("nothing was understood, and nothing refused: %+v", w)
		}
		for _, s := range w.services {
			if s.weight < validation.MinColocationWeight || s.weight > validation.MaxColocationWeight || s.name == "" {
				t.Errorf("impossible Service %+v", s)
			}
		}
	})
}
