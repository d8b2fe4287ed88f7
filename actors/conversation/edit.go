package conversation

import (
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// edit replaces a user message, removes everything after it and answers anew (document 2, "Rules for sending a
// message"): one append, so that nobody sees the old message gone without the new one. The new message has a new id and
// the old one's place. Files of the conversation stay, also those that only removed messages named.
func (r *request) edit(c *conversationpb.Edit) *machine.Failure {
	if experience := c.GetAgent().GetExperience(); experience != nil && !experience.GetEdit() {
		return failure.New(failurepb.Code_ACTION_DISABLED, failure.EditDisabled)
	}
	old := c.GetTarget().GetMessage()
	kept := len(old.GetFiles())
	if c.GetSetFiles() {
		kept = len(c.GetFileIds())
	}
	if f := r.checkContent(c.GetContent(), kept); f != nil {
		return f
	}
	if f := r.ready(c.GetAgent()); f != nil {
		return f
	}
	if f := r.current(c.GetTarget()); f != nil {
		return f
	}
	if old.GetRole() != conversationpb.Role_USER {
		return failure.New(failurepb.Code_INVALID_MESSAGE_TARGET, failure.OnlyUserMessagesEdited)
	}
	files := old.GetFiles()
	if c.GetSetFiles() {
		var f *machine.Failure
		if files, f = r.fileRefs(c.GetFileIds()); f != nil {
			return f
		}
	}
	r.rewrite(c, old, files)
	return nil
}

func (r *request) rewrite(c *conversationpb.Edit, old *conversationpb.Message, files []*conversationpb.FileRef) {
	run := r.Env.NewID("run")
	message := &conversationpb.Message{
		Id:              r.Env.NewID("msg"),
		Number:          old.GetNumber(),
		Role:            conversationpb.Role_USER,
		Content:         c.GetContent(),
		Metadata:        old.GetMetadata(),
		RunId:           run,
		CreatedAt:       r.Now,
		UpdatedAt:       r.Now,
		Name:            old.GetName(),
		Files:           files,
		PreviousContent: previous(old),
		Edited:          true,
		EditedFrom:      old.GetId(),
	}
	r.giveUp()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_Truncated{Truncated: &conversationpb.Truncated{
		From: old.GetNumber(), MessageId: old.GetId(), Removed: r.state.GetNextMessage() - old.GetNumber(),
	}}})
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_UserMessage{
		UserMessage: &conversationpb.UserMessage{Message: message},
	}})
	r.begin(r.newLease(run, conversationpb.Mode_EDIT), message, c.GetWait())
}
