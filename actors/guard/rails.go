package guard

import (
	"context"
	"errors"
	"slices"

	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/machine"
	"parley/proto/decisionpb"
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

// Look has a text looked at that goes to an agent, as it came: by each guardrail as it is, whatever those before it take out. left is what
// is left of it, stopped why it goes no further; nil = it does. JSON is looked at as what it says, if that is wanted.
func (r Rails) Look(text string, isJSON bool, found *Found) (left string, stopped *failure.Failure) {
	left = text
	if text == "" {
		return left, nil
	}
	for _, rail := range r {
		result := check(rail, text, isJSON)
		found.Add(rail, result.Tally)
		switch {
		case result.Blocked():
			return "", Blocked(rail, result)
		case left == text:
			left = result.Text
		default:
			left = check(rail, left, isJSON).Text
		}
	}
	return left, nil
}

// Clean is what is left of a text to an agent, which stops nothing: what is taken out is all that is found in it. JSON is looked at as what
// it says, if that is wanted; what is none is a text.
func (r Rails) Clean(text string, isJSON bool, found *Found) string {
	for _, rail := range r {
		if text == "" {
			break
		}
		result := check(rail, text, isJSON)
		found.Add(rail, result.Tally.Only(guardrail.Redact))
		text = result.Text
	}
	return text
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

// Found is what guardrails have found in the texts of one call or answer. nil keeps nothing. It is for one goroutine.
type Found struct {
	rails   []*guardrail.Guardrail
	tallies []guardrail.Tally
}

// Add adds what a guardrail has found.
func (f *Found) Add(rail *guardrail.Guardrail, tally guardrail.Tally) {
	if f == nil || len(tally) == 0 {
		return
	}
	at := slices.IndexFunc(f.rails, func(one *guardrail.Guardrail) bool { return one.GetKey() == rail.GetKey() })
	if at < 0 {
		at = len(f.rails)
		f.rails, f.tallies = append(f.rails, rail), append(f.tallies, nil)
	}
	f.tallies[at].Add(tally)
}

// Told has what was found in a call or answer kept, a verdict for each guardrail; origin says in which.
func (g *Guard) Told(ctx context.Context, origin *decisionpb.Verdict, found *Found) {
	for i, rail := range found.rails {
		g.Keep(ctx, rail.Verdict(origin, found.tallies[i]))
	}
}

// Keep has a guardrail's verdict kept; nil = it found nothing. No call is stopped for its sake: what is not kept is counted where that is
// seen. A node of the release before does not know verdicts.
func (g *Guard) Keep(ctx context.Context, verdict *decisionpb.Verdict) {
	if verdict != nil && g.parts.Ready() == nil {
		_ = g.parts.Keep(ctx, verdict)
	}
}
