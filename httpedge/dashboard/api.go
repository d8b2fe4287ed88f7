package dashboard

import (
	"context"

	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/httpedge/openid"
)

// Hasher makes and checks hashes of passwords. Package password implements it.
type Hasher interface {
	Hash(ctx context.Context, password string) ([]byte, error)
	// Matches takes the same time without a hash.
	Matches(ctx context.Context, hash []byte, password string) (bool, error)
}

// Registration says who may register.
type Registration string

// Modes of registration.
const (
	RegistrationOpen     Registration = "open"
	RegistrationBeta     Registration = "beta" // with an access code
	RegistrationDisabled Registration = "disabled"
)

// Config is the settings of the surface.
type Config struct {
	Registration Registration
	AccessCodes  []string // of RegistrationBeta
	Limits       Limits
	Provider     Provider
}

// Parts is what the surface needs of the rest of the node.
type Parts struct {
	Sessions *login.Sessions
	Accounts *identity.Accounts
	Hasher   Hasher
	Attempts Attempts
	Mails    Mails
	Tickets  *login.Tickets
	Sealer   Sealer
	Provider *openid.Provider // nil = there is none
}

// API is the handlers.
type API struct {
	config Config
	Parts
}

// New returns the API.
func New(config Config, parts Parts) *API { return &API{config: config, Parts: parts} }

// maxBody bounds the bodies of this surface.
const maxBody = 16 << 10

// Surface returns the routes, to be mounted below /api.
func (a *API) Surface() endpoint.Surface {
	surface := endpoint.Surface{
		Name: "dashboard", Routes: a.routes(), Refusals: refusals(), AppendProblem: appendProblem,
	}
	if a.Sessions == nil { // only to be looked at
		return surface
	}
	return a.Sessions.Protect(surface)
}
