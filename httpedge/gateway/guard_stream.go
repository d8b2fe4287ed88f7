package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"

	"parley/actors/core/guardrail"
	"parley/actors/machine/rawjson"
	"parley/httpedge/endpoint"
)

// ChatStream implements Models. What a model says is given away as soon as it can no longer become part of something that is looked for.
func (g *guarded) ChatStream(ctx context.Context, call *Call, emit func(chunk []byte, more bool) error) error {
	c, err := g.open(ctx, call)
	if err != nil {
		return err
	}
	if c.output == nil {
		return g.Models.ChatStream(ctx, c.call, emit)
	}
	s := &railStream{rail: c.output, texts: map[string]*guardrail.Stream{}}
	err = g.Models.ChatStream(ctx, c.call, func(chunk []byte, more bool) error {
		left, failed := s.chunk(chunk)
		if failed != nil {
			return failed
		}
		return emit(left, more)
	})
	g.told(ctx, call, guardrail.Output, c.output, s.found())
	if s.blocked != nil { // however the call words that it was ended
		return s.blocked
	}
	return err
}

// railStream checks the texts of one streamed answer: of each choice what it says, thinks and refuses, and the arguments of its calls.
type railStream struct {
	rail    *guardrail.Guardrail
	texts   map[string]*guardrail.Stream // by choice and member
	order   []string                     // their names, as they came
	blocked *endpoint.Problem
}

// maxTextsOfAnswer bounds the texts of an answer: choices and calls.
const maxTextsOfAnswer = 1024

// chunk checks a chunk and returns what is left of it.
func (s *railStream) chunk(chunk []byte) ([]byte, error) {
	value, err := decode(chunk)
	if err != nil {
		return nil, err
	}
	document, _ := value.(map[string]any)
	choices, _ := document["choices"].([]any)
	for _, one := range choices {
		choice, _ := one.(map[string]any)
		delta, is := choice["delta"].(map[string]any)
		if !is {
			continue
		}
		index, _ := choice["index"].(json.Number)
		known(delta)
		choice["logprobs"] = nil // which spell the text
		s.delta(index.String()+" ", delta)
		if choice["finish_reason"] != nil {
			s.finish(index.String()+" ", delta)
		}
	}
	if s.blocked != nil {
		return nil, s.blocked
	}
	return rawjson.AppendValue(nil, value)
}

// delta checks a piece of a choice.
func (s *railStream) delta(choice string, delta map[string]any) {
	for _, name := range []string{"content", "refusal", "reasoning_content"} {
		s.piece(choice+name, delta, name)
	}
	if function, is := delta["function_call"].(map[string]any); is {
		s.piece(choice+"function_call", function, "arguments")
	}
	made, _ := delta["tool_calls"].([]any)
	for _, one := range made {
		call, _ := one.(map[string]any)
		number, _ := call["index"].(json.Number)
		if function, is := call["function"].(map[string]any); is {
			s.piece(choice+number.String(), function, "arguments")
		}
	}
}

// piece checks the next piece of a text, and puts what may be given away in its place.
func (s *railStream) piece(text string, of map[string]any, name string) {
	piece, is := of[name].(string)
	if !is {
		return
	}
	stream := s.texts[text]
	if stream == nil {
		if len(s.texts) == maxTextsOfAnswer {
			of[name] = ""
			return
		}
		stream = s.rail.Stream()
		s.texts[text], s.order = stream, append(s.order, text)
	}
	out, blocked := stream.Write(piece)
	of[name] = out
	s.note(blocked)
}

// found is what was found in all texts.
func (s *railStream) found() (all guardrail.Tally) {
	for _, stream := range s.texts {
		all.Add(stream.Tally())
	}
	return all
}

func (s *railStream) note(blocked *guardrail.Result) {
	if blocked != nil && s.blocked == nil {
		s.blocked = blockAnswer(s.rail, blocked)
	}
}

// finish gives away what was held back of a choice.
func (s *railStream) finish(choice string, delta map[string]any) {
	for _, text := range s.order {
		name, of := text[min(len(choice), len(text)):], text[:min(len(choice), len(text))]
		if of != choice {
			continue
		}
		rest, blocked := s.texts[text].Close()
		s.note(blocked)
		if rest == "" {
			continue
		}
		number, err := strconv.Atoi(name)
		switch {
		case err == nil:
			made, _ := delta["tool_calls"].([]any)
			delta["tool_calls"] = append(made, map[string]any{"index": number, "function": map[string]any{"arguments": rest}})
		case name == "function_call":
			given, _ := delta[name].(map[string]any)
			before, _ := given["arguments"].(string)
			delta[name] = map[string]any{"arguments": before + rest}
		default:
			before, _ := delta[name].(string)
			delta[name] = before + rest
		}
	}
	s.order = slices.DeleteFunc(s.order, func(text string) bool { return len(text) >= len(choice) && text[:len(choice)] == choice })
}
