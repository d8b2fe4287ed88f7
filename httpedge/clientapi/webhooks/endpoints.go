package webhooks

import (
	"context"
	"encoding/json"

	"parley/actors/core/access"
	"parley/actors/core/subscription"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
)

type nothing struct{}

type eventType struct {
	Type  string `json:"type"`
	Group string `json:"group"`
}

type eventListOut struct {
	Events []eventType `json:"events"`
}

func (*api) listWebhookEvents(context.Context, *nothing) (*eventListOut, error) {
	out := &eventListOut{Events: []eventType{}}
	for _, t := range subscription.Catalogue() {
		out.Events = append(out.Events, eventType{Type: t.Type, Group: t.Group})
	}
	return out, nil
}

// endpointSchema is an endpoint; Secret is shown once, URLRedacted to who may not see the whole URL.
type endpointSchema struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	URLRedacted    bool     `json:"urlRedacted,omitempty"`
	Description    *string  `json:"description"`
	Events         []string `json:"events"`
	ProjectID      *string  `json:"projectId"`
	Status         string   `json:"status"`
	DisabledReason *string  `json:"disabledReason"`
	FailingSince   *string  `json:"failingSince"`
	CreatedBy      string   `json:"createdBy"`
	CreatedAt      *string  `json:"createdAt"`
	UpdatedAt      *string  `json:"updatedAt"`
	Secret         string   `json:"secret,omitempty"`
}

type endpointOut struct {
	Endpoint *endpointSchema `json:"endpoint"`
}

type endpointListOut struct {
	Endpoints []*endpointSchema `json:"endpoints"`
}

// shown is an endpoint as its administrators see it.
func shown(e *subscription.Endpoint) *endpointSchema {
	return &endpointSchema{
		ID: e.GetId(), URL: e.URL, Description: render.Nullable(e.GetDescription()), Events: e.GetEvents(),
		ProjectID: render.Nullable(e.GetProjectId()), Status: e.Status(), DisabledReason: render.Nullable(e.GetDisabledReason()),
		FailingSince: render.NullableTime(e.GetFailingSince()), CreatedBy: e.GetCreatedBy(),
		CreatedAt: render.NullableTime(e.GetCreatedAt()), UpdatedAt: render.NullableTime(e.GetUpdatedAt()), Secret: e.Secret,
	}
}

// redacted is an endpoint as readers see it.
func redacted(e *subscription.Endpoint) *endpointSchema {
	view := shown(e)
	view.URL, _ = e.Redacted()
	view.URLRedacted = true
	return view
}

// view is how the caller sees endpoints.
func (a *api) view(ctx context.Context) (func(*subscription.Endpoint) *endpointSchema, error) {
	whole, err := a.Permissions.Allows(ctx, endpoint.CallerFrom(ctx), access.Webhooks, access.Admin)
	if err != nil {
		return nil, err
	}
	if whole {
		return shown, nil
	}
	return redacted, nil
}

func (a *api) reach(ctx context.Context) subscription.Reach {
	return a.Side.Reach(endpoint.CallerFrom(ctx))
}

func (a *api) listWebhooks(ctx context.Context, _ *nothing) (*endpointListOut, error) {
	view, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	all, err := a.Webhooks.List(a.reach(ctx))
	if err != nil {
		return nil, err
	}
	out := &endpointListOut{Endpoints: []*endpointSchema{}}
	for _, e := range all {
		out.Endpoints = append(out.Endpoints, view(e))
	}
	return out, nil
}

// eventsInput is a list of types; anything else counts as none, which the rules refuse in the specification's words.
type eventsInput []string

// UnmarshalJSON never fails.
func (e *eventsInput) UnmarshalJSON(raw []byte) error {
	var types []string
	if json.Unmarshal(raw, &types) == nil {
		*e = types
	}
	return nil
}

// Described implements openapi.Described.
func (eventsInput) Described() (value any, nullable bool) { return []string{}, false }

type createWebhookInput struct {
	URL         string                  `json:"url"`
	Events      eventsInput             `json:"events"`
	Description resource.Given[string]  `json:"description"`
	ProjectID   resource.Given[*string] `json:"projectId"`
}

// project is the project that the endpoint is to hear, whole = all of them: null or *.
func (in *createWebhookInput) project() (id string, whole bool) {
	given := in.ProjectID.Pointer()
	switch {
	case given == nil:
		return "", false
	case *given == nil || **given == "*":
		return "", true
	default:
		return **given, false
	}
}

func (a *api) createWebhook(ctx context.Context, in *createWebhookInput) (*endpointOut, error) {
	project, whole := in.project()
	creator, err := a.Side.Creator(endpoint.CallerFrom(ctx), project, whole)
	if err != nil {
		return nil, err
	}
	input := subscription.Input{URL: in.URL, Events: in.Events, Whole: whole}
	if text := in.Description.Pointer(); text != nil {
		input.Description = *text
	}
	made, err := a.Webhooks.Create(ctx, creator, input)
	return one(made, err)
}

// one is the answer with an endpoint that its administrator has changed.
func one(e *subscription.Endpoint, err error) (*endpointOut, error) {
	if err != nil {
		return nil, err
	}
	return &endpointOut{Endpoint: shown(e)}, nil
}

type endpointInput struct {
	ID string `path:"id"`
}

func (a *api) getWebhook(ctx context.Context, in *endpointInput) (*endpointOut, error) {
	view, err := a.view(ctx)
	if err != nil {
		return nil, err
	}
	found, err := a.Webhooks.Get(ctx, a.reach(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &endpointOut{Endpoint: view(found)}, nil
}

type updateWebhookInput struct {
	ID          string                      `path:"id"`
	URL         resource.Given[string]      `json:"url"`
	Description resource.Given[string]      `json:"description"`
	Events      resource.Given[eventsInput] `json:"events"`
	Status      resource.Given[string]      `json:"status"`
}

func (a *api) updateWebhook(ctx context.Context, in *updateWebhookInput) (*endpointOut, error) {
	change := subscription.Change{URL: in.URL.Pointer(), Description: in.Description.Pointer(), Status: in.Status.Pointer()}
	if events := in.Events.Pointer(); events != nil {
		change.Events = (*[]string)(events)
	}
	return one(a.Webhooks.Change(ctx, a.reach(ctx), in.ID, change))
}

type webhookDeletedOut struct {
	Deleted bool `json:"deleted"`
}

func (a *api) deleteWebhook(ctx context.Context, in *endpointInput) (*webhookDeletedOut, error) {
	if err := a.Webhooks.Delete(ctx, a.reach(ctx), in.ID); err != nil {
		return nil, err
	}
	return &webhookDeletedOut{Deleted: true}, nil
}

func (a *api) rotateWebhookSecret(ctx context.Context, in *endpointInput) (*endpointOut, error) {
	return one(a.Webhooks.Rotate(ctx, a.reach(ctx), in.ID))
}
