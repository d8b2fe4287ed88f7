// Package handler has what the resources of the Client API share: settings, the parts of the node that handlers use, the caller and
// what they may see, commands to sessions and runs, and the inputs that several routes take.
package handler

import (
	"context"

	"parley/actors/core/access"
	"parley/actors/core/aegis"
	"parley/actors/core/catalog"
	"parley/actors/core/entity"
	"parley/actors/core/identity"
	"parley/actors/core/quota"
	"parley/actors/core/subscription"
	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/agentpb"
	"parley/proto/decisionpb"
)

// Permissions decide what a caller may do besides what the route takes, see permission.Engine.
type Permissions interface {
	Allows(ctx context.Context, caller endpoint.Caller, service access.Service, level access.Level) (bool, error)
}

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
	Console  Console  // for what pages show
	// Authorizer permits budgets to be raised and actions to be resolved, as on the conversation server. Nil = whoever may see a
	// session may.
	Authorizer endpoint.Authorizer
	// Webhooks is where webhook endpoints are managed.
	Webhooks *subscription.Webhooks
	// Permissions says what a caller may do besides what the route takes.
	Permissions Permissions
	// InviteLink is where somebody accepts an invitation with its secret. nil = nothing is known of such a place.
	InviteLink func(secret string) string
	// AuditChain is the id of a tenant's audit trail.
	AuditChain func(tenantID string) string
	// Gateway is the OpenAI-compatible gateway, for the document only.
	Gateway endpoint.Surface
	// CheckCallback says whether callbacks may go to a URL: to an address that is not this server's own network, or that its
	// operator allows. What it returns is an error of the caller's. nil = they may go anywhere.
	CheckCallback func(ctx context.Context, url string) error
	Limits
	// Aegis is what shields need.
	Aegis Aegis
	// Schemas checks what a request brings along for JSON Schemas. nil = nothing is.
	Schemas Schemas
}

// Limits is what bounds requests besides the routes.
type Limits struct {
	Release
	// Door counts what quota policies bound. nil = nothing is.
	Door quota.Door
	// FileDoor counts what of files they bound. nil = nothing is.
	FileDoor quota.FileDoor
	// Policies are the quota policies of a tenant, in the order in which they are merged, as the door has them: they cost next to nothing. nil =
	// there are none.
	Policies func(tenantID string) []*quota.Policy
}

// Release is what the nodes of the cluster can, while releases run side by side.
type Release struct {
	// CanPush says whether clients of A2A can be told of their tasks: every node of the cluster knows how. nil = they can.
	CanPush func() bool
	// Current says whether every node of the cluster has this release: adds up usage where it is, knows of queued messages. nil = they do.
	Current func() bool
	// CanBudget says whether every node of the cluster keeps to budgets and quota policies. nil = they do.
	CanBudget func() bool
	// CanTrace says whether every node of the cluster keeps traces. nil = they do.
	CanTrace func() bool
}

// Aegis is what shields, and guardrails, need of the rest of the node.
type Aegis interface {
	// Ready says why shields cannot be asked yet: a node of the release before does not know what they keep.
	Ready() error
	// ApprovalID is the id of the approval of a call, see aegis.Call.Binding.
	ApprovalID(binding string) string
	// IsApproval says whether a text can be such an id.
	IsApproval(id string) bool
	// Judge judges a call, and has the verdict kept with others, within a moment. It waits while too many are to be written.
	Judge(ctx context.Context, shield *aegis.Shield, call *aegis.Call, how aegis.How) (*aegis.Result, error)
	// Keep has a guardrail's verdict kept with them; nil = it found nothing.
	Keep(ctx context.Context, verdict *decisionpb.Verdict)
}

// Schemas says what is wrong, in errors of the caller's.
type Schemas interface {
	// Tools checks function tools.
	Tools(tools []*agentpb.Tool) error
	// Format checks the schema of an output format.
	Format(schema []byte) error
	// Args checks the arguments of a call, see turns.CheckArgs.
	Args(ctx context.Context, schema, args []byte) error
}

// API is what all handlers of the Client API use. A resource embeds it.
type API struct {
	Config Config
	Parts
}

// New returns it. The configuration must be valid.
func New(config Config, parts Parts) *API { return &API{Config: config, Parts: parts} }
