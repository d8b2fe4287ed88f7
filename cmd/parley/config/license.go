package config

import (
	"fmt"
	"strings"
)

// License configures which offline license keys tenants may use. The tier of a tenant without one is the operator's (client.license,
// parley tenant). Document 3 has names of its own for the variables; they are read, too.
type License struct {
	// Public keys in PEM form, one after another, of whoever signs license keys: Ed25519, P-256, or RSA of at least 2048
	// bits. \n stands for the end of a line. Without any no license key is taken. Variable OFFLINE_LICENSE_PUBLIC_KEY, too.
	PublicKey string `key:"public_key" document:"OFFLINE_LICENSE_PUBLIC_KEY"`
	// File with the public keys. Variable OFFLINE_LICENSE_PUBLIC_KEY_PATH, too.
	PublicKeyFile string `key:"public_key_file" document:"OFFLINE_LICENSE_PUBLIC_KEY_PATH"`
	// Issuer that license keys must name. Empty = any. Variable OFFLINE_LICENSE_ISSUER, too.
	Issuer string `key:"issuer" document:"OFFLINE_LICENSE_ISSUER"`
	// Audience that license keys must name. Empty = any. Variable OFFLINE_LICENSE_AUDIENCE, too.
	Audience string `key:"audience" document:"OFFLINE_LICENSE_AUDIENCE"`
	// Days for which a license key counts after it has expired. Variable LICENSE_GRACE_DAYS, too.
	GraceDays int `key:"grace_days" default:"14" range:"0..3650" document:"LICENSE_GRACE_DAYS"`
}

func (c *Config) checkLicense(k *checker) {
	if c.License.PublicKey != "" && c.License.PublicKeyFile != "" {
		k.failf("license.public_key_file", "is not needed with license.public_key")
		return
	}
	if _, err := c.License.PublicKeys(); err != nil {
		k.problems = append(k.problems, err)
	}
}

// PublicKeys reads the public keys from where the settings point; empty when there are none.
func (l *License) PublicKeys() (string, error) {
	if l.PublicKeyFile == "" {
		return strings.ReplaceAll(l.PublicKey, `\n`, "\n"), nil
	}
	text, err := readLimited(l.PublicKeyFile)
	if err != nil {
		return "", fmt.Errorf("license.public_key_file: %w", err)
	}
	if strings.TrimSpace(string(text)) == "" {
		return "", fmt.Errorf("license.public_key_file: %s is empty", l.PublicKeyFile)
	}
	return string(text), nil
}
