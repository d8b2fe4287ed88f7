// Package identity holds tenants, projects, users and API tokens, and the rules for who may create, change and delete them. The
// Client API, the operations listener and the command line all go through it: they differ in the Caller they pass, not in rules.
//
// It is pure: records are read and written through a collection.Store; time, ids and randomness come from Env.
//
// # Rules
//
// Who signs in has a password, of which a bcrypt hash is kept, and sessions of one generation: whatever ends all sessions of a user
// raises it. Users who may not sign in (canLogin) have no sessions.
//
// A tenant's slug, a project's key and a user's email are unique: the slug on the server, the others in their tenant. A tenant
// keeps its last owner. The plan's limits on users and API tokens, and the quotas of policies, bind everybody but the operator, exactly,
// however many requests are made at once. Nobody gives a user, a group or a token more than they have themselves: what exceeds it is lowered, or refused
// where it cannot be. Deleting a user deletes their tokens; leaving a project deletes those for it.
//
// Owners are changed by owners only, and deleted by none of them: they are given another role first, as long as another owner can
// sign in.
//
// A tenant's licence is what its key gives, while that counts, else its tier. It is computed from the record and the clock wherever it is
// asked for: nothing has to happen when a key ends.
//
// What a rule refuses is a *failure.Failure. A record that does not exist, or belongs to a tenant that the caller does not see, is
// a *collection.MissingError.
package identity

import (
	"strings"
	"time"

	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
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
	AccessCodes   = "access_codes"
	Groups        = "groups"
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
	// Ready says that every node of the cluster knows memberships, groups and invitations. Default: it does.
	Ready func() bool
	// LicenceKeys reads offline licence keys; nil = none is taken, and none counts.
	LicenceKeys LicenceKeys
	// LicenceGrace is how long a key counts after its end.
	LicenceGrace time.Duration
	// LicencesReady says that every node of the cluster knows licence keys. Default: it does.
	LicencesReady func() bool
	// Policies are the quota policies of a tenant, in the order in which they are merged. Default: there are none.
	Policies func(tenantID string) []*quota.Policy
}

// Accounts is the tenants, projects, users and API tokens of the server. It is safe for concurrent use.
type Accounts struct {
	env      Env
	tenants  *collection.Collection[*directorypb.Tenant]
	projects *collection.Collection[*directorypb.Project]
	users    *collection.Collection[*directorypb.User]
	tokens   *collection.Collection[*directorypb.Token]
	uses     *collection.Collection[*directorypb.TokenUse]
	counts   *collection.Collection[*directorypb.RequestCount]
	codes    *collection.Collection[*accessCode]
	groups   *collection.Collection[*directorypb.Group]
}

// New returns the accounts in a store.
func New(store collection.Store, env Env) *Accounts {
	return &Accounts{
		env: env,
		tenants: collection.Proto(store, collection.Declaration[*directorypb.Tenant]{
			Name: Tenants, Noun: "tenant", Key: (*directorypb.Tenant).GetId, Created: (*directorypb.Tenant).GetCreatedAt,
			Scope: func(*directorypb.Tenant) string { return Tenants },
			Terms: func(t *directorypb.Tenant) []string { return []string{slugTerm(t.GetSlug())} },
			Unique: []collection.Unique[*directorypb.Tenant]{{
				Field: "slug", Of: (*directorypb.Tenant).GetSlug, Taken: func(t *directorypb.Tenant) error {
					return failure.New(failurepb.Code_CONFLICT, failure.SlugTaken).Param("slug", t.GetSlug())
				},
			}},
		}),
		projects: collection.Proto(store, collection.Declaration[*directorypb.Project]{
			Name: Projects, Noun: "project", Key: (*directorypb.Project).GetId, Created: (*directorypb.Project).GetCreatedAt,
			Scope: func(p *directorypb.Project) string { return collection.Scope(Projects, p.GetTenantId()) },
			Terms: func(p *directorypb.Project) []string { return []string{tenantTerm(p.GetTenantId())} },
			Unique: []collection.Unique[*directorypb.Project]{{
				Field: "key", Of: (*directorypb.Project).GetKey, Taken: func(p *directorypb.Project) error {
					return failure.New(failurepb.Code_CONFLICT, failure.ProjectKeyTaken).Param("key", p.GetKey())
				},
			}},
		}),
		users: collection.Proto(store, collection.Declaration[*directorypb.User]{
			Name: Users, Noun: "user", Key: (*directorypb.User).GetId, Created: (*directorypb.User).GetCreatedAt,
			Scope: func(u *directorypb.User) string { return collection.Scope(Users, u.GetTenantId()) },
			Terms: func(u *directorypb.User) []string {
				terms := []string{tenantTerm(u.GetTenantId()), roleTerm(u.GetTenantId(), u.GetRole()), emailTerm(u.GetEmail())}
				for _, id := range u.GetGroupIds() {
					terms = append(terms, groupTerm(id))
				}
				if known := u.GetSignIn().GetProviderIdentity(); known != nil {
					terms = append(terms, providerTerm(u.GetTenantId(), known.GetIssuer(), known.GetSubject()))
				}
				return terms
			},
			Unique: []collection.Unique[*directorypb.User]{{
				Field: "email", Of: (*directorypb.User).GetEmail, Taken: func(*directorypb.User) error {
					return failure.New(failurepb.Code_ALREADY_EXISTS, failure.EmailTaken)
				},
			}, {
				Field: "provider", Of: providerIdentity, Taken: func(*directorypb.User) error {
					return failure.New(failurepb.Code_ALREADY_EXISTS, failure.ProviderIdentityTaken)
				},
			}},
		}),
		tokens: collection.Proto(store, collection.Declaration[*directorypb.Token]{
			Name: Tokens, Noun: "token", Key: func(t *directorypb.Token) string { return TokenKey(t.GetHash()) },
			Created: (*directorypb.Token).GetCreatedAt, Tie: (*directorypb.Token).GetId,
			Scope: func(t *directorypb.Token) string { return collection.Scope(Tokens, t.GetTenantId()) },
			Terms: func(t *directorypb.Token) []string {
				return []string{idTerm(t.GetId()), tenantTerm(t.GetTenantId()), projectTerm(t.GetProjectId()), userTerm(t.GetTenantId(), t.GetUserId())}
			},
		}),
		uses:   collection.Proto(store, collection.Declaration[*directorypb.TokenUse]{Name: TokenUses, Noun: "use of a token"}),
		counts: collection.Proto(store, collection.Declaration[*directorypb.RequestCount]{Name: RequestCounts, Noun: "request count"}),
		groups: collection.Proto(store, collection.Declaration[*directorypb.Group]{
			Name: Groups, Noun: "group", Key: (*directorypb.Group).GetId, Created: (*directorypb.Group).GetCreatedAt,
			Scope: func(g *directorypb.Group) string { return collection.Scope(Groups, g.GetTenantId()) },
			Terms: func(g *directorypb.Group) []string { return []string{tenantTerm(g.GetTenantId())} },
			Unique: []collection.Unique[*directorypb.Group]{{
				Field: "name", Of: func(g *directorypb.Group) string { return strings.ToLower(g.GetName()) }, Taken: func(*directorypb.Group) error {
					return failure.New(failurepb.Code_ALREADY_EXISTS, failure.GroupNameTaken)
				},
			}},
		}),
		codes: collection.JSON(store, collection.Declaration[*accessCode]{
			Name: AccessCodes, Noun: "access code", Key: func(c *accessCode) string { return c.Hash },
		}),
	}
}

func idTerm(id string) string                 { return collection.Term("id", id) }
func tenantTerm(tenantID string) string       { return collection.Term("tenant", tenantID) }
func projectTerm(projectID string) string     { return collection.Term("project", projectID) }
func userTerm(tenantID, userID string) string { return collection.Term("user", tenantID, userID) }
func emailTerm(email string) string           { return collection.Term("email", email) }
func groupTerm(groupID string) string         { return collection.Term("group", groupID) }
func slugTerm(slug string) string             { return collection.Term("slug", slug) }
func roleTerm(tenantID, role string) string   { return collection.Term("role", tenantID, role) }

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}

// limit is a plan's limit on the records of a tenant; none for callers that no plan binds.
func limit(what, tenantID string, most int, bound bool) []collection.Limit {
	if !bound {
		return nil
	}
	return []collection.Limit{{Term: tenantTerm(tenantID), Most: most, Reached: func(count int) error {
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).
			Param("records", what).Param("count", count).Param("most", most)
	}}}
}
