package conversation

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

const (
	maxUserID     = 256 // bytes
	defaultSource = conversationpb.SourceConversation
	// SourceTask is the source of a conversation in which a background task runs. It is in no list.
	SourceTask = conversationpb.SourceTask
)

// create makes a new conversation, idle and empty, owned by its caller.
func (r *request) create(c *conversationpb.Create) *machine.Failure {
	state, f := r.newConversation(c)
	if f != nil {
		return f
	}
	if id := r.Command.GetCommandId(); id != "" {
		state.Outcomes = []*conversationpb.Outcome{{CommandId: id, IssuedAt: r.Command.GetIssuedAt(), IssuedBy: r.Command.GetIssuedBy()}}
	}
	r.created(state)
	return r.reply(stateReply(r.state))
}

// createAgain handles create for an existing conversation. A repeated command gets the conversation's current state.
func (r *request) createAgain(*conversationpb.Create) *machine.Failure {
	switch f := r.access(); {
	case f != nil:
		return f
	case r.outcome() == nil:
		return failure.New(failurepb.Code_ALREADY_EXISTS, failure.ConversationExists)
	}
	return r.reply(stateReply(r.state))
}

func validUserID(id string) bool {
	return len(id) <= maxUserID && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

func (r *request) newConversation(c *conversationpb.Create) (*conversationpb.State, *machine.Failure) {
	caller, agent := r.Command.GetCaller(), c.GetAgent()
	if r.Command.GetConversationId() == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.ConversationNeedsID)
	}
	if agent.GetId() == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.Required).In("agentId")
	}
	if !validUserID(caller.GetUserId()) {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.BadName).In("userId").Param("what", "a user id").Param("most", maxUserID)
	}
	if f := r.checkCommandID(); f != nil {
		return nil, f
	}
	state := &conversationpb.State{
		Id:          r.Command.GetConversationId(),
		TenantId:    caller.GetTenantId(),
		ProjectId:   caller.GetProjectId(),
		UserId:      caller.GetUserId(),
		AgentId:     agent.GetId(),
		AgentName:   agent.GetName(),
		Status:      conversationpb.Status_IDLE,
		NextMessage: 1,
		CreatedAt:   r.Now,
		UpdatedAt:   r.Now,
		Source:      c.GetSource(),

		CreatedMicros: r.Env.Now.UnixMicro(),
	}
	if state.Source == "" {
		state.Source = defaultSource
	}
	return state, r.fill(state, c)
}
