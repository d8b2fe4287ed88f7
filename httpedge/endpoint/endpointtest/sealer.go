package endpointtest

import (
	"slices"
	"strings"

	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Sealer seals so that everybody can see that it did, and about what. Locked makes it refuse.
type Sealer struct{ Locked bool }

// Seal turns a secret around behind what it is about.
func (s *Sealer) Seal(secret []byte, about string) ([]byte, error) {
	if s.Locked {
		return nil, machine.Fail(failurepb.Code_SECRETS_UNAVAILABLE, "nothing to encrypt secrets with is configured")
	}
	turned := slices.Clone(secret)
	slices.Reverse(turned)
	return append([]byte(about+"\x00"), turned...), nil
}

// Open undoes Seal; a text about something else stays shut.
func (*Sealer) Open(sealed []byte, about string) ([]byte, error) {
	turned, ok := strings.CutPrefix(string(sealed), about+"\x00")
	if !ok {
		return nil, machine.Fail(failurepb.Code_INTERNAL, "sealed about something else")
	}
	secret := []byte(turned)
	slices.Reverse(secret)
	return secret, nil
}
