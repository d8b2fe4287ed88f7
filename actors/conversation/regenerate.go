package conversation

import (
	"slices"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	// maxPrevious is how many former contents a message keeps (document 2, "Limits").
	maxPrevious = 5
	// maxPreviousBytes bounds them together: they are part of the message's row, and of each page that shows it.
	maxPreviousBytes = 1 << 20
)

// regenerate answers the newest user message again (document 2, "Rules for sending a message"). The old answer stays
// until the new one is stored in its place; a turn that leaves no answer leaves the old one.
func (r *request) regenerate(c *conversationpb.Regenerate) *machine.Failure {
	if experience := c.GetAgent().GetExperience(); experience != nil && !experience.GetRegenerate() {
		return failure.New(failurepb.Code_ACTION_DISABLED, failure.RegenerateDisabled)
	}
	metadata, f := machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
	if f != nil {
		return f
	}
	if f = r.ready(c.GetAgent()); f != nil {
		return f
	}
	message, replaces, f := r.regenerated(c)
	if f != nil {
		return f
	}
	if left := r.giveUp(); left != nil {
		replaces = left // the caller has read it with the actions that are closed now
	}
	lease := r.newLease(r.Env.NewID("run"), conversationpb.Mode_REGENERATE)
	lease.UserMessage, lease.Replaces, lease.Metadata = message, replaces, metadata
	r.begin(lease, message, c.GetWait())
	return nil
}

// regenerated is the message to answer again, and the answer in whose place the new one comes, nil if there is none.
func (r *request) regenerated(c *conversationpb.Regenerate) (message, replaces *conversationpb.Message, f *machine.Failure) {
	if f = r.current(c.GetTarget()); f != nil {
		return nil, nil, f
	}
	target := c.GetTarget().GetMessage()
	wrong := failure.New(failurepb.Code_INVALID_MESSAGE_TARGET, failure.NotNewestAnswer)
	answer := r.newestAnswer()
	if answer == 0 {
		if target.GetRole() != conversationpb.Role_USER || target.GetNumber() != r.state.GetLastUserMessage() {
			return nil, nil, wrong
		}
		return target, nil, nil
	}
	message = c.GetUserMessage()
	asked := message.GetNumber() == r.state.GetLastUserMessage() && message.GetId() == target.GetInReplyTo()
	if target.GetNumber() != answer || !asked {
		return nil, nil, wrong
	}
	return message, target, nil // whole: it may have to be put back
}

// newestAnswer is the number of the answer to the newest user message, 0 = it has none. A turn leaves at most one,
// behind the message.
func (r *request) newestAnswer() uint64 {
	if last := r.state.GetNextMessage() - 1; last > r.state.GetLastUserMessage() {
		return last
	}
	return 0
}

// replacing completes an answer, whole or of a pause, with what a regenerate asked for: its place, its metadata, and what
// stood there before. Answers of other turns stay as they are.
func (r *request) replacing(message *conversationpb.Message) {
	lease := turnOf(r.state)
	if metadata := lease.GetMetadata(); len(metadata) > 0 {
		message.Metadata = metadata
	}
	old := lease.GetReplaces()
	if old == nil {
		return
	}
	message.RegeneratedFrom = old.GetId()
	message.PreviousContent = previous(old)
	message.Number = old.GetNumber()
}

// previous is what a message remembers that comes in the place of an old one: newest last.
func previous(old *conversationpb.Message) []string {
	contents := slices.Clone(old.GetPreviousContent())
	if old.GetContent() != "" {
		contents = append(contents, old.GetContent())
	}
	size := 0
	for i := len(contents) - 1; i >= 0; i-- {
		size += len(contents[i])
		if size > maxPreviousBytes || len(contents)-i > maxPrevious {
			return contents[i+1:]
		}
	}
	return contents
}
