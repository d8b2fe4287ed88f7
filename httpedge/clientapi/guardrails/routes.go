// Package guardrails has the routes of guardrails (document 3, 10.12 and 18): they are made and read, and texts checked by them. What a
// guardrail finds says package actors/core/guardrail.
package guardrails

import (
	"context"
	"encoding/json"

	"parley/actors/core/catalog"
	"parley/actors/core/guardrail"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const (
	// maxText bounds a body with a text that is checked, in bytes, maxGuardrail a guardrail.
	maxText      = 1 << 20
	maxGuardrail = 256 << 10
	// Pages of verdicts.
	page    = 100
	maxPage = 500
)

// api is the handlers.
type api struct{ *handler.API }

type nothing struct{}

// Routes returns the routes of guardrails.
func Routes(shared *handler.API) []endpoint.Route {
	a, o := &api{shared}, guardrails()
	const (
		read, write = "guardrails:read", "guardrails:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		notFound    = failurepb.Code_NOT_FOUND
		conflict    = failurepb.Code_CONFLICT
		quota       = failurepb.Code_QUOTA_REACHED
	)
	tag, room := endpoint.Tag("Guardrails"), endpoint.MaxBody(maxGuardrail)
	return []endpoint.Route{
		endpoint.On("POST /guardrails/evaluate", write, a.checkText, tag, endpoint.MaxBody(maxText), endpoint.Unaudited("it checks a text and changes no record"),
			endpoint.Summary("Check a text by a guardrail"), endpoint.Errors(invalid, forbidden, notFound)),
		resource.List(o, "GET /guardrails", read, a.list, tag, endpoint.Summary("List the project's guardrails by age"), endpoint.Errors(forbidden)),
		o.Create("POST /guardrails", write, handler.Make(a.Catalog.CreateGuardrail), tag, room,
			endpoint.Summary("Make a guardrail"), endpoint.Errors(invalid, forbidden, conflict, quota)),
		o.Read("GET /guardrails/{key}", read, "getGuardrail", a.get, tag, endpoint.Summary("Read a guardrail"), endpoint.Errors(forbidden, notFound)),
		o.Change("PATCH /guardrails/{key}", write, "updateGuardrail", handler.Change(a.Catalog.UpdateGuardrail), tag, room,
			endpoint.Summary("Change a guardrail; it counts at once, on every node"), endpoint.Errors(invalid, forbidden, notFound, conflict, quota)),
		endpoint.On("GET /guardrails/{key}/audit", read, a.listGuardrailVerdicts, tag, endpoint.Page("limit", page, maxPage),
			endpoint.Summary("List what a guardrail found and decided, newest first, without the texts"), endpoint.Errors(forbidden, notFound)),
		o.Delete("DELETE /guardrails/{key}", write, handler.Remove(a.Catalog.DeleteGuardrail), tag,
			endpoint.Summary("Delete a guardrail; models that name it answer no more"), endpoint.Errors(forbidden, notFound, conflict)),
	}
}

func (a *api) list(ctx context.Context, _ *nothing) ([]*directorypb.Guardrail, error) {
	return a.Catalog.ListGuardrails(endpoint.CallerFrom(ctx).ProjectID)
}

func (a *api) get(ctx context.Context, key string) (*directorypb.Guardrail, error) {
	return a.Catalog.Guardrail(ctx, endpoint.CallerFrom(ctx).ProjectID, key)
}

// guardrails declares the guardrails.
func guardrails() *resource.Object[*directorypb.Guardrail, catalog.GuardrailInput] {
	type (
		record = *directorypb.Guardrail
		input  = catalog.GuardrailInput
	)
	o := resource.New[record, input]("guardrail", "GuardrailRecord")
	o.Text("id", record.GetId)
	o.Text("key", record.GetKey).Create(func(in *input) *string { return &in.Key }).CreateDoc("Unique in the project; made of the name when empty")
	o.Text("name", record.GetName).Write(func(in *input) **string { return &in.Name }).Required()
	o.OptionalText("description", record.GetDescription).Write(func(in *input) **string { return &in.Description }).Clearable()
	o.Flag("enabled", record.GetEnabled).Write(func(in *input) **bool { return &in.Enabled }).Optional().CreateDoc("true when absent")
	o.Text("action", record.GetAction).Enum(guardrail.Actions()...).Write(func(in *input) **string { return &in.Action }).
		CreateDoc("Of rules that say no other; block when absent")
	o.OptionalText("message", record.GetMessage).Write(func(in *input) **string { return &in.Message }).Clearable().
		CreateDoc("What a blocked caller is told; what was found when absent")
	o.Document("rules", record.GetRules).Take(func(in *input) *json.RawMessage { return &in.Rules }).Required().ChangeDoc("Replaces the stored ones").
		CreateDoc("pii {action, categories: map to actions}, wordFilter {action, words}, moderation {action, categories}, promptShield {action}")
	o.Time("createdAt", record.GetCreatedAt)
	o.Time("updatedAt", record.GetUpdatedAt)
	return o
}
