package gateway

import (
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

const tag = "Inference"

// NoAudit is why the routes that call models are not in the audit trail.
const NoAudit = "it uses a model and changes no record; usage is booked"

// Surface returns the routes with the error format of OpenAI clients. The caller adds authenticator, permit and headers.
func (a *API) Surface() endpoint.Surface {
	return endpoint.Surface{Name: "gateway", Routes: a.routes(), Refusals: refusals(), Wording: wording(), AppendProblem: appendProblem}
}

func (a *API) routes() []endpoint.Route {
	refused := endpoint.Errors(
		failurepb.Code_VALIDATION, failurepb.Code_FORBIDDEN, failurepb.Code_MODEL_NOT_FOUND, failurepb.Code_TOO_LARGE,
		failurepb.Code_RATE_LIMITED,
	)
	common := func(summary string) []endpoint.Option {
		return []endpoint.Option{
			refused, endpoint.Tag(tag), endpoint.Summary(summary),
			endpoint.Timeout(a.config.CallTimeout), endpoint.MaxBody(a.config.MaxBody), endpoint.EndsWithClient(), endpoint.Once(),
			endpoint.Unaudited(NoAudit),
		}
	}
	return []endpoint.Route{
		endpoint.OnStream("POST /chat/completions", "models:write", a.chatCompletions,
			common("Let a model answer; with stream as server-sent events")...),
		endpoint.On("POST /embeddings", "models:write", a.embeddings, common("Make embeddings of texts")...),
		endpoint.On("POST /moderations", "guardrails:write", a.moderations, common("Judge texts by a guardrail")...),
	}
}
