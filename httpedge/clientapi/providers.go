package clientapi

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/catalog"
	"parley/actors/core/collection"
	"parley/actors/machine"
	"parley/httpedge/definition"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const textNoProvider = "Provider not found"

// States of a provider.
const (
	providerActive   = "active"
	providerDisabled = "disabled"
)

// providerRecord is a provider; nothing in it is secret.
type providerRecord struct {
	InternalID  string            `json:"_id"`
	TenantID    string            `json:"tenantId"`
	ProjectID   string            `json:"projectId"`
	Key         string            `json:"key"`
	Type        string            `json:"type" enum:"model"`
	Label       string            `json:"label"`
	Driver      string            `json:"driver" enum:"openai,openai-responses,anthropic,scripted"`
	Status      string            `json:"status" enum:"active,disabled"`
	Settings    json.RawMessage   `json:"settings" doc:"Values of headers are masked"`
	Credentials map[string]string `json:"credentials" doc:"Which there are; the values are masked"`
	CreatedBy   *string           `json:"createdBy"`
	CreatedAt   *string           `json:"createdAt" format:"date-time"`
	UpdatedAt   *string           `json:"updatedAt" format:"date-time"`
}

type listProvidersInput struct {
	Driver string `query:"driver"`
}

type providerListOut struct {
	Providers []*providerRecord `json:"providers"`
}

func (a *API) listProviders(ctx context.Context, in *listProvidersInput) (*providerListOut, error) {
	all, err := a.providersJSON(ctx)
	if err != nil {
		return nil, err
	}
	if in.Driver != "" {
		all = slices.DeleteFunc(all, func(p *providerRecord) bool { return p.Driver != in.Driver })
	}
	return &providerListOut{all}, nil
}

// providersJSON is the providers of the caller's project by key, the built-in one among them while no other has its key.
func (a *API) providersJSON(ctx context.Context) ([]*providerRecord, error) {
	project := endpoint.CallerFrom(ctx).ProjectID
	providers, err := decodeAll[directorypb.Provider](a.Records.List(catalog.Providers, catalog.Key(project, "")))
	if err != nil {
		return nil, err
	}
	all := []*providerRecord{}
	for _, provider := range providers {
		shown, err := providerJSON(provider)
		if err != nil {
			return nil, err
		}
		all = append(all, shown)
	}
	_, builtin, ok := definition.BuiltinModel(project, definition.BuiltinModelKey)
	if ok && !slices.ContainsFunc(all, func(p *providerRecord) bool { return p.Key == builtin.GetKey() }) {
		shown, err := providerJSON(builtin)
		if err != nil {
			return nil, err
		}
		all = append(all, shown)
		slices.SortFunc(all, func(a, b *providerRecord) int { return strings.Compare(a.Key, b.Key) })
	}
	return all, nil
}

// providerRecord finds a provider of the caller's project, errNoRecord when there is none.
func (a *API) providerRecord(ctx context.Context, key string) (*directorypb.Provider, error) {
	project, provider := endpoint.CallerFrom(ctx).ProjectID, new(directorypb.Provider)
	if !isKey(key) {
		return nil, errNoRecord
	}
	found, err := a.read(ctx, catalog.Providers, catalog.Key(project, key), provider)
	if err != nil || found {
		return provider, err
	}
	if _, builtin, ok := definition.BuiltinModel(project, key); ok {
		return builtin, nil
	}
	return nil, errNoRecord
}

func providerJSON(provider *directorypb.Provider) (*providerRecord, error) {
	sealed, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return nil, err
	}
	shown := &providerRecord{
		InternalID: provider.GetId(), TenantID: provider.GetTenantId(), ProjectID: provider.GetProjectId(), Key: provider.GetKey(),
		Type: "model", Label: provider.GetLabel(), Driver: provider.GetDriver(), Status: provider.GetStatus(),
		Settings: objectJSON(provider.GetSettings()), Credentials: map[string]string{}, CreatedBy: nullable(provider.GetCreatedBy()),
		CreatedAt: nullableTime(provider.GetCreatedAt()), UpdatedAt: nullableTime(provider.GetUpdatedAt()),
	}
	for _, name := range sealed.Credentials() {
		shown.Credentials[name] = definition.Mask
	}
	return shown, nil
}

type providerOut struct {
	Provider *providerRecord `json:"provider"`
}

type createProviderInput struct {
	Key         string             `json:"key" doc:"Unique in the project; made of the label when empty"`
	Label       string             `json:"label"`
	Driver      string             `json:"driver" required:"true" enum:"openai,openai-responses,anthropic,scripted"`
	Status      *string            `json:"status" enum:"active,disabled"`
	Settings    json.RawMessage    `json:"settings" doc:"baseUrl, headers, script"`
	Credentials map[string]*string `json:"credentials" doc:"apiKey, or what the provider calls it; kept encrypted"`
}

func (a *API) createProvider(ctx context.Context, in *createProviderInput) (*providerOut, error) {
	caller, now := endpoint.CallerFrom(ctx), time.Now().UnixMilli()
	provider := &directorypb.Provider{
		Id: a.IDs.NewID("prv"), TenantId: caller.TenantID, ProjectId: caller.ProjectID, Key: in.Key, Driver: in.Driver,
		Status: providerActive, CreatedBy: caller.UserID, CreatedAt: now, UpdatedAt: now,
	}
	if provider.Key == "" {
		provider.Key = slug(in.Label, "provider") + "-" + randomText(6)
	}
	switch {
	case !isKey(provider.Key):
		return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, textBadKey)
	case in.Driver == "":
		return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, "driver is required")
	case !slices.Contains(definition.Drivers(), in.Driver):
		return nil, machine.Fail(failurepb.Code_INVALID_REQUEST, "driver must be one of: %s", strings.Join(definition.Drivers(), ", "))
	}
	record := catalog.Key(caller.ProjectID, provider.GetKey())
	if in.Label == "" {
		in.Label = provider.Key
	}
	if len(in.Settings) == 0 {
		in.Settings = json.RawMessage(`{}`)
	}
	update := &updateProviderInput{Label: &in.Label, Status: in.Status, Settings: in.Settings, Credentials: in.Credentials}
	if err := a.applyProvider(update, provider); err != nil {
		return nil, err
	}
	err := a.createRecord(ctx, catalog.Providers, func() (string, proto.Message, error) {
		if n := len(a.Records.List(catalog.Providers, catalog.Key(caller.ProjectID, ""))); n >= maxModels {
			return "", nil, limitReached("providers", n, maxModels)
		}
		return record, provider, nil
	})
	if errors.Is(err, errTaken) {
		return nil, machine.Fail(failurepb.Code_ALREADY_EXISTS, "A provider with this key already exists")
	}
	if err != nil {
		return nil, err
	}
	return shownProvider(provider)
}

func shownProvider(provider *directorypb.Provider) (*providerOut, error) {
	shown, err := providerJSON(provider)
	if err != nil {
		return nil, err
	}
	return &providerOut{shown}, nil
}

type providerInput struct {
	Key string `path:"key"`
}

type updateProviderInput struct {
	providerInput
	Label       *string            `json:"label"`
	Status      *string            `json:"status" enum:"active,disabled"`
	Settings    json.RawMessage    `json:"settings" doc:"Replaces the stored ones; a masked header value stays"`
	Credentials map[string]*string `json:"credentials" doc:"Those that are not named stay; null takes one away"`
}

func (a *API) updateProvider(ctx context.Context, in *updateProviderInput) (*providerOut, error) {
	provider, err := a.storedProvider(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	err = a.change(ctx, catalog.Providers, catalog.Key(provider.GetProjectId(), in.Key), provider, func() error {
		provider.UpdatedAt = time.Now().UnixMilli()
		return a.applyProvider(in, provider)
	})
	if err != nil {
		return nil, absent(err, failurepb.Code_NOT_FOUND, textNoProvider)
	}
	return shownProvider(provider)
}

// storedProvider finds a provider that can be written, or fails for the caller.
func (a *API) storedProvider(ctx context.Context, key string) (*directorypb.Provider, error) {
	provider, err := a.providerRecord(ctx, key)
	if err != nil {
		return nil, absent(err, failurepb.Code_NOT_FOUND, textNoProvider)
	}
	if provider.GetCreatedAt() == 0 {
		return nil, machine.Fail(failurepb.Code_FORBIDDEN, "The built-in provider cannot be changed: create one with its key in its place")
	}
	return provider, nil
}

// applyProvider puts what the body names into a provider.
func (a *API) applyProvider(in *updateProviderInput, provider *directorypb.Provider) error {
	if in.Label != nil {
		provider.Label = strings.TrimSpace(*in.Label)
		if provider.Label == "" || utf8.RuneCountInString(provider.Label) > definition.MaxName {
			return machine.Fail(failurepb.Code_INVALID_REQUEST, "label must be 1 to %d characters", definition.MaxName)
		}
	}
	if in.Status != nil {
		if *in.Status != providerActive && *in.Status != providerDisabled {
			return machine.Fail(failurepb.Code_INVALID_REQUEST, "status must be one of: active, disabled")
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
			return machine.Fail(failurepb.Code_INVALID_REQUEST,
				"settings.baseUrl names another host: give the credentials and headers again, the stored ones are not sent there")
		}
		stored = nil
	}
	draft, failure := definition.ReadProvider(settings, in.Credentials, stored)
	if failure != nil {
		return failure
	}
	sealed, err := draft.Seal(definition.ProviderRecordKey(provider.GetProjectId(), provider.GetKey()), stored, a.Sealer.Seal)
	if err != nil {
		return err
	}
	provider.Settings, provider.Sealed = draft.Settings, sealed.Encode()
	return nil
}

// deleteProvider deletes a provider that no model of the project uses any more.
func (a *API) deleteProvider(ctx context.Context, in *providerInput) (*successOut, error) {
	provider, err := a.storedProvider(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	// In the scope of the models: one that is made meanwhile finds no provider, or is found to use it.
	key := catalog.Key(provider.GetProjectId(), in.Key)
	_, err = a.Records.Guarded(ctx, scopeOfCaller(ctx, catalog.Models), func() (*collection.Write, error) {
		models, failed := a.modelsOf(ctx)
		if failed != nil {
			return nil, failed
		}
		used := func(m *directorypb.Model) bool { return m.GetProviderKey() == in.Key && m.GetCreatedAt() != 0 }
		if i := slices.IndexFunc(models, used); i >= 0 {
			return nil, machine.Fail(failurepb.Code_CONFLICT, "The provider is used by model %s", models[i].GetKey())
		}
		stored, found, failed := a.Records.Find(ctx, catalog.Providers, key)
		if failed == nil && !found {
			failed = errNoRecord
		}
		return &collection.Write{Collection: catalog.Providers, Key: key, Expected: stored.Version, Delete: true}, failed
	})
	if err != nil {
		return nil, absent(err, failurepb.Code_NOT_FOUND, textNoProvider)
	}
	return &successOut{true}, nil
}
