package peer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"math/big"
	"net"
	"testing"
	"time"
)

// authority is a CA made for a test.
type authority struct {
	t           *testing.T
	key         *ecdsa.PrivateKey
	certificate *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	a := &authority{t: t, key: newKey(t)}
	a.certificate = a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign,
	}, &a.key.PublicKey, nil)
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PublicKey, parent *x509.Certificate) *x509.Certificate {
	a.t.Helper()
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	if parent == nil {
		parent = template
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key, a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		a.t.Fatal(err)
	}
	return certificate
}

func (a *authority) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

// pair issues a certificate for an address.
func (a *authority) pair(ip string) func() *tls.Certificate {
	key := newKey(a.t)
	certificate := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.ParseIP(ip)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, &key.PublicKey, a.certificate)
	issued := &tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
	return func() *tls.Certificate { return issued }
}

func withTLS(certificate func() *tls.Certificate, roots *x509.CertPool) func(*Options, *Hello) {
	return func(o *Options, _ *Hello) { o.ServerTLS, o.ClientTLS = TLS(certificate, roots) }
}

func TestTLS(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	const here = "127.0.0.1"
	good := withTLS(ours.pair(here), ours.roots())
	unverified := withTLS(ours.pair(here), nil)
	for name, row := range map[string]struct {
		one, two func(*Options, *Hello)
		// failing are the nodes that count a refusal.
		failing []uint64
	}{
		"mutual":                     {good, withTLS(ours.pair(here), ours.roots()), nil},
		"without a CA":               {unverified, withTLS(theirs.pair(here), nil), nil},
		"other CA":                   {good, withTLS(theirs.pair(here), theirs.roots()), []uint64{1, 2}},
		"name of another host":       {good, withTLS(ours.pair("127.0.0.9"), ours.roots()), []uint64{1, 2}},
		"stranger calls":             {withTLS(theirs.pair(here), ours.roots()), good, []uint64{1, 2}},
		"initiator in clear":         {nil, good, []uint64{1, 2}},
		"acceptor in clear":          {good, nil, []uint64{1, 2}},
		"previous token within TLS":  {withTokens(good, "new", "old"), withTokens(good, "old", ""), nil},
		"mutual TLS without a token": {withTokens(good, "", ""), withTokens(good, "", ""), nil},
	} {
		var addresses book
		one := start(t, &addresses, 1, row.one)
		two := start(t, &addresses, 2, row.two).echoes(Raft)
		conn, err := one.Dial(ctxFor(t), 2, Raft, 0)
		if len(row.failing) == 0 {
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			echo(t, conn)
			closeQuietly(conn)
			continue
		}
		var refused *RefusedError
		if !errors.As(err, &refused) || refused.Reason != ReasonTLS {
			t.Errorf("%s: %v", name, err)
			continue
		}
		expectLine(t, one, "raft TLS to node 2 failed", 2)
		eventually(t, name+": counting at the acceptor", func() bool { return two.refusals()["0 tls"] == 1 })
		eventually(t, name+": the acceptor's line", func() bool {
			lines := two.log.warnings(t)
			return len(lines) == 1 && lines[0]["message"] == "raft TLS from "+lines[0]["address"].(string)+" failed"
		})
	}
}

func withTokens(adjust func(*Options, *Hello), token, previous string) func(*Options, *Hello) {
	return func(o *Options, h *Hello) {
		adjust(o, h)
		o.Token, o.PreviousToken = []byte(token), []byte(previous)
	}
}

func TestProbesAreNoFailureOfTLS(t *testing.T) {
	var addresses book
	ours := newAuthority(t)
	one := start(t, &addresses, 1, withTLS(ours.pair("127.0.0.1"), ours.roots()))
	probe, err := net.Dial("tcp", one.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	closeQuietly(probe)
	eventually(t, "the end of the probe", func() bool {
		probe, err := net.Dial("tcp", one.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		closeQuietly(probe)
		one.Network.mu.Lock()
		defer one.Network.mu.Unlock()
		return one.greeting.Len() == 0
	})
	if err := one.Close(); err != nil { // waits for the handshakes
		t.Fatal(err)
	}
	if got := one.refusals(); len(got) != 0 {
		t.Errorf("counted as refused: %v", got)
	}
}

// TestRelayInTheMiddleFailsWithoutCA puts somebody with a certificate of its own between two nodes that do not verify
// certificates. It passes every byte on; the exported keys of its two channels differ, so the proof does not fit.
func TestRelayInTheMiddleFailsWithoutCA(t *testing.T) {
	var addresses book
	ours := newAuthority(t)
	one := start(t, &addresses, 1, withTLS(ours.pair("127.0.0.1"), nil))
	two := start(t, &addresses, 2, withTLS(ours.pair("127.0.0.1"), nil)).echoes(Raft)
	real := two.Addr().String()

	server, client := TLS(newAuthority(t).pair("127.0.0.1"), nil)
	relay, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		t.Fatal(err)
	}
	relayed := make(chan error, 1)
	go func() {
		left, err := relay.Accept()
		if err != nil {
			relayed <- err
			return
		}
		right, err := tls.Dial("tcp", real, client)
		if err != nil {
			relayed <- errors.Join(err, left.Close())
			return
		}
		done := make(chan struct{}, 2)
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			done <- struct{}{}
		}
		go pass(left, right)
		go pass(right, left)
		<-done
		closeQuietly(left)
		closeQuietly(right)
		<-done
		relayed <- nil
	}()
	addresses.set(2, relay.Addr().String())
	conn, err := one.Dial(ctxFor(t), 2, Raft, 0)
	var refused *RefusedError
	if !errors.As(err, &refused) || refused.Reason != ReasonToken {
		t.Errorf("through a relay: %v", err)
	}
	if conn != nil {
		closeQuietly(conn) // which ends the relay
	}
	if err := errors.Join(<-relayed, relay.Close()); err != nil {
		t.Error(err)
	}
	addresses.set(2, real)
	echo(t, dial(t, one, 2, Raft))
}
