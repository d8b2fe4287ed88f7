package task

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

// addComment takes what a person says, and makes the task pending again whatever it was (document 5, section 5). While a
// run is open the comment waits for its end; else it is said at once: as the answer to the agent's question when there is
// one, as a new message otherwise.
func (r *request) addComment(c *taskpb.AddComment) (machine.Decision, *machine.Failure) {
	if f := r.allowed(); f != nil {
		return machine.Decision{}, f
	}
	if first := r.outcome(); first != nil {
		return r.repeatComment(first, c)
	}
	if f := checkText(failurepb.Code_INVALID_REQUEST, "content", c.GetContent(), r.limits.CommentBytes); f != nil {
		return machine.Decision{}, f
	}
	metadata, f := machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
	if f != nil {
		return machine.Decision{}, f
	}
	said := &taskpb.Prompt{Text: c.GetContent(), Answers: answersOf(metadata)}
	all := join(append(slices.Clone(r.state.GetQueued()), said))
	switch {
	case r.state.GetComments() >= uint64(r.limits.Comments):
		return machine.Decision{}, failure.New(failurepb.Code_VALIDATION, failure.TooManyComments).Param("most", r.limits.Comments)
	case len(all.GetText()) > r.limits.InputBytes:
		return machine.Decision{}, failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TooMuchCommented)
	}
	comment := r.comment(taskpb.Role_USER, c.GetContent(), metadata)
	r.emit(&taskpb.Event{Body: &taskpb.Event_Commented{Commented: &taskpb.Commented{
		Comment: comment, Queued: said, CommandId: r.command.GetCommandId(),
	}}})
	decision := r.decide(r.openNext()...)
	decision.Reply = &taskpb.Reply{Task: r.after(), Comment: comment}
	return decision, nil
}

func (r *request) repeatComment(first *taskpb.Outcome, c *taskpb.AddComment) (machine.Decision, *machine.Failure) {
	if first.GetComment() == 0 {
		return machine.Decision{}, usedOtherwise()
	}
	metadata, _ := machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes) // it was taken before
	return machine.Decision{Reply: &taskpb.Reply{Task: r.state, Comment: &taskpb.Comment{
		Id: first.GetCommentId(), Number: first.GetComment(), Role: taskpb.Role_USER, Content: c.GetContent(),
		Metadata: metadata, CreatedAt: first.GetCreatedAt(),
	}}}, nil
}

// comment makes the next comment. Its id names its time, as clients know it.
func (r *request) comment(role taskpb.Role, content string, metadata []byte) *taskpb.Comment {
	_, random, _ := strings.Cut(r.env.NewID("comment"), "_")
	return &taskpb.Comment{
		Id:     fmt.Sprintf("comment_%d_%s", r.now, random),
		Number: r.state.GetComments() + 1, Role: role, Content: content, Metadata: metadata, CreatedAt: r.now,
	}
}

// openNext opens a run for what is queued, unless one is open.
func (r *request) openNext() []machine.Effect {
	now := r.after()
	if now.GetRun() != nil || len(now.GetQueued()) == 0 {
		return nil
	}
	r.emit(&taskpb.Event{Body: &taskpb.Event_RunOpened{RunOpened: &taskpb.RunOpened{Run: &taskpb.Run{
		Number: now.GetRuns() + 1, Prompt: join(now.GetQueued()), Waiting: now.GetWaiting(), OpenedAt: r.now,
	}}}})
	return []machine.Effect{Drive{Task: r.after()}}
}

// join makes one prompt of several.
func join(prompts []*taskpb.Prompt) *taskpb.Prompt {
	joined := &taskpb.Prompt{}
	texts := make([]string, len(prompts))
	for i, prompt := range prompts {
		texts[i] = prompt.GetText()
		if answers := prompt.GetAnswers(); len(answers) > 0 {
			joined.Answers = answers
		}
	}
	joined.Text = strings.Join(texts, "\n\n")
	return joined
}

// answersOf finds the answers, by question, that a comment may bring in its metadata.
func answersOf(metadata []byte) []byte {
	var fields struct {
		Answers map[string]json.RawMessage `json:"answers"`
	}
	if len(metadata) == 0 || json.Unmarshal(metadata, &fields) != nil || len(fields.Answers) == 0 {
		return nil
	}
	answers, _ := json.Marshal(fields.Answers)
	return answers
}
