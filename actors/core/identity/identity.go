// Package identity holds tenants, projects, users and API tokens, and the rules for who may create, change and delete them. The
// Client API, the operations listener and the command line all go through it: they differ in the Caller they pass, not in rules.
//
// It is pure: records are read and written through a collection.Store; time, ids and randomness come from Env.
//
// # Rules
//
// A tenant's slug, a project's key and a user's email are unique: the slug on the server, the others in their tenant. A tenant
// keeps its last owner. The plan's limits on users and API tokens bind everybody but the operator, exactly, however many requests
// are made at once. Nobody gives a user or a token more than they have themselves. Deleting a user deletes their tokens.
//
// What a rule refuses is a *machine.Failure. A record that does not exist, or belongs to a tenant that the caller does not see, is
// a *collection.MissingError.
package identity

import (
	"time"

	"parley/actors/core/collection"
	"parley/actors/machine"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Collections of the directory (package directorypb says what they hold and how they are keyed).
const (
	Tenants       = "tenants"
	Projects      = "projects"
	Users         = "users"
	Tokens        = "tokens"
	TokenUses     = "token_uses"
	RequestCounts = "request_counts"
)

// The first tenant and what belongs to it. Callers of the conversation server without an API token are in this project.
const (
	DefaultTenant  = "default"
	DefaultProject = "default"
	DefaultOwner   = "usr_default"
)

// Env is what the rules need besides the records. All of it is required to write.
type Env struct {
	NewID  func(kind string) string
	Now    func() time.Time
	Random func([]byte) // fills it with cryptographic randomness
}

// Accounts is the tenants, projects, users and API tokens of the server. It is safe for concurrent use.
type Accounts struct {
	env      Env
	tenants  *collection.Collection[directorypb.Tenant]
	projects *collection.Collection[directorypb.Project]
	users    *collection.Collection[directorypb.User]
	tokens   *collection.Collection[directorypb.Token]
	uses     *collection.Collection[directorypb.TokenUse]
	counts   *collection.Collection[directorypb.RequestCount]
}

// New returns the accounts in a store.
func New(store collection.Store, env Env) *Accounts {
	return &Accounts{
		env: env,
		tenants: collection.Proto(store, collection.Declaration[directorypb.Tenant]{
			Name: Tenants, Noun: "tenant", Key: (*directorypb.Tenant).GetId, Created: (*directorypb.Tenant).GetCreatedAt,
			Scope: func(*directorypb.Tenant) string { return Tenants },
			Unique: []collection.Unique[directorypb.Tenant]{{
				Field: "slug", Of: (*directorypb.Tenant).GetSlug, Taken: func(t *directorypb.Tenant) error {
					return machine.Fail(failurepb.Code_CONFLICT, "there is a tenant with the slug %q", t.GetSlug())
				},
			}},
		}),
		projects: collection.Proto(store, collection.Declaration[directorypb.Project]{
			Name: Projects, Noun: "project", Key: (*directorypb.Project).GetId, Created: (*directorypb.Project).GetCreatedAt,
			Scope: func(p *directorypb.Project) string { return collection.Scope(Projects, p.GetTenantId()) },
			Terms: func(p *directorypb.Project) []string { return []string{tenantTerm(p.GetTenantId())} },
			Unique: []collection.Unique[directorypb.Project]{{
				Field: "key", Of: (*directorypb.Project).GetKey, Taken: func(p *directorypb.Project) error {
					return machine.Fail(failurepb.Code_CONFLICT, "there is a project with the key %q", p.GetKey())
				},
			}},
		}),
		users: collection.Proto(store, collection.Declaration[directorypb.User]{
			Name: Users, Noun: "user", Key: (*directorypb.User).GetId, Created: (*directorypb.User).GetCreatedAt,
			Scope: func(u *directorypb.User) string { return collection.Scope(Users, u.GetTenantId()) },
			Terms: func(u *directorypb.User) []string {
				return []string{tenantTerm(u.GetTenantId()), roleTerm(u.GetTenantId(), u.GetRole())}
			},
			Unique: []collection.Unique[directorypb.User]{{
				Field: "email", Of: (*directorypb.User).GetEmail, Taken: func(*directorypb.User) error {
					return machine.Fail(failurepb.Code_ALREADY_EXISTS, "User with this email already exists in your organization")
				},
			}},
		}),
		tokens: collection.Proto(store, collection.Declaration[directorypb.Token]{
			Name: Tokens, Noun: "token", Key: func(t *directorypb.Token) string { return TokenKey(t.GetHash()) },
			Created: (*directorypb.Token).GetCreatedAt, Tie: (*directorypb.Token).GetId,
			Scope: func(t *directorypb.Token) string { return collection.Scope(Tokens, t.GetTenantId()) },
			Terms: func(t *directorypb.Token) []string {
				return []string{idTerm(t.GetId()), tenantTerm(t.GetTenantId()), projectTerm(t.GetProjectId()), userTerm(t.GetTenantId(), t.GetUserId())}
			},
		}),
		uses:   collection.Proto(store, collection.Declaration[directorypb.TokenUse]{Name: TokenUses, Noun: "use of a token"}),
		counts: collection.Proto(store, collection.Declaration[directorypb.RequestCount]{Name: RequestCounts, Noun: "request count"}),
	}
}

func idTerm(id string) string                 { return collection.Term("id", id) }
func tenantTerm(tenantID string) string       { return collection.Term("tenant", tenantID) }
func projectTerm(projectID string) string     { return collection.Term("project", projectID) }
func userTerm(tenantID, userID string) string { return collection.Term("user", tenantID, userID) }
func roleTerm(tenantID, role string) string   { return collection.Term("role", tenantID, role) }

func invalid(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_VALIDATION, format, args...)
}

// limit is a plan's limit on the records of a tenant; none for callers that no plan binds.
func limit(what, tenantID string, most int, bound bool) []collection.Limit {
	if !bound {
		return nil
	}
	return []collection.Limit{{Term: tenantTerm(tenantID), Most: most, Reached: func(count int) error {
		return machine.Fail(failurepb.Code_QUOTA_REACHED, "%s limit reached (%d/%d)", what, count, most)
	}}}
}
