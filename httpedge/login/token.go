package login

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	// jwx: as in httpedge/auth, the JWT library of the project.
	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
)

// maxToken bounds a session token before anything of it is read.
const maxToken = 4 << 10

var errToken = errors.New("not a token of this kind")

// signer makes and opens the tokens of one kind.
type signer struct{ key []byte }

// newSigner derives a key for one kind of token, so that no token passes for one of another kind. Session tokens are signed with
// the secret itself (document 3, 5.2).
func newSigner(secret []byte, kind string) signer {
	if kind == "" {
		return signer{secret}
	}
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte(kind)) // a hash takes everything
	return signer{mac.Sum(nil)}
}

func (s signer) sign(claims any) (string, error) {
	payload, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("encode claims: %w", err)
	}
	token, err := jws.Sign(payload, jws.WithKey(jwa.HS256(), s.key))
	return string(token), err
}

// open checks a token's signature and time, and decodes its claims. The algorithm is the signer's, whatever the token says.
func (s signer) open(token string, now time.Time, claims any) error {
	if token == "" || len(token) > maxToken {
		return errToken
	}
	payload, err := jws.VerifyCompactFast(s.key, []byte(token), jwa.HS256())
	if err != nil {
		return errToken
	}
	var times struct {
		Expires int64 `json:"exp"`
		Issued  int64 `json:"iat"`
	}
	if err = json.Unmarshal(payload, &times); err != nil || now.Unix() >= times.Expires || now.Add(clockSkew).Unix() < times.Issued {
		return errToken
	}
	return json.Unmarshal(payload, claims)
}

// clockSkew is how far the clock of the node that made a token may be ahead.
const clockSkew = time.Minute

// sessionClaims are those of document 3, 5.2, and the generation of the user's sessions. What may change is read from the records
// at each request; of the claims only user, tenant, generation and expiry count.
type sessionClaims struct {
	UserID           string   `json:"userId"`
	Email            string   `json:"email"`
	TenantID         string   `json:"tenantId"`
	TenantSlug       string   `json:"tenantSlug"`
	TenantDBName     string   `json:"tenantDbName"`
	Role             string   `json:"role"`
	LicenseID        string   `json:"licenseId"`
	LicenseType      string   `json:"licenseType"`
	LicenseExpiresAt string   `json:"licenseExpiresAt,omitempty"`
	Features         []string `json:"features"`
	Generation       uint64   `json:"generation"`
	Issued           int64    `json:"iat"`
	Expires          int64    `json:"exp"`
}
