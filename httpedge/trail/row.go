package trail

import (
	"strings"
	"time"

	"parley/actors/core/audit"
	"parley/httpedge/endpoint"
	"parley/proto/auditpb"
)

// Bounds of what comes from outside, in bytes.
const (
	maxText  = 256
	maxPath  = 512
	rowsKind = "aud"
)

// rowOf is what is known of a request before it is carried out.
func (t *Trail) rowOf(request *endpoint.Audited) *auditpb.Row {
	service, action, _ := strings.Cut(request.Route.Access, ":")
	row := &auditpb.Row{
		Id: t.NewID(rowsKind), StartedAt: time.Now().UnixMilli(), TenantId: request.Caller.TenantID, ProjectId: request.Caller.ProjectID,
		RequestId: audit.Text(request.RequestID, maxText), ActorType: audit.ActorSystem, Service: service, Action: action,
		Method: request.Route.Method, Route: request.Prefix + request.Route.Path, Path: audit.Text(request.Path, maxPath),
		IpAddress: audit.Text(request.Request.RemoteIP(), maxText), UserAgent: audit.Text(request.Request.Header("User-Agent"), maxText),
		Outcome: audit.Unknown,
	}
	if grant := request.Caller.Grant; grant != nil {
		row.ActorType, row.ApiTokenId = audit.ActorUser, grant.Token.GetId()
		row.ActorUserId, row.ActorEmail, row.ActorRole = grant.Owner.GetId(), grant.Owner.GetEmail(), grant.Owner.GetRole()
		if row.GetApiTokenId() != "" {
			row.ActorType = audit.ActorToken
		}
	}
	row.ResourceType, row.ResourceId = resource(row.GetRoute(), request.Params, nil)
	return row
}

// resource is the record that a request is about: of /users/{id}/tokens the token that was made, else the record of the last
// parameter of the path, else the one that was changed first.
func resource(route string, params map[string]string, changes []*auditpb.Change) (kind, id string) {
	var last string
	for segment := range strings.SplitSeq(route, "/") {
		name, isParam := strings.CutPrefix(segment, "{")
		if isParam {
			kind, id = last, params[strings.TrimSuffix(name, "}")]
		}
		last = strings.Trim(segment, "{}")
	}
	for _, change := range changes {
		if change.GetRecord() == last {
			return last, change.GetId()
		}
	}
	if id == "" {
		kind = last
		if len(changes) > 0 {
			kind, id = changes[0].GetRecord(), changes[0].GetId()
		}
	}
	return audit.Text(kind, maxText), audit.Text(id, maxText)
}
