package dashboard

import (
	"encoding/json"
	"slices"

	"parley/httpedge/apidocs"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/httpedge/openapi"
)

const documentTitle = "Dashboard API"

// Other is a further surface below /api that answers failures as the Client API does.
type Other struct {
	endpoint.Surface

	Below string // its place below /api
	Names string // begins the names of its operations, where another surface has the same routes
}

// Described returns the routes of the description of all surfaces below /api: the dashboard's own, and those that answer failures as
// the Client API does. With page there is the page that shows it, too.
func Described(base string, page bool, own endpoint.Surface, others ...Other) endpoint.Surface {
	return endpoint.Surface{
		Name: "dashboard-docs", Routes: apidocs.Routes(documentTitle, Document(base, own, others...), page),
		Refusals: own.Refusals, AppendProblem: own.AppendProblem, Guard: own.Guard, Headers: own.Headers,
	}
}

// Document renders the OpenAPI document of these surfaces.
func Document(base string, own endpoint.Surface, others ...Other) []byte {
	info := openapi.Info{
		Title: documentTitle, Version: "1.0.0",
		Description: "What signed-in users call: accounts, sessions, the active project, members, groups, projects, webhooks; below /console/v1 the Client API, in the active project or that of the header X-Project-Id. Signing in sets the session's cookie: POST /auth/register makes a company and its owner, POST /auth/login signs in who has an account. Programs use the Client API (/api/client/v1) with an API token, which its users make at /dashboard/tokens or by POST /users/{id}/tokens.",
		Server:      base, SessionCookie: login.SessionCookie, Refusals: own.Refusals, Error: problem{},
	}
	for i := range others {
		info.Others = append(info.Others, openapi.Part{
			Routes: others[i].Routes, Below: others[i].Below, Names: others[i].Names, Refusals: others[i].Refusals, Error: clientErrorSchema{},
		})
	}
	return openapi.Document(info, slices.Clone(own.Routes))
}

// clientErrorSchema is how routes that are also the Client API's word an error; message is that of a missing session.
type clientErrorSchema struct {
	Error      json.RawMessage `json:"error" any:"true" doc:"For people; a title where message says more; of guardrail_block an object: message, type, code, guardrail_key, action, findings"`
	Message    string          `json:"message,omitempty"`
	Code       string          `json:"code" doc:"For programs"`
	Reason     string          `json:"reason,omitempty" doc:"Of the permission engine"`
	DecisionID string          `json:"decisionId,omitempty" doc:"Under which its decision is kept"`
	Details    map[string]any  `json:"details,omitempty"`
}
