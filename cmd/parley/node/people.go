package node

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/opsapi"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// people is how an operator makes tenants, projects, users and API tokens (opsapi.People). He may do all: what the Client API
// asks of callers is not asked of him.
type people struct {
	records endpoint.Records
	ids     endpoint.IDs
	now     func() time.Time
}

var _ opsapi.People = (*people)(nil)

// Bounds of what an operator can say.
const (
	maxName     = 200
	minLabel    = 3
	defaultName = "Owner"
)

// said is what an operator says about any of them.
type said struct {
	Name               string            `json:"name"`
	Slug               string            `json:"slug"`
	Tier               string            `json:"tier"`
	Owner              string            `json:"owner"`
	TenantID           string            `json:"tenantId"`
	Key                string            `json:"key"`
	Email              string            `json:"email"`
	Role               string            `json:"role"`
	ServicePermissions map[string]string `json:"servicePermissions"`
	UserID             string            `json:"userId"`
	ProjectID          string            `json:"projectId"`
	Label              string            `json:"label"`
	ExpiresAt          string            `json:"expiresAt"`
}

func readSaid(body json.RawMessage) (*said, error) {
	s := &said{}
	if len(body) > 0 {
		if err := json.Unmarshal(body, s); err != nil {
			return nil, invalid("the body is not such a JSON object: %v", err)
		}
	}
	for _, text := range []string{s.Name, s.Slug, s.Owner, s.Key, s.Email, s.Label} {
		if len(text) > maxName {
			return nil, invalid("a name has at most %d bytes", maxName)
		}
	}
	for service, level := range s.ServicePermissions {
		if _, ok := access.ParseLevel(level); !ok {
			return nil, invalid("%s: %q is no level: none, read, write, admin", service, level)
		}
	}
	return s, nil
}

func invalid(format string, args ...any) *machine.Failure {
	return machine.Fail(failurepb.Code_VALIDATION, format, args...)
}

func missing(what, id string) *machine.Failure {
	return machine.Fail(failurepb.Code_NOT_FOUND, "there is no %s %q", what, id)
}

// List returns all of a kind, of one tenant or of all.
func (p *people) List(_ context.Context, kind opsapi.PeopleKind, tenant string) (any, error) {
	switch kind {
	case opsapi.Tenants:
		return shown(all[directorypb.Tenant](p, endpoint.Tenants), func(t *directorypb.Tenant) bool { return tenant == "" || t.GetId() == tenant }, p.tenant), nil
	case opsapi.Projects:
		return shown(all[directorypb.Project](p, endpoint.Projects), func(r *directorypb.Project) bool { return tenant == "" || r.GetTenantId() == tenant }, projectView), nil
	case opsapi.Users:
		return shown(all[directorypb.User](p, endpoint.Users), func(u *directorypb.User) bool { return tenant == "" || u.GetTenantId() == tenant }, userView), nil
	case opsapi.Tokens:
		return shown(all[directorypb.Token](p, endpoint.Tokens), func(t *directorypb.Token) bool { return tenant == "" || t.GetTenantId() == tenant }, p.token), nil
	}
	return nil, missing("kind", string(kind))
}

// record is a record with its version and key.
type record[M any] struct {
	key     string
	version uint64
	value   *M
}

type message[M any] interface {
	*M
	proto.Message
}

func all[M any, P message[M]](p *people, collection string) []*M {
	var found []*M
	for _, stored := range p.records.List(collection, "") {
		value := P(new(M))
		if proto.Unmarshal(stored.Value, value) == nil {
			found = append(found, (*M)(value))
		}
	}
	return found
}

func one[M any, P message[M]](ctx context.Context, p *people, collection, id, what string) (record[M], error) {
	stored, found, err := p.records.Find(ctx, collection, id)
	if err != nil {
		return record[M]{}, err
	}
	if !found {
		return record[M]{}, missing(what, id)
	}
	value := P(new(M))
	if err := proto.Unmarshal(stored.Value, value); err != nil {
		return record[M]{}, err
	}
	return record[M]{key: id, version: stored.Version, value: (*M)(value)}, nil
}

func shown[M, V any](records []*M, keep func(*M) bool, view func(*M) V) []V {
	views := []V{}
	for _, r := range records {
		if keep(r) {
			views = append(views, view(r))
		}
	}
	return views
}

func (p *people) put(ctx context.Context, collection, key string, version uint64, value proto.Message) error {
	encoded, err := proto.Marshal(value)
	if err != nil {
		return err
	}
	_, err = p.records.Put(ctx, collection, key, version, encoded)
	return err
}

// create makes a record of a scope if check, which may read what the scope holds, has nothing against it: what it has seen still
// holds when the record is made.
func (p *people) create(ctx context.Context, scope string, made *endpoint.Write, check func() error) error {
	_, err := p.records.Guarded(ctx, scope, func() (*endpoint.Write, error) { return made, check() })
	return err
}

// write is a new record.
func write(collection, key string, value proto.Message) (*endpoint.Write, error) {
	encoded, err := proto.Marshal(value)
	return &endpoint.Write{Collection: collection, Key: key, Value: encoded}, err
}

// Create makes one.
func (p *people) Create(ctx context.Context, kind opsapi.PeopleKind, body json.RawMessage) (any, error) {
	s, err := readSaid(body)
	if err != nil {
		return nil, err
	}
	switch kind {
	case opsapi.Tenants:
		return p.createTenant(ctx, s)
	case opsapi.Projects:
		return p.createProject(ctx, s)
	case opsapi.Users:
		return p.createUser(ctx, s)
	case opsapi.Tokens:
		return p.createToken(ctx, s)
	}
	return nil, missing("kind", string(kind))
}

// Update changes what was said of one.
func (p *people) Update(ctx context.Context, kind opsapi.PeopleKind, id string, body json.RawMessage) (any, error) {
	s, err := readSaid(body)
	if err != nil {
		return nil, err
	}
	switch kind {
	case opsapi.Tenants:
		return p.updateTenant(ctx, id, s)
	case opsapi.Projects:
		found, err := one[directorypb.Project](ctx, p, endpoint.Projects, id, "project")
		if err != nil {
			return nil, err
		}
		if s.Name == "" {
			return nil, invalid("a project needs a name")
		}
		found.value.Name = s.Name
		return projectView(found.value), p.put(ctx, endpoint.Projects, id, found.version, found.value)
	case opsapi.Users:
		return p.updateUser(ctx, id, s)
	case opsapi.Tokens:
	}
	return nil, invalid("%s cannot be changed: make another", kind)
}

func (p *people) updateTenant(ctx context.Context, id string, s *said) (any, error) {
	found, err := one[directorypb.Tenant](ctx, p, endpoint.Tenants, id, "tenant")
	if err != nil {
		return nil, err
	}
	if s.Tier != "" {
		if err := checkTier(s.Tier); err != nil {
			return nil, err
		}
		found.value.Tier = s.Tier
	}
	if s.Name != "" {
		found.value.Name = s.Name
	}
	return p.tenant(found.value), p.put(ctx, endpoint.Tenants, id, found.version, found.value)
}

func (p *people) updateUser(ctx context.Context, id string, s *said) (any, error) {
	found, err := one[directorypb.User](ctx, p, endpoint.Users, id, "user")
	if err != nil {
		return nil, err
	}
	var user *directorypb.User
	_, err = p.records.Guarded(ctx, endpoint.Scope(endpoint.Users, found.value.GetTenantId()), func() (*endpoint.Write, error) {
		stored, failed := one[directorypb.User](ctx, p, endpoint.Users, id, "user")
		if failed != nil {
			return nil, failed
		}
		user = stored.value
		if failed = p.changeUser(ctx, user, *s); failed != nil {
			return nil, failed
		}
		changed, failed := write(endpoint.Users, id, user)
		changed.Expected = stored.version
		return changed, failed
	})
	if err != nil {
		return nil, err
	}
	return userView(user), nil
}

// changeUser puts what was said into a user.
func (p *people) changeUser(ctx context.Context, user *directorypb.User, s said) error {
	s.Name, s.Role = cmp.Or(s.Name, user.GetName()), cmp.Or(s.Role, user.GetRole())
	if err := checkUser(&s); err != nil {
		return err
	}
	if s.Role != access.RoleOwner {
		if err := p.keepsOwner(ctx, user); err != nil {
			return err
		}
	}
	user.Name, user.Role, user.UpdatedAt = s.Name, s.Role, p.now().UnixMilli()
	if s.ServicePermissions != nil {
		user.ServicePermissions = s.ServicePermissions
	}
	return nil
}

// Delete removes one. A user's tokens go with him, and the last owner of a tenant stays; a project or a tenant has to be empty of tokens, and the first ones stay.
func (p *people) Delete(ctx context.Context, kind opsapi.PeopleKind, id string) error {
	switch kind {
	case opsapi.Tokens:
		return p.deleteTokens(ctx, "token", id, func(t *directorypb.Token) bool { return t.GetId() == id })
	case opsapi.Users:
		return p.deleteUser(ctx, id)
	case opsapi.Projects:
		found, err := one[directorypb.Project](ctx, p, endpoint.Projects, id, "project")
		if err != nil {
			return err
		}
		return p.deleteUnused(ctx, endpoint.Projects, id, found.value.GetTenantId(), func(t *directorypb.Token) bool { return t.GetProjectId() == id })
	case opsapi.Tenants:
		if _, err := one[directorypb.Tenant](ctx, p, endpoint.Tenants, id, "tenant"); err != nil {
			return err
		}
		return p.deleteUnused(ctx, endpoint.Tenants, id, id, func(t *directorypb.Token) bool { return t.GetTenantId() == id })
	}
	return missing("kind", string(kind))
}

// deleteUnused removes a tenant, or a record of it, that is not the first one and that no API token needs. It keeps to the scope
// of the tokens, so that none is made meanwhile.
func (p *people) deleteUnused(ctx context.Context, collection, id, tenantID string, needs func(*directorypb.Token) bool) error {
	_, err := p.records.Guarded(ctx, endpoint.Scope(endpoint.Tokens, tenantID), func() (*endpoint.Write, error) {
		if id == firstTenant || id == firstProject || slices.ContainsFunc(all[directorypb.Token](p, endpoint.Tokens), needs) {
			return nil, invalid("%s %s is the first one, or has API tokens", strings.TrimSuffix(collection, "s"), id)
		}
		stored, _, err := p.records.Find(ctx, collection, id)
		return &endpoint.Write{Collection: collection, Key: id, Expected: stored.Version, Delete: true}, err
	})
	return err
}

// deleteUser removes a user and his tokens.
func (p *people) deleteUser(ctx context.Context, id string) error {
	found, err := one[directorypb.User](ctx, p, endpoint.Users, id, "user")
	if err != nil {
		return err
	}
	if err = p.keepsOwner(ctx, found.value); err != nil {
		return err
	}
	if err = p.deleteTokens(ctx, "", id, func(t *directorypb.Token) bool { return t.GetUserId() == id }); err != nil {
		return err
	}
	_, err = p.records.Guarded(ctx, endpoint.Scope(endpoint.Users, found.value.GetTenantId()), func() (*endpoint.Write, error) {
		stored, failed := one[directorypb.User](ctx, p, endpoint.Users, id, "user")
		if failed != nil {
			return nil, failed
		}
		if failed = p.keepsOwner(ctx, stored.value); failed != nil { // two owners may be deleted at once
			return nil, failed
		}
		return &endpoint.Write{Collection: endpoint.Users, Key: id, Expected: stored.version, Delete: true}, nil
	})
	return err
}

// keepsOwner refuses to take its last owner from a tenant: nobody could manage it any more.
func (p *people) keepsOwner(ctx context.Context, user *directorypb.User) error {
	another := func(u *directorypb.User) bool {
		return u.GetRole() == access.RoleOwner && u.GetTenantId() == user.GetTenantId() && u.GetId() != user.GetId()
	}
	if user.GetRole() != access.RoleOwner || slices.ContainsFunc(all[directorypb.User](p, endpoint.Users), another) {
		return nil
	}
	_, stands, err := p.records.Find(ctx, endpoint.Tenants, user.GetTenantId())
	if err != nil || !stands {
		return err
	}
	return invalid("user %s is the last owner of tenant %s", user.GetId(), user.GetTenantId())
}

// deleteTokens removes those that match. what, if not empty, is missed when there is none.
func (p *people) deleteTokens(ctx context.Context, what, id string, match func(*directorypb.Token) bool) error {
	found := false
	for _, stored := range p.records.List(endpoint.Tokens, "") {
		record := &directorypb.Token{}
		if proto.Unmarshal(stored.Value, record) != nil || !match(record) {
			continue
		}
		found = true
		if err := p.records.Delete(ctx, endpoint.Tokens, stored.Key, stored.Version); err != nil {
			return err
		}
	}
	if !found && what != "" {
		return missing(what, id)
	}
	return nil
}

// early is people for an operations surface that is there before the directory is.
type early struct{ node *Node }

func (e *early) people() (*people, error) {
	if made := e.node.roster.Load(); made != nil {
		return made, nil
	}
	return nil, machine.Fail(failurepb.Code_UNAVAILABLE, "the node is starting")
}

// List implements opsapi.People.
func (e *early) List(ctx context.Context, kind opsapi.PeopleKind, tenant string) (any, error) {
	p, err := e.people()
	if err != nil {
		return nil, err
	}
	return p.List(ctx, kind, tenant)
}

// Create implements opsapi.People.
func (e *early) Create(ctx context.Context, kind opsapi.PeopleKind, body json.RawMessage) (any, error) {
	p, err := e.people()
	if err != nil {
		return nil, err
	}
	return p.Create(ctx, kind, body)
}

// Update implements opsapi.People.
func (e *early) Update(ctx context.Context, kind opsapi.PeopleKind, id string, body json.RawMessage) (any, error) {
	p, err := e.people()
	if err != nil {
		return nil, err
	}
	return p.Update(ctx, kind, id, body)
}

// Delete implements opsapi.People.
func (e *early) Delete(ctx context.Context, kind opsapi.PeopleKind, id string) error {
	p, err := e.people()
	if err != nil {
		return err
	}
	return p.Delete(ctx, kind, id)
}
