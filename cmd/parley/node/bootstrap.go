package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// The first tenant and what belongs to it. Callers of the conversation server without an API token are in this project.
const (
	firstTenant    = "default"
	firstProject   = "default"
	firstOwner     = "usr_default"
	bootstrapToken = "tok_bootstrap" // id of the token that the configuration gives
)

// founding makes the first tenant, its owner, its project and its first API token.
type founding struct {
	records endpoint.Records
	ids     endpoint.IDs
	given   string // API token of the configuration, "" = none
	tier    string
	now     func() time.Time

	tenant *directorypb.Tenant // as this founding makes it
	asked  bool                // an attempt at that has failed, and may have made it
	first  bool                // it has made it, and owes the token
}

// found makes what is missing. The token is returned to the one who made it: it is not known afterwards. Several nodes may
// be at it at once; the record of the tenant decides who makes the token.
func (f *founding) found(ctx context.Context) (shown string, err error) {
	now := f.now().UnixMilli()
	if err = f.foundTenant(ctx, now); err != nil {
		return "", err
	}
	if _, err = f.ensure(ctx, endpoint.Projects, firstProject, &directorypb.Project{
		Id: firstProject, TenantId: firstTenant, Key: "default", Name: "Default Project", CreatedAt: now,
	}); err != nil {
		return "", err
	}
	if _, err = f.ensure(ctx, endpoint.Users, firstOwner, &directorypb.User{
		Id: firstOwner, TenantId: firstTenant, Name: "Owner", Role: "owner", ProjectIds: []string{firstProject},
		CreatedAt: now, UpdatedAt: now,
	}); err != nil {
		return "", err
	}
	if err = f.setTier(ctx); err != nil {
		return "", err
	}
	if f.given != "" {
		return "", f.giveToken(ctx, now)
	}
	if !f.first {
		return "", nil
	}
	secret, record := newToken()
	record.Id, record.Label = f.ids.NewID("tok"), "First token"
	f.fill(record, now)
	if _, err = f.ensure(ctx, endpoint.Tokens, token.Key(record.GetHash()), record); err != nil {
		return "", err
	}
	f.first = false
	return secret, nil
}

// foundTenant makes the tenant, unless there is one.
func (f *founding) foundTenant(ctx context.Context, now int64) error {
	if f.tenant == nil {
		f.tenant = &directorypb.Tenant{
			Id: firstTenant, Name: "Default", Slug: "default", Tier: f.tier, OwnerId: firstOwner, CreatedAt: now,
		}
	}
	made, err := f.ensure(ctx, endpoint.Tenants, firstTenant, f.tenant)
	if err != nil {
		f.asked = true
		return err
	}
	if !made && f.asked {
		stored := &directorypb.Tenant{}
		record, _ := f.records.Get(endpoint.Tenants, firstTenant)
		made = proto.Unmarshal(record.Value, stored) == nil && proto.Equal(stored, f.tenant)
	}
	f.first, f.asked = f.first || made, false
	return nil
}

// setTier applies the configured licence to the first tenant.
func (f *founding) setTier(ctx context.Context) error {
	stored, found, err := f.records.Find(ctx, endpoint.Tenants, firstTenant)
	if err != nil || !found {
		return err
	}
	tenant := &directorypb.Tenant{}
	if err := proto.Unmarshal(stored.Value, tenant); err != nil {
		return fmt.Errorf("record of the first tenant: %w", err)
	}
	if tenant.GetTier() == f.tier {
		return nil
	}
	tenant.Tier = f.tier
	return f.put(ctx, endpoint.Tenants, firstTenant, stored.Version, tenant)
}

// giveToken makes the configured token valid, and those that were configured before invalid.
func (f *founding) giveToken(ctx context.Context, now int64) error {
	hash, prefix := token.Digest(f.given)
	key := token.Key(hash)
	record := &directorypb.Token{Id: bootstrapToken, Label: "Bootstrap token", Hash: hash, Prefix: prefix}
	f.fill(record, now)
	if _, err := f.ensure(ctx, endpoint.Tokens, key, record); err != nil {
		return err
	}
	for _, stored := range f.records.List(endpoint.Tokens, "") {
		other := &directorypb.Token{}
		if stored.Key == key || proto.Unmarshal(stored.Value, other) != nil || other.GetId() != bootstrapToken {
			continue
		}
		if err := f.records.Delete(ctx, endpoint.Tokens, stored.Key, stored.Version); err != nil && !isConflict(err) {
			return err
		}
	}
	return nil
}

// fill makes a token the first owner's, with all that he may.
func (*founding) fill(record *directorypb.Token, now int64) {
	record.TenantId, record.ProjectId, record.UserId, record.CreatedAt = firstTenant, firstProject, firstOwner, now
}

// newToken makes a token's secret, and its record with what is kept of that.
func newToken() (secret string, record *directorypb.Token) {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: the runtime ends the process instead
	secret, hash, prefix := token.Generate(&random)
	return secret, &directorypb.Token{Hash: hash, Prefix: prefix}
}

// ensure makes a record unless there is one, and says whether it did.
func (f *founding) ensure(ctx context.Context, collection, key string, record proto.Message) (made bool, err error) {
	_, found, err := f.records.Find(ctx, collection, key)
	if err != nil || found {
		return false, err
	}
	err = f.put(ctx, collection, key, 0, record)
	if isConflict(err) { // somebody else has
		return false, nil
	}
	return err == nil, err
}

func (f *founding) put(ctx context.Context, collection, key string, expected uint64, record proto.Message) error {
	value, err := proto.Marshal(record)
	if err != nil {
		return err
	}
	_, err = f.records.Put(ctx, collection, key, expected, value)
	return err
}

func isConflict(err error) bool {
	var failure *machine.Failure
	return errors.As(err, &failure) && failure.Code == failurepb.Code_CONFLICT
}

// foundTimeout bounds the founding on a node that is alone: nobody else is to be waited for.
const foundTimeout = 30 * time.Second

// startFounding makes the first tenant. A node that is alone has it before it serves; one of a cluster as soon as the
// directory can be written.
func (n *Node) startFounding(ctx context.Context) error {
	f := &founding{
		records: n.records, ids: ids{n.shards}, given: n.config.BootstrapToken.Reveal(), tier: n.config.Client.License, now: time.Now,
	}
	if n.links == nil {
		bounded, cancel := context.WithTimeout(ctx, foundTimeout)
		defer cancel()
		shown, err := f.found(bounded)
		n.show(shown)
		return err
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	n.later(func(context.Context) { end(); <-done })
	go func() {
		defer close(done)
		n.foundUntilDone(life, f)
	}()
	return nil
}

func (n *Node) foundUntilDone(ctx context.Context, f *founding) {
	const first, last = 50 * time.Millisecond, 5 * time.Second
	for pause := first; ; pause = min(2*pause, last) {
		attempt, cancel := context.WithTimeout(ctx, foundTimeout)
		shown, err := f.found(attempt)
		cancel()
		if err == nil {
			n.show(shown)
			return
		}
		if ctx.Err() != nil {
			return
		}
		n.log.Debug("the first tenant cannot be made yet", slog.Any("err", err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// FirstToken hands the API token that this start makes, if it makes one, to whoever shows it: nobody knows it afterwards.
func (n *Node) FirstToken(show func(secret string)) {
	n.mu.Lock()
	made := n.firstToken
	n.showToken, n.firstToken = show, ""
	n.mu.Unlock()
	if made != "" {
		show(made)
	}
}

// show hands a token that was made to whoever wants to show it, or keeps it until somebody does.
func (n *Node) show(made string) {
	if made == "" {
		return
	}
	n.mu.Lock()
	show := n.showToken
	if show == nil {
		n.firstToken = made
	}
	n.mu.Unlock()
	if show != nil {
		show(made)
	}
}
