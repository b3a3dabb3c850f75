package contract

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// certificateFor writes the certificate of 127.0.0.1 that the standard library tests with, and its key, and returns who
// trusts it.
func certificateFor(t *testing.T, certificateFile, keyFile string) *x509.CertPool {
	t.Helper()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{
		certificateFile: {Type: "CERTIFICATE", Bytes: server.Certificate().Raw}, keyFile: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

// 2.1, cluster 1.2, operations 6.2: with a certificate and its key the port speaks TLS 1.2 and up and nothing else.
func TestTLSOfThePort_2_1(t *testing.T) {
	t.Parallel()
	broker := privateBroker(t, nil)
	if err := broker.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certificateFile, keyFile := filepath.Join(dir, "certificate.pem"), filepath.Join(dir, "key.pem")
	pool := certificateFor(t, certificateFile, keyFile)
	broker.SetEnv("QUEEN_TLS_CERT", certificateFile)
	broker.SetEnv("QUEEN_TLS_KEY", keyFile)
	if err := broker.Launch(); err != nil {
		t.Fatal(err)
	}
	get := func(version uint16, scheme string) (int, error) {
		client := http.Client{Timeout: delivery, Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: version, MaxVersion: version}}}
		answer, err := client.Get(scheme + "://" + broker.Address() + "/health")
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	eventually(t, 2*delivery, func() (bool, string) {
		status, err := get(tls.VersionTLS13, "https")
		return status == 200, fmt.Sprint(status, err)
	})
	if status, err := get(tls.VersionTLS12, "https"); status != 200 {
		t.Errorf("TLS 1.2: got %d, %v", status, err)
	}
	if status, _ := get(tls.VersionTLS11, "https"); status != 0 {
		t.Errorf("TLS 1.1 is served: %d", status)
	}
	if status, _ := get(0, "http"); status == 200 {
		t.Error("plain HTTP is served")
	}
	result := runQueen(t, map[string]string{"QUEEN_RAFT_DIR": t.TempDir(), "QUEEN_BIND_ADDR": "127.0.0.1", "PORT": freePort(t),
		"QUEEN_TLS_CERT": keyFile, "QUEEN_TLS_KEY": keyFile}, "serve")
	if result.code != 1 || !strings.Contains(result.stderr, "FATAL: ") {
		t.Errorf("a file without a certificate must stop the start, got %+v", result)
	}
}

// freePort is a port that nobody listens on now.
func freePort(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
