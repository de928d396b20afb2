// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/pem"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// certificateAuthorities returns the certificate authorities that Mozilla trusts, as
// go.mod pins them, in PEM. They matter where a kubeconfig or an extender names a server
// with a public certificate; that of a cluster's API server comes with the pod's
// ServiceAccount. Those trusted for older certificates alone are left out: PEM cannot
// say so.
func certificateAuthorities() ([]byte, error) {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}
