package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"parley/actors/expression"
	"parley/actors/machine/rawjson"
	"parley/actors/schema"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// Judge decides what a call with these arguments needs. The error is for the model: the arguments are not a JSON object
// or do not match the tool's schema; the call must not be run. If the context ends meanwhile, the error is its own, or a call whose approval
// depends on an expression needs approval.
func (t *Tool) Judge(ctx context.Context, args string) (Judgement, error) {
	normal, err := object(args)
	if err != nil {
		return Judgement{}, err
	}
	if misfit := schema.Validate(ctx, t.Schema, normal); misfit != nil {
		if stopped := ctx.Err(); stopped != nil && errors.Is(misfit, stopped) {
			return Judgement{}, stopped
		}
		return Judgement{}, fmt.Errorf("the arguments do not fit the tool's schema: %s", clean(misfit.Error(), maxErrorText))
	}
	judged := Judgement{
		Args: normal, Need: conversationpb.Need_RUN,
		ActionTimeout: time.Duration(t.Policy.GetActionTimeoutMs()) * time.Millisecond,
	}
	switch t.Kind {
	case Ask:
		judged.Need = conversationpb.Need_QUESTION
		judged.Details, err = questionDetails(normal)
	case Client:
		judged.Need = conversationpb.Need_CLIENT
	case Run:
		if t.asks(ctx, normal) {
			judged.Need = conversationpb.Need_APPROVAL
		}
		judged.Details, err = promptDetails(t.Policy.GetApprovalPrompt())
	}
	return judged, err
}

// promptDetails is what the person who must approve is shown. Every call that is run has it, since one with an unknown
// outcome may need a person, too.
func promptDetails(prompt string) ([]byte, error) {
	if prompt == "" {
		return nil, nil
	}
	return json.Marshal(struct {
		Prompt string `json:"prompt"`
	}{prompt})
}

// object checks that arguments are one JSON object and re-encodes it: the approval and the tool could otherwise read a
// duplicate name differently. No arguments at all count as an empty object.
func object(args string) ([]byte, error) {
	if strings.TrimSpace(args) == "" {
		return []byte("{}"), nil
	}
	if len(args) > maxArgs {
		return nil, fmt.Errorf("the arguments are longer than %d bytes", maxArgs)
	}
	decoder := json.NewDecoder(strings.NewReader(args))
	decoder.UseNumber() // numbers keep their text
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, errors.New("the arguments are not valid JSON")
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("the arguments are not valid JSON")
	}
	if _, is := value.(map[string]any); !is {
		return nil, errors.New("the arguments are not a JSON object")
	}
	return rawjson.AppendValue(nil, value)
}

// maxArgs bounds the arguments of a call: they become part of an event, and of a pending action.
const maxArgs = 64 << 10

// approval decides whether a call needs a person's approval. nil = never.
type approval struct {
	when *expression.Program // nil = always
	box  *Toolbox
}

func (b *Toolbox) newApproval(policy *agentpb.ToolPolicy) (*approval, error) {
	switch policy.GetApproval() {
	case "", "never":
		return nil, nil
	case "always":
		return &approval{}, nil
	case "when":
	default:
		return nil, fmt.Errorf("approval %q is none of never, always and when", policy.GetApproval())
	}
	condition, err := expression.Approval(policy.GetWhen())
	switch {
	case err == nil:
		return &approval{when: condition, box: b}, nil
	case b.strict:
		return nil, fmt.Errorf("expression of approval: %w", err)
	default:
		b.config.Logger.Warn("an approval expression cannot be compiled: a person is always asked", slog.String("err", err.Error()))
		return &approval{}, nil
	}
}

// asks reports whether a call needs approval. It is true if the expression cannot be evaluated, for instance because a
// value has another type or makes it too expensive.
func (t *Tool) asks(ctx context.Context, args []byte) bool {
	a := t.approval
	if a == nil {
		return false
	}
	if a.when == nil {
		return true
	}
	var values map[string]any
	decoder := json.NewDecoder(bytes.NewReader(args))
	decoder.UseNumber()
	if decoder.Decode(&values) != nil {
		return true
	}
	for name, value := range values {
		number, err := numbers(value)
		if err != nil {
			return true
		}
		values[name] = number
	}
	holds, err := a.box.conditions.Holds(ctx, a.when, map[string]any{"args": values})
	if errors.Is(err, expression.ErrBudget) {
		a.box.config.Logger.Warn("an approval expression is too expensive: a person is asked",
			slog.String("tool", t.Name), slog.String("err", err.Error()))
	}
	return err != nil || holds
}

// numbers makes the numbers of a value those of expressions: doubles, but whole numbers that a double does not hold are what they are
// as far as there are any. It changes the value.
func numbers(value any) (made any, err error) {
	switch value := value.(type) {
	case json.Number:
		if whole, odd := strconv.Atoi(value.String()); odd == nil && (whole > maxDouble || whole < -maxDouble) {
			return whole, nil
		}
		return value.Float64()
	case []any:
		for index := range value {
			if value[index], err = numbers(value[index]); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for name := range value {
			if value[name], err = numbers(value[name]); err != nil {
				return nil, err
			}
		}
	}
	return value, nil
}

// maxDouble is the last whole number that no other one becomes as a double.
const maxDouble = 1<<53 - 1
