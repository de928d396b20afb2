// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package peers

import (
	"fmt"
	"strings"

	utilvalidation "k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-scheduler/berth/pkg/apis/names"
)

// Bounds of names.AllowColocationFromAnnotation. Whoever may write a Service may
// write 256 KiB of it, and what is behind the Service is asked for by others.
const (
	MaxConsentBytes   = 8192
	MaxConsentEntries = 128
)

// Consent is which other namespaces' pods a Service lets near its own. The zero
// value is none. It does not change.
type Consent struct {
	everybody  bool
	namespaces map[string]struct{}
}

// ParseConsent reads names.AllowColocationFromAnnotation: namespaces with commas
// between, or * for all; spaces around them and empty entries are ignored. The
// error names what is wrong, in a text for the Service's author. A list that is too
// long consents to nobody; an entry that is no namespace's name, to nobody beside
// the others: a wildcard stands alone, it is no part of a name.
func ParseConsent(list string) (Consent, error) {
	const key = names.AllowColocationFromAnnotation
	if len(list) > MaxConsentBytes {
		return Consent{}, fmt.Errorf("annotation %s has %d bytes, and at most %d are accepted: it allows no namespace until it is shortened", key, len(list), MaxConsentBytes)
	}
	if n := strings.Count(list, ",") + 1; n > MaxConsentEntries {
		return Consent{}, fmt.Errorf("annotation %s names %d namespaces, and at most %d are accepted: it allows none of them; name fewer, or *", key, n, MaxConsentEntries)
	}
	var c Consent
	var wrong error
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case name == "*":
			c.everybody = true
		case len(utilvalidation.IsDNS1123Label(name)) > 0:
			if wrong == nil {
				wrong = fmt.Errorf("annotation %s: %.80q is no namespace: write names with commas between, or * for all", key, name)
			}
		default:
			if c.namespaces == nil {
				c.namespaces = map[string]struct{}{}
			}
			c.namespaces[name] = struct{}{}
		}
	}
	return c, wrong
}

// To reports whether it lets pods of the namespace near.
func (c Consent) To(namespace string) bool {
	_, named := c.namespaces[namespace]
	return named || c.everybody
}
