package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"parley/actors/core/failure"
)

// Static is the static token map. Tokens are compared as SHA-256, so timing reveals nothing useful.
type Static struct{ users map[[sha256.Size]byte]string }

// NewStatic returns a provider of fixed tokens.
func NewStatic(tokens []StaticToken) (*Static, error) {
	if len(tokens) == 0 {
		return nil, errors.New("static token map is empty")
	}
	s := &Static{users: make(map[[sha256.Size]byte]string, len(tokens))}
	for i, t := range tokens {
		if !validUserID(t.UserID) {
			return nil, fmt.Errorf("static token %d: user id must have 1 to %d bytes and no control characters", i, maxUserID)
		}
		if _, ok := s.users[t.SHA256]; ok {
			return nil, fmt.Errorf("static token %d: is there twice", i)
		}
		s.users[t.SHA256] = t.UserID
	}
	return s, nil
}

// Validate returns the user of a token.
func (s *Static) Validate(_ context.Context, token string) (string, error) {
	userID, ok := s.users[digestOf(token)]
	if !ok {
		return "", refuse(failure.InvalidToken)
	}
	return userID, nil
}
