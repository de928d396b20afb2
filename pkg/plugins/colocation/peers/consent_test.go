// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// A list that is too long allows nobody, however it begins, and says so.
func TestLookupNeedsConsent(t *testing.T) {
	for _, tt := range []struct {
		name string
		// allow is the annotation; without lacks it.
		allow   string
		without bool
		want    bool
		wantErr bool
	}{
		{name: "no annotation", without: true},
		{name: "empty", allow: ""},
		{name: "named", allow: "bank", want: true},
		{name: "named among others, with spaces", allow: "x, bank ,y", want: true},
		{name: "another is named", allow: "banks,ban"},
		{name: "all", allow: "*", want: true},
		{name: "all among others", allow: "x,*", want: true},
		{name: "no pattern", allow: "b*,*k", wantErr: true},
		{name: "nobody's namespace", allow: ","},
		{name: "as many as there may be", allow: strings.Repeat("other,", MaxConsentEntries-1) + "bank", want: true},
		{name: "one more", allow: "bank," + strings.Repeat("other,", MaxConsentEntries-1) + "other", wantErr: true},
		{name: "as long as it may be", allow: "bank" + strings.Repeat(" ", MaxConsentBytes-len("bank")), want: true},
		{name: "a byte more", allow: "bank" + strings.Repeat(" ", MaxConsentBytes+1-len("bank")), wantErr: true},
		{name: "everybody, and a byte too many", allow: "*" + strings.Repeat(" ", MaxConsentBytes), wantErr: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseConsent(tt.allow); (err != nil) != tt.wantErr {
				t.Errorf("parsed with error %v", err)
			}
			x := newShop()
			if !tt.without {
				x.ApplyService(nil, changed(makeService("backend", nil), func(s *corev1.Service) {
					s.Annotations = map[string]string{names.AllowColocationFromAnnotation: tt.allow}
				}))
			}
			for requester, want := range map[string]bool{"bank": tt.want, "shop": true} {
				if view, got := x.Lookup(requester, "shop", "backend"); got != want || (view != nil) != want {
					t.Errorf("%s: want %t, got %t and %v", requester, want, got, view)
				}
			}
		})
	}
}

// A Service that changes otherwise is not read anew: its list may be long.
func TestConsentIsReadOncePerChange(t *testing.T) {
	x := newShop()
	allows := func(list, label string) {
		x.ApplyService(nil, changed(makeService("backend", nil), func(s *corev1.Service) {
			s.Annotations = map[string]string{names.AllowColocationFromAnnotation: list, "example.com/note": label}
		}))
	}
	consent := func() *Consent { return &x.namespaces["shop"].services["backend"].consent }
	allows("bank", "a")
	consent().everybody = true // would be gone if the list were read again
	allows("bank", "b")
	if !consent().everybody {
		t.Error("the same list was read again")
	}
	allows("bank,other", "b")
	if consent().everybody {
		t.Error("another list was not read")
	}
}
