package model

import (
	"cmp"
	"encoding/json"
	"slices"
)

// maxState bounds what is kept of one answer for its provider alone.
const maxState = 256 << 10

// held is a part of an answer as its provider wants it back.
type held struct {
	raw  json.RawMessage // what only the provider can read: thoughts, signatures
	text string
	call *toolDraft
}

// state is the stored form of Answer.State. What the message says otherwise is not in it, only where that stood.
type state struct {
	Of    string  `json:"of"` // whose it is, see stateOf
	Parts []place `json:"parts"`
}

// place is one of raw, a text of so many bytes, or a call by its number in the answer from 1, with raw being what the provider added to it.
type place struct {
	Raw  json.RawMessage `json:"raw,omitempty"`
	Text int             `json:"text,omitempty"`
	Call int             `json:"call,omitempty"`
}

// stateOf says whose a state is: no other provider or model is sent it.
func stateOf(provider, base, model string) string {
	return shortHash(provider + "\n" + base + "\n" + model)
}

// keep makes the state of an answer that has ended. Without calls it has no next request, and nothing is kept.
func (r *recorder) keep(of string, whole []held) {
	if len(r.done) == 0 || !slices.ContainsFunc(whole, func(one held) bool { return one.raw != nil }) {
		return
	}
	kept := state{Of: of}
	for _, one := range whole {
		made := place{Raw: one.raw, Text: len(one.text)}
		if one.call != nil {
			if made.Call = one.call.number; made.Call == 0 {
				continue // it was left out
			}
		}
		kept.Parts = append(kept.Parts, made)
	}
	encoded, err := json.Marshal(kept)
	if err != nil || len(encoded) > maxState {
		r.forgotten = true
		return
	}
	r.state = encoded
}

// piece is a part of a message: a text, a call, or what its provider has said beside them.
type piece struct {
	text string
	call *ToolCall
	raw  json.RawMessage // beside a call: what was added to it
	// cache is the Control of the CachePoint that it ends with.
	cache json.RawMessage
}

// pieces is an answer in the order in which it was said, with its state if that is of the provider that is asked. Text and calls are the
// message's: a person may have changed the arguments.
func (m *Message) pieces(of string) []piece {
	var known state
	if len(m.State) > 0 && (json.Unmarshal(m.State, &known) != nil || known.Of != of) {
		known.Parts = nil
	}
	parts, texts := known.Parts, 0
	for _, one := range parts {
		texts += one.Text
	}
	if texts != len(m.Content) { // all of it stands before the calls
		parts = slices.DeleteFunc(parts, func(one place) bool { return one.Text > 0 })
		first := slices.IndexFunc(parts, func(one place) bool { return one.Call > 0 })
		if first < 0 {
			first = len(parts)
		}
		parts = slices.Insert(parts, first, place{Text: len(m.Content)})
	}
	said, rest, told := make([]piece, 0, len(parts)+len(m.ToolCalls)), m.Content, make([]bool, len(m.ToolCalls))
	for _, one := range parts {
		switch {
		case one.Text > 0:
			said, rest = append(said, piece{text: rest[:one.Text]}), rest[one.Text:]
		case one.Call == 0:
			said = append(said, piece{raw: one.Raw})
		case one.Call <= len(told) && !told[one.Call-1]:
			said = append(said, piece{call: &m.ToolCalls[one.Call-1], raw: one.Raw})
			told[one.Call-1] = true
		}
	}
	for i := range told {
		if !told[i] {
			said = append(said, piece{call: &m.ToolCalls[i]})
		}
	}
	return said
}

// inOrder are the items of an answer by their places in it; what has none is where the one before it is.
func inOrder[T any](items []T, place func(item T) int64) []T {
	type placed struct {
		item T
		at   int64
	}
	all, last := make([]placed, len(items)), int64(0)
	for i, item := range items {
		if at := place(item); at >= 0 {
			last = at
		}
		all[i] = placed{item, last}
	}
	slices.SortStableFunc(all, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	sorted := make([]T, len(items))
	for i := range all {
		sorted[i] = all[i].item
	}
	return sorted
}
