// Package licence checks offline licence keys: JWTs that whoever sells licences signs, and that a server reads without asking anybody
// (document 3, 3.6). What a key then means for a tenant at a moment is actors/core/access.
//
// The algorithm of a key follows from the public key that checks it, never from the key's own header: EdDSA for Ed25519, ES256 for
// P-256, RS256 or PS256 for RSA. Nothing else is taken, above all no "none" and no HMAC under a public key's text.
package licence

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	// jwx: as in httpedge/auth, the JWT library of the project.
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/httpedge/auth"
	"parley/proto/failurepb"
)

const (
	// maxKeys bounds the public keys: a few, so that issuers can change theirs.
	maxKeys = 8
	// maxKnown bounds the licence keys that are remembered. Each takes about 250 bytes.
	maxKnown = 4096
	// maxText bounds texts in a key, in bytes.
	maxText = 256
	// maxProjects is the highest limit that a key may name.
	maxProjects = 1_000_000
	// lastSecond is the last Unix time that is taken, of the year 9999.
	lastSecond = 253_402_300_799
)

// Config says which licence keys are taken.
type Config struct {
	// PublicKey is one or several public keys in PEM form: Ed25519, P-256, or RSA of at least 2048 bits.
	PublicKey []byte
	// Issuer and Audience that a key must name; empty = any.
	Issuer, Audience string
}

// Reader reads licence keys. It implements identity.LicenceKeys and is safe for concurrent use.
type Reader struct {
	config Config
	keys   []trusted

	mu    sync.Mutex
	known map[[sha256.Size]byte]read // by the SHA-256 of the whole key
}

// trusted is a public key with the algorithms that it may check.
type trusted struct {
	key        any
	algorithms []jwa.SignatureAlgorithm
}

// read is what a key was found to be. It is shared and not changed.
type read struct {
	offline *access.Offline
	refused *failure.Failure
}

// New returns a reader.
func New(config Config) (*Reader, error) {
	r := &Reader{config: config, known: make(map[[sha256.Size]byte]read)}
	rest := config.PublicKey
	for len(r.keys) <= maxKeys {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		key, err := auth.ParsePublicKey(pem.EncodeToMemory(block))
		if err != nil {
			return nil, err
		}
		with, err := trust(key)
		if err != nil {
			return nil, err
		}
		r.keys = append(r.keys, with)
	}
	switch {
	case strings.TrimSpace(string(rest)) != "":
		return nil, errors.New("there is something besides public keys in PEM form")
	case len(r.keys) == 0:
		return nil, errors.New("public key is not in PEM form")
	case len(r.keys) > maxKeys:
		return nil, fmt.Errorf("more than %d public keys", maxKeys)
	}
	return r, nil
}

func trust(key any) (trusted, error) {
	with := trusted{key: key}
	switch key := key.(type) {
	case ed25519.PublicKey:
		with.algorithms = []jwa.SignatureAlgorithm{jwa.EdDSA()}
	case *ecdsa.PublicKey:
		with.algorithms = []jwa.SignatureAlgorithm{jwa.ES256()}
	case *rsa.PublicKey:
		with.algorithms = []jwa.SignatureAlgorithm{jwa.RS256(), jwa.PS256()}
	default:
		return with, fmt.Errorf("a %T checks no licenses: EdDSA, ES256, RS256 or PS256 is needed", key)
	}
	return with, auth.Fits(with.algorithms[0].String(), key)
}

// Read implements identity.LicenceKeys.
func (r *Reader) Read(key string) (*access.Offline, *failure.Failure) {
	digest := sha256.Sum256([]byte(key))
	r.mu.Lock()
	found, ok := r.known[digest]
	r.mu.Unlock()
	if ok {
		return found.offline, found.refused
	}
	found.offline, found.refused = r.check(key)
	r.mu.Lock()
	if len(r.known) >= maxKnown {
		clear(r.known)
	}
	r.known[digest] = found
	r.mu.Unlock()
	return found.offline, found.refused
}

func (r *Reader) check(key string) (*access.Offline, *failure.Failure) {
	for _, with := range r.keys {
		for _, algorithm := range with.algorithms {
			// It compares the header's algorithm and refuses critical extensions and unencoded payloads.
			if payload, err := jws.VerifyCompactFast(with.key, []byte(key), algorithm); err == nil {
				return r.decode(payload)
			}
		}
	}
	return nil, refuse(failure.LicenseKeyUntrusted)
}

// claims are those of a key that count.
type claims struct {
	ID         string     `json:"licenseId"`
	Type       string     `json:"licenseType"`
	TenantID   string     `json:"tenantId"`
	TenantSlug string     `json:"tenantSlug"`
	Issuer     string     `json:"iss"`
	Audience   audience   `json:"aud"`
	Expires    *float64   `json:"exp"`
	NotBefore  *float64   `json:"nbf"`
	Limits     claimLimit `json:"limits"`
}

type claimLimit struct {
	MaxProjects *float64 `json:"maxProjects"`
}

// audience is one text or several.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(raw []byte) error {
	var one string
	if json.Unmarshal(raw, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(raw, (*[]string)(a))
}

// decode reads the claims of a key whose signature is good.
func (r *Reader) decode(payload []byte) (*access.Offline, *failure.Failure) {
	var c claims
	if err := json.Unmarshal(payload, &c); err != nil {
		return nil, refuse(failure.LicenseKeyMalformed)
	}
	tier := access.ParseTier(c.Type)
	for _, text := range []struct{ claim, value string }{
		{"licenseId", c.ID}, {"licenseType", c.Type}, {"tenantId or tenantSlug", c.TenantID + c.TenantSlug},
	} {
		switch {
		case text.value == "":
			return nil, refuse(failure.LicenseKeyIncomplete).Param("claim", text.claim)
		case len(text.value) > maxText:
			return nil, badClaim(text.claim)
		}
	}
	switch {
	case string(tier) != c.Type:
		return nil, badClaim("licenseType")
	case r.config.Issuer != "" && c.Issuer != r.config.Issuer:
		return nil, badClaim("iss")
	case r.config.Audience != "" && !slices.Contains(c.Audience, r.config.Audience):
		return nil, badClaim("aud")
	}
	offline := &access.Offline{ID: c.ID, Tier: tier, TenantID: c.TenantID, TenantSlug: c.TenantSlug}
	var ok bool
	if offline.Expires, ok = timeOf(c.Expires); !ok {
		return nil, badClaim("exp")
	}
	if offline.NotBefore, ok = timeOf(c.NotBefore); !ok {
		return nil, badClaim("nbf")
	}
	if most := c.Limits.MaxProjects; most != nil {
		if *most != math.Trunc(*most) || *most < access.Unlimited || *most > maxProjects {
			return nil, badClaim("limits.maxProjects")
		}
		offline.MaxProjects, offline.Bounded = int(*most), true
	}
	return offline, nil
}

// timeOf is a time in a key; zero when it has none.
func timeOf(seconds *float64) (time.Time, bool) {
	if seconds == nil {
		return time.Time{}, true
	}
	if !(*seconds > 0 && *seconds <= lastSecond) {
		return time.Time{}, false
	}
	return time.UnixMilli(int64(*seconds * 1000)), true
}

func refuse(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}

func badClaim(claim string) *failure.Failure {
	return refuse(failure.LicenseKeyBadClaim).Param("claim", claim)
}
