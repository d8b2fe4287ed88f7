package run

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

const (
	maxID        = 256  // bytes, of what names something
	maxURL       = 2048 // bytes
	maxSecret    = 4096 // bytes, sealed
	maxFiles     = 100
	maxCommandID = 128
)

// create makes a run, and is answered when it is admitted.
func (r *request) create(c *runpb.Create) *machine.Failure {
	if f := r.checkCreate(c); f != nil {
		return f
	}
	state := r.newRun(c)
	r.Emit(&runpb.Event{Body: &runpb.Event_Created{Created: &runpb.Created{State: state}}})
	r.Await(keyAdmitted)
	r.Effect(Drive{Run: state})
	return nil
}

// again is a create of a run that exists. A repeat of the command waits for the same, or is answered with the run as it is now.
func (r *request) again(*runpb.Create) *machine.Failure {
	if f := r.allowed(); f != nil {
		return f
	}
	switch {
	case r.Before.GetCommandId() != r.Command.GetCommandId() || r.Before.GetCommandId() == "":
		return failure.New(failurepb.Code_ALREADY_EXISTS, failure.RunExists)
	case r.Before.GetAdmitted() || r.Before.Over():
		return nil
	}
	r.Await(keyAdmitted)
	return nil
}

func (r *request) newRun(c *runpb.Create) *runpb.State {
	caller := r.Command.GetCaller()
	state := &runpb.State{
		Id:                 r.Command.GetRunId(),
		TenantId:           caller.GetTenantId(),
		ProjectId:          caller.GetProjectId(),
		UserId:             caller.GetUserId(),
		TokenId:            caller.GetTokenId(),
		Trusted:            caller.GetTrusted(),
		AgentId:            c.GetAgentId(),
		AgentVersion:       c.GetAgentVersion(),
		ConversationId:     c.GetConversationId(),
		Order:              c.GetOrder(),
		Status:             runpb.Status_QUEUED,
		CreatedAt:          r.Now,
		UpdatedAt:          r.Now,
		PreviousResponseId: c.GetPreviousResponseId(),
		CommandId:          r.Command.GetCommandId(),
		Opening:            c.GetOpening(),
	}
	if url := c.GetCallbackUrl(); url != "" {
		state.Callback = &runpb.Callback{Url: url, SealedSecret: c.GetSealedSecret()}
	}
	return state
}

func (r *request) checkCreate(c *runpb.Create) *machine.Failure {
	caller, order := r.Command.GetCaller(), c.GetOrder()
	for _, name := range []struct{ name, text string }{
		{"a tenant id", caller.GetTenantId()},
		{"a project id", caller.GetProjectId()},
		{"a user id", caller.GetUserId()},
		{"a token id", caller.GetTokenId()},
		{"an agent id", c.GetAgentId()},
		{"a conversation id", c.GetConversationId()},
		{"a response id", c.GetPreviousResponseId()},
	} {
		if len(name.text) > maxID || !utf8.ValidString(name.text) || strings.ContainsFunc(name.text, unicode.IsControl) {
			return invalid(failure.BadName).Param("what", name.name).Param("most", maxID)
		}
	}
	id := r.Command.GetCommandId()
	switch {
	case r.Command.GetRunId() == "" || c.GetConversationId() == "" || c.GetAgentId() == "":
		return invalid(failure.IncompleteRun)
	case len(id) > maxCommandID || !utf8.ValidString(id):
		return invalid(failure.BadText).In("commandId").Param("what", "a command id").Param("most", maxCommandID)
	case len(order.GetRuntimeContext()) > r.limits.ContextBytes:
		return invalid(failure.TooLargeOf).In("runtimeContext").Param("most", r.limits.ContextBytes)
	case len(c.GetSealedSecret()) > maxSecret:
		return invalid(failure.CallbackSecretTooLong).In("callbackSecret")
	}
	if f := checkCallback(c.GetCallbackUrl()); f != nil {
		return f
	}
	if len(c.GetOpening().GetFiles()) > maxFiles {
		return failure.New(failurepb.Code_TOO_MANY_FILES, failure.MessageFilesFull).Param("most", maxFiles)
	}
	return r.checkOrder(order)
}

// checkOrder looks at what the conversation will look at again.
func (r *request) checkOrder(order *runpb.Order) *machine.Failure {
	switch text := order.GetContent(); {
	case len(text) > r.limits.InputBytes:
		return invalid(failure.TooLong).In("input").With("maxBytes", r.limits.InputBytes)
	case !utf8.ValidString(text):
		return invalid(failure.NotUTF8).In("input")
	case !order.GetContinues() && strings.TrimSpace(text) == "" && len(order.GetFileIds()) == 0:
		return invalid(failure.Required).In("input")
	case len(order.GetFileIds()) > maxFiles:
		return failure.New(failurepb.Code_TOO_MANY_FILES, failure.MessageFilesFull).Param("most", maxFiles)
	case len(order.GetMetadata()) > r.limits.MetadataBytes:
		return invalid(failure.TooLargeOf).In("metadata").Param("most", r.limits.MetadataBytes)
	}
	for _, file := range order.GetFileIds() {
		if len(file) > maxID || !utf8.ValidString(file) {
			return invalid(failure.BadText).In("fileIds").Param("what", "a file id").Param("most", maxID)
		}
	}
	return nil
}

// checkCallback refuses what can never be called. The edge has read it as an address; where it leads is judged when it is
// connected to.
func checkCallback(text string) *machine.Failure {
	web := strings.HasPrefix(text, "https://") || strings.HasPrefix(text, "http://")
	if text != "" && !web || len(text) > maxURL || !utf8.ValidString(text) {
		return invalid(failure.BadCallbackURL).In("callbackUrl").Param("most", maxURL)
	}
	return nil
}

func invalid(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_VALIDATION, reason)
}
