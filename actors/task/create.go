package task

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/taskpb"
)

const (
	maxUserID = 256  // bytes
	maxURL    = 2048 // bytes
	maxFiles  = 100
)

// create makes a task and opens its first run (document 5, section 5).
func (r *request) create(c *taskpb.Create) *machine.Failure {
	state, f := r.newTask(c)
	if f != nil {
		return f
	}
	r.Emit(&taskpb.Event{Body: &taskpb.Event_Created{Created: &taskpb.Created{State: state}}})
	r.drive()
	return nil
}

// again is a create of a task that exists. A repeat of the command is answered with the task as it is now.
func (r *request) again(*taskpb.Create) *machine.Failure {
	if f := r.allowed(); f != nil || r.outcome() != nil {
		return f
	}
	return failure.New(failurepb.Code_ALREADY_EXISTS, failure.TaskExists)
}

func (r *request) newTask(c *taskpb.Create) (*taskpb.State, *machine.Failure) {
	caller := r.Command.GetCaller()
	metadata, f := r.checkCreate(c)
	if f != nil {
		return nil, f
	}
	state := &taskpb.State{
		Id:             r.Command.GetTaskId(),
		TenantId:       caller.GetTenantId(),
		ProjectId:      caller.GetProjectId(),
		UserId:         caller.GetUserId(),
		AgentId:        c.GetAgentId(),
		Input:          c.GetInput(),
		Files:          append(c.GetFiles(), conversationpb.Refs(c.GetStored())...),
		Stored:         c.GetStored(),
		CallbackUrl:    c.GetCallbackUrl(),
		Metadata:       metadata,
		Status:         taskpb.Status_PENDING,
		CreatedAt:      r.Now,
		CreatedMicros:  r.Env.Now.UnixMicro(),
		UpdatedAt:      r.Now,
		ConversationId: c.GetConversationId(),
		Runs:           1,
		Run:            &taskpb.Run{Number: 1, OpenedAt: r.Now},
	}
	if id := r.Command.GetCommandId(); id != "" {
		state.Outcomes = []*taskpb.Outcome{{CommandId: id}}
	}
	return state, nil
}

func (r *request) checkCreate(c *taskpb.Create) (metadata []byte, f *machine.Failure) {
	invalid := func(reason failure.Reason) *failure.Failure { return failure.New(failurepb.Code_VALIDATION, reason) }
	user := r.Command.GetCaller().GetUserId()
	switch {
	case r.Command.GetTaskId() == "" || c.GetConversationId() == "":
		return nil, invalid(failure.IncompleteTask)
	case c.GetAgentId() == "":
		return nil, invalid(failure.Required).In("agentId")
	case len(user) > maxUserID || !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return nil, invalid(failure.BadName).In("userId").Param("what", "a user id").Param("most", maxUserID)
	case len(c.GetFiles())+len(c.GetStored()) > maxFiles:
		return nil, failure.New(failurepb.Code_TOO_MANY_FILES, failure.TaskFilesFull).Param("most", maxFiles)
	}
	if f := checkText(failurepb.Code_VALIDATION, "input", c.GetInput(), r.limits.InputBytes); f != nil {
		return nil, f
	}
	if f := checkCallback(c.GetCallbackUrl()); f != nil {
		return nil, f
	}
	if f := r.checkCommandID(); f != nil {
		return nil, f
	}
	return machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
}

// checkText refuses a missing text with the given code.
func checkText(missing failurepb.Code, name, text string, limit int) *machine.Failure {
	switch {
	case len(text) > limit:
		return failure.New(failurepb.Code_VALIDATION, failure.TooLong).In(name).With("maxBytes", limit)
	case !utf8.ValidString(text):
		return failure.New(failurepb.Code_VALIDATION, failure.NotUTF8).In(name)
	case strings.TrimSpace(text) == "":
		return failure.New(missing, failure.Required).In(name)
	}
	return nil
}

// checkCallback refuses what can never be called. The edge has read it as an address; where it leads is judged when it is
// connected to.
func checkCallback(text string) *machine.Failure {
	web := strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")
	if text != "" && !web || len(text) > maxURL || !utf8.ValidString(text) {
		return failure.New(failurepb.Code_VALIDATION, failure.BadCallbackURL).In("callbackUrl").Param("most", maxURL)
	}
	return nil
}
