package clientapi

import (
	"context"

	"parley/actors/core/collection"
	"parley/actors/core/entity"
	"parley/actors/core/identity"
	"parley/httpedge/definition"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
)

// Parts is what the API needs of the rest of the node.
type Parts struct {
	Runtime  endpoint.Runtime
	Reader   endpoint.Reader
	Entities entity.Client // everything else that lives in shards: commands and reads by their messages
	Agents   endpoint.Agents
	Accounts *identity.Accounts
	Records  collection.Store
	Sealer   endpoint.Sealer
	Files    endpoint.Files
	IDs      endpoint.IDs
	Hub      *sse.Hub // carries the streams
	// Authorizer permits budgets to be raised and actions to be resolved, as on the conversation server. Nil = whoever may see a
	// session may.
	Authorizer endpoint.Authorizer
	// Gateway is the OpenAI-compatible gateway, for the document only.
	Gateway endpoint.Surface
	// CheckAgent says what is wrong with the config of an agent of a project that only shows where agents are run: its tools,
	// and credentials that would go to a stranger. nil = nothing is.
	CheckAgent func(projectID string, config *definition.Config) error
	// CheckCallback says whether callbacks may go to a URL: to an address that is not this server's own network, or that its
	// operator allows. What it returns is an error of the caller's. nil = they may go anywhere.
	CheckCallback func(ctx context.Context, url string) error
	// CheckTools says the same of function tools that a request brings along.
	CheckTools func([]*agentpb.Tool) error
}

// API is the handlers of the Client API. It holds no state of its own.
type API struct {
	config Config
	Parts
}

// New returns the API. The configuration must be valid.
func New(config Config, parts Parts) *API { return &API{config: config, Parts: parts} }
