package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"parley/actors/dialect/chat"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/proto/agentpb"
)

// otherVersion are the codes by which an agent says that it does not know the version that it was asked in: no such method, or no such version.
//
//nolint:gochecknoglobals // a constant table
var otherVersion = []string{"-32601", "-32009"}

var (
	errOtherVersion = errors.New("the connected agent does not know this version of its protocol")
	errCostlyReply  = &Error{Code: CodeProviderError, Message: "the connected agent's reply nests too deep or has too many values"}
)

// readReply tells the recorder what an agent answered: the text from where the connection says that it is, or the protocol. What was said
// before an error stays.
func readReply(body []byte, connection *agentpb.Connection, speak protocol, secrets provider.Redactor, out *recorder) error {
	begin := bytes.TrimLeft(body, "\ufeff \t\r\n")
	document := len(begin) > 0 && (begin[0] == '{' || begin[0] == '[')
	gauge := rawjson.Gauge{MaxDepth: maxDepth, MaxValues: maxReplyValues, Events: !document, CR: true}
	if gauge.Take(body) != nil {
		return errCostlyReply
	}
	read := speak.read
	if connection.GetResponsePath() != "" {
		path, err := parsePath(connection.GetResponsePath())
		if err != nil {
			return err
		}
		read = func(reply []byte, secrets provider.Redactor, out *recorder) (bool, error) {
			return readPath(reply, path, secrets, out)
		}
	}
	empty, err := read(body, secrets, out)
	switch {
	case err != nil:
		return err
	case !out.finished:
		return &provider.Failure{Class: provider.Cut, Reason: provider.ErrCut}
	case out.text.Len() == 0 && (!empty || len(out.calls) > 0) && out.stop != StopFilter:
		return &Error{Code: CodeProviderError, Message: "the connected agent's reply has no text where it should be"}
	case out.stop == StopTools: // it has none of ours
		out.stop = StopEnd
	}
	return nil
}

// replyOf is the document of a reply: the reply itself, or its last event.
func replyOf(body []byte, secrets provider.Redactor) (object, error) {
	events := provider.NewEvents(bytes.NewReader(body))
	var last []byte
	for {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return object{}, err
		}
		last = append(last[:0], event...)
	}
	if last == nil {
		var err error
		if last, err = events.Rest(secrets); err != nil {
			return object{}, err
		}
	}
	if last == nil {
		return object{}, &provider.Failure{Class: provider.Cut, Reason: provider.ErrCut}
	}
	if !rawjson.Modest(last, maxDepth, maxReplyValues) { // empty lines within it begin the count anew
		return object{}, errCostlyReply
	}
	return newObject(last), nil
}

// decoded is a document, with numbers as they were written.
func decoded(document []byte) (value any) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	_ = decoder.Decode(&value) // it was valid
	return value
}

// readPath takes what a path leads to, also from an answer that its protocol would not have.
func readPath(body []byte, path []any, secrets provider.Redactor, out *recorder) (empty bool, err error) {
	told, err := replyOf(body, secrets)
	if err != nil {
		return false, err
	}
	(&responseReader{out: out}).count(told)
	reply := decoded(told.raw)
	text, found := textOf(at(reply, path...))
	if !found && provider.Complains(told.fields, false) {
		return false, provider.Complaint(0, told.raw, secrets)
	}
	out.finish(stopIn(reply))
	return found && text == "", out.Text(text)
}

// readChat reads Chat Completions, as a document or a stream. The tools of the agent are its own business.
func readChat(body []byte, secrets provider.Redactor, out *recorder) (empty bool, err error) {
	mouth := &chatMouth{reader: chat.NewReader(secrets, 1), out: out}
	if err = mouth.reader.Stream(bytes.NewReader(body), mouth.hear); err != nil {
		return false, err
	}
	if out.text.Len() > 0 {
		return false, nil
	}
	content, isText := at(decoded(body), "choices", 0, "message", "content").(string)
	return isText && content == "", nil
}

// readResponses reads an answer of the Responses API, as a document or a stream. Many that imitate it have no status.
func readResponses(body []byte, secrets provider.Redactor, out *recorder) (empty bool, err error) {
	asked := &question{secrets: secrets}
	reader := &responseReader{question: asked, out: out}
	err = asked.read(bytes.NewReader(body), reader.event, func(told object) error {
		if whole := told.text("output_text").String(); whole != "" { // then the items are in it
			told.fields = slices.DeleteFunc(told.fields, func(field rawjson.Field) bool { return field.Name == "output" })
			if failed := out.Text(whole); failed != nil {
				return failed
			}
		}
		empty = told.has("output_text")
		event := ""
		if !told.has("status") {
			event = "completed"
		}
		return reader.end(told, event)
	})
	return empty, err
}

// readA2A reads a message, or a task, in either version: in 1.0 a member says which of the two it is.
func readA2A(body []byte, secrets provider.Redactor, out *recorder) (empty bool, err error) {
	told, err := replyOf(body, secrets)
	if err != nil {
		return false, err
	}
	switch {
	case provider.Complains(told.fields, told.has("result")):
		return false, a2aFailure(told, secrets)
	case told.wrong() != nil:
		return false, told.wrong()
	}
	result := at(decoded(told.raw), "result")
	for _, kind := range []string{"task", "message"} {
		if inner := at(result, kind); inner != nil {
			result = inner
		}
	}
	(&responseReader{out: out}).count(told)
	artifacts, made := a2aText(list(at(result, "artifacts")))
	said, why := taskEnd(result)
	if why != "" {
		if err := out.Text(artifacts); err != nil {
			return false, err
		}
		return false, &Error{Code: CodeProviderError, Message: "A2A error: " + firstOf(cmp.Or(said, why), secrets)}
	}
	out.finish(StopEnd)
	text, there := a2aText([]any{result})
	status, asked := a2aText([]any{at(result, "status", "message")})
	return made || there || asked, out.Text(cmp.Or(text, artifacts, status))
}

// a2aFailure is the error that an agent answered with.
func a2aFailure(told object, secrets provider.Redactor) error {
	said := provider.Complaint(0, told.raw, secrets)
	failed := &Error{Code: CodeProviderError, Message: "A2A error: " + firstOf(cmp.Or(said.Message, "it does not say why"), secrets)}
	if isOtherVersion(told.raw) {
		failed.Err = errOtherVersion
	}
	return failed
}

// isOtherVersion says whether an error of A2A is about the version that was asked in.
func isOtherVersion(document []byte) bool {
	if !json.Valid(document) {
		return false
	}
	told, _ := rawjson.Object(document)             // what is no object has no code
	failure, _ := rawjson.Object(told.Get("error")) // as above
	return slices.Contains(otherVersion, strings.Trim(string(failure.Get("code")), `"`))
}

// taskEnd says why a task has no answer, and what the agent says of it; "" = it has one, or asks for more.
func taskEnd(result any) (said, why string) {
	state, _ := at(result, "status", "state").(string)
	switch state = strings.ReplaceAll(strings.TrimPrefix(strings.ToLower(state), "task_state_"), "_", "-"); state {
	case "", "completed", "input-required", "auth-required":
		return "", ""
	case "failed", "rejected", "canceled", "cancelled":
		said, _ = a2aText([]any{at(result, "status", "message")})
	}
	return said, "its task is " + state
}

// at walks into decoded JSON by names of members and numbers of elements; nil = there is nothing.
func at(value any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			if elements, is := value.([]any); is {
				value = element(elements, step)
				continue
			}
			object, _ := value.(map[string]any)
			value = object[step]
		case int:
			elements, _ := value.([]any)
			if step >= len(elements) {
				return nil
			}
			value = elements[step]
		}
	}
	return value
}

// element is that of a number behind a dot: a.0 is a[0].
func element(elements []any, name string) any {
	index, err := strconv.ParseUint(name, 10, 31)
	if err != nil || index >= uint64(len(elements)) {
		return nil
	}
	return elements[index]
}

// list is the array there; one element in place of it is one of it.
func list(value any) []any {
	switch value := value.(type) {
	case []any:
		return value
	case map[string]any, string:
		return []any{value}
	}
	return nil
}

// joined is the texts of parts, of those that have one. They are found when there is one at least.
func joined(parts []any, separator string, is func(part any) bool) (string, bool) {
	var texts []string
	for _, part := range parts {
		text, isText := at(part, "text").(string)
		if isText && (is == nil || is(part)) {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, separator), len(texts) > 0
}

// a2aText is the text of parts, those of several holders.
func a2aText(holders []any) (string, bool) {
	var parts []any
	for _, holder := range holders {
		for _, part := range list(at(holder, "parts")) {
			if root, is := at(part, "root").(map[string]any); is { // how one library writes it
				part = root
			}
			if text, is := part.(string); is {
				part = map[string]any{"text": text}
			}
			parts = append(parts, part)
		}
	}
	return joined(parts, "\n", func(part any) bool {
		kind := at(part, "kind")
		return kind == nil || kind == "text"
	})
}

// textOf is a value that a response path leads to, as text.
func textOf(value any) (string, bool) {
	switch value := value.(type) {
	case nil:
		return "", false
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case []any:
		if text, found := joined(value, "", nil); found {
			return text, true
		}
	}
	text, err := json.Marshal(value)
	return string(text), err == nil
}

// parsePath reads a path of dots and [n]: a.b[0].c.
func parsePath(path string) ([]any, error) {
	wrong := invalid("the connected agent's response path %q is not of the form a.b[0].c", path)
	var steps []any
	for number, segment := range strings.Split(path, ".") {
		name, rest, indexed := strings.Cut(segment, "[")
		if name == "" && (number > 0 || !indexed) {
			return nil, wrong
		}
		if name != "" {
			steps = append(steps, name)
		}
		for indexed {
			var digits string
			if digits, rest, indexed = strings.Cut(rest, "]"); !indexed {
				return nil, wrong
			}
			index, err := strconv.ParseUint(digits, 10, 31)
			if err != nil {
				return nil, wrong
			}
			steps = append(steps, int(index)) //nolint:gosec // it has 31 bits
			if rest == "" {
				break
			}
			if rest, indexed = strings.CutPrefix(rest, "["); !indexed {
				return nil, wrong
			}
		}
	}
	return steps, nil
}

// stopIn is why the answer ended, as either openai kind says it.
func stopIn(reply any) Stop {
	reason, _ := at(reply, "choices", 0, "finish_reason").(string)
	if reason == "" {
		reason, _ = at(reply, "incomplete_details", "reason").(string)
	}
	switch reason {
	case "length", "max_output_tokens":
		return StopLength
	case "content_filter":
		return StopFilter
	default:
		return StopEnd
	}
}
