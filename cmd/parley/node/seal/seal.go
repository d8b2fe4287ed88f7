// Package seal encrypts secrets before they are stored and decrypts them where they are used.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"parley/actors/core/failure"
	"parley/cmd/parley/config"
	"parley/proto/failurepb"
)

// sealFormat is the first byte of sealed data: AES-256-GCM under the SHA-256 of the secret (document 3, 10.10), a nonce of
// 12 bytes, then text and tag.
const sealFormat = 1

// keyFile holds the secret that a single node generates for itself.
const keyFile = "secret.key"

// Sealer encrypts secrets before they are stored and decrypts them where they are used. Without a key it returns a failure.
type Sealer struct{ aead cipher.AEAD }

// New uses the configured secret. Without one, a single node generates a secret in its data directory; nodes of a cluster
// need the same one, so theirs must be configured.
func New(c *config.Config, alone bool) (*Sealer, error) {
	secret := c.ProviderEncryptionSecret.Reveal()
	if secret == "" {
		var err error
		if secret, err = KeptSecret(filepath.Join(c.DataDir, keyFile), alone); err != nil {
			return nil, err
		}
	}
	if secret == "" {
		return &Sealer{}, nil
	}
	key := sha256.Sum256([]byte(secret))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, err
	}
	return &Sealer{aead: aead}, nil
}

// KeptSecret reads the secret in the data directory, and generates one if there is none and mayMake is set.
func KeptSecret(name string, mayMake bool) (string, error) {
	text, err := os.ReadFile(name)
	switch {
	case err == nil:
		secret := strings.TrimSpace(string(text))
		if secret == "" {
			return "", fmt.Errorf("%s is empty", name)
		}
		return secret, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("read the encryption secret: %w", err)
	case !mayMake:
		return "", nil
	}
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the process instead
	secret := hex.EncodeToString(random[:])
	if err := writeDurably(name, secret+"\n"); err != nil {
		return "", fmt.Errorf("keep the encryption secret: %w", err)
	}
	return secret, nil
}

// writeDurably writes a file that only its owner can read, atomically, also in a crash.
func writeDurably(name, text string) (err error) {
	file, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name()) // nothing refers to it
		}
	}()
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Seal encrypts a secret. about is authenticated with it: Open needs the same.
func (s *Sealer) Seal(secret []byte, about string) ([]byte, error) {
	if s.aead == nil {
		return nil, failure.New(failurepb.Code_SECRETS_UNAVAILABLE, failure.SecretsUnencrypted)
	}
	sealed := make([]byte, 1+s.aead.NonceSize(), 1+s.aead.NonceSize()+len(secret)+s.aead.Overhead())
	sealed[0] = sealFormat
	_, _ = rand.Read(sealed[1:]) // never fails: the runtime ends the process instead
	return s.aead.Seal(sealed, sealed[1:], secret, []byte(about)), nil
}

// Open decrypts what Seal has made about the same.
func (s *Sealer) Open(sealed []byte, about string) ([]byte, error) {
	switch {
	case s.aead == nil:
		return nil, errors.New("open a secret: no encryption secret is configured")
	case len(sealed) < 1+s.aead.NonceSize() || sealed[0] != sealFormat:
		return nil, errors.New("open a secret: not in a known form")
	}
	nonce := sealed[1 : 1+s.aead.NonceSize()]
	secret, err := s.aead.Open(nil, nonce, sealed[1+s.aead.NonceSize():], []byte(about))
	if err != nil {
		return nil, errors.New("open a secret: encrypted with another secret, or damaged")
	}
	return secret, nil
}
