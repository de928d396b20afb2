// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto/x509"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	certutil "k8s.io/client-go/util/cert"
)

func newFolder(t *testing.T) *folder {
	t.Helper()
	f, err := openFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func parseCert(t *testing.T, pem []byte) *x509.Certificate {
	t.Helper()
	certs, err := certutil.ParseCertsPEM(pem)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0]
}

func TestPKISurvivesRestart(t *testing.T) {
	f := newFolder(t)
	now := time.Now()
	first, err := ensurePKI(f, now)
	if err != nil {
		t.Fatal(err)
	}
	signingKey, err := os.ReadFile(f.pki(saKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	// Half a year later: everything that was handed out has to stay valid.
	second, err := ensurePKI(f, now.Add(leafLifetime/2))
	if err != nil {
		t.Fatal(err)
	}
	if !first.cert.Equal(second.cert) {
		t.Error("the certificate authority changed")
	}
	again, err := os.ReadFile(f.pki(saKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(signingKey), string(again)); diff != "" {
		t.Error("the service account signing key changed")
	}
	serving, err := os.ReadFile(f.pki(servingCert))
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, serving)
	roots := x509.NewCertPool()
	roots.AddCert(first.cert)
	if _, err := cert.Verify(x509.VerifyOptions{
		DNSName: "127.0.0.1", Roots: roots, CurrentTime: now.Add(leafLifetime),
		KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}); err != nil {
		t.Errorf("the serving certificate of the second run, a year after the first: %v", err)
	}
	info, err := os.Stat(f.pki(caKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	if got := info.Mode().Perm(); got != 0o600 {
		t.Errorf("mode of the authority's key: want 0600, got %o", got)
	}
}

func TestPKIExpires(t *testing.T) {
	f := newFolder(t)
	now := time.Now()
	ca, err := ensurePKI(f, now)
	if err != nil {
		t.Fatal(err)
	}
	almost := ca.cert.NotAfter.Add(-time.Hour)
	pem, _, err := ca.issueClient(almost, "jane", nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := parseCert(t, pem).NotAfter; got.After(ca.cert.NotAfter) {
		t.Errorf("a certificate outlives its authority: %v, %v", got, ca.cert.NotAfter)
	}
	_, err = ensurePKI(f, ca.cert.NotAfter.Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "start with a new folder") {
		t.Errorf("want an error that names the way out, got %v", err)
	}
}

func TestClientCertificate(t *testing.T) {
	ca, err := ensurePKI(newFolder(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pem, _, err := ca.issueClient(time.Now(), "jane", []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	cert := parseCert(t, pem)
	if cert.Subject.CommonName != "jane" {
		t.Errorf("user: want jane, got %s", cert.Subject.CommonName)
	}
	if diff := cmp.Diff([]string{"a", "b"}, cert.Subject.Organization); diff != "" {
		t.Errorf("groups (-want,+got):\n%s", diff)
	}
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	if _, err := cert.Verify(x509.VerifyOptions{Roots: roots, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}); err == nil {
		t.Error("a client certificate must not serve for a server")
	}
}
