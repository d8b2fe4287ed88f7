package conversation

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

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

// create makes a new conversation, idle and empty, owned by its caller. A repeat of the command is answered with the
// conversation as it is now.
func (r *request) create(c *conversationpb.Create) (machine.Decision, *machine.Failure) {
	if r.state != nil {
		if f := r.access(); f != nil {
			return machine.Decision{}, f
		}
		if r.outcome() != nil {
			return machine.Decision{Reply: stateReply(r.state)}, nil
		}
		return refuse(failure.New(failurepb.Code_ALREADY_EXISTS, failure.ConversationExists))
	}
	state, f := r.newConversation(c)
	if f != nil {
		return machine.Decision{}, f
	}
	if id := r.command.GetCommandId(); id != "" {
		state.Outcomes = []*conversationpb.Outcome{{CommandId: id, IssuedAt: r.command.GetIssuedAt()}}
	}
	return machine.Decision{Create: true, Events: []proto.Message{r.created(state)}, Reply: stateReply(state)}, nil
}

func validUserID(id string) bool {
	return len(id) <= maxUserID && utf8.ValidString(id) && !strings.ContainsFunc(id, unicode.IsControl)
}

func (r *request) newConversation(c *conversationpb.Create) (*conversationpb.State, *machine.Failure) {
	caller, agent := r.command.GetCaller(), c.GetAgent()
	if r.command.GetConversationId() == "" {
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
		Id:          r.command.GetConversationId(),
		TenantId:    caller.GetTenantId(),
		ProjectId:   caller.GetProjectId(),
		UserId:      caller.GetUserId(),
		AgentId:     agent.GetId(),
		AgentName:   agent.GetName(),
		Status:      conversationpb.Status_IDLE,
		NextMessage: 1,
		CreatedAt:   r.now,
		UpdatedAt:   r.now,
		Source:      c.GetSource(),

		CreatedMicros: r.env.Now.UnixMicro(),
	}
	if state.Source == "" {
		state.Source = defaultSource
	}
	return state, r.fill(state, c)
}
