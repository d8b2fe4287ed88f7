package conversation

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/money"
	"parley/actors/core/naming"
	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// setTitle takes the title that a model made of the first exchange, when it was not ready at the end of the turn. The
// model call is paid for also when the title comes too late. The command is the run's only one of its kind, so a repeat
// is known by the run.
func (r *request) setTitle(c *conversationpb.SetTitle) *machine.Failure {
	id := "title/" + c.GetRunId()
	if r.outcomeOf(id) != nil {
		return r.reply(stateReply(r.state))
	}
	if f := r.forgotten(); f != nil {
		return f
	}
	updated := r.generatedTitle(c.GetTitle())
	if proto.Size(c.GetUsage()) > 0 {
		if updated == nil {
			updated = &conversationpb.Updated{}
		}
		updated.Usage = sane(c.GetUsage())
		updated.ByUser, updated.ByToken = r.by(), name(r.Command.GetCaller().GetTokenId())
	}
	if updated == nil {
		return r.reply(stateReply(r.state))
	}
	updated.CommandId, updated.IssuedAt = id, r.Command.GetIssuedAt()
	r.emit(c.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_Updated{Updated: updated}})
	if c.GetUsage().GetPriced() {
		r.emit(c.GetRunId(), &conversationpb.Event{Body: &conversationpb.Event_SessionUsage{SessionUsage: &conversationpb.SessionUsage{
			Usage: c.GetUsage(), SpentNanoUsd: money.Add(r.state.GetSpentNanoUsd(), c.GetUsage().GetCostNanoUsd()),
		}}})
	}
	return r.reply(stateReply(r.State()))
}

// firstTitle is the title that a conversation without one takes from the first user message of those with which it begins
// (document 1, "Agent session"), of one without words the name of its first file; "" = none.
func (r *request) firstTitle(messages []*conversationpb.Message) string {
	if r.state.GetNextMessage() > 1 || r.state.GetTitle() != "" {
		return ""
	}
	first := slices.IndexFunc(messages, func(m *conversationpb.Message) bool { return m.GetRole() == conversationpb.Role_USER })
	message := messages[first] // there is one: the last is the message that is sent
	if title := r.naming(message.GetContent()); title != "" || len(message.GetFiles()) == 0 {
		return title
	}
	return r.naming(message.GetFiles()[0].GetName())
}

// naming is the title that a message gives.
func (r *request) naming(text string) string {
	if most := 4 * utf8.UTFMax * r.limits.TitleRunes; len(text) > most {
		text = text[:most] // enough for a title, unless most of it is blank
	}
	return r.oneLine(text)
}

// oneLine is a text as a title: blanks and control characters are one space, and what is too long is cut.
func (r *request) oneLine(text string) string {
	blank := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
	title := strings.Join(strings.FieldsFunc(naming.Plain(strings.ToValidUTF8(text, "")), blank), " ")
	if runes := []rune(title); len(runes) > r.limits.TitleRunes {
		title = strings.TrimSpace(string(runes[:r.limits.TitleRunes]))
	}
	return title
}

// generatedTitle is the change that gives a conversation a model's title, nil when there is none to give or somebody has given
// it one by now. finish uses it, too, when the title is ready with the answer.
func (r *request) generatedTitle(text string) *conversationpb.Updated {
	title := r.oneLine(text)
	if title == "" || r.state.GetTitle() != "" && !r.state.GetTitleProvisional() {
		return nil
	}
	return &conversationpb.Updated{Patch: &conversationpb.Patch{Title: &title}, TitleGenerated: true}
}
