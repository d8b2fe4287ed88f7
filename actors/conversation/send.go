package conversation

import (
	"slices"

	"parley/actors/machine"
	"parley/proto/conversationpb"
)

// send takes a message and starts a turn that answers it (document 2, "States": idle, send message). Message and
// lease are one append: nobody ever sees a stored message without its turn.
func (r *request) send(c *conversationpb.Send) *machine.Failure {
	if of := c.GetOfAgent(); of != "" && (!r.state.IsSession() || r.state.GetAgentId() != of) {
		return conversationNotFound()
	}
	metadata, f := r.checkSend(c)
	if f != nil {
		return f
	}
	if r.comesLater(c) {
		return r.enqueue(c, metadata)
	}
	if f = r.ready(c.GetAgent()); f != nil {
		return f
	}

	q, f := r.queuedOf(c, metadata)
	if f != nil {
		return f
	}
	r.giveUp()
	lease, after := r.take(q, false)
	if f = r.push(lease.GetRunId(), c.GetPush()); f != nil {
		return f
	}
	r.begun(lease, q.GetMessage(), after, c.GetWait())
	return nil
}

// queuedOf is the message with what came with it, and for whom its turn runs.
func (r *request) queuedOf(c *conversationpb.Send, metadata []byte) (*conversationpb.Queued, *machine.Failure) {
	files, f := r.fileRefs(c.GetFileIds())
	if f != nil {
		return nil, f
	}
	earlier, f := r.earlier(c.GetEarlier())
	if f != nil {
		return nil, f
	}
	run := r.Env.NewID("run")
	q := r.asked()
	q.Message = &conversationpb.Message{
		Id:        r.Env.NewID("msg"),
		Role:      conversationpb.Role_USER,
		Content:   c.GetContent(),
		Metadata:  metadata,
		RunId:     run,
		CreatedAt: r.Now,
		UpdatedAt: r.Now,
		Files:     files,
	}
	q.Earlier, q.Given, q.Options = earlier, c.GetGiven(), c.GetOptions()
	return q, nil
}

// take stores a message and begins its turn, which it returns with the seq after which its events stand.
func (r *request) take(q *conversationpb.Queued, queued bool) (lease *conversationpb.Lease, after uint64) {
	r.importEarlier(q.GetEarlier())
	message := q.GetMessage()
	message.Number = r.state.GetNextMessage() + uint64(len(q.GetEarlier()))
	run := message.GetRunId()
	r.emit(run, &conversationpb.Event{Body: &conversationpb.Event_UserMessage{
		UserMessage: &conversationpb.UserMessage{Message: message, Title: r.firstTitle(slices.Concat(q.GetEarlier(), []*conversationpb.Message{message}))},
	}})
	lease = r.leaseOf(q, run, conversationpb.Mode_MESSAGE)
	lease.ResumedAt = givenSteps(q.GetGiven(), q.GetOptions()) // the turn says nothing of it again
	after = r.start(q, lease, queued)
	if lease.GetResumedAt() > 0 {
		r.given(run, q.GetGiven(), q.GetOptions())
		lease = r.State().GetLease()
	}
	return lease, after
}

func (r *request) checkSend(c *conversationpb.Send) (metadata []byte, f *machine.Failure) {
	if f := r.checkContent(c.GetContent(), len(c.GetFileIds())); f != nil {
		return nil, f
	}
	if f := r.checkGiven(c); f != nil {
		return nil, f
	}
	return machine.ClientObject("metadata", c.GetMetadata(), r.limits.MetadataBytes)
}

// again answers a command that came before with its first outcome, and stores nothing.
func again[B interface{ GetWait() bool }](r *request, first *conversationpb.Outcome, body B) *machine.Failure {
	run := first.GetRunId()
	if first.GetUserMessageId() == "" {
		return r.usedOtherwise()
	}
	if first.GetQueued() {
		return r.queuedReply(run, first.GetUserMessageId())
	}
	running := r.state.GetLease().GetRunId() == run
	if body.GetWait() {
		if running || r.queued(run) != nil {
			return r.wait(run)
		}
		return r.reply(r.knownResult(run))
	}
	message := &conversationpb.Message{Id: first.GetUserMessageId(), Role: conversationpb.Role_USER, RunId: run}
	if running {
		message = r.state.GetLease().GetUserMessage()
	}
	return r.reply(r.acceptedReply(run, message, first.GetSeq()))
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
