// Package shields has the routes of Aegis (document 1, "Aegis"; document 3, section 15): calls are judged, shields made and read, their
// verdicts read, and approvals decided. What a verdict is says package actors/core/aegis.
package shields

import (
	"encoding/json"

	"parley/actors/core/aegis"
	"parley/actors/core/catalog"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/httpedge/resource"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

const (
	// maxCall bounds a call that is judged, in bytes, maxShield a shield.
	maxCall   = 1 << 20
	maxShield = 1 << 20
	// Pages of verdicts and of approvals.
	page    = 100
	maxPage = 500
)

// api is the handlers.
type api struct {
	*handler.API
	shields *resource.Object[*directorypb.Shield, catalog.ShieldInput]
}

// Routes returns those of API tokens.
func Routes(shared *handler.API) []endpoint.Route {
	a := &api{shared, shields()}
	const (
		read, write = "aegis:read", "aegis:write"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		notFound    = failurepb.Code_NOT_FOUND
	)
	tag := endpoint.Tag("Aegis")
	return []endpoint.Route{
		endpoint.On("POST /aegis/evaluate", write, a.evaluateCall, tag, endpoint.MaxBody(maxCall), endpoint.Unaudited("the shield's own trail has it"),
			endpoint.Summary("Judge a call before it happens"), endpoint.Errors(invalid, forbidden, notFound)),
		resource.List(a.shields, "GET /aegis/shields", read, a.listShields, tag,
			endpoint.Summary("List the project's shields, the default one first"), endpoint.Errors(forbidden)),
		endpoint.On("GET /aegis/shields/{id}/audit", read, a.listVerdicts, tag, endpoint.Page("limit", page, maxPage),
			endpoint.Summary("List what a shield decided, newest first"), endpoint.Errors(invalid, forbidden, notFound)),
	}
}

// ManageRoutes returns those of signed-in users: programs that are judged do not change what judges them, and approve nothing.
func ManageRoutes(shared *handler.API) []endpoint.Route {
	a := &api{shared, shields()}
	const (
		read, write, admin = "aegis:read", "aegis:write", "aegis:admin"
		invalid            = failurepb.Code_INVALID_REQUEST
		forbidden          = failurepb.Code_FORBIDDEN
		notFound           = failurepb.Code_NOT_FOUND
		conflict           = failurepb.Code_CONFLICT
		quota              = failurepb.Code_QUOTA_REACHED
	)
	tag, room := endpoint.Tag("Aegis"), endpoint.MaxBody(maxShield)
	return []endpoint.Route{
		a.shields.Create("POST /aegis/shields", admin, handler.Make(a.Catalog.CreateShield), tag, room,
			endpoint.Summary("Make a shield"), endpoint.Errors(invalid, forbidden, conflict, quota)),
		a.shields.Read("GET /aegis/shields/{id}", read, "getShield", a.getShield, tag, endpoint.Summary("Read a shield"), endpoint.Errors(forbidden, notFound)),
		a.shields.Change("PATCH /aegis/shields/{id}", admin, "updateShield", handler.Change(a.Catalog.UpdateShield), tag, room,
			endpoint.Summary("Change a shield; it counts at once, on every node"), endpoint.Errors(invalid, forbidden, notFound, conflict, quota)),
		a.shields.Delete("DELETE /aegis/shields/{id}", admin, handler.Remove(a.Catalog.DeleteShield), tag,
			endpoint.Summary("Delete a shield, but not the default one"), endpoint.Errors(forbidden, notFound, conflict)),
		endpoint.On("GET /aegis/approvals", read, a.listApprovals, tag, endpoint.Page("limit", page, maxPage),
			endpoint.Summary("List the approvals that shields have asked for, newest first"), endpoint.Errors(forbidden)),
		endpoint.On("GET /aegis/approvals/{id}", read, a.getApproval, tag, endpoint.Summary("Read an approval"), endpoint.Errors(forbidden, notFound)),
		endpoint.On("POST /aegis/approvals/{id}/decide", write, a.decideApproval, tag,
			endpoint.Summary("Approve or deny a call; the answer to an approval shows its token, once"),
			endpoint.Errors(invalid, forbidden, notFound, conflict, failurepb.Code_ACTION_EXPIRED)),
	}
}

// shields declares the shields.
func shields() *resource.Object[*directorypb.Shield, catalog.ShieldInput] {
	type (
		record = *directorypb.Shield
		input  = catalog.ShieldInput
	)
	o := resource.New[record, input]("shield", "ShieldRecord")
	o.Text("id", record.GetId)
	o.Text("name", record.GetName).Write(func(in *input) **string { return &in.Name }).Required()
	o.OptionalText("description", record.GetDescription).Write(func(in *input) **string { return &in.Description }).Clearable()
	o.Text("mode", record.GetMode).Enum(aegis.Modes()...).Write(func(in *input) **string { return &in.Mode }).CreateDoc("enforce when absent")
	o.Document("rules", record.GetRules).Take(func(in *input) *json.RawMessage { return &in.Rules }).ChangeDoc("Replaces the stored ones").
		CreateDoc("allow, deny, sideEffects, allowedRoles, allowedDomains, deniedDomains, allowedPathPrefixes, deniedPathPrefixes, argumentSchemas, limits")
	o.Document("dlp", record.GetDlp).Take(func(in *input) *json.RawMessage { return &in.DLP }).CreateDoc("{redactSecrets, redactPii}, both of them; both true when absent").
		ChangeDoc("Replaces the stored one")
	o.OptionalDocument("llm", record.GetLlm).Take(func(in *input) *json.RawMessage { return &in.LLM }).
		CreateDoc("modelKey; judge: enabled, stages, threshold (0.7 when absent), failMode (open or closed; closed when absent), onlyHighRisk").
		ChangeDoc("Replaces the stored one; null: no model judges")
	o.Time("createdAt", record.GetCreatedAt)
	o.Time("updatedAt", record.GetUpdatedAt)
	return o
}
