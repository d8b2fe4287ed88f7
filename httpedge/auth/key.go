package auth

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
)

// minRSABits is the minimum size of an RSA key.
const minRSABits = 2048

// ParsePublicKey parses a public key, or that of a certificate.
func ParsePublicKey(text []byte) (any, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("public key is not in PEM form")
	}
	switch block.Type {
	case "PUBLIC KEY":
		return x509.ParsePKIXPublicKey(block.Bytes)
	case "RSA PUBLIC KEY":
		return x509.ParsePKCS1PublicKey(block.Bytes)
	case "CERTIFICATE":
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		return certificate.PublicKey, nil
	case "PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY":
		return nil, errors.New("this is a private key: give the public one only")
	}
	return nil, fmt.Errorf("PEM block %q is not a public key", block.Type)
}

// Fits returns why a key must not be used with an algorithm. It prevents using a public key as an HMAC secret, and the
// other way round.
func Fits(algorithm string, key any) error {
	wrong := fmt.Errorf("%T cannot check %s", key, algorithm)
	switch algorithm {
	case "HS256", "HS384", "HS512":
		if secret, ok := key.([]byte); !ok || len(secret) == 0 {
			return wrong
		}
	case "RS256", "RS384", "RS512", "PS256", "PS384", "PS512":
		public, ok := key.(*rsa.PublicKey)
		if !ok {
			return wrong
		}
		if public.N.BitLen() < minRSABits {
			return fmt.Errorf("RSA key has %d bits, needs at least %d", public.N.BitLen(), minRSABits)
		}
	case "ES256", "ES384", "ES512":
		bits := map[string]int{"ES256": 256, "ES384": 384, "ES512": 521}[algorithm]
		public, ok := key.(*ecdsa.PublicKey)
		if !ok || public.Curve.Params().BitSize != bits {
			return wrong
		}
	case "EdDSA":
		if _, ok := key.(ed25519.PublicKey); !ok {
			return wrong
		}
	default:
		return fmt.Errorf("algorithm %q is not supported", algorithm)
	}
	return nil
}
