package task

import (
	"strings"
	"unicode"
	"unicode/utf8"

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
	return machine.Fail(failurepb.Code_ALREADY_EXISTS, "the task exists")
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
	invalid := func(format string, args ...any) ([]byte, *machine.Failure) {
		return nil, machine.Fail(failurepb.Code_VALIDATION, format, args...)
	}
	user := r.Command.GetCaller().GetUserId()
	switch {
	case r.Command.GetTaskId() == "" || c.GetConversationId() == "":
		return invalid("a task needs an id and a conversation")
	case c.GetAgentId() == "":
		return invalid("agentId is required")
	case len(user) > maxUserID || !utf8.ValidString(user) || strings.ContainsFunc(user, unicode.IsControl):
		return invalid("a user id is text of at most %d bytes without control characters", maxUserID)
	case len(c.GetFiles())+len(c.GetStored()) > maxFiles:
		return nil, machine.Fail(failurepb.Code_TOO_MANY_FILES, "a task takes at most %d files", maxFiles)
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
		return machine.Fail(failurepb.Code_VALIDATION, "%s is longer than %d bytes", name, limit).With("maxBytes", limit)
	case !utf8.ValidString(text):
		return machine.Fail(failurepb.Code_VALIDATION, "%s is not valid UTF-8", name)
	case strings.TrimSpace(text) == "":
		return machine.Fail(missing, "%s is required", name)
	}
	return nil
}

// checkCallback refuses what can never be called. The edge has read it as an address; where it leads is judged when it is
// connected to.
func checkCallback(text string) *machine.Failure {
	web := strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")
	if text != "" && !web || len(text) > maxURL || !utf8.ValidString(text) {
		return machine.Fail(failurepb.Code_VALIDATION, "callbackUrl must be an absolute http or https URL of at most %d bytes", maxURL)
	}
	return nil
}
