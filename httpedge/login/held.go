package login

import (
	"context"
	"encoding/json"
	"time"

	"parley/httpedge/endpoint"
)

// FlowCookie is what a browser holds while its user signs in elsewhere.
const FlowCookie = "signin_flow"

// flowKind derives the key of these cookies.
const flowKind = "signin-flow"

type held struct {
	Value   json.RawMessage `json:"value"`
	Issued  int64           `json:"iat"`
	Expires int64           `json:"exp"`
}

// Hold has the browser hold a value for a time. It can read the value, but not make one.
func (s *Sessions) Hold(ctx context.Context, value any, age time.Duration) error {
	if err := s.Ready(); err != nil {
		return err
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return err
	}
	now := time.Now()
	signed, err := newSigner(s.config.Secret, flowKind).sign(held{Value: encoded, Issued: now.Unix(), Expires: now.Add(age).Unix()})
	if err != nil {
		return err
	}
	s.setCookie(ctx, FlowCookie, signed, age)
	return nil
}

// Held reads the value that the browser holds; false = it holds none that this server made and that is not too old.
func (s *Sessions) Held(ctx context.Context, value any) bool {
	request := endpoint.RequestFrom(ctx)
	if request == nil || len(s.config.Secret) == 0 {
		return false
	}
	signed := only(cookiesOf(request), FlowCookie)
	var claims held
	return newSigner(s.config.Secret, flowKind).open(signed, time.Now(), &claims) == nil && json.Unmarshal(claims.Value, value) == nil
}

// LetGo clears what the browser holds.
func (s *Sessions) LetGo(ctx context.Context) { s.setCookie(ctx, FlowCookie, "", 0) }
