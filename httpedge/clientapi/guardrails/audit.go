package guardrails

import (
	"context"

	"parley/actors/core/entity"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
)

// findingCountSchema is how often something was found. It holds nothing of the text.
type findingCountSchema struct {
	Type     string `json:"type" enum:"pii,word_filter,moderation,prompt_shield"`
	Category string `json:"category"`
	Severity string `json:"severity" enum:"low,medium,high"`
	Action   string `json:"action" enum:"block,warn,flag,redact"`
	Count    uint32 `json:"count"`
}

type guardrailEventSchema struct {
	TraceID        string               `json:"traceId,omitempty" doc:"The turn's run, or the request; left out where a message has no run yet"`
	GuardrailKey   string               `json:"guardrailKey"`
	GuardrailName  string               `json:"guardrailName" doc:"As it was then"`
	Stage          string               `json:"stage" enum:"input,output"`
	Source         string               `json:"source" enum:"gateway,moderations,agent,evaluate"`
	ResourceName   string               `json:"resourceName,omitempty" doc:"The model, or the agent's id"`
	ConversationID string               `json:"conversationId,omitempty" doc:"Of an agent: the session or conversation, or the task"`
	UserID         string               `json:"userId,omitempty"`
	TokenID        string               `json:"tokenId,omitempty"`
	Action         string               `json:"action" enum:"block,warn,flag,redact" doc:"The strictest of the findings"`
	Findings       []findingCountSchema `json:"findings" doc:"By kind, the strictest first; nothing of the text"`
	At             string               `json:"at" format:"date-time"`
}

type guardrailEventListOut struct {
	Events []guardrailEventSchema `json:"events"`
}

type guardrailEventListInput struct {
	Key    string `path:"key"`
	Limit  int    `query:"limit"`
	Action string `query:"action" enum:"block,warn,flag,redact"`
}

func (a *api) listGuardrailVerdicts(ctx context.Context, in *guardrailEventListInput) (*guardrailEventListOut, error) {
	record, err := a.get(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	reply, err := entity.Read[*decisionpb.VerdictsReply](ctx, a.Entities, &decisionpb.VerdictsQuery{
		ProjectId: endpoint.CallerFrom(ctx).ProjectID, GuardrailKey: record.GetKey(), Decision: in.Action, Limit: uint32(max(in.Limit, 1)), //nolint:gosec // at most maxPage
	})
	if err != nil {
		return nil, err
	}
	out := &guardrailEventListOut{Events: []guardrailEventSchema{}}
	for _, v := range reply.GetVerdicts() {
		rail, findings := v.GetRail(), []findingCountSchema{}
		for _, f := range rail.GetFound() {
			findings = append(findings, findingCountSchema{f.GetType(), f.GetCategory(), f.GetSeverity(), f.GetAction(), f.GetCount()})
		}
		out.Events = append(out.Events, guardrailEventSchema{
			TraceID: v.GetTraceId(), GuardrailKey: rail.GetKey(), GuardrailName: rail.GetName(), Stage: v.GetStage(), Source: rail.GetSource(),
			ResourceName: v.GetResourceName(), ConversationID: rail.GetConversationId(), UserID: rail.GetUserId(), TokenID: rail.GetTokenId(),
			Action: v.GetDecision(), Findings: findings, At: render.Time(v.GetAt()),
		})
	}
	return out, nil
}
