package certs

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"
)

// Load reads a node's certificate, its key, and the authority (PEM, one or more certificates) that all nodes' certificates must be signed by. The configs
// are for the accepting and the dialling side of connections between nodes: TLS 1.3, each side checks the other. A certificate or key file
// that changes is reloaded; while the new pair is invalid, the old one stays in use.
func Load(certFile, keyFile, caFile string) (server, client *tls.Config, err error) {
	authorities, err := os.ReadFile(caFile)
	if err != nil {
		return nil, nil, fmt.Errorf("load certificates: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authorities) {
		return nil, nil, fmt.Errorf("load certificates: %s holds no certificate", caFile)
	}
	p := &pair{certFile: certFile, keyFile: keyFile, pool: pool}
	if err := p.load(time.Now()); err != nil {
		return nil, nil, fmt.Errorf("load certificates: %w", err)
	}
	server = &tls.Config{
		MinVersion:     tls.VersionTLS13,
		ClientAuth:     tls.RequireAndVerifyClientCert,
		ClientCAs:      pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return p.current(time.Now()), nil },
		// The authority may have signed other certificates than those of nodes.
		VerifyConnection: func(state tls.ConnectionState) error { return state.PeerCertificates[0].VerifyHostname(ServerName) },
		// A session ticket would admit a node without a certificate, or with one that has expired.
		SessionTicketsDisabled: true,
	}
	client = &tls.Config{
		MinVersion:           tls.VersionTLS13,
		RootCAs:              pool,
		ServerName:           ServerName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return p.current(time.Now()), nil },
	}
	return server, client, nil
}

// GossipKey reads a key of 16, 24 or 32 bytes in base64.
func GossipKey(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load gossip key: %w", err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, fmt.Errorf("load gossip key: %s: %w", file, err)
	}
	switch len(key) {
	case 16, 24, 32:
		return key, nil
	default:
		return nil, fmt.Errorf("load gossip key: %s holds %d bytes; 16, 24 or 32 are needed", file, len(key))
	}
}

// lookEvery is the shortest time between two checks of the files; they are checked during handshakes.
const lookEvery = time.Second

// pair is a certificate with its key, and the files it comes from.
type pair struct {
	certFile, keyFile string
	pool              *x509.CertPool

	mu     sync.Mutex
	cert   *tls.Certificate
	stamp  [2]time.Time // of the files that cert was read from
	looked time.Time
}

// current is the newest valid pair.
func (p *pair) current(now time.Time) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.looked) >= lookEvery {
		p.looked = now
		if stamp, err := p.stamps(); err == nil && stamp != p.stamp {
			_ = p.loadLocked(now) // half written or invalid: keep the old one
		}
	}
	return p.cert
}

func (p *pair) load(now time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = now
	return p.loadLocked(now)
}

func (p *pair) loadLocked(now time.Time) error {
	stamp, err := p.stamps() // first: a change during the read is detected next time
	if err != nil {
		return err
	}
	cert, err := tls.LoadX509KeyPair(p.certFile, p.keyFile)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", p.certFile, p.keyFile, err)
	}
	if err := p.verify(&cert, now); err != nil {
		return fmt.Errorf("%s %w", p.certFile, err)
	}
	p.cert, p.stamp = &cert, stamp
	return nil
}

func (p *pair) stamps() (stamp [2]time.Time, err error) {
	for i, file := range []string{p.certFile, p.keyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return stamp, err
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}

// verify checks the certificate as the other nodes will. Its error texts follow the name of the file.
func (p *pair) verify(cert *tls.Certificate, now time.Time) error {
	leaf := cert.Leaf
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("has expired at %s", leaf.NotAfter.Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("is not valid before %s", leaf.NotBefore.Format(time.RFC3339))
	}
	if err := leaf.VerifyHostname(ServerName); err != nil {
		return fmt.Errorf("does not carry the name %s", ServerName)
	}
	between := x509.NewCertPool()
	for _, der := range cert.Certificate[1:] {
		if c, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(c)
		}
	}
	for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
		_, err := leaf.Verify(x509.VerifyOptions{
			Roots: p.pool, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{usage},
		})
		var unknown x509.UnknownAuthorityError
		switch {
		case errors.As(err, &unknown):
			return errors.New("is not signed by the authority given")
		case err != nil:
			return fmt.Errorf("is not one for both sides of a connection between nodes: %w", err)
		}
	}
	return nil
}
