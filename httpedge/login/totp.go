package login

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what apps for one-time codes know; HMAC does not need a hash without collisions
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// One-time codes by time (RFC 6238) as all apps know them: six digits, 30 seconds, SHA-1. By hand: the libraries say whether a code is
// right, not which one it was, and a code must not be taken twice.
const (
	codeStep   = 30 // seconds
	codeDigits = 6
	secretSize = 20 // bytes

	recoveryCodes    = 10
	recoveryCodeSize = 10 // bytes
)

// CodeKept is for how long a code that was used must be remembered: longer than it is right.
const CodeKept = 5 * time.Minute

func coding() *base32.Encoding { return base32.StdEncoding.WithPadding(base32.NoPadding) }

// NewCodeSecret makes a secret for an app.
func NewCodeSecret() []byte {
	secret := make([]byte, secretSize)
	_, _ = rand.Read(secret) // never fails: the runtime ends the process instead
	return secret
}

// CodeSecretText is a secret as people type it into an app, and as the URI that an app reads from a picture.
func CodeSecretText(secret []byte, account string) (text, uri string) {
	text = coding().EncodeToString(secret)
	at := url.URL{Scheme: "otpauth", Host: "totp", Path: "/Parley:" + account}
	at.RawQuery = url.Values{"secret": {text}, "issuer": {"Parley"}}.Encode()
	return text, at.String()
}

// CheckCode says whether a code is right at a time, and which one it is: one of the present, the last and the next half minute, since
// clocks differ.
func CheckCode(secret []byte, code string, now time.Time) (step int64, right bool) {
	code = strings.ReplaceAll(code, " ", "")
	if len(code) != codeDigits {
		return 0, false
	}
	current := now.Unix() / codeStep
	for _, at := range []int64{current, current - 1, current + 1} {
		if subtle.ConstantTimeCompare([]byte(codeAt(secret, at)), []byte(code)) == 1 {
			return at, true
		}
	}
	return 0, false
}

func codeAt(secret []byte, step int64) string {
	var counter [8]byte
	binary.BigEndian.PutUint64(counter[:], uint64(step)) //nolint:gosec // after 1970
	mac := hmac.New(sha1.New, secret)
	_, _ = mac.Write(counter[:]) // a hash takes everything
	sum := mac.Sum(nil)
	const low, positive, modulus = 0xf, 0x7fffffff, 1_000_000
	at := sum[len(sum)-1] & low
	return fmt.Sprintf("%0*d", codeDigits, binary.BigEndian.Uint32(sum[at:])&positive%modulus)
}

// NewRecoveryCodes makes the codes that let a user in once each without the app, and the hashes that are stored. A code has 80 random
// bits: nobody guesses one, so the hash need not be slow.
func NewRecoveryCodes() (codes []string, hashes [][]byte) {
	for range recoveryCodes {
		random := make([]byte, recoveryCodeSize)
		_, _ = rand.Read(random) // never fails: the runtime ends the process instead
		text := coding().EncodeToString(random)
		const group = 4
		codes = append(codes, strings.ToLower(text[:group]+"-"+text[group:2*group]+"-"+text[2*group:3*group]+"-"+text[3*group:]))
		hash, _ := RecoveryHash(codes[len(codes)-1])
		hashes = append(hashes, hash)
	}
	return codes, hashes
}

// RecoveryHash is what is stored of a recovery code; false = it is not of that form.
func RecoveryHash(code string) ([]byte, bool) {
	code = strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
	if len(code) != coding().EncodedLen(recoveryCodeSize) {
		return nil, false
	}
	sum := sha256.Sum256([]byte(code))
	return sum[:], true
}
