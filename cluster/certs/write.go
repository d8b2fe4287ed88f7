package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

// ServerName is the name every node's certificate carries.
const ServerName = "node.parley.internal"

// Names of the files that Write makes; those of node NAME are NAME.pem and NAME-key.pem.
const (
	AuthorityFile    = "ca.pem"
	AuthorityKeyFile = "ca-key.pem"
	GossipKeyFile    = "gossip.key"
)

const (
	gossipKeyBytes = 32
	// clockSkew backdates certificates, for nodes whose clock is behind.
	clockSkew = time.Hour
)

// Write makes in dir a certificate and key for each of names, signed by the development authority there. The authority and a gossip key
// are made if they are missing. Running it again adds nodes and renews the certificates of those named again. hosts (names or addresses) are added to each
// certificate. All are valid for validity, the authority for ten times that. Keys are readable by their owner only.
func Write(dir string, names, hosts []string, validity time.Duration) error {
	if validity <= 0 {
		return errors.New("write certificates: validity must be positive")
	}
	for _, name := range names {
		if !nodeName().MatchString(name) || name == "ca" || name == "ca-key" {
			return fmt.Errorf("write certificates: %q is no name for a node's files", name)
		}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	a, err := openAuthority(dir, validity)
	if err != nil {
		return fmt.Errorf("write certificates: %w", err)
	}
	for _, name := range names {
		if err := a.issue(dir, name, hosts, validity); err != nil {
			return fmt.Errorf("write certificate of %s: %w", name, err)
		}
	}
	if err := writeGossipKey(filepath.Join(dir, GossipKeyFile)); err != nil {
		return fmt.Errorf("write gossip key: %w", err)
	}
	return nil
}

func nodeName() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`) }

type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// openAuthority reads the authority of dir, or makes it if neither of its files is there.
func openAuthority(dir string, validity time.Duration) (*authority, error) {
	certFile, keyFile := filepath.Join(dir, AuthorityFile), filepath.Join(dir, AuthorityKeyFile)
	certPEM, certErr := os.ReadFile(certFile)
	keyPEM, keyErr := os.ReadFile(keyFile)
	if errors.Is(certErr, fs.ErrNotExist) && errors.Is(keyErr, fs.ErrNotExist) {
		return newAuthority(certFile, keyFile, 10*validity)
	}
	if err := errors.Join(certErr, keyErr); err != nil {
		return nil, err
	}
	certBlock, _ := pem.Decode(certPEM)
	keyBlock, _ := pem.Decode(keyPEM)
	if certBlock == nil || keyBlock == nil {
		return nil, fmt.Errorf("%s or %s holds no PEM", certFile, keyFile)
	}
	cert, err := x509.ParseCertificate(certBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", certFile, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyBlock.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", keyFile, certFile)
	}
	if time.Now().After(cert.NotAfter) {
		return nil, fmt.Errorf("%s has expired at %s; make a new authority elsewhere", certFile, cert.NotAfter.Format(time.RFC3339))
	}
	return &authority{cert: cert, key: key}, nil
}

func newAuthority(certFile, keyFile string, validity time.Duration) (*authority, error) {
	template, err := newTemplate("Parley development authority", validity)
	if err != nil {
		return nil, err
	}
	template.IsCA, template.MaxPathLenZero = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageCRLSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key}, writePair(certFile, keyFile, der, key)
}

// issue makes the files of one node.
func (a *authority) issue(dir, name string, hosts []string, validity time.Duration) error {
	template, err := newTemplate(name, validity)
	if err != nil {
		return err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	template.DNSNames = []string{ServerName}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return err
	}
	return writePair(filepath.Join(dir, name+".pem"), filepath.Join(dir, name+"-key.pem"), der, key)
}

func newTemplate(name string, validity time.Duration) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name, Organization: []string{"Parley"}},
		NotBefore: now.Add(-clockSkew), NotAfter: now.Add(validity), BasicConstraintsValid: true,
	}, nil
}

func writePair(certFile, keyFile string, der []byte, key *ecdsa.PrivateKey) error {
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	if err := writeFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600); err != nil {
		return err
	}
	return writeFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644)
}

func writeGossipKey(file string) error {
	if _, err := os.Stat(file); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key := make([]byte, gossipKeyBytes)
	if _, err := rand.Read(key); err != nil {
		return err
	}
	return writeFile(file, []byte(base64.StdEncoding.EncodeToString(key)+"\n"), 0o600)
}

// writeFile replaces a file atomically: a node reads either the old or the new contents.
func writeFile(file string, content []byte, mode fs.FileMode) (err error) {
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temporary.Name())
		}
	}()
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Chmod(mode), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), file)
}
