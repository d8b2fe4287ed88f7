package token

import (
	"crypto/sha256"
	"encoding/hex"
)

// Prefix is how API tokens begin that this server makes.
const Prefix = "service_"

// shownBytes is how much of a token is kept to recognise it.
const shownBytes = 16

// Generate makes an API token out of random bytes: the token, which is shown once, its hash, which is stored, and its beginning,
// by which people recognise it.
func Generate(random *[32]byte) (secret string, hash []byte, prefix string) {
	secret = Prefix + hex.EncodeToString(random[:])
	hash, prefix = Digest(secret)
	return secret, hash, prefix
}

// Digest is what is stored of a token: its hash and its beginning. Of a short token only a quarter is kept.
func Digest(secret string) (hash []byte, prefix string) {
	sum := digestOf([]byte(secret))
	const part = 4
	return sum[:], secret[:min(shownBytes, len(secret)/part)]
}

// Key is the key of a token's record, by its hash.
func Key(hash []byte) string { return hex.EncodeToString(hash) }

type digest = [sha256.Size]byte

func digestOf(secret []byte) digest { return sha256.Sum256(secret) }
