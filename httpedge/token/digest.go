package token

import "crypto/sha256"

type digest = [sha256.Size]byte

func digestOf(secret []byte) digest { return sha256.Sum256(secret) }
