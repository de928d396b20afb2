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
func TestConsentIsBounded(t *testing.T) {
	for _, tt := range []struct {
		name, list string
		want       bool
	}{
		{name: "as many as there may be", list: strings.Repeat("other,", MaxConsentEntries-1) + "bank", want: true},
		{name: "one more", list: "bank," + strings.Repeat("other,", MaxConsentEntries-1) + "other"},
		{name: "as long as it may be", list: "bank" + strings.Repeat(" ", MaxConsentBytes-len("bank")), want: true},
		{name: "a byte more", list: "bank" + strings.Repeat(" ", MaxConsentBytes+1-len("bank"))},
		{name: "everybody, and a byte too many", list: "*" + strings.Repeat(" ", MaxConsentBytes)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseConsent(tt.list); (err == nil) != tt.want {
				t.Errorf("parsed with error %v", err)
			}
			x := newShop()
			x.ApplyService(nil, changed(makeService("backend", nil), func(s *corev1.Service) {
				s.Annotations = map[string]string{names.AllowColocationFromAnnotation: tt.list}
			}))
			if _, got := x.Lookup("bank", "shop", "backend"); got != tt.want {
				t.Errorf("allowed: want %t, got %t", tt.want, got)
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
