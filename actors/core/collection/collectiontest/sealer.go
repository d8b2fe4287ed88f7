package collectiontest

import (
	"errors"
	"slices"
	"strings"

	"parley/actors/core/failure"
	"parley/proto/failurepb"
)

// Sealer stands in for the encryption of secrets: a test can see that a secret was sealed, and about what. Locked makes it fail.
type Sealer struct{ Locked bool }

// Seal returns what the secret is about and the secret's bytes in reverse.
func (s *Sealer) Seal(secret []byte, about string) ([]byte, error) {
	if s.Locked {
		return nil, failure.New(failurepb.Code_SECRETS_UNAVAILABLE, failure.SecretsUnencrypted)
	}
	turned := slices.Clone(secret)
	slices.Reverse(turned)
	return append([]byte(about+"\x00"), turned...), nil
}

// Open reverses Seal; a secret that was sealed about something else is an error.
func (*Sealer) Open(sealed []byte, about string) ([]byte, error) {
	turned, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, errors.New("sealed about something else")
	}
	secret := []byte(turned)
	slices.Reverse(secret)
	return secret, nil
}
