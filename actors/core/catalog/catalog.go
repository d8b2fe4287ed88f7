// Package catalog holds the agents, their published versions, the models and the providers of projects, and the rules for who may
// create, change and delete them. What a config, settings or prices look like says package definition.
//
// It is pure: records are read and written through a collection.Store; time, ids, randomness and encryption come from Env.
//
// # Rules
//
// Keys are unique in their project. What a project records is bounded in number and bytes, and the models of a tenant by its plan,
// exactly, however many are created at once; agents and models by the quotas of policies, too. A version never changes, and its number is
// used once. Agents of the server's configuration and the built-in model cannot be written. A provider that a model uses cannot be
// deleted. Secrets are encrypted before they are stored and go to no other host than the one that they were given for.
//
// What a rule refuses is a *failure.Failure, a record that does not exist a *collection.MissingError.
package catalog

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/quota"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Collections of the directory (package directorypb says what they hold and how they are keyed).
const (
	Agents        = "agents"
	AgentVersions = "agent_versions"
	Models        = "models"
	Providers     = "providers"
	Shields       = "shields"
	Guardrails    = "guardrails"
	QuotaPolicies = "quota_policies"
)

// Bounds of what a project records: every node has all of it in memory.
const (
	maxRecords      = 10_000   // agents, models and providers, each
	maxVersions     = 1_000    // of an agent
	maxProjectBytes = 64 << 20 // of each collection
)

// Key is the key of a project's agent, model or provider.
func Key(projectID, key string) string { return projectID + "/" + key }

// VersionKey is the key of a version of the agent with a record key.
func VersionKey(agentKey string, version int64) string {
	return fmt.Sprintf("%s/%010d", agentKey, version)
}

// Env is what the rules need besides the records. All of it is required to write, unless it says otherwise.
type Env struct {
	NewID  func(kind string) string
	Now    func() time.Time
	Random func([]byte) // fills it with cryptographic randomness
	// Seal encrypts a secret; about names what it belongs to and is needed to open it.
	Seal func(secret []byte, about string) ([]byte, error)
	// Configured says whether an agent of the server's configuration has the key in a project.
	Configured func(projectID, key string) bool
	// CheckSchema says what is wrong with a JSON Schema. nil = nothing is.
	CheckSchema func(schema []byte) error
	// CheckAgent says why an agent of a project with this config could not be run. nil = whatever is well formed can.
	CheckAgent func(projectID string, config *definition.Config) error
	// Policies are the quota policies of a tenant, in the order in which they are merged, as this node has them. nil = there are none.
	Policies func(tenantID string) []*quota.Policy
}

// Caller is on whose behalf a project's records are written.
type Caller struct {
	TenantID, ProjectID, UserID string
	Tier                        access.Tier
}

// Catalog is the agents, models and providers of all projects. It is safe for concurrent use.
type Catalog struct {
	env       Env
	agents    *collection.Collection[*directorypb.Agent]
	versions  *collection.Collection[*directorypb.AgentVersion]
	models    *collection.Collection[*directorypb.Model]
	providers *collection.Collection[*directorypb.Provider]
	shields   *collection.Collection[*directorypb.Shield]
	policies  *collection.Collection[*directorypb.QuotaPolicy]

	guardrails *collection.Collection[*directorypb.Guardrail]
}

// New returns the catalog in a store.
func New(store collection.Store, env Env) *Catalog {
	return &Catalog{
		env: env,
		agents: collection.Proto(store, collection.Declaration[*directorypb.Agent]{
			Name: Agents, Noun: "agent", MaxBytes: maxProjectBytes, Created: (*directorypb.Agent).GetCreatedAt,
			Key:   func(a *directorypb.Agent) string { return Key(a.GetProjectId(), a.GetKey()) },
			Scope: func(a *directorypb.Agent) string { return collection.Scope(Agents, a.GetTenantId()) },
			Terms: func(a *directorypb.Agent) []string {
				return []string{projectTerm(a.GetProjectId()), tenantTerm(a.GetTenantId()), statusTerm(a.GetProjectId(), a.GetStatus())}
			},
		}),
		versions: collection.Proto(store, collection.Declaration[*directorypb.AgentVersion]{
			Name: AgentVersions, Noun: "agent version", MaxBytes: maxProjectBytes, Created: (*directorypb.AgentVersion).GetCreatedAt,
			Key: func(v *directorypb.AgentVersion) string {
				return VersionKey(Key(v.GetProjectId(), v.GetAgentKey()), v.GetVersion())
			},
			Scope: func(v *directorypb.AgentVersion) string { return collection.Scope(AgentVersions, v.GetTenantId()) },
		}),
		models: collection.Proto(store, collection.Declaration[*directorypb.Model]{
			Name: Models, Noun: "model", MaxBytes: maxProjectBytes, Created: (*directorypb.Model).GetCreatedAt,
			Key:   func(m *directorypb.Model) string { return Key(m.GetProjectId(), m.GetKey()) },
			Scope: func(m *directorypb.Model) string { return collection.Scope(Models, m.GetTenantId()) },
			Terms: func(m *directorypb.Model) []string {
				return []string{
					projectTerm(m.GetProjectId()), tenantTerm(m.GetTenantId()), idTerm(m.GetProjectId(), m.GetId()),
					providerTerm(m.GetProjectId(), m.GetProviderKey()),
				}
			},
		}),
		providers: collection.Proto(store, collection.Declaration[*directorypb.Provider]{
			Name: Providers, Noun: "provider", MaxBytes: maxProjectBytes, Created: (*directorypb.Provider).GetCreatedAt,
			Key:   func(p *directorypb.Provider) string { return Key(p.GetProjectId(), p.GetKey()) },
			Scope: func(p *directorypb.Provider) string { return collection.Scope(Providers, p.GetTenantId()) },
			Terms: func(p *directorypb.Provider) []string { return []string{projectTerm(p.GetProjectId())} },
		}),
		shields: collection.Proto(store, collection.Declaration[*directorypb.Shield]{
			Name: Shields, Noun: "shield", MaxBytes: maxProjectBytes, Created: (*directorypb.Shield).GetCreatedAt,
			Key:   func(s *directorypb.Shield) string { return Key(s.GetProjectId(), s.GetId()) },
			Scope: func(s *directorypb.Shield) string { return collection.Scope(Shields, s.GetTenantId()) },
			Terms: func(s *directorypb.Shield) []string { return []string{projectTerm(s.GetProjectId())} },
		}),
		guardrails: collection.Proto(store, collection.Declaration[*directorypb.Guardrail]{
			Name: Guardrails, Noun: "guardrail", MaxBytes: maxProjectBytes, Created: (*directorypb.Guardrail).GetCreatedAt,
			Key:   func(g *directorypb.Guardrail) string { return Key(g.GetProjectId(), g.GetKey()) },
			Scope: func(g *directorypb.Guardrail) string { return collection.Scope(Guardrails, g.GetTenantId()) },
			Terms: func(g *directorypb.Guardrail) []string { return []string{projectTerm(g.GetProjectId())} },
		}),
		policies: collection.Proto(store, collection.Declaration[*directorypb.QuotaPolicy]{
			Name: QuotaPolicies, Noun: "quota policy", MaxBytes: maxProjectBytes, Created: (*directorypb.QuotaPolicy).GetCreatedAt,
			Key:   func(p *directorypb.QuotaPolicy) string { return Key(p.GetTenantId(), p.GetId()) },
			Scope: func(p *directorypb.QuotaPolicy) string { return collection.Scope(QuotaPolicies, p.GetTenantId()) },
			Terms: func(p *directorypb.QuotaPolicy) []string { return []string{tenantTerm(p.GetTenantId())} },
		}),
	}
}

func tenantTerm(tenantID string) string          { return collection.Term("tenant", tenantID) }
func projectTerm(projectID string) string        { return collection.Term("project", projectID) }
func statusTerm(projectID, status string) string { return collection.Term("status", projectID, status) }
func idTerm(projectID, id string) string         { return collection.Term("id", projectID, id) }
func providerTerm(projectID, provider string) string {
	return collection.Term("provider", projectID, provider)
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_INVALID_REQUEST, reason)
}

// limit is a limit on the records of a term, which belong to a project or a tenant.
func limit(what, term string, most int) collection.Limit {
	return collection.Limit{Term: term, Most: most, Reached: func(count int) error {
		return failure.New(failurepb.Code_QUOTA_REACHED, failure.RecordLimitReached).
			Param("records", what).Param("count", count).Param("most", most)
	}}
}

var keyRule = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

// isKey says whether a text can be the key of an agent, a model or a provider.
func isKey(text string) bool { return keyRule.MatchString(text) }

// newKey makes a key out of a name.
func (c *Catalog) newKey(name, fallback string) string {
	return slug(name, fallback) + "-" + c.randomText(6)
}

// slug makes the readable part of a key out of a name.
func slug(name, fallback string) string {
	const longest = 40
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() >= longest {
			break
		}
	}
	return cmp.Or(strings.Trim(b.String(), "-"), fallback)
}

func (c *Catalog) randomBytes(n int) []byte {
	random := make([]byte, n)
	c.env.Random(random)
	return random
}

// randomText is n random digits and lower-case letters.
func (c *Catalog) randomText(n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, 0, n)
	for len(text) < n {
		for _, b := range c.randomBytes(n) {
			if int(b) < 256/len(letters)*len(letters) && len(text) < n { // every letter as likely as any other
				text = append(text, letters[int(b)%len(letters)])
			}
		}
	}
	return string(text)
}

// newSlug names an agent towards other agents: 16 hex digits.
func (c *Catalog) newSlug() string { return hex.EncodeToString(c.randomBytes(8)) }
