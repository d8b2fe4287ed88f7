package models

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"

	"parley/actors/core/catalog"
	"parley/actors/core/definition"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
)

// providers declares the providers of models; nothing of what is shown is secret.
func providers() *resource.Object[*directorypb.Provider, catalog.ProviderInput] {
	type (
		record = *directorypb.Provider
		input  = catalog.ProviderInput
	)
	o := resource.New[record, input]("provider", "ModelProvider").Failures(handler.RecordError)
	o.Text("_id", record.GetId)
	o.Text("tenantId", record.GetTenantId)
	o.Text("projectId", record.GetProjectId)
	o.Text("key", record.GetKey).Create(func(in *input) *string { return &in.Key }).CreateDoc("Unique in the project; made of the label when empty")
	o.Text("type", func(record) string { return "model" }).Enum("model")
	o.Text("label", record.GetLabel).Write(func(in *input) **string { return &in.Label })
	o.Text("driver", record.GetDriver).Enum(definition.Drivers()...).Create(func(in *input) *string { return &in.Driver }).Required()
	o.Text("status", record.GetStatus).Enum(catalog.ProviderActive, catalog.ProviderDisabled).
		Write(func(in *input) **string { return &in.Status }).Optional()
	o.Document("settings", record.GetSettings).Take(func(in *input) *json.RawMessage { return &in.Settings }).
		Doc("Values of headers are masked").CreateDoc("baseUrl, headers, script").ChangeDoc("Replaces the stored ones; a masked header value stays")
	resource.Value[map[string]*string](o, "credentials", masked).Take(func(in *input) *map[string]*string { return &in.Credentials }).
		Doc("Which there are; the values are masked").CreateDoc("apiKey, or what the provider calls it; kept encrypted").
		ChangeDoc("Those that are not named stay; null takes one away")
	o.NullableText("createdBy", record.GetCreatedBy)
	o.NullableTime("createdAt", record.GetCreatedAt)
	o.NullableTime("updatedAt", record.GetUpdatedAt)
	return o
}

// providerJSON is a provider in an answer that is written by hand.
type providerJSON struct{ json.RawMessage }

// Described implements openapi.Described.
func (providerJSON) Described() (value any, nullable bool) {
	return reflect.Zero(providers().Type()).Interface(), false
}

// masked names the credentials of a provider, none of one whose own cannot be read.
func masked(provider *directorypb.Provider) map[string]string {
	shown := map[string]string{}
	sealed, err := definition.ParseSealed(provider.GetSealed())
	if err != nil {
		return shown
	}
	for _, name := range sealed.Credentials() {
		shown[name] = definition.Mask
	}
	return shown
}

type listProvidersInput struct {
	Driver string `query:"driver"`
}

func (a *api) listProviders(ctx context.Context, in *listProvidersInput) ([]*directorypb.Provider, error) {
	all, err := a.Catalog.ListProviders(endpoint.CallerFrom(ctx).ProjectID)
	if in.Driver != "" {
		all = slices.DeleteFunc(all, func(p *directorypb.Provider) bool { return p.GetDriver() != in.Driver })
	}
	return all, err
}
