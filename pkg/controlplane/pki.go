// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

const (
	caCertFile = "ca.crt"
	caKeyFile  = "ca.key"
	// Whoever holds the key to this one may speak for any user. There is no
	// aggregated API server here, so nobody does; but clients look for the
	// certificate, and complain when there is none.
	frontProxyCertFile = "front-proxy-ca.crt"
	// The signing key lives as long as the folder: a new one would invalidate
	// every token that was handed out.
	saKeyFile     = "service-account.key"
	servingCert   = "kube-apiserver.crt"
	servingKey    = "kube-apiserver.key"
	leafLifetime  = 365 * 24 * time.Hour
	serialNumBits = 127
)

// authority is the folder's certificate authority.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// ensurePKI makes what the folder lacks and issues the serving certificate anew,
// which therefore never expires in a folder that is restarted once a year.
func ensurePKI(f *folder, now time.Time) (*authority, error) {
	ca, err := loadAuthority(f, now)
	if errors.Is(err, fs.ErrNotExist) {
		ca, err = createAuthority(f)
	}
	if err != nil {
		return nil, err
	}
	if err := ensureFrontProxyCert(f); err != nil {
		return nil, err
	}
	if _, err := os.Stat(f.pki(saKeyFile)); errors.Is(err, fs.ErrNotExist) {
		pem, err := keyutil.MakeEllipticPrivateKeyPEM()
		if err != nil {
			return nil, fmt.Errorf("making the service account signing key: %w", err)
		}
		if err := keyutil.WriteKey(f.pki(saKeyFile), pem); err != nil {
			return nil, unwritable(f.root, err)
		}
	}
	certPEM, keyPEM, err := ca.issue(now, x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), serviceIP},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
	})
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		certutil.WriteCert(f.pki(servingCert), certPEM),
		keyutil.WriteKey(f.pki(servingKey), keyPEM),
	); err != nil {
		return nil, unwritable(f.root, err)
	}
	return ca, nil
}

// loadAuthority reads the authority of a folder. The error is fs.ErrNotExist when
// the folder has none yet.
func loadAuthority(f *folder, now time.Time) (*authority, error) {
	certs, err := certutil.CertsFromFile(f.pki(caCertFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority: %w", err)
	}
	key, err := keyutil.PrivateKeyFromFile(f.pki(caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority's key: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading %s: a %T cannot sign", f.pki(caKeyFile), key)
	}
	if expiry := certs[0].NotAfter; now.After(expiry) {
		return nil, fmt.Errorf("--data-dir %s: its certificate authority expired on %s: start with a new folder", f.root, expiry.Format(time.DateOnly))
	}
	return &authority{cert: certs[0], key: signer}, nil
}

func createAuthority(f *folder) (*authority, error) {
	ca, certPEM, err := newAuthority("berth-local-ca")
	if err != nil {
		return nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(ca.key)
	if err != nil {
		return nil, fmt.Errorf("encoding the certificate authority's key: %w", err)
	}
	// The key first: a folder with a certificate is a folder with both.
	if err := errors.Join(
		keyutil.WriteKey(f.pki(caKeyFile), keyPEM),
		certutil.WriteCert(f.pki(caCertFile), certPEM),
	); err != nil {
		return nil, unwritable(f.root, err)
	}
	return ca, nil
}

// ensureFrontProxyCert makes a certificate authority and forgets its key.
func ensureFrontProxyCert(f *folder) error {
	path := f.pki(frontProxyCertFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	_, certPEM, err := newAuthority("berth-local-front-proxy-ca")
	if err != nil {
		return err
	}
	if err := certutil.WriteCert(path, certPEM); err != nil {
		return unwritable(f.root, err)
	}
	return nil
}

// newAuthority makes a certificate authority that lives for ten years.
func newAuthority(name string) (ca *authority, certPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making the key of %s: %w", name, err)
	}
	cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: name}, key)
	if err != nil {
		return nil, nil, fmt.Errorf("making %s: %w", name, err)
	}
	if certPEM, err = certutil.EncodeCertificates(cert); err != nil {
		return nil, nil, fmt.Errorf("encoding %s: %w", name, err)
	}
	return &authority{cert: cert, key: key}, certPEM, nil
}

// issue signs a certificate for a new key. The template says who and what for;
// serial number and life time are set here.
func (a *authority) issue(now time.Time, template x509.Certificate) (certPEM, keyPEM []byte, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("making a key for %s: %w", template.Subject.CommonName, err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialNumBits))
	if err != nil {
		return nil, nil, fmt.Errorf("making a serial number for %s: %w", template.Subject.CommonName, err)
	}
	template.SerialNumber = serial
	template.NotBefore = a.cert.NotBefore
	template.NotAfter = now.Add(leafLifetime)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, &template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("signing the certificate of %s: %w", template.Subject.CommonName, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, nil, fmt.Errorf("reading back the certificate of %s: %w", template.Subject.CommonName, err)
	}
	if certPEM, err = certutil.EncodeCertificates(cert); err != nil {
		return nil, nil, fmt.Errorf("encoding the certificate of %s: %w", template.Subject.CommonName, err)
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, fmt.Errorf("encoding the key of %s: %w", template.Subject.CommonName, err)
	}
	return certPEM, keyPEM, nil
}

// issueClient signs a client certificate: the API server takes the common name
// as the user and the organizations as the groups.
func (a *authority) issueClient(now time.Time, user string, groups []string) (certPEM, keyPEM []byte, err error) {
	return a.issue(now, x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
