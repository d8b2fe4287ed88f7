package conversation

import (
	"slices"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// send takes a message and starts a turn that answers it (document 2, "States": idle, send message). Message and
// lease are one append: nobody ever sees a stored message without its turn.
func (r *request) send(c *conversationpb.Send) (machine.Decision, *machine.Failure) {
	first, f := r.admit()
	switch {
	case f != nil:
		return machine.Decision{}, f
	case first != nil:
		return r.repeat(first, c.GetWait())
	}
	if of := c.GetOfAgent(); of != "" && (!r.state.IsSession() || r.state.GetAgentId() != of) {
		return machine.Decision{}, conversationNotFound()
	}
	metadata, f := r.checkSend(c)
	if f != nil {
		return machine.Decision{}, f
	}
	if f = r.ready(c.GetAgent()); f != nil {
		return machine.Decision{}, f
	}

	files, f := r.fileRefs(c.GetFileIds())
	if f != nil {
		return machine.Decision{}, f
	}
	r.giveUp()
	if f = r.importEarlier(c.GetEarlier()); f != nil {
		return machine.Decision{}, f
	}
	run := r.env.NewID("run")
	message := &conversationpb.Message{
		Id:        r.env.NewID("msg"),
		Number:    r.state.GetNextMessage() + uint64(len(c.GetEarlier())),
		Role:      conversationpb.Role_USER,
		Content:   c.GetContent(),
		Metadata:  metadata,
		RunId:     run,
		CreatedAt: r.now,
		UpdatedAt: r.now,
		Files:     files,
	}
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_UserMessage{
		UserMessage: &conversationpb.UserMessage{Message: message, Title: r.firstTitle(slices.Concat(c.GetEarlier(), []*conversationpb.Message{message}))},
	}})
	lease := r.newLease(run, conversationpb.Mode_MESSAGE)
	lease.ResumedAt = givenSteps(c.GetGiven(), c.GetOptions()) // the turn says nothing of it again
	after := r.start(lease)
	if lease.GetResumedAt() > 0 {
		r.given(run, c.GetGiven(), c.GetOptions())
		lease = r.after().GetLease()
	}
	return r.begun(lease, message, after, c.GetWait()), nil
}

func (r *request) checkSend(c *conversationpb.Send) (metadata []byte, f *machine.Failure) {
	if f := r.checkContent(c.GetContent()); f != nil {
		return nil, f
	}
	if f := r.checkGiven(c); f != nil {
		return nil, f
	}
	return machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
}

// repeat answers a command that came before with its first outcome, and stores nothing.
func (r *request) repeat(first *conversationpb.Outcome, wait bool) (machine.Decision, *machine.Failure) {
	run := first.GetRunId()
	if first.GetUserMessageId() == "" {
		return r.usedOtherwise()
	}
	running := r.state.GetLease().GetRunId() == run
	if wait {
		if running {
			return machine.Decision{Wait: run}, nil
		}
		return machine.Decision{Reply: r.knownResult(run)}, nil
	}
	message := &conversationpb.Message{Id: first.GetUserMessageId(), Role: conversationpb.Role_USER, RunId: run}
	if running {
		message = r.state.GetLease().GetUserMessage()
	}
	return machine.Decision{Reply: r.acceptedReply(run, message, first.GetSeq())}, nil
}

func startTurn(s *conversationpb.State, lease *conversationpb.Lease, message *conversationpb.Message) StartTurn {
	return StartTurn{
		ConversationID: s.GetId(),
		RunID:          lease.GetRunId(),
		AgentID:        s.GetAgentId(),
		AgentVersion:   lease.GetAgentVersion(),
		TenantID:       s.GetTenantId(),
		ProjectID:      s.GetProjectId(),
		UserID:         s.GetUserId(),
		ByUser:         lease.GetByUser(),
		ByToken:        lease.GetByToken(),
		Epoch:          lease.GetEpoch(),
		Attempt:        lease.GetAttempt(),
		Mode:           lease.GetMode(),
		UserMessage:    message,
		HistoryBefore:  message.GetNumber(),
		Budget:         s.GetBudget(),
		SpentNanoUSD:   s.GetSpentNanoUsd(),
		RuntimeContext: s.GetRuntimeContext(),
		TurnContext:    lease.GetRuntimeContext(),
		Steps:          lease.GetSteps(),
		ResumedAt:      lease.GetResumedAt(),
		Calls:          lease.GetCalls(),
		Usage:          lease.GetUsage(),
		Answer:         lease.GetAnswer(),
		Untitled:       message.GetNumber() == 1 && (s.GetTitle() == "" || s.GetTitleProvisional()),
	}
}
