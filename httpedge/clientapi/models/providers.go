package models

import (
	"context"
	"encoding/json"
	"slices"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/directorypb"
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

func (a *api) listProviders(ctx context.Context, in *listProvidersInput) (*providerListOut, error) {
	all, err := a.providersJSON(ctx)
	if err != nil {
		return nil, err
	}
	if in.Driver != "" {
		all = slices.DeleteFunc(all, func(p *providerRecord) bool { return p.Driver != in.Driver })
	}
	return &providerListOut{all}, nil
}

// providersJSON is the providers of the caller's project by key.
func (a *api) providersJSON(ctx context.Context) ([]*providerRecord, error) {
	providers, err := a.Catalog.ListProviders(endpoint.CallerFrom(ctx).ProjectID)
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
	return all, nil
}

func providerJSON(provider *directorypb.Provider) (*providerRecord, error) {
	sealed, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return nil, err
	}
	shown := &providerRecord{
		InternalID: provider.GetId(), TenantID: provider.GetTenantId(), ProjectID: provider.GetProjectId(), Key: provider.GetKey(),
		Type: "model", Label: provider.GetLabel(), Driver: provider.GetDriver(), Status: provider.GetStatus(),
		Settings: render.Object(provider.GetSettings()), Credentials: map[string]string{}, CreatedBy: render.Nullable(provider.GetCreatedBy()),
		CreatedAt: render.NullableTime(provider.GetCreatedAt()), UpdatedAt: render.NullableTime(provider.GetUpdatedAt()),
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

func (a *api) createProvider(ctx context.Context, in *createProviderInput) (*providerOut, error) {
	return providerAnswer(a.Catalog.CreateProvider(ctx, handler.Maker(ctx), catalog.ProviderInput{
		Key: in.Key, Driver: in.Driver, Label: &in.Label, Status: in.Status, Settings: in.Settings, Credentials: in.Credentials,
	}))
}

func providerAnswer(provider *directorypb.Provider, err error) (*providerOut, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
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
	Label       handler.Set[string] `json:"label"`
	Status      handler.Set[string] `json:"status" enum:"active,disabled"`
	Settings    json.RawMessage     `json:"settings" doc:"Replaces the stored ones; a masked header value stays"`
	Credentials map[string]*string  `json:"credentials" doc:"Those that are not named stay; null takes one away"`
}

func (a *api) updateProvider(ctx context.Context, in *updateProviderInput) (*providerOut, error) {
	return providerAnswer(a.Catalog.UpdateProvider(ctx, handler.Maker(ctx), in.Key, catalog.ProviderInput{
		Label: in.Label.Pointer(), Status: in.Status.Pointer(), Settings: in.Settings, Credentials: in.Credentials,
	}))
}

func (a *api) deleteProvider(ctx context.Context, in *providerInput) (*handler.Success, error) {
	return handler.Deleted(a.Catalog.DeleteProvider(ctx, handler.Maker(ctx), in.Key))
}
