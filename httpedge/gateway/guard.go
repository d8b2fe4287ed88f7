package gateway

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/core/guardrail"
	"parley/actors/core/moderate"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
	"parley/proto/decisionpb"
	"parley/proto/failurepb"
)

// Rails finds the guardrails of projects.
type Rails interface {
	// Keys are those of a model, for what goes to it and for what it says; "" = none.
	Keys(projectID, model string) (input, output string, err error)
	// Guardrail finds one; the failure of one that is not there is NOT_FOUND.
	Guardrail(ctx context.Context, projectID, key string) (*guardrail.Guardrail, error)
	// Moderation is the first one that moderates; nil = there is none.
	Moderation(projectID string) (*guardrail.Guardrail, error)
}

// Guard lets texts pass guardrails, and has kept what these decide (keep; nil = they found nothing). It is called before the first request.
func (a *API) Guard(rails Rails, keep func(context.Context, *decisionpb.Verdict)) {
	a.rails, a.keep, a.models = rails, keep, &guarded{a.models, rails, keep}
}

// guarded checks what goes to models, before they are called, and what they say.
type guarded struct {
	Models

	rails Rails
	keep  func(context.Context, *decisionpb.Verdict)
}

// origin says in which call a guardrail decides: for a model, or for none ("").
func origin(caller *endpoint.Caller, source, side, model, request string) *decisionpb.Verdict {
	return &decisionpb.Verdict{
		TraceId: request, ProjectId: caller.ProjectID, Stage: side, ResourceName: model,
		Rail: &decisionpb.Rail{TenantId: caller.TenantID, Source: source, UserId: caller.UserID, TokenId: caller.TokenID()},
	}
}

// told has kept what a guardrail of a model has found in a call, or its answer.
func (g *guarded) told(ctx context.Context, call *Call, side string, rail *guardrail.Guardrail, found guardrail.Tally) {
	g.keep(ctx, rail.Verdict(origin(&call.Caller, guardrail.OfGateway, side, call.Model, call.RequestID), found))
}

// Bounds of messages that are taken apart.
const (
	deepest    = 200
	mostValues = 100_000
)

// find finds a guardrail of a model; nil = it names none, or one that is not enabled.
func (g *guarded) find(ctx context.Context, call *Call, key string) (*guardrail.Guardrail, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	found, err := g.rails.Guardrail(ctx, call.Caller.ProjectID, key)
	if isMissing(err) { // nothing goes past it
		return nil, &endpoint.Problem{
			Status: http.StatusForbidden, Code: "guardrail_missing", Message: "The model's guardrail `" + key + "` does not exist",
		}
	}
	if err != nil || !found.GetEnabled() {
		return nil, err
	}
	return found, nil
}

func isMissing(err error) bool {
	refused, is := errors.AsType[*failure.Failure](err)
	return is && refused.Code == failurepb.Code_NOT_FOUND
}

// checked is what guardrails have found in a call so far.
type checked struct {
	call   *Call
	output *guardrail.Guardrail // nil = none
	Input  *railFindings        `json:"input,omitempty"`
	Output *railFindings        `json:"output,omitempty"`
}

type railFindings struct {
	GuardrailKey string              `json:"guardrail_key"`
	Findings     []guardrail.Finding `json:"findings"`
}

// open checks what goes to the model, and returns the call without what is taken out.
func (g *guarded) open(ctx context.Context, call *Call) (*checked, error) {
	in, out, err := g.rails.Keys(call.Caller.ProjectID, call.Model)
	if err != nil {
		return nil, err
	}
	c := &checked{call: call}
	if c.output, err = g.find(ctx, call, out); err != nil {
		return nil, err
	}
	input, err := g.find(ctx, call, in)
	if err != nil || input == nil {
		return c, err
	}
	c.Input = &railFindings{GuardrailKey: input.GetKey()}
	at := slices.IndexFunc(call.Body, func(field rawjson.Field) bool { return field.Name == "messages" })
	if at < 0 {
		return c, nil // unreachable: the body has messages
	}
	messages, err := decode(call.Body[at].Value)
	if err != nil {
		return nil, invalid("messages", failure.BadMessages)
	}
	check := &check{rail: input, into: c.Input, toModel: true}
	check.messages(messages)
	g.told(ctx, call, guardrail.Input, input, check.found)
	if check.blocked != nil {
		return nil, block(input, check.blocked)
	}
	if check.changed {
		copied := *call
		copied.Body = slices.Clone(call.Body)
		if copied.Body[at].Value, err = rawjson.AppendValue(nil, messages); err != nil {
			return nil, err
		}
		c.call = &copied
	}
	return c, nil
}

// decode takes apart JSON from outside.
func decode(raw []byte) (value any, err error) {
	if !rawjson.Modest(raw, deepest, mostValues) {
		return nil, errors.New("too many or too deep values")
	}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	return value, decoder.Decode(&value)
}

// block is the answer to a text that goes no further (document 3, 10.2).
func block(rail *guardrail.Guardrail, result *guardrail.Result) *endpoint.Problem {
	reasons := wording().Text(failure.New(failurepb.Code_INVALID_REQUEST, failure.GuardrailBlocked).Param("reasons", result.Reasons()))
	return &endpoint.Problem{
		Status: http.StatusBadRequest, Code: "guardrail_block", Message: cmp.Or(rail.GetMessage(), reasons),
		Details: map[string]any{"type": "guardrail_block", "guardrail_key": rail.GetKey(), "action": result.Action, "findings": result.Findings},
	}
}

// blockAnswer is block for what a model said: the model was called, and paid.
func blockAnswer(rail *guardrail.Guardrail, result *guardrail.Result) *endpoint.Problem {
	problem := block(rail, result)
	problem.Ran = true
	return problem
}

// check looks at texts with a guardrail.
type check struct {
	rail    *guardrail.Guardrail
	into    *railFindings
	toModel bool
	changed bool
	blocked *guardrail.Result // the first text that blocks
	found   guardrail.Tally   // of texts that are cleaned what was taken out
}

// messages checks what is said to a model. What the caller's own program says to it (system, developer, and what the model said) is
// cleaned, and stops nothing: it holds words about what must not be.
func (c *check) messages(value any) {
	messages, _ := value.([]any)
	for _, one := range messages {
		message, _ := one.(map[string]any)
		role, _ := message["role"].(string)
		c.message(message, role == "system" || role == "developer" || role == "assistant")
	}
}

// message checks the texts of one message.
func (c *check) message(message map[string]any, cleaned bool) {
	for _, name := range []string{"content", "refusal", "reasoning_content"} {
		c.member(message, name, cleaned)
		if parts, is := message[name].([]any); is {
			message[name] = c.parts(parts, cleaned)
		}
	}
	for _, call := range calls(message) {
		c.member(call, "arguments", cleaned)
	}
}

// parts checks the texts of a message's parts, each by itself and as the one text that a model reads: what is only found in that is taken
// out of it, and what is left is the first part's text. It returns the parts that are left.
func (c *check) parts(parts []any, cleaned bool) (left []any) {
	var first map[string]any // that has a text
	var alone guardrail.Tally
	var whole strings.Builder
	texts := 0
	for _, part := range parts {
		members, _ := part.(map[string]any)
		found, is := c.member(members, "text", cleaned)
		c.member(members, "refusal", cleaned)
		switch {
		case !is:
			left = append(left, part)
			continue
		case first == nil:
			first, left = members, append(left, part)
		}
		text, _ := members["text"].(string)
		texts++
		alone.Add(found)
		whole.WriteString(text)
	}
	if texts < 2 {
		return parts
	}
	result := c.rail.Check(whole.String(), c.toModel)
	if result.Tally = result.Tally.Beyond(alone); len(result.Tally) == 0 {
		return parts
	}
	c.take(result, cleaned)
	if result.Text == whole.String() {
		return parts
	}
	first["text"], c.changed = result.Text, true
	return left
}

// calls are the functions that a message calls.
func calls(message map[string]any) (all []map[string]any) {
	if function, is := message["function_call"].(map[string]any); is {
		all = append(all, function)
	}
	made, _ := message["tool_calls"].([]any)
	for _, call := range made {
		members, _ := call.(map[string]any)
		for _, name := range []string{"function", "custom"} {
			if function, is := members[name].(map[string]any); is {
				all = append(all, function)
			}
		}
	}
	return all
}

// member checks a text, and puts what is left of it in its place. It returns what it found, and whether there is such a text.
func (c *check) member(of map[string]any, name string, cleaned bool) (found guardrail.Tally, is bool) {
	text, is := of[name].(string)
	if !is || text == "" {
		return nil, false
	}
	result := c.rail.Check(text, c.toModel)
	if result.Text != text {
		of[name], c.changed = result.Text, true
	}
	c.take(result, cleaned)
	return result.Tally, true
}

// take keeps what was found in a text.
func (c *check) take(result *guardrail.Result, cleaned bool) {
	if cleaned {
		c.found.Add(result.Tally.Only(guardrail.Redact))
		return
	}
	c.found.Add(result.Tally)
	if result.Blocked() && c.blocked == nil {
		c.blocked = result
	}
	const most = 64
	for _, found := range result.Findings {
		if len(c.into.Findings) < most && !slices.Contains(c.into.Findings, found) {
			c.into.Findings = append(c.into.Findings, found)
		}
	}
}

// Chat implements Models.
func (g *guarded) Chat(ctx context.Context, call *Call) ([]byte, error) {
	c, err := g.open(ctx, call)
	if err != nil {
		return nil, err
	}
	answer, err := g.Models.Chat(ctx, c.call)
	if err != nil {
		return nil, err
	}
	answer, found, err := c.answer(answer)
	g.told(ctx, call, guardrail.Output, c.output, found)
	if err != nil {
		return nil, err
	}
	return c.append(answer)
}

// answer checks what a model said.
func (c *checked) answer(answer []byte) (left []byte, found guardrail.Tally, err error) {
	if c.output == nil {
		return answer, nil, nil
	}
	value, err := decode(answer)
	if err != nil {
		return nil, nil, err
	}
	c.Output = &railFindings{GuardrailKey: c.output.GetKey()}
	check := &check{rail: c.output, into: c.Output}
	document, _ := value.(map[string]any)
	choices, _ := document["choices"].([]any)
	for _, one := range choices {
		choice, _ := one.(map[string]any)
		message, _ := choice["message"].(map[string]any)
		known(message)
		choice["logprobs"] = nil // which spell the text
		check.message(message, false)
	}
	if check.blocked != nil {
		return nil, check.found, blockAnswer(c.output, check.blocked)
	}
	left, err = rawjson.AppendValue(nil, value)
	return left, check.found, err
}

// known leaves of a message, or a piece of one, what is checked.
func known(message map[string]any) {
	for name, value := range message {
		switch name {
		case "role", "tool_calls", "function_call":
		case "content", "refusal", "reasoning_content":
			if _, text := value.(string); !text {
				message[name] = nil
			}
		case "annotations":
			message[name] = []any{}
		default:
			delete(message, name)
		}
	}
}

// append says in an answer what was found and let pass.
func (c *checked) append(answer []byte) ([]byte, error) {
	for _, part := range []**railFindings{&c.Input, &c.Output} {
		if *part != nil && len((*part).Findings) == 0 {
			*part = nil
		}
	}
	if c.Input == nil && c.Output == nil || len(answer) < len(`{}`) {
		return answer, nil
	}
	found, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	answer = append(answer[:len(answer)-1], `,"guardrails":`...)
	return append(append(answer, found...), '}'), nil
}

// rail answers POST /moderations by a guardrail of the project; nil = it is for another to answer.
func (a *API) rail(ctx context.Context, in *moderationsInput) (*moderation, error) {
	if a.rails == nil || in.key == moderate.Key {
		return nil, nil //nolint:nilnil // it is for the built-in one
	}
	caller := endpoint.CallerFrom(ctx)
	rail, err := a.rails.Moderation(caller.ProjectID)
	if in.key != "" {
		rail, err = a.rails.Guardrail(ctx, caller.ProjectID, in.key)
	}
	if rail == nil || isMissing(err) {
		return nil, nil //nolint:nilnil // it is for the built-in one, or for a model
	}
	if err != nil {
		return nil, err
	}
	if !rail.Moderates() {
		return nil, invalid("model", failure.GuardrailUnmoderated).Param("guardrail", in.key)
	}
	rule := rail.Rules.Moderation
	of := rule.Categories
	if of == nil {
		of = moderate.Categories()
	}
	answer := &moderation{ID: "modr_" + newUUID(), Model: rail.GetKey()}
	var found guardrail.Tally
	for _, text := range in.texts {
		result := moderate.Judge(text).Only(of, cmp.Or(rule.Action, rail.GetAction()))
		answer.Results = append(answer.Results, result)
		for _, f := range result.Findings {
			found.Add(guardrail.Tally{{Type: f.Type, Category: f.Category, Severity: f.Severity, Action: f.Action}: 1})
		}
	}
	a.keep(ctx, rail.Verdict(origin(&caller, guardrail.OfModerations, guardrail.Input, "", endpoint.RequestIDFrom(ctx)), found))
	return answer, nil
}
