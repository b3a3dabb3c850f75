package peer

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
)

// TLS returns the settings of both sides of the raft port: certificate is asked at every connection for the present pair of
// QUEEN_RAFT_TLS_CERT and _KEY. With roots, the content of QUEEN_RAFT_TLS_CA, both sides present a certificate of that CA
// whose names cover the dialled host. Without roots certificates are not verified: the proofs cover the key of the channel,
// so that only who knows the token can be at its other end.
func TLS(certificate func() *tls.Certificate, roots *x509.CertPool) (server, client *tls.Config) {
	server = &tls.Config{
		MinVersion:     tls.VersionTLS13,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate(), nil },
	}
	client = &tls.Config{
		MinVersion:           tls.VersionTLS13,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return certificate(), nil },
	}
	if roots == nil {
		client.InsecureSkipVerify = true
		return server, client
	}
	server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, roots
	client.RootCAs = roots
	return server, client
}

// secured is a connection inside its TLS, or as it was.
type secured struct {
	net.Conn
	// channel is the exported key, empty without TLS.
	channel []byte
}

// secureAccepted makes this node the TLS server of a connection.
func (n *Network) secureAccepted(raw net.Conn) (secured, error) {
	if n.options.ServerTLS == nil {
		return secured{Conn: raw}, nil
	}
	return handshakeTLS(n.ctx, tls.Server(raw, n.options.ServerTLS))
}

// secureDialled makes this node the TLS client of a connection to an address.
func (n *Network) secureDialled(ctx context.Context, raw net.Conn, address string) (secured, error) {
	if n.options.ClientTLS == nil {
		return secured{Conn: raw}, nil
	}
	config := n.options.ClientTLS.Clone()
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return secured{}, err
	}
	config.ServerName = host
	return handshakeTLS(ctx, tls.Client(raw, config))
}

func handshakeTLS(ctx context.Context, conn *tls.Conn) (secured, error) {
	if err := conn.HandshakeContext(ctx); err != nil {
		return secured{}, err
	}
	channel, err := channelKey(conn)
	return secured{Conn: conn, channel: channel}, err
}

// isTLSFailure tells whether the TLS handshake failed because of what the other side presented, and not because the
// connection ended: a probe that only connects is no failure of TLS, nor is a node that stops.
func isTLSFailure(err error) bool {
	if isTLSAlert(err) {
		return true
	}
	var network *net.OpError
	for _, ended := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, os.ErrDeadlineExceeded, context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, ended) {
			return false
		}
	}
	return !errors.As(err, &network)
}

// isTLSAlert tells whether an error is an alert of the other side. With TLS 1.3 the client learns with its first read that
// the server refused its certificate.
func isTLSAlert(err error) bool {
	var network *net.OpError
	return errors.As(err, &network) && (network.Op == "remote error" || network.Op == "local error")
}

// speaksTLS tells whether a frame header is the beginning of a TLS record (RFC 8446, 5.1): the other side has TLS and this
// one has not.
func speaksTLS(err error) bool {
	const alert, handshake, version = 21, 22, 3
	var size *frameSizeError
	return errors.As(err, &size) && (size.header[0] == alert || size.header[0] == handshake) && size.header[1] == version
}
