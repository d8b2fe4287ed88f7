package task

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

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

// create makes a task and opens its first run (document 5, section 5). A repeat of the command is answered with the task
// as it is now.
func (r *request) create(c *taskpb.Create) (machine.Decision, *machine.Failure) {
	if r.state != nil {
		if f := r.allowed(); f != nil {
			return machine.Decision{}, f
		}
		if r.outcome() != nil {
			return r.decide(), nil
		}
		return machine.Decision{}, failure.New(failurepb.Code_ALREADY_EXISTS, failure.TaskExists)
	}
	state, f := r.newTask(c)
	if f != nil {
		return machine.Decision{}, f
	}
	created := &taskpb.Event{CreatedAt: r.now, Body: &taskpb.Event_Created{Created: &taskpb.Created{State: state}}}
	return machine.Decision{
		Create: true, Events: []proto.Message{created}, Reply: &taskpb.Reply{Task: state},
		Effects: []machine.Effect{Drive{Task: state}},
	}, nil
}

func (r *request) newTask(c *taskpb.Create) (*taskpb.State, *machine.Failure) {
	caller := r.command.GetCaller()
	metadata, f := r.checkCreate(c)
	if f != nil {
		return nil, f
	}
	state := &taskpb.State{
		Id:             r.command.GetTaskId(),
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
		CreatedAt:      r.now,
		CreatedMicros:  r.env.Now.UnixMicro(),
		UpdatedAt:      r.now,
		ConversationId: c.GetConversationId(),
		Runs:           1,
		Run:            &taskpb.Run{Number: 1, OpenedAt: r.now},
	}
	if id := r.command.GetCommandId(); id != "" {
		state.Outcomes = []*taskpb.Outcome{{CommandId: id}}
	}
	return state, nil
}

func (r *request) checkCreate(c *taskpb.Create) (metadata []byte, f *machine.Failure) {
	invalid := func(reason failure.Reason) *failure.Failure { return failure.New(failurepb.Code_VALIDATION, reason) }
	user := r.command.GetCaller().GetUserId()
	switch {
	case r.command.GetTaskId() == "" || c.GetConversationId() == "":
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
