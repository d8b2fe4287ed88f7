package guard

import (
	"context"
	"errors"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Rails are guardrails that texts to an agent pass (document 3, 7.10).
type Rails []*guardrail.Guardrail

// Rails reads the guardrails of a project that an agent and its model name, each once; "" names none. One that is not there is a failure:
// nothing goes past it. One that is not enabled does nothing.
func (g *Guard) Rails(ctx context.Context, projectID string, keys ...string) (Rails, error) {
	var all Rails
	for i, key := range keys {
		if key == "" || slices.Contains(keys[:i], key) {
			continue
		}
		found, err := g.parts.Guardrail(ctx, projectID, key)
		if refused, is := errors.AsType[*machine.Failure](err); is && refused.Code == failurepb.Code_NOT_FOUND {
			return nil, failure.New(failurepb.Code_GUARDRAIL_MISSING, failure.AgentGuardrailGone).Param("guardrail", key)
		}
		if err != nil {
			return nil, err
		}
		if found.GetEnabled() {
			all = append(all, found)
		}
	}
	return all, nil
}

// Pass says why a text to an agent goes no further; nil = it does. JSON is looked at as what it says, if that is wanted.
func (r Rails) Pass(text string, isJSON bool) *failure.Failure {
	if text == "" {
		return nil
	}
	for _, rail := range r {
		if result := check(rail, text, isJSON); result.Blocked() {
			return Blocked(rail, result)
		}
	}
	return nil
}

// Clean is what is left of a text to an agent.
func (r Rails) Clean(text string) string {
	for _, rail := range r {
		if text != "" {
			text = rail.Check(text, true).Text
		}
	}
	return text
}

// CleanJSON is what is left of JSON; what is none is a text.
func (r Rails) CleanJSON(raw []byte) []byte {
	for _, rail := range r {
		if len(raw) > 0 {
			raw = []byte(rail.CheckJSON(string(raw), true).Text)
		}
	}
	return raw
}

func check(rail *guardrail.Guardrail, text string, isJSON bool) *guardrail.Result {
	if isJSON {
		return rail.CheckJSON(text, true)
	}
	return rail.Check(text, true)
}

// Blocked is the failure of a text that a guardrail stops: in the words of the guardrail, if it has some.
func Blocked(rail *guardrail.Guardrail, result *guardrail.Result) *failure.Failure {
	refused := failure.New(failurepb.Code_GUARDRAIL_BLOCKED, failure.GuardrailBlocked).Param("reasons", result.Reasons())
	if rail.GetMessage() != "" {
		refused = failure.Verbatim(failurepb.Code_GUARDRAIL_BLOCKED, rail.GetMessage())
	}
	return refused.With("guardrail_key", rail.GetKey()).With("action", result.Action).With("findings", result.Findings)
}
