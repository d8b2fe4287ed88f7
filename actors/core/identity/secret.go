package identity

import (
	"crypto/sha256"
	"encoding/hex"
)

// TokenPrefix is how API tokens begin that this server makes.
const TokenPrefix = "service_"

// shownBytes is how much of a token is kept to recognise it.
const shownBytes = 16

// GenerateToken makes an API token out of random bytes: the token, which is shown once, its hash, which is stored, and its
// beginning, by which people recognise it.
func GenerateToken(random *[32]byte) (secret string, hash []byte, prefix string) {
	secret = TokenPrefix + hex.EncodeToString(random[:])
	hash, prefix = TokenDigest(secret)
	return secret, hash, prefix
}

// TokenDigest is what is stored of a token: its hash and its beginning. Of a short token only a quarter is kept.
func TokenDigest(secret string) (hash []byte, prefix string) {
	sum := sha256.Sum256([]byte(secret))
	const part = 4
	return sum[:], secret[:min(shownBytes, len(secret)/part)]
}

// TokenKey is the key of a token's record, by its hash.
func TokenKey(hash []byte) string { return hex.EncodeToString(hash) }
