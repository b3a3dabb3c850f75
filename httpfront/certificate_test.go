package httpfront

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/zerolog"
)

// writeCertificate makes a self-signed pair with a common name.
func writeCertificate(t *testing.T, name string) (certFile, keyFile string) {
	t.Helper()
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	rewriteCertificate(t, certFile, keyFile, name)
	return certFile, keyFile
}

func rewriteCertificate(t *testing.T, certFile, keyFile, name string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: der},
		keyFile:  {Type: "PRIVATE KEY", Bytes: keyDER},
	} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestANewCertificateServesNewConnectionsAndABadOneDoesNot(t *testing.T) {
	certFile, keyFile := writeCertificate(t, "first")
	certificate, err := LoadCertificate(certFile, keyFile, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig()
	config.TLS = certificate.Config()
	s := startServer(t, config, routingTable()...)
	served := func() string {
		c, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	if name := served(); name != "first" {
		t.Errorf("served %q", name)
	}
	touch := func(offset time.Duration) {
		if err := os.Chtimes(certFile, time.Time{}, time.Now().Add(offset)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(certFile, []byte("not a certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	touch(time.Minute)
	certificate.Reload()
	if name := served(); name != "first" {
		t.Errorf("served %q after a bad file", name)
	}
	rewriteCertificate(t, certFile, keyFile, "second")
	touch(2 * time.Minute)
	certificate.Reload()
	if name := served(); name != "second" {
		t.Errorf("served %q after a good file", name)
	}
	if _, err := tls.Dial("tcp", s.addr, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was accepted")
	}
}
