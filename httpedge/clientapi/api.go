package clientapi

import (
	"context"

	"parley/actors/core/catalog"
	"parley/actors/core/entity"
	"parley/actors/core/feature"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
)

// Parts is what the API needs of the rest of the node.
type Parts struct {
	Runtime  endpoint.Runtime
	Entities entity.Client // everything that lives in shards: commands and reads by their messages
	Agents   endpoint.Agents
	Accounts *identity.Accounts
	Catalog  *catalog.Catalog
	Sealer   endpoint.Sealer
	Files    endpoint.Files
	IDs      endpoint.IDs
	Hub      *sse.Hub // carries the streams
	// Authorizer permits budgets to be raised and actions to be resolved, as on the conversation server. Nil = whoever may see a
	// session may.
	Authorizer endpoint.Authorizer
	// Features is what the nodes of the cluster have in common; nil = all that this release has.
	Features *feature.Gate
	// Gateway is the OpenAI-compatible gateway, for the document only.
	Gateway endpoint.Surface
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
