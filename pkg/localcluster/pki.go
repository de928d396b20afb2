// Copyright The Berth Authors.
// SPDX-License-Identifier: Apache-2.0

package localcluster

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
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
		if err := createAuthority(f); err != nil {
			return nil, unwritable(f.root, err)
		}
		ca, err = loadAuthority(f, now)
	}
	if err != nil {
		return nil, err
	}
	if _, _, err := keyutil.LoadOrGenerateKeyFile(f.pki(saKeyFile)); err != nil {
		return nil, unwritable(f.root, err)
	}
	certPEM, keyPEM, err := ca.issue(now, &x509.Certificate{
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
	keyPEM, err := os.ReadFile(f.pki(caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("reading the certificate authority's key: %w", err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", f.pki(caKeyFile), err)
	}
	if expiry := certs[0].NotAfter; now.After(expiry) {
		return nil, fmt.Errorf("--data-dir %s: its certificate authority expired on %s: start with a new folder", f.root, expiry.Format(time.DateOnly))
	}
	return &authority{cert: certs[0], key: key}, nil
}

// createAuthority makes two certificate authorities that live for ten years: the
// folder's, and that of the front proxy, whose key is forgotten.
func createAuthority(f *folder) error {
	frontProxyKey, err := keyutil.MakeEllipticPrivateKeyPEM()
	if err != nil {
		return err
	}
	// The key first: a folder with a certificate is a folder with both.
	caKey, _, err := keyutil.LoadOrGenerateKeyFile(f.pki(caKeyFile))
	if err != nil {
		return err
	}
	for _, ca := range []struct {
		name, file string
		key        []byte
	}{{"berth-local-front-proxy-ca", frontProxyCertFile, frontProxyKey}, {"berth-local-ca", caCertFile, caKey}} {
		key, err := parseKey(ca.key)
		if err != nil {
			return err
		}
		cert, err := certutil.NewSelfSignedCACert(certutil.Config{CommonName: ca.name}, key)
		if err != nil {
			return err
		}
		if err := certutil.WriteCert(f.pki(ca.file), encodeCert(cert.Raw)); err != nil {
			return err
		}
	}
	return nil
}

func parseKey(keyPEM []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, err
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", key)
	}
	return signer, nil
}

func encodeCert(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
}

// issue signs a certificate for a new key. The template says who and what for;
// serial number and life time are set here.
func (a *authority) issue(now time.Time, template *x509.Certificate) (certPEM, keyPEM []byte, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("issuing the certificate of %s: %w", template.Subject.CommonName, err)
		}
	}()
	if keyPEM, err = keyutil.MakeEllipticPrivateKeyPEM(); err != nil {
		return nil, nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, nil, err
	}
	template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), serialNumBits))
	if err != nil {
		return nil, nil, err
	}
	template.NotBefore = a.cert.NotBefore
	template.NotAfter = now.Add(leafLifetime)
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.BasicConstraintsValid = true
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	return encodeCert(der), keyPEM, err
}

// issueClient signs a client certificate: the API server takes the common name as
// the user and the organizations as the groups.
func (a *authority) issueClient(now time.Time, user string, groups []string) (certPEM, keyPEM []byte, err error) {
	return a.issue(now, &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: groups},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
}
