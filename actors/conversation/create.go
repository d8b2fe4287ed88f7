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
	created := &conversationpb.Event{
		CreatedAt: r.now,
		Body:      &conversationpb.Event_Created{Created: &conversationpb.Created{State: state}},
	}
	return machine.Decision{Create: true, Events: []proto.Message{created}, Reply: stateReply(state)}, nil
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
	if id := r.command.GetCommandId(); id != "" {
		state.Outcomes = []*conversationpb.Outcome{{CommandId: id, IssuedAt: r.command.GetIssuedAt()}}
	}
	return state, r.fill(state, c)
}

// fill adds what the client chose.
func (r *request) fill(state *conversationpb.State, c *conversationpb.Create) (f *machine.Failure) {
	if state.Title, f = r.title(c.GetTitle()); f != nil {
		return f
	}
	if state.GetTitle() == "" && c.GetFirstMessage() != "" {
		state.Title = r.naming(c.GetFirstMessage())
		state.TitleGenerated, state.TitleProvisional = state.GetTitle() != "", state.GetTitle() != ""
	}
	if state.Metadata, f = machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes); f != nil {
		return f
	}
	if state.ServerMetadata, f = serverObject(c.GetServerMetadata(), r.limits.MetadataBytes); f != nil {
		return f
	}
	if f = r.checkContext(c.GetRuntimeContext()); f != nil {
		return f
	}
	state.RuntimeContext = c.GetRuntimeContext()
	budget := c.GetBudget()
	if own := c.GetAgent().GetDefaultBudget(); budget == nil && own != nil {
		budget = &conversationpb.Budget{MaxCostNanoUsd: own.GetMaxCostNanoUsd(), OnReach: own.GetOnReach()}
	}
	if budget != nil {
		state.Budget, f = checkBudget(budget, 0, c.GetAgent())
	}
	return f
}
