package certs_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cluster/certs"
)

func load(dir, name string) (server, client *tls.Config, err error) {
	return certs.Load(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem"), filepath.Join(dir, certs.AuthorityFile))
}

// handshake connects both sides and returns the certificates they were shown.
func handshake(t *testing.T, server, client *tls.Config) (ofServer, ofClient *x509.Certificate, err error) {
	t.Helper()
	here, there := net.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	accepting, dialling := tls.Server(here, server), tls.Client(there, client)
	var atServer, atClient error
	var both sync.WaitGroup
	both.Go(func() {
		defer here.Close() //nolint:errcheck // a pipe
		if atServer = accepting.HandshakeContext(ctx); atServer == nil {
			_, atServer = accepting.Write([]byte{1})
		}
	})
	both.Go(func() {
		defer there.Close() //nolint:errcheck // a pipe
		if atClient = dialling.HandshakeContext(ctx); atClient == nil {
			_, atClient = dialling.Read(make([]byte, 1))
		}
	})
	both.Wait()
	if err := errors.Join(atServer, atClient); err != nil {
		return nil, nil, err
	}
	return dialling.ConnectionState().PeerCertificates[0], accepting.ConnectionState().PeerCertificates[0], nil
}

func TestWriteAndLoad(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	require.NoError(t, certs.Write(dir, []string{"n1", "n2"}, []string{"localhost", "127.0.0.1"}, time.Hour))
	server, _, err := load(dir, "n1")
	require.NoError(t, err)
	_, client, err := load(dir, "n2")
	require.NoError(t, err)
	ofServer, ofClient, err := handshake(t, server, client)
	require.NoError(t, err)
	require.Equal(t, "n1", ofServer.Subject.CommonName)
	require.Equal(t, "n2", ofClient.Subject.CommonName)
	require.NoError(t, ofServer.VerifyHostname("localhost"))
	require.NoError(t, ofServer.VerifyHostname("127.0.0.1"))

	for file, mode := range map[string]fs.FileMode{"ca.pem": 0o644, "ca-key.pem": 0o600, "n1.pem": 0o644, "n1-key.pem": 0o600, "gossip.key": 0o600} {
		info, missing := os.Stat(filepath.Join(dir, file))
		require.NoError(t, missing)
		require.Equal(t, mode, info.Mode().Perm(), file)
	}
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 7, "nothing temporary is left")

	key, err := certs.GossipKey(filepath.Join(dir, certs.GossipKeyFile))
	require.NoError(t, err)
	require.Len(t, key, 32)
}

// TestWriteAgain adds and renews nodes under the same authority, and keeps the gossip key.
func TestWriteAgain(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, certs.Write(dir, []string{"n1"}, nil, time.Hour))
	server, _, err := load(dir, "n1")
	require.NoError(t, err)
	before, err := os.ReadFile(filepath.Join(dir, certs.GossipKeyFile))
	require.NoError(t, err)
	require.NoError(t, certs.Write(dir, []string{"n1", "n4"}, nil, time.Hour))
	_, client, err := load(dir, "n4")
	require.NoError(t, err)
	_, _, err = handshake(t, server, client)
	require.NoError(t, err)
	after, err := os.ReadFile(filepath.Join(dir, certs.GossipKeyFile))
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func TestWriteRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"", "../n1", "ca", "ca-key", "-n", "a/b"} {
		require.ErrorContains(t, certs.Write(dir, []string{name}, nil, time.Hour), "is no name", name)
	}
	require.ErrorContains(t, certs.Write(dir, nil, nil, 0), "validity")
	require.NoError(t, certs.Write(dir, []string{"n1"}, nil, time.Hour))
	require.NoError(t, os.Remove(filepath.Join(dir, certs.AuthorityKeyFile)))
	require.ErrorIs(t, certs.Write(dir, []string{"n2"}, nil, time.Hour), fs.ErrNotExist, "half an authority is not replaced")
}

// TestRenewal: a renewed certificate is shown without a restart; half of a pair is not.
func TestRenewal(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, certs.Write(dir, []string{"n1"}, nil, time.Hour))
	server, client, err := load(dir, "n1")
	require.NoError(t, err)
	first, _, err := handshake(t, server, client)
	require.NoError(t, err)

	oldKey, err := os.ReadFile(filepath.Join(dir, "n1-key.pem"))
	require.NoError(t, err)
	require.NoError(t, certs.Write(dir, []string{"n1"}, nil, 2*time.Hour))
	newKey, err := os.ReadFile(filepath.Join(dir, "n1-key.pem"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "n1-key.pem"), oldKey, 0o600))
	seen, _, err := handshake(t, server, client)
	require.NoError(t, err)
	require.Equal(t, first.SerialNumber, seen.SerialNumber)

	require.NoError(t, os.WriteFile(filepath.Join(dir, "n1-key.pem"), newKey, 0o600))
	require.Eventually(t, func() bool {
		ofServer, ofClient, err := handshake(t, server, client)
		return err == nil && ofServer.SerialNumber.Cmp(first.SerialNumber) != 0 && ofClient.SerialNumber.Cmp(first.SerialNumber) != 0
	}, 30*time.Second, 50*time.Millisecond)
}

// sign makes the files of "other" with the development authority of dir, as change wants them.
func sign(t *testing.T, dir string, change func(*x509.Certificate)) {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(dir, certs.AuthorityFile), filepath.Join(dir, certs.AuthorityKeyFile))
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7), Subject: pkix.Name{CommonName: "other"}, DNSNames: []string{certs.ServerName},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	change(template)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	der, err := x509.CreateCertificate(rand.Reader, template, pair.Leaf, &key.PublicKey, pair.PrivateKey)
	require.NoError(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "other-key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600))
}

func TestLoadRefuses(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, certs.Write(dir, []string{"n1", "n2"}, nil, time.Hour))
	for want, change := range map[string]func(*x509.Certificate){
		"other.pem has expired at":          func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) },
		"other.pem is not valid before":     func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) },
		"other.pem does not carry the name": func(c *x509.Certificate) { c.DNSNames = []string{"shop.internal"} },
		"other.pem is not one for both sides": func(c *x509.Certificate) {
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		},
	} {
		sign(t, dir, change)
		_, _, err := load(dir, "other")
		require.ErrorContains(t, err, want)
	}

	other := t.TempDir()
	require.NoError(t, certs.Write(other, []string{"n1"}, nil, time.Hour))
	file := func(name string) string { return filepath.Join(dir, name) }
	_, _, err := certs.Load(file("n1.pem"), file("n1-key.pem"), filepath.Join(other, certs.AuthorityFile))
	require.ErrorContains(t, err, "n1.pem is not signed by the authority given")
	_, _, err = certs.Load(file("n1.pem"), file("n2-key.pem"), file("ca.pem"))
	require.ErrorContains(t, err, "n2-key.pem: tls: private key does not match public key")
	_, _, err = certs.Load(file("n1.pem"), file("n1-key.pem"), file("gossip.key"))
	require.ErrorContains(t, err, "gossip.key holds no certificate")
	_, _, err = load(dir, "n3")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// TestOthersOfTheSameAuthority: what else the authority has signed does not get in.
func TestOthersOfTheSameAuthority(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, certs.Write(dir, []string{"n1"}, nil, time.Hour))
	server, client, err := load(dir, "n1")
	require.NoError(t, err)
	sign(t, dir, func(c *x509.Certificate) { c.DNSNames = []string{"shop.internal"} })
	shop, err := tls.LoadX509KeyPair(filepath.Join(dir, "other.pem"), filepath.Join(dir, "other-key.pem"))
	require.NoError(t, err)
	client.GetClientCertificate = nil
	client.Certificates = []tls.Certificate{shop}
	_, _, err = handshake(t, server, client)
	require.ErrorContains(t, err, "not "+certs.ServerName)
}

func TestGossipKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for text, want := range map[string]string{
		"MDEyMzQ1Njc4OWFiY2RlZg==\n": "", "c2hvcnQ=": "holds 5 bytes", "not base64!": "illegal base64",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, err := certs.GossipKey(file)
		if want == "" {
			require.NoError(t, err)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	_, err := certs.GossipKey(file + ".missing")
	require.ErrorIs(t, err, fs.ErrNotExist)
}
