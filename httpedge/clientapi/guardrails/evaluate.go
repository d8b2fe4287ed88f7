package guardrails

import (
	"cmp"
	"context"

	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

type checkInput struct {
	GuardrailKey string `json:"guardrail_key" required:"true"`
	Text         string `json:"text" required:"true"`
}

// Validate implements endpoint.Validator.
func (in *checkInput) Validate() *failure.Failure {
	switch {
	case in.GuardrailKey == "":
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.Required).In("guardrail_key")
	case in.Text == "":
		return failure.New(failurepb.Code_INVALID_REQUEST, failure.Required).In("text")
	}
	return nil
}

type checkOut struct {
	Action        string              `json:"action" enum:"block,warn,flag,redact" doc:"The strictest of the findings; the guardrail's when there are none"`
	Findings      []guardrail.Finding `json:"findings"`
	GuardrailKey  string              `json:"guardrail_key"`
	GuardrailName string              `json:"guardrail_name"`
	Message       *string             `json:"message" doc:"Why the text is blocked"`
	Passed        bool                `json:"passed" doc:"Nothing that was found blocks"`
	Disabled      bool                `json:"disabled" doc:"The guardrail is not enabled: it finds nothing"`
	RedactedText  *string             `json:"redacted_text" doc:"What is left of the text, where something was taken out"`
}

func (a *api) checkText(ctx context.Context, in *checkInput) (*checkOut, error) {
	record, err := a.get(ctx, in.GuardrailKey)
	if err != nil {
		return nil, err
	}
	rules, wrong := guardrail.Of(record)
	if wrong != nil {
		return nil, wrong
	}
	result := rules.Check(in.Text, true)
	caller := endpoint.CallerFrom(ctx)
	a.Aegis.Keep(ctx, rules.Verdict(&decisionpb.Verdict{
		TraceId: endpoint.RequestIDFrom(ctx), ProjectId: caller.ProjectID, Stage: guardrail.Input,
		Rail: &decisionpb.Rail{TenantId: caller.TenantID, Source: guardrail.OfEvaluate, UserId: caller.UserID, TokenId: caller.TokenID()},
	}, result.Tally))
	out := &checkOut{
		Action: cmp.Or(result.Action, record.GetAction()), Findings: result.Findings, GuardrailKey: record.GetKey(), GuardrailName: record.GetName(),
		Passed: !result.Blocked(), Disabled: !record.GetEnabled(),
	}
	if result.Blocked() {
		out.Message = render.Nullable(cmp.Or(record.GetMessage(), result.Reasons()))
	}
	if result.Text != in.Text {
		out.RedactedText = &result.Text
	}
	return out, nil
}
