package gateway

import (
	"net/http"

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

// ProviderRefuses are the statuses with which a provider's failures are answered besides our own (document 3, 10.4).
func ProviderRefuses(r *endpoint.Route) {
	for _, refused := range []endpoint.Option{
		endpoint.AlsoRefuses(http.StatusRequestTimeout, "provider_timeout"), endpoint.AlsoRefuses(http.StatusConflict, "conflict"),
		endpoint.AlsoRefuses(http.StatusUnprocessableEntity, "unprocessable_entity"), endpoint.AlsoRefuses(http.StatusBadGateway, "provider_error"),
		endpoint.AlsoRefuses(http.StatusGatewayTimeout, "provider_timeout"),
	} {
		refused(r)
	}
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
			append(common("Let a model answer; with stream as server-sent events"), ProviderRefuses,
				endpoint.AlsoRefuses(http.StatusUnprocessableEntity, "output_token_limit_exceeded"))...),
		endpoint.On("POST /embeddings", "models:write", a.embeddings, append(common("Make embeddings of texts"), ProviderRefuses)...),
		endpoint.On("POST /moderations", "guardrails:write", a.moderations, common("Judge texts by a guardrail")...),
	}
}
