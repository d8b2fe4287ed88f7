package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/actors/core/collection"
	"parley/actors/core/definition"
	"parley/actors/core/failure"
	"parley/actors/core/naming"
	"parley/actors/core/routing"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// States of a provider.
const (
	ProviderActive   = "active"
	ProviderDisabled = "disabled"
)

// ProviderInput is what to create or change of a provider. What is nil or empty stays as it is.
type ProviderInput struct {
	Key, Driver   string // of a new one; the key is made of the label when empty
	Label, Status *string
	Settings      json.RawMessage    // replaces what is stored; a masked header value stays
	Credentials   map[string]*string // those that are not named stay; nil takes one away
}

// CreateProvider creates a provider.
func (c *Catalog) CreateProvider(ctx context.Context, caller Caller, in ProviderInput) (*directorypb.Provider, error) {
	now := c.env.Now().UnixMilli()
	provider := &directorypb.Provider{
		Id: c.env.NewID("prv"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: in.Key, Driver: in.Driver,
		Status: ProviderActive, CreatedBy: caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	if provider.Key == "" {
		provider.Key = c.newKey(value(in.Label), "provider")
	}
	switch {
	case !isKey(provider.Key) || provider.Key == routing.Key: // which stands for no provider
		return nil, invalid(failure.BadKey).In("key")
	case in.Driver == "":
		return nil, invalid(failure.Required).In("driver")
	case !slices.Contains(definition.Drivers(), in.Driver):
		return nil, invalid(failure.NotOneOf).Param("name", "driver").Param("choices", strings.Join(definition.Drivers(), ", "))
	}
	label := cmp.Or(value(in.Label), provider.Key)
	in.Label = &label
	if len(in.Settings) == 0 {
		in.Settings = json.RawMessage(`{}`)
	}
	if err := c.applyProvider(in, provider); err != nil {
		return nil, err
	}
	return provider, c.providers.Create(ctx, provider, nil, limit("providers", projectTerm(caller.ProjectID), maxRecords))
}

// ListProviders returns the providers of a project by key; the built-in one is among them while no other has its key.
func (c *Catalog) ListProviders(projectID string) ([]*directorypb.Provider, error) {
	all, err := c.providers.ByKey(Key(projectID, ""))
	if err != nil {
		return nil, err
	}
	builtin, ok := definition.BuiltinProvider(projectID, definition.BuiltinModelKey)
	if ok && !slices.ContainsFunc(all, func(p *directorypb.Provider) bool { return p.GetKey() == builtin.GetKey() }) {
		all = append(all, builtin)
		slices.SortFunc(all, func(a, b *directorypb.Provider) int { return strings.Compare(a.GetKey(), b.GetKey()) })
	}
	return all, nil
}

// Provider finds a provider of a project.
func (c *Catalog) Provider(ctx context.Context, projectID, key string) (*directorypb.Provider, error) {
	if !isKey(key) {
		return nil, missing("provider", key)
	}
	provider, err := c.providers.Get(ctx, Key(projectID, key))
	if _, none := errors.AsType[*collection.MissingError](err); none {
		if builtin, ok := definition.BuiltinProvider(projectID, key); ok {
			return builtin, nil
		}
	}
	return provider, err
}

// UpdateProvider changes what the input names of a provider.
func (c *Catalog) UpdateProvider(ctx context.Context, caller Caller, key string, in ProviderInput) (*directorypb.Provider, error) {
	if err := c.writableProvider(ctx, caller, key); err != nil {
		return nil, err
	}
	return c.providers.Change(ctx, Key(caller.ProjectID, key), func(provider *directorypb.Provider) error {
		provider.UpdatedAt = c.env.Now().UnixMilli()
		return c.applyProvider(in, provider)
	})
}

// writableProvider refuses a provider that does not exist, and the built-in one.
func (c *Catalog) writableProvider(ctx context.Context, caller Caller, key string) error {
	provider, err := c.Provider(ctx, caller.ProjectID, key)
	if err == nil && provider.GetCreatedAt() == 0 {
		err = failure.New(failurepb.Code_FORBIDDEN, failure.BuiltinFixed).Param("noun", "provider")
	}
	return err
}

// applyProvider puts an input into a provider.
func (c *Catalog) applyProvider(in ProviderInput, provider *directorypb.Provider) error {
	if in.Label != nil {
		provider.Label = strings.TrimSpace(naming.Plain(*in.Label))
		if provider.Label == "" || utf8.RuneCountInString(provider.Label) > definition.MaxName {
			return invalid(failure.OneToCharacters).In("label").Param("most", definition.MaxName)
		}
	}
	if in.Status != nil {
		if *in.Status != ProviderActive && *in.Status != ProviderDisabled {
			return invalid(failure.NotOneOf).Param("name", "status").Param("choices", "active, disabled")
		}
		provider.Status = *in.Status
	}
	settings := []byte(in.Settings)
	if len(settings) == 0 {
		settings = provider.GetSettings() // in which the headers are masked, and so stay
	}
	stored, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return err
	}
	if len(stored) > 0 && definition.Moved(provider.GetSettings(), settings) {
		if len(in.Credentials) == 0 {
			return invalid(failure.ProviderHostChanged).In("settings.baseUrl")
		}
		stored = nil
	}
	draft, refused := definition.ReadProvider(settings, in.Credentials, stored)
	if refused != nil {
		return refused
	}
	if refused = definition.CheckDriver(provider.GetDriver(), draft.Settings); refused != nil {
		return refused
	}
	sealed, err := draft.Seal(definition.ProviderRecordKey(provider.GetProjectId(), provider.GetKey()), stored, c.env.Seal)
	if err != nil {
		return err
	}
	provider.Settings, provider.Sealed = draft.Settings, sealed.Encode()
	return nil
}

// DeleteProvider deletes a provider that no model uses.
func (c *Catalog) DeleteProvider(ctx context.Context, caller Caller, key string) error {
	if err := c.writableProvider(ctx, caller, key); err != nil {
		return err
	}
	// In the scope of the models: one that is created meanwhile finds no provider, or is found to use it.
	return c.providers.DeleteIn(ctx, collection.Scope(Models, caller.TenantID), Key(caller.ProjectID, key), func(*directorypb.Provider) error {
		users, err := c.models.All(providerTerm(caller.ProjectID, key))
		if err != nil || len(users) == 0 {
			return err
		}
		first := slices.MinFunc(users, func(a, b *directorypb.Model) int { return strings.Compare(a.GetKey(), b.GetKey()) })
		return failure.New(failurepb.Code_CONFLICT, failure.ProviderInUse).Param("model", first.GetKey())
	})
}
