package responses

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/actors/core/failure"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint/wire"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// maxItems bounds the items of an input.
const maxItems = 2000

// itemsInput is the input of POST /responses: a text, or items in the order of the conversation.
type itemsInput struct {
	items   []responseItem
	failure *failure.Failure
}

// responseItem is an item of an input, of any type.
type responseItem struct {
	Type      string       `json:"type" enum:"message,function_call,function_call_output,item_reference,reasoning" doc:"message, when it has a role; item_reference, when it has an id alone"`
	ID        string       `json:"id"`
	Role      string       `json:"role" enum:"user,assistant,system,developer" doc:"message"`
	Content   contentInput `json:"content" doc:"message"`
	CallID    string       `json:"call_id" doc:"function_call, function_call_output"`
	Name      string       `json:"name" doc:"function_call"`
	Arguments string       `json:"arguments" doc:"function_call: JSON text"`
	Output    contentInput `json:"output" doc:"function_call_output"`
}

func (i *responseItem) isSystem() bool {
	return i.Type == itemMessage && (i.Role == "system" || i.Role == "developer")
}

// Types of items.
const (
	itemMessage   = "message"
	itemCall      = "function_call"
	itemOutput    = "function_call_output"
	itemReference = "item_reference"
	itemReasoning = "reasoning"
)

// UnmarshalJSON never fails: what is malformed is refused when its turn comes.
func (in *itemsInput) UnmarshalJSON(raw []byte) error {
	*in = itemsInput{}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		if strings.TrimSpace(text) != "" {
			in.items = []responseItem{{Type: itemMessage, Role: "user", Content: contentInput{RawMessage: wire.Line(raw)}}}
		}
		return nil
	}
	var items []json.RawMessage
	if json.Unmarshal(raw, &items) != nil {
		return nil //nolint:nilerr // see above
	}
	if len(items) > maxItems {
		in.failure = handler.Invalid(failure.TooManyItems).In("input").Param("most", maxItems)
		return nil
	}
	in.items = make([]responseItem, len(items))
	for i, one := range items {
		item := &in.items[i]
		if json.Unmarshal(one, item) != nil || asksNothing(one) {
			in.failure = handler.Invalid(failure.BadItem).In(itemAt(i))
			return nil //nolint:nilerr // see above
		}
		if item.Type == "" {
			item.Type = itemMessage
			if item.Role == "" && item.ID != "" {
				item.Type = itemReference // its type may be left out
			}
		}
	}
	return nil
}

// Either implements openapi.Either.
func (in itemsInput) Either() []any { return []any{"", []responseItem{}} }

// transcript is an input as a conversation stores it: earlier messages, the newest message of the user, and the tool calls that
// followed it.
type transcript struct {
	system  []string // of system and developer items
	said    []saying
	newest  *messageInput
	given   []*conversationpb.ToolUse // after the newest message
	outputs []looseOutput             // of calls that are not among the items

	calls map[string]*givenCall
	block *saying // of the assistant, still open
	round *conversationpb.ToolUse
}

// saying is a message of the user, or the assistant's text and tool calls between two of them.
type saying struct {
	user   *messageInput // nil = the assistant's
	rounds []*conversationpb.ToolUse
}

type givenCall struct {
	*conversationpb.ToolCall
	answered bool
	at       int // of its item
}

type looseOutput struct {
	*conversationpb.ToolCall
	at int
}

// readItems makes a transcript of items, of which references have been replaced by what they refer to.
func readItems(items []responseItem) (*transcript, *failure.Failure) {
	t := &transcript{calls: map[string]*givenCall{}}
	for i := range items {
		if refused := t.take(i, &items[i]); refused != nil {
			return nil, refused
		}
	}
	if t.newest != nil && t.round != nil && len(t.round.GetCalls()) == 0 {
		return nil, handler.Invalid(failure.InputEndsEarly).In("input")
	}
	for _, call := range t.calls {
		if !call.answered {
			return nil, unanswered(call)
		}
	}
	if t.newest == nil {
		return t, nil
	}
	if t.block != nil {
		t.given = t.block.rounds
		t.said = t.said[:len(t.said)-1]
	}
	t.said = t.said[:len(t.said)-1] // the newest message itself
	return t, nil
}

func (t *transcript) take(at int, item *responseItem) *failure.Failure {
	switch item.Type {
	case itemMessage:
		return t.message(at, item)
	case itemCall:
		if item.CallID == "" || item.Name == "" {
			return nested(at, handler.Invalid(failure.IncompleteCall))
		}
		if former := t.calls[item.CallID]; former != nil && !former.answered { // some models number the calls of each answer anew
			return unanswered(former)
		}
		call := &conversationpb.ToolCall{Id: item.CallID, Name: item.Name, Arguments: item.Arguments}
		t.calls[item.CallID] = &givenCall{ToolCall: call, at: at}
		round := t.open(t.round == nil || t.settled())
		round.Calls = append(round.Calls, call)
		return nil
	case itemOutput:
		return t.output(at, item)
	case itemReasoning: // what another model has thought is nothing to this one
		return nil
	}
	return nested(at, handler.Invalid(failure.ItemTypeNotSupported).Param("type", shortened(item.Type)))
}

func unanswered(call *givenCall) *failure.Failure {
	return nested(call.at, handler.Invalid(failure.CallWithoutOutput).Param("call", shortened(call.GetId())))
}

// settled says that a call of the open round has its output, so that the next call begins another round.
func (t *transcript) settled() bool {
	for _, call := range t.round.GetCalls() {
		if t.calls[call.GetId()].answered {
			return true
		}
	}
	return false
}

// open returns the round that is open, or another one.
func (t *transcript) open(another bool) *conversationpb.ToolUse {
	if t.block == nil {
		t.said = append(t.said, saying{})
		t.block, another = &t.said[len(t.said)-1], true
	}
	if another {
		t.round = &conversationpb.ToolUse{}
		t.block.rounds = append(t.block.rounds, t.round)
	}
	return t.round
}

func (t *transcript) message(at int, item *responseItem) *failure.Failure {
	message := &messageInput{}
	message.read(item.Content.RawMessage)
	if message.failure != nil {
		return message.failure
	}
	switch item.Role {
	case "system", "developer":
		if strings.TrimSpace(message.Text) != "" {
			t.system = append(t.system, message.Text)
		}
		return nil
	case "user":
		t.said = append(t.said, saying{user: message})
		t.newest, t.block, t.round = message, nil, nil
		return nil
	case "assistant":
		if message.Text != "" {
			round := t.open(t.round == nil || len(t.round.GetCalls()) > 0)
			round.Text = joined(round.GetText(), message.Text)
		}
		return nil
	}
	return nested(at, handler.Invalid(failure.BadItemRole))
}

func (t *transcript) output(at int, item *responseItem) *failure.Failure {
	text, refused := outputText(item.Output.RawMessage)
	if refused != nil {
		return nested(at, refused)
	}
	call := t.calls[item.CallID]
	switch {
	case item.CallID == "":
		return nested(at, handler.Invalid(failure.IncompleteOutput))
	case call == nil:
		t.outputs = append(t.outputs, looseOutput{&conversationpb.ToolCall{Id: item.CallID, Result: text}, at})
	case call.answered:
		return nested(at, handler.Invalid(failure.OutputRepeated).Param("call", shortened(item.CallID)))
	default:
		call.Result, call.answered = text, true
	}
	return nil
}

// outputText is the output of a function call: a text, or parts with text.
func outputText(raw []byte) (string, *failure.Failure) {
	var output messageInput
	if len(raw) == 0 || handler.IsNull(raw) {
		return "", handler.Invalid(failure.IncompleteOutput)
	}
	output.read(raw)
	switch {
	case output.failure != nil:
		return "", output.failure
	case len(output.Files)+len(output.inline) > 0:
		return "", handler.Invalid(failure.FilesInOutputs)
	}
	return output.Text, nil
}

// users is the earlier messages of the user.
func (t *transcript) users() []*messageInput {
	var users []*messageInput
	for _, said := range t.said {
		if said.user != nil {
			users = append(users, said.user)
		}
	}
	return users
}

// messages is what was said before the newest message, as it is stored.
func (t *transcript) messages() []*conversationpb.Message {
	messages := make([]*conversationpb.Message, 0, len(t.said))
	for _, said := range t.said {
		if said.user != nil {
			message := &conversationpb.Message{Role: conversationpb.Role_USER, Content: said.user.Text}
			for _, id := range said.user.files() {
				message.Files = append(message.Files, &conversationpb.FileRef{Id: id})
			}
			messages = append(messages, message)
			continue
		}
		message := &conversationpb.Message{Role: conversationpb.Role_ASSISTANT, Content: textOf(said.rounds)}
		for _, round := range said.rounds {
			message.ToolCalls = append(message.ToolCalls, round.GetCalls()...)
		}
		messages = append(messages, message)
	}
	return messages
}

// textOf is what was said in rounds of tool calls.
func textOf(rounds []*conversationpb.ToolUse) string {
	text := ""
	for _, round := range rounds {
		text = joined(text, round.GetText())
	}
	return text
}

// joined joins two texts of one answer with the separator that turns use.
func joined(first, second string) string {
	if first == "" || second == "" {
		return first + second
	}
	return first + "\n\n" + second
}

func shortened(text string) string {
	const longest = 64
	return text[:min(len(text), longest)]
}

// nested is a failure about one of the input's items.
func nested(at int, refused *failure.Failure) *failure.Failure {
	return refused.WithCode(failurepb.Code_INVALID_REQUEST).At(itemAt(at))
}

// itemAt is the path of an item in the words of a failure.
func itemAt(at int) string { return fmt.Sprintf("input[%d]", at) }
