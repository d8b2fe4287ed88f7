package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"strconv"

	"parley/actors/machine/rawjson"
	"parley/actors/provider"
)

// maxChoices bounds n, and the tool calls of an event.
const maxChoices = 128

// Reader reads one answer.
type Reader struct {
	Usage Usage
	// Fingerprint and Created are those of the newest event, nil and 0 without.
	Fingerprint []byte
	Created     int64

	secrets provider.Redactor
	wanted  int
	choices []*choice
	whole   bool // what is read is a document
	heard   bool // a choice said something

	deltas               []Delta // the rest is memory that is used again
	items                [][]byte
	chunk, part, message rawjson.Fields
}

// NewReader returns a reader for an answer of so many choices.
func NewReader(secrets provider.Redactor, wanted int) *Reader {
	const usual = 8
	memory := make(rawjson.Fields, 3*usual)
	return &Reader{
		secrets: secrets, wanted: wanted,
		chunk: memory[:0:usual], part: memory[usual : usual : 2*usual], message: memory[2*usual : 2*usual : 3*usual],
	}
}

// Stream reads a stream to its end. hear gets what each event says, and whether the next event is there already. It returns nil if
// the answer is complete.
func (r *Reader) Stream(body io.Reader, hear func(deltas []Delta, more bool) error) error {
	source := provider.NewEvents(body)
	for {
		complete := r.Complete()
		event, err := source.Next()
		if errors.Is(err, io.EOF) {
			return r.end(source, hear)
		}
		if err != nil && !isBroken(err) {
			return cmp.Or(r.nameless(), err)
		}
		var deltas []Delta
		if err == nil {
			deltas, err = r.event(event)
		}
		if complete && isBroken(err) {
			return nil // behind the answer
		}
		if left := hear(deltas, err == nil && source.More()); left != nil {
			return left
		}
		if err != nil {
			return err
		}
	}
}

func isBroken(err error) bool {
	failed, ok := errors.AsType[*provider.Failure](err)
	return ok && (failed.Class == provider.Unreadable || failed.Class == provider.Cut)
}

// nameless is the failure of an answer that ended with a call that cannot be made.
func (r *Reader) nameless() error {
	for _, one := range r.choices {
		if one.nameless {
			return misshapen("a tool call without a name")
		}
	}
	return nil
}

// end judges a stream that has ended.
func (r *Reader) end(source *provider.Events, hear func(deltas []Delta, more bool) error) error {
	if source.Done {
		deltas, failed := r.endMark()
		return cmp.Or(hear(deltas, false), failed, r.nameless())
	}
	document, err := source.Rest(r.secrets)
	switch {
	case err != nil:
		return err
	case len(r.choices) == 0 && document != nil:
		deltas, failed := r.Document(document)
		return cmp.Or(hear(deltas, false), failed)
	}
	if fields, err := rawjson.Object(document); err == nil {
		if failed := r.complaint(document, fields); failed != nil {
			return failed
		}
	}
	return r.ended()
}

// Complete says that every choice that was asked for has ended.
func (r *Reader) Complete() bool {
	return len(r.choices) >= r.wanted && r.ended() == nil
}

// ended is why an answer that goes on no further is not complete.
func (r *Reader) ended() error {
	if len(r.choices) == 0 {
		return &provider.Failure{Class: provider.Cut, Reason: io.ErrUnexpectedEOF}
	}
	for _, one := range r.choices {
		if !one.ended {
			return &provider.Failure{Class: provider.Cut, Reason: provider.ErrCut}
		}
	}
	return r.nameless()
}

// Document reads an answer in one piece.
func (r *Reader) Document(document []byte) ([]Delta, error) {
	if !json.Valid(document) {
		return nil, misshapen("the answer is no JSON")
	}
	r.whole = true
	deltas, failed := r.event(document)
	switch {
	case failed != nil:
	case len(deltas) == 0:
		failed = misshapen("the answer has no choices")
	default:
		failed = r.nameless()
	}
	if told, ok := errors.AsType[*provider.Failure](failed); ok && told.Class == provider.Unnamed {
		told.Final = true // whoever answers so was asked, and refused
	}
	return deltas, failed
}

// event reads the JSON of one event. The deltas were said before what the error tells.
func (r *Reader) event(event []byte) ([]Delta, error) {
	r.deltas = r.deltas[:0]
	chunk, err := r.chunk.Object(event)
	if err != nil {
		return nil, r.noObject(event)
	}
	r.chunk = chunk
	r.Usage.Take(chunk.Get("usage"))
	r.Fingerprint, r.Created = chunk.Get("system_fingerprint"), count64(chunk.Get("created"))
	failed := r.complaint(event, chunk)
	if choices := chunk.Get("choices"); choices != nil {
		if r.items, err = rawjson.AppendArray(r.items[:0], choices, maxChoices); err != nil {
			return nil, cmp.Or(failed, misshapen("choices is "+kindOf(choices)))
		}
		document := string(chunk.Get("object")) == `"chat.completion"`
		for i, one := range r.items {
			if err := r.choice(i, one, document); err != nil {
				return r.deltas, cmp.Or(failed, err)
			}
		}
	}
	return r.deltas, failed
}

// noObject is the failure of an event that is no object: a list of errors, say.
func (r *Reader) noObject(event []byte) error {
	items, _ := rawjson.Array(event, maxChoices) // none otherwise
	if len(items) > 0 {
		if fields, err := rawjson.Object(items[0]); err == nil && provider.Complains(fields, false) {
			return provider.Complaint(0, event, r.secrets)
		}
	}
	return misshapen("an event is " + kindOf(event))
}

// choice reads an item of the choices.
func (r *Reader) choice(position int, raw []byte, document bool) error {
	part, err := r.part.Object(raw)
	if err != nil {
		return misshapen("choices[] is " + kindOf(raw))
	}
	r.part = part
	index := position
	if said := part.Get("index"); said != nil {
		if index, err = strconv.Atoi(unquoted(said)); err != nil || index < 0 || index >= maxChoices {
			return misshapen("choices[].index is no number of a choice")
		}
	}
	r.Usage.Take(part.Get("usage"))
	one := r.choiceOf(index)
	delta := Delta{Choice: index, Logprobs: part.Get("logprobs")}
	document = r.whole || document && part.Get("delta") == nil
	message, whole := one.message(part, document)
	failed := one.read(message, whole, r, &delta)
	r.heard = r.heard || one.said
	if document {
		for _, field := range part {
			switch field.Name {
			case "index", "delta", "message", "logprobs", "finish_reason", "text", "usage":
			default:
				delta.Beside = append(delta.Beside, field)
			}
		}
	}
	if failed == nil {
		failed = r.finish(one, part.Get("finish_reason"), raw, &delta)
	}
	if failed == nil && document && !one.ended {
		one.end(one.implied(), &delta)
	}
	r.deltas = append(r.deltas, delta)
	return failed
}

func (r *Reader) choiceOf(index int) *choice {
	for _, one := range r.choices {
		if one.index == index {
			return one
		}
	}
	one := &choice{index: index}
	r.choices = append(r.choices, one)
	return one
}

// finish reads the reason of an end.
func (r *Reader) finish(one *choice, raw, part []byte, delta *Delta) error {
	if isEmpty(raw) {
		return nil
	}
	reason := unquoted(raw)
	finish, known := finishOf(reason)
	if !known {
		return r.unknownEnd(reason, part)
	}
	one.end(finish, delta)
	return nil
}

// endMark ends the choices that were not ended, if there is anything.
func (r *Reader) endMark() ([]Delta, error) {
	r.deltas = r.deltas[:0]
	for _, one := range r.choices {
		if one.ended {
			r.heard = true
		}
	}
	if !r.heard {
		return nil, &provider.Failure{Class: provider.Cut, Reason: io.ErrUnexpectedEOF}
	}
	for _, one := range r.choices {
		if one.ended {
			continue
		}
		delta := Delta{Choice: one.index}
		one.end(one.implied(), &delta)
		r.deltas = append(r.deltas, delta)
	}
	return r.deltas, nil
}

// count64 is a number that is about time.
func count64(raw []byte) int64 {
	number, err := strconv.ParseFloat(unquoted(raw), 64)
	if err != nil || !(number >= 0 && number <= 1e12) {
		return 0
	}
	return int64(number)
}

// unquoted is a text, or the JSON of anything else.
func unquoted(raw []byte) string {
	if len(raw) > 0 && raw[0] == '"' {
		return rawjson.Text(raw).String()
	}
	return string(raw)
}

func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return "a truth value"
	}
	return "a number"
}
