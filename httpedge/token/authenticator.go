package token

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/permission"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// textTitle stands in place of the text about a malformed header, which then stands beside it (document 3, 1.3).
const textTitle = "Unauthorized"

const (
	headerName = "Authorization"
	scheme     = "Bearer "
)

// Config is the settings of authentication by API token.
type Config struct {
	// CacheTTL is how long a token is remembered without reading its records anew. At most a minute, which is the default.
	CacheTTL time.Duration
	// CacheEntries is how many tokens are remembered. Default 10,000.
	CacheEntries int
	// MaxTokenBytes bounds a token. Default 4 KiB.
	MaxTokenBytes int
	// Policy is who decides what the owner of a token may, for requests and streams that last. Default permission.BuiltIn.
	Policy permission.Policy
	// Licence is what a tenant is licensed for now. Default: its tier.
	Licence func(*directorypb.Tenant) access.Licence
}

// Lookups of unknown tokens that may be under way at once: they ask another node.
const maxLookups = 64

// Authenticator knows callers by their API token. It implements endpoint.Authenticator.
type Authenticator struct {
	config  Config
	records collection.Store
	logger  *slog.Logger
	cache   *cache
	lookups chan struct{}
	uses    *uses
	down    atomic.Bool // the directory did not answer last time
}

var _ endpoint.Authenticator = (*Authenticator)(nil)

// New returns an authenticator over the directory. Without Start it notes no uses of tokens.
func New(config Config, records collection.Store, logger *slog.Logger) *Authenticator {
	if config.CacheTTL <= 0 || config.CacheTTL > time.Minute {
		config.CacheTTL = time.Minute
	}
	if config.CacheEntries <= 0 {
		config.CacheEntries = 10_000
	}
	if config.MaxTokenBytes <= 0 {
		config.MaxTokenBytes = 4 << 10
	}
	if config.Licence == nil {
		config.Licence = access.TierLicence
	}
	return &Authenticator{
		config: config, records: records, logger: logger,
		cache: newCache(config.CacheEntries), lookups: make(chan struct{}, maxLookups), uses: newUses(records, logger),
	}
}

// Start begins to note when tokens were last used.
func (a *Authenticator) Start() { a.uses.start() }

// Stop ends what Start began and waits for it.
func (a *Authenticator) Stop() { a.uses.stop() }

// Authenticate returns who asks, or why that is not known.
func (a *Authenticator) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	secret, refused := a.secret(peek(request))
	if refused != nil {
		return endpoint.Caller{}, refused
	}
	key := digestOf(secret)
	return a.identify(ctx, &key)
}

// peek returns the header of a request without copying it, where that can be had.
func peek(request endpoint.Request) []byte {
	if p, ok := request.(endpoint.HeaderPeeker); ok {
		return p.PeekHeader(headerName)
	}
	return []byte(request.Header(headerName))
}

// secret takes the token out of the header.
func (a *Authenticator) secret(header []byte) ([]byte, *machine.Failure) {
	secret, ok := bytes.CutPrefix(header, []byte(scheme))
	if !ok {
		if string(header) == scheme[:len(scheme)-1] { // servers cut the blank off
			return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.APITokenMissing)
		}
		return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.MalformedAuthorization).With("error", textTitle)
	}
	secret = bytes.TrimSpace(secret)
	if len(secret) == 0 {
		return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.APITokenMissing)
	}
	if len(secret) > a.config.MaxTokenBytes {
		return nil, failure.New(failurepb.Code_AUTH_REQUIRED, failure.APITokenUnknown)
	}
	return secret, nil
}

// identify returns the caller behind a token's hash.
func (a *Authenticator) identify(ctx context.Context, key *digest) (endpoint.Caller, *machine.Failure) {
	now := time.Now()
	found := a.remembered(key, now)
	if found == nil {
		loaded, refused := a.find(ctx, key, now)
		if refused != nil {
			return endpoint.Caller{}, refused
		}
		a.cache.put(key, loaded)
		found = loaded
	}
	if refused := found.basis.expired(now); refused != nil {
		return endpoint.Caller{}, refused
	}
	a.uses.note(found, now)
	return found.caller, nil
}

// remembered is what the cache has of a token, if it is still so; else nil.
func (a *Authenticator) remembered(key *digest, now time.Time) *entry {
	found := a.cache.get(key)
	if found != nil && (!now.Before(found.until) || !found.basis.current(a.records, now)) {
		a.cache.drop(key, found)
		return nil
	}
	return found
}

// find makes an entry of a token, asking the directory's leader for the records that this node has not heard of yet.
func (a *Authenticator) find(ctx context.Context, key *digest, now time.Time) (*entry, *machine.Failure) {
	r := reading{find: func(name, key string) (collection.Record, bool, error) { return a.findRecord(ctx, name, key) }}
	found, refused := a.load(&r, *key, now)
	if r.err == nil {
		a.setDown(nil)
	} else if ctx.Err() == nil {
		a.setDown(r.err)
	}
	return found, refused
}

// load makes an entry from the records.
func (a *Authenticator) load(r *reading, key digest, now time.Time) (*entry, *machine.Failure) {
	var (
		token   directorypb.Token
		owner   directorypb.User
		tenant  directorypb.Tenant
		project directorypb.Project
	)
	switch {
	case !r.read(identity.Tokens, identity.TokenKey(key[:]), &token):
		return nil, r.refuse(failurepb.Code_AUTH_REQUIRED, failure.APITokenUnknown)
	case !r.read(identity.Tenants, token.GetTenantId(), &tenant):
		return nil, r.refuse(failurepb.Code_NOT_FOUND, failure.APITokenWithoutTenant)
	case !r.read(identity.Projects, token.GetProjectId(), &project), project.GetTenantId() != tenant.GetId():
		return nil, r.refuse(failurepb.Code_VALIDATION, failure.APITokenWithoutProject)
	case !r.read(identity.Users, token.GetUserId(), &owner), owner.GetTenantId() != tenant.GetId():
		return nil, r.refuse(failurepb.Code_FORBIDDEN, failure.APITokenWithoutOwner)
	case !access.MemberOf(&owner, project.GetId()):
		return nil, failure.New(failurepb.Code_FORBIDDEN, failure.APITokenOwnerNoMember)
	}
	licence := a.config.Licence(&tenant)
	grant := access.NewGrant(&token, &owner, &tenant, &project).Under(licence)
	loaded := &entry{
		caller: endpoint.Caller{
			TenantID: tenant.GetId(), ProjectID: project.GetId(), UserID: owner.GetId(),
			Identified: true, Trusted: grant.SeesAll(), Grant: grant,
		},
		until: now.Add(a.config.CacheTTL), tokenID: token.GetId(), basis: &basis{records: r.records, expires: token.GetExpiresAt()},
	}
	if !licence.Until.IsZero() {
		loaded.basis.changes = licence.Until.UnixMilli()
	}
	loaded.lastUse.Store(a.uses.last(token.GetId()))
	return loaded, nil
}

// reading notes which records were read, and what went wrong.
type reading struct {
	find    func(name, key string) (collection.Record, bool, error)
	records [4]version
	next    int
	err     error
}

// read reads the next record. It returns false when there is none, or when it cannot be said.
func (r *reading) read(name, key string, into proto.Message) bool {
	if key == "" {
		return false
	}
	record, ok, err := r.find(name, key)
	if err == nil && ok {
		err = proto.Unmarshal(record.Value, into)
	}
	if err != nil || !ok {
		r.err = err
		return false
	}
	r.records[r.next] = version{collection: name, key: key, version: record.Version}
	r.next++
	return true
}

func (r *reading) refuse(code failurepb.Code, reason failure.Reason) *failure.Failure {
	if r.err == nil {
		return failure.New(code, reason)
	}
	return failure.New(failurepb.Code_UNAVAILABLE, failure.AuthenticationUnavailable)
}

// findRecord reads a record. Those that this node does not have cost a question to another one, of which only so many may be under
// way: nobody can turn guessed tokens into more.
func (a *Authenticator) findRecord(ctx context.Context, name, key string) (collection.Record, bool, error) {
	if record, ok := a.records.Get(name, key); ok {
		return record, true, nil
	}
	select {
	case a.lookups <- struct{}{}:
		defer func() { <-a.lookups }()
	default:
		return collection.Record{}, false, fmt.Errorf("%d lookups are under way", maxLookups)
	}
	return a.records.Find(ctx, name, key)
}

// setDown logs when the directory stops or starts to answer, not once per request.
func (a *Authenticator) setDown(err error) {
	if down := err != nil; a.down.Load() != down && a.down.CompareAndSwap(!down, down) {
		if down {
			a.logger.Error("api tokens cannot be looked up", slog.Any("err", err))
			return
		}
		a.logger.Info("api tokens can be looked up again")
	}
}
