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
func (r *request) addComment(c *taskpb.AddComment) *machine.Failure {
	if f := r.allowed(); f != nil {
		return f
	}
	if first := r.outcome(); first != nil {
		return r.repeatComment(first, c)
	}
	if f := checkText(failurepb.Code_INVALID_REQUEST, "content", c.GetContent(), r.limits.CommentBytes); f != nil {
		return f
	}
	metadata, f := machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
	if f != nil {
		return f
	}
	said := &taskpb.Prompt{Text: c.GetContent(), Answers: answersOf(metadata)}
	all := join(append(slices.Clone(r.Before.GetQueued()), said))
	switch {
	case r.Before.GetComments() >= uint64(r.limits.Comments):
		return failure.New(failurepb.Code_VALIDATION, failure.TooManyComments).Param("most", r.limits.Comments)
	case len(all.GetText()) > r.limits.InputBytes:
		return failure.New(failurepb.Code_CONVERSATION_BUSY, failure.TooMuchCommented)
	}
	comment := r.comment(taskpb.Role_USER, c.GetContent(), metadata)
	r.Emit(&taskpb.Event{Body: &taskpb.Event_Commented{Commented: &taskpb.Commented{
		Comment: comment, Queued: said, CommandId: r.Command.GetCommandId(),
	}}})
	r.openNext()
	r.Decision.Reply = &taskpb.Reply{Task: r.State(), Comment: comment}
	return nil
}

func (r *request) repeatComment(first *taskpb.Outcome, c *taskpb.AddComment) *machine.Failure {
	if first.GetComment() == 0 {
		return usedOtherwise()
	}
	metadata, _ := machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes) // it was taken before
	r.Decision.Reply = &taskpb.Reply{Task: r.Before, Comment: &taskpb.Comment{
		Id: first.GetCommentId(), Number: first.GetComment(), Role: taskpb.Role_USER, Content: c.GetContent(),
		Metadata: metadata, CreatedAt: first.GetCreatedAt(),
	}}
	return nil
}

// comment makes the next comment. Its id names its time, as clients know it.
func (r *request) comment(role taskpb.Role, content string, metadata []byte) *taskpb.Comment {
	_, random, _ := strings.Cut(r.Env.NewID("comment"), "_")
	return &taskpb.Comment{
		Id:     fmt.Sprintf("comment_%d_%s", r.Now, random),
		Number: r.Before.GetComments() + 1, Role: role, Content: content, Metadata: metadata, CreatedAt: r.Now,
	}
}

// openNext opens a run for what is queued, unless one is open. False: it does not.
func (r *request) openNext() bool {
	now := r.State()
	if now.GetRun() != nil || len(now.GetQueued()) == 0 {
		return false
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_RunOpened{RunOpened: &taskpb.RunOpened{Run: &taskpb.Run{
		Number: now.GetRuns() + 1, Prompt: join(now.GetQueued()), Waiting: now.GetWaiting(), OpenedAt: r.Now,
	}}}})
	r.drive()
	return true
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
