package clientapi_test

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/endpointtest"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/runpb"
)

// host runs the real rules of conversations in memory, with a model that says what its message asks for. It is Runtime,
// entity.Client (entities) at once: what a node is to the API.
type host struct {
	ids   endpoint.IDs
	files endpoint.Files
	ctx   context.Context //nolint:containedctx // of the test

	mu       sync.Mutex
	now      time.Time
	talks    map[string]*machinetest.Entity
	order    []string // ids, oldest created first
	waiting  map[string][]chan settled
	turns    []conversation.StartTurn
	commands []*conversationpb.Command
	runs     map[string]*runpb.Reply
	places   int // of runs; one without is queued
	unheard  int // awaits of runs that are answered as if a person had not acted yet
	changed  chan struct{}
	between  func(*conversationpb.Command) // comes before a command, after what its sender had read; nil = nothing does
}

type settled struct {
	reply   *conversationpb.Reply
	refused *machine.Failure
}

func newHost(ctx context.Context, ids endpoint.IDs, files endpoint.Files) *host {
	return &host{
		ctx: ctx, ids: ids, files: files, now: time.UnixMilli(1_700_000_000_000), talks: map[string]*machinetest.Entity{},
		waiting: map[string][]chan settled{}, runs: map[string]*runpb.Reply{}, places: 1, changed: make(chan struct{}),
	}
}

// Ask implements endpoint.Runtime.
func (h *host) Ask(ctx context.Context, command *conversationpb.Command) (*conversationpb.Reply, error) {
	if encoded, err := proto.Marshal(command); err != nil || bytes.Contains(encoded, []byte(modelSecret)) {
		return nil, fmt.Errorf("%T carries the API key of a model: %w", command.GetBody(), err)
	}
	h.mu.Lock()
	between := h.between
	h.mu.Unlock()
	if between != nil {
		between(command)
	}
	h.mu.Lock()
	h.commands = append(h.commands, proto.CloneOf(command))
	reply, wait, refused := h.doLocked(command)
	h.mu.Unlock()
	if refused != nil {
		return nil, refused
	}
	if wait == nil {
		return reply, nil
	}
	select {
	case end := <-wait:
		if end.refused != nil {
			return nil, end.refused
		}
		return end.reply, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// doLocked gives a command to its conversation, and the model what comes of it.
func (h *host) doLocked(command *conversationpb.Command) (*conversationpb.Reply, chan settled, *machine.Failure) {
	id := command.GetConversationId()
	talk := h.talks[id]
	if talk == nil {
		talk = machinetest.NewEntity(conversation.New(conversation.DefaultLimits()))
	}
	h.now = h.now.Add(time.Second)
	decision, refused, err := talk.Do(command, machine.Env{Now: h.now, Node: "n1", Epoch: 1, NewID: h.ids.NewID})
	if err != nil {
		panic(err)
	}
	if refused != nil {
		return nil, nil, refused
	}
	switch {
	case decision.Create:
		h.talks[id] = talk
		h.order = append(h.order, id)
	case decision.Delete:
		delete(h.talks, id)
		h.order = slices.DeleteFunc(h.order, func(other string) bool { return other == id })
	}
	for _, message := range decision.Events {
		event, _ := message.(*conversationpb.Event)
		if file := event.GetFileAdded().GetFile(); file != nil {
			_ = h.files.Commit(h.ctx, file, endpoint.Stored{Size: file.GetSize()})
		}
	}
	var wait chan settled
	if decision.Wait != "" {
		wait = make(chan settled, 1)
		key := id + "/" + decision.Wait
		h.waiting[key] = append(h.waiting[key], wait)
	}
	for _, end := range decision.Settle {
		key := id + "/" + end.Key
		reply, _ := end.Reply.(*conversationpb.Reply)
		for _, waiter := range h.waiting[key] {
			waiter <- settled{reply, end.Failure}
		}
		delete(h.waiting, key)
	}
	for _, effect := range slices.Concat(decision.Urgent, decision.Effects) {
		h.carryOutLocked(id, effect)
	}
	h.tellLocked()
	reply, _ := decision.Reply.(*conversationpb.Reply)
	return reply, wait, nil
}

func (h *host) tellLocked() {
	close(h.changed)
	h.changed = make(chan struct{})
}

func (h *host) carryOutLocked(id string, effect machine.Effect) {
	switch effect := effect.(type) {
	case conversation.StartTurn:
		h.turns = append(h.turns, effect)
		h.answerLocked(effect)
	case conversation.StopTurn:
		if effect.Reason == conversation.CauseCancelled {
			// The runner reports once the cancel is stored.
			go func() {
				h.mu.Lock()
				defer h.mu.Unlock()
				if h.talks[id] != nil {
					h.finishLocked(id, &conversationpb.Finish{RunId: effect.RunID, Epoch: 1, StopReason: conversationpb.StopReason_CANCELLED})
				}
			}()
		}
	}
}

func usageOf(cents int64) *conversationpb.Usage {
	return &conversationpb.Usage{
		InputTokens: 10, OutputTokens: 5, CachedInputTokens: 2, Priced: true, CostNanoUsd: cents * 10_000_000, ModelCalls: 1,
		Model: "scripted",
	}
}

// answerLocked is the model: "ask ...", "order ...", "fail", "limit", "hang", "spend"; anything else is repeated.
func (h *host) answerLocked(turn conversation.StartTurn) {
	content := turn.UserMessage.GetContent()
	finish := &conversationpb.Finish{
		RunId: turn.RunID, Epoch: turn.Epoch, StopReason: conversationpb.StopReason_END_TURN, Content: "You said: " + content,
		Usage: usageOf(1),
	}
	if turn.Steps > 0 {
		finish.Content = "Done."
		h.finishLocked(turn.ConversationID, finish)
		return
	}
	word, _, _ := strings.Cut(content, " ")
	switch word {
	case "hang":
		return
	case "ask", "order":
		open := &conversationpb.OpenCall{Id: "c1", Need: conversationpb.Need_QUESTION, Args: []byte(`{"questions":[{"question":"Where?"}]}`)}
		call := &conversationpb.ToolCall{Id: "c1", Name: "ask_user", Arguments: `{"questions":[{"question":"Where?"}]}`}
		if word == "order" {
			open = &conversationpb.OpenCall{Id: "c1", Need: conversationpb.Need_APPROVAL, Schema: []byte(`{"type":"object","required":["n"]}`)}
			call = &conversationpb.ToolCall{Id: "c1", Name: "order", Arguments: `{"n":2}`}
		}
		h.mustLocked(&conversationpb.Command{
			ConversationId: turn.ConversationID,
			Body: &conversationpb.Command_Progress{Progress: &conversationpb.Progress{
				RunId: turn.RunID, Epoch: turn.Epoch, Step: 1, Content: "One moment.", ToolCalls: []*conversationpb.ToolCall{call},
				Body: &conversationpb.Progress_Use{Use: &conversationpb.ToolUse{
					Text: "One moment.", Calls: []*conversationpb.ToolCall{call}, Open: []*conversationpb.OpenCall{open}, Usage: usageOf(1),
				}},
			}},
		})
		return
	case "fail":
		finish.StopReason, finish.Content = conversationpb.StopReason_ERROR, ""
		finish.Error = &conversationpb.TurnError{Code: "provider_error", Message: "The model could not answer."}
	case "limit":
		finish.StopReason = conversationpb.StopReason_MAX_TURNS
	case "spend":
		finish.StopReason, finish.Usage, finish.Content = conversationpb.StopReason_BUDGET_REACHED, usageOf(100), "So f"
		finish.Partial = &conversationpb.Partial{Text: "So f"}
		if turn.Mode == conversationpb.Mode_CONTINUE {
			finish = &conversationpb.Finish{
				RunId: turn.RunID, Epoch: turn.Epoch, StopReason: conversationpb.StopReason_END_TURN, Content: "So far.", Usage: usageOf(1),
			}
		}
	}
	h.finishLocked(turn.ConversationID, finish)
}

func (h *host) finishLocked(id string, finish *conversationpb.Finish) {
	h.mustLocked(&conversationpb.Command{ConversationId: id, Body: &conversationpb.Command_Finish{Finish: finish}})
}

func (h *host) mustLocked(command *conversationpb.Command) {
	if _, _, refused := h.doLocked(command); refused != nil && refused.Code != failurepb.Code_STALE_TURN {
		panic(refused)
	}
}

// finish has a turn that hangs end.
func (h *host) finish(id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	lease := h.stateLocked(id).GetLease()
	h.finishLocked(id, &conversationpb.Finish{
		RunId: lease.GetRunId(), Epoch: 1, StopReason: conversationpb.StopReason_END_TURN, Content: "At last.", Usage: usageOf(1),
	})
}

func (h *host) stateLocked(id string) *conversationpb.State {
	talk := h.talks[id]
	if talk == nil {
		return nil
	}
	state, _ := talk.State.(*conversationpb.State)
	return state
}

// Follow implements endpoint.Runtime.
func (h *host) Follow(_ context.Context, id string, _ follow.Sink) (*endpoint.Subscription, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.stateLocked(id)
	if state == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	return &endpoint.Subscription{Snapshot: &conversationpb.Snapshot{Epoch: 1, LastSeq: state.GetLastSeq()}, Cancel: func() {}}, nil
}

// State answers the head of a session.
func (h *host) State(_ context.Context, query *nodepb.StateQuery) (*nodepb.StateReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if state := h.stateLocked(query.GetId()); state != nil {
		return &nodepb.StateReply{State: state}, nil
	}
	return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
}

// Messages answers a page of messages.
func (h *host) Messages(_ context.Context, query *nodepb.MessagesQuery) (*nodepb.MessagesReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.stateLocked(query.GetId())
	if state == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	byNumber := map[uint64]*conversationpb.Message{}
	for _, event := range h.talks[query.GetId()].Journal {
		event, _ := event.(*conversationpb.Event)
		for _, message := range append([]*conversationpb.Message{
			event.GetUserMessage().GetMessage(), event.GetAgentMessage().GetMessage(), event.GetTurnPaused().GetAnswer(),
		}, event.GetImported().GetMessages()...) {
			if message != nil {
				byNumber[message.GetNumber()] = message
			}
		}
	}
	var messages []*conversationpb.Message
	for number := uint64(1); number < state.GetNextMessage(); number++ {
		if byNumber[number] != nil {
			messages = append(messages, byNumber[number])
		}
	}
	page, limit := &nodepb.MessagesReply{State: state}, int(query.GetLimit())
	first, last := max(0, len(messages)-limit), len(messages)
	if offset := int(query.GetOffset()); offset >= 0 && !query.GetDescending() && query.GetBefore()+query.GetAfter() == "" {
		first, last = min(offset, len(messages)), min(offset+limit, len(messages))
	}
	if cursor := query.Before + query.After; cursor != "" {
		at := slices.IndexFunc(messages, func(m *conversationpb.Message) bool { return m.GetId() == cursor })
		if at < 0 {
			return nil, failure.Verbatim(failurepb.Code_NOT_FOUND, "message not found")
		}
		first, last = max(0, at-limit), at
		if query.After != "" {
			first, last = at+1, min(len(messages), at+1+limit)
		}
	}
	page.Messages = slices.Clone(messages[first:last])
	page.MoreBefore, page.MoreAfter = first > 0, last < len(messages)
	if query.Descending {
		slices.Reverse(page.Messages)
	}
	return page, nil
}

// Events answers a page of the log.
func (h *host) Events(_ context.Context, query *nodepb.EventsQuery) (*nodepb.EventsReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	state := h.stateLocked(query.GetId())
	if state == nil {
		return nil, failure.New(failurepb.Code_NOT_FOUND, failure.ConversationNotFound)
	}
	page := &nodepb.EventsReply{LastSeq: state.GetLastSeq()}
	for _, event := range h.talks[query.GetId()].Journal {
		event, _ := event.(*conversationpb.Event)
		shown := event.GetSeq() > query.After && event.PublicType() != ""
		if !shown || len(query.Types) > 0 && !slices.Contains(query.Types, event.PublicType()) {
			continue
		}
		if len(page.Events) == int(query.GetLimit()) {
			page.HasMore = true
			break
		}
		page.Events = append(page.Events, event)
	}
	return page, nil
}

// sessions answers the list of sessions.
func (h *host) sessions(_ context.Context, query *conversationpb.SessionsQuery) (*conversationpb.SessionsReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var found []*conversationpb.State
	for _, id := range h.order {
		state := h.stateLocked(id)
		own := query.GetAnybody() || state.GetUserId() == query.GetUserId()
		if own && state.IsSession() && state.GetTenantId() == query.GetTenantId() && state.GetProjectId() == query.GetProjectId() &&
			(query.GetAgentId() == "" || state.GetAgentId() == query.GetAgentId()) && (query.GetStatus() == "" || state.RuntimeStatus() == query.GetStatus()) {
			found = append(found, state)
		}
	}
	slices.SortFunc(found, func(a, b *conversationpb.State) int {
		return cmp.Or(cmp.Compare(b.GetCreatedAt(), a.GetCreatedAt()), cmp.Compare(b.GetId(), a.GetId()))
	})
	if after := query.GetAfter(); after != nil {
		found = slices.DeleteFunc(found, func(s *conversationpb.State) bool {
			return cmp.Or(cmp.Compare(s.GetCreatedAt(), after.GetCreatedAt()), cmp.Compare(s.GetId(), after.GetId())) >= 0
		})
	}
	page := &conversationpb.SessionsReply{Sessions: found}
	if len(found) > int(query.GetLimit()) {
		page.Sessions = found[:query.GetLimit()]
		last := page.Sessions[query.GetLimit()-1]
		page.Next = &conversationpb.SessionCursor{CreatedAt: last.GetCreatedAt(), Id: last.GetId()}
	}
	return page, nil
}

// entities is the host as an entity.Client.
func (h *host) entities() endpointtest.Entities {
	e := endpointtest.Entities{}
	endpointtest.On(e, h.State)
	endpointtest.On(e, h.Messages)
	endpointtest.On(e, h.Events)
	endpointtest.On(e, h.sessions)
	endpointtest.On(e, h.askRun)
	endpointtest.On(e, h.readRun)
	return e
}

// askRun carries out a command on a run.
func (h *host) askRun(ctx context.Context, command *runpb.Command) (*runpb.Reply, error) {
	for {
		h.mu.Lock()
		reply, refused := h.runLocked(command)
		changed := h.changed
		if command.GetAwait() != nil && h.unheard > 0 {
			h.unheard--
			reply.Run.Status = runpb.Status_REQUIRES_ACTION
		}
		h.mu.Unlock()
		if refused != nil {
			return nil, refused
		}
		run := reply.GetRun()
		if command.GetAwait() == nil || run.Over() || run.GetStatus() == runpb.Status_REQUIRES_ACTION {
			return reply, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// readRun answers a read of a run.
func (h *host) readRun(_ context.Context, query *nodepb.RunQuery) (*nodepb.RunReply, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	reply, refused := h.runLocked(&runpb.Command{RunId: query.GetId()})
	if refused != nil {
		return nil, refused
	}
	return &nodepb.RunReply{Run: reply.GetRun(), Result: reply.GetResult()}, nil
}

func (h *host) runLocked(command *runpb.Command) (*runpb.Reply, *machine.Failure) {
	id := command.GetRunId()
	if create := command.GetCreate(); create != nil && h.runs[id] == nil {
		if refused := h.admitLocked(command, create); refused != nil {
			return nil, refused
		}
	}
	reply := h.runs[id]
	if reply == nil {
		return nil, failure.Verbatim(failurepb.Code_RUN_NOT_FOUND, "run not found")
	}
	run := reply.GetRun()
	if command.GetCancel() != nil && !run.Over() {
		h.endRunLocked(reply, runpb.Status_CANCELED, nil)
		h.mustLocked(&conversationpb.Command{
			ConversationId: run.GetConversationId(), Caller: command.GetCaller(), CommandId: id + "/cancel",
			Body: &conversationpb.Command_Cancel{Cancel: &conversationpb.Cancel{}},
		})
	}
	h.lookLocked(reply)
	return proto.CloneOf(reply), nil
}

func (h *host) admitLocked(command *runpb.Command, create *runpb.Create) *machine.Failure {
	id, talk := command.GetRunId(), create.GetConversationId()
	if create.GetOrder().GetContent() == "too much" {
		return failure.Verbatim(failurepb.Code_QUOTA_REACHED, "the queue of the project is full")
	}
	hold := &conversationpb.Command{
		Opening:        create.GetOpening(),
		ConversationId: talk, Caller: command.GetCaller(), CommandId: id + "/hold", BackgroundRun: id,
		Body: &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: id, Continues: create.GetOrder().GetContinues()}},
	}
	if _, _, refused := h.doLocked(hold); refused != nil {
		return refused
	}
	caller := command.GetCaller()
	run := &runpb.State{
		Id: id, TenantId: caller.GetTenantId(), ProjectId: caller.GetProjectId(), UserId: caller.GetUserId(),
		AgentId: create.GetAgentId(), AgentVersion: create.GetAgentVersion(), ConversationId: talk, Order: create.GetOrder(),
		Status: runpb.Status_QUEUED, CreatedAt: h.now.UnixMilli(), PreviousResponseId: create.GetPreviousResponseId(),
	}
	if create.GetCallbackUrl() != "" {
		run.Callback = &runpb.Callback{Url: create.GetCallbackUrl(), SealedSecret: create.GetSealedSecret()}
	}
	h.runs[id] = &runpb.Reply{Run: run}
	if h.places > 0 {
		h.startLocked(run, caller)
	}
	return nil
}

func (h *host) startLocked(run *runpb.State, caller *conversationpb.Caller) {
	begin := &conversationpb.Command{
		ConversationId: run.GetConversationId(), Caller: caller, CommandId: run.GetId() + "/begin", BackgroundRun: run.GetId(),
		AgentVersion: run.GetAgentVersion(), RuntimeContext: run.GetOrder().GetRuntimeContext(),
	}
	begin.Body = &conversationpb.Command_Send{Send: &conversationpb.Send{
		Content: run.GetOrder().GetContent(), FileIds: run.GetOrder().GetFileIds(),
	}}
	if run.GetOrder().GetContinues() {
		begin.Body = &conversationpb.Command_Continue{Continue: &conversationpb.Continue{}}
	}
	reply, _, refused := h.doLocked(begin)
	if refused != nil {
		panic(refused)
	}
	run.Status, run.StartedAt, run.TurnRunId = runpb.Status_RUNNING, h.now.UnixMilli(), reply.GetAccepted().GetRunId()
}

// lookLocked has a run follow its turn.
func (h *host) lookLocked(reply *runpb.Reply) {
	run := reply.GetRun()
	state := h.stateLocked(run.GetConversationId())
	switch {
	case run.Over() || run.GetStatus() == runpb.Status_QUEUED || state.GetLease() != nil:
		if run.GetStatus() == runpb.Status_REQUIRES_ACTION {
			run.Status = runpb.Status_RUNNING
		}
		return
	case state == nil:
		h.endRunLocked(reply, runpb.Status_FAILED, &runpb.Error{Type: "session_not_found", Message: "The session was deleted."})
		return
	}
	told, _, refused := h.doLocked(&conversationpb.Command{
		ConversationId: run.GetConversationId(),
		Caller:         &conversationpb.Caller{TenantId: run.GetTenantId(), ProjectId: run.GetProjectId(), Trusted: true},
		Body:           &conversationpb.Command_AwaitRun{AwaitRun: &conversationpb.AwaitRun{RunId: state.GetLastRunId()}},
	})
	if refused != nil {
		panic(refused)
	}
	turn := told.GetTurn()
	turn.Partial = false
	h.fillLocked(run.GetConversationId(), turn)
	reply.Result = turn
	switch turn.GetStopReason() {
	case conversationpb.StopReason_REQUIRES_ACTION:
		run.Status = runpb.Status_REQUIRES_ACTION
	case conversationpb.StopReason_BUDGET_REACHED:
		h.endRunLocked(reply, runpb.Status_FAILED, &runpb.Error{Type: "budget_reached", Message: "The budget of the session is used up."})
	case conversationpb.StopReason_CANCELLED:
		h.endRunLocked(reply, runpb.Status_CANCELED, nil)
	default:
		h.endRunLocked(reply, runpb.Status_SUCCEEDED, nil)
	}
}

// fillLocked puts the answer into a result that was told from the head.
func (h *host) fillLocked(id string, turn *conversationpb.TurnResult) {
	for _, event := range h.talks[id].Journal {
		event, _ := event.(*conversationpb.Event)
		if message := event.GetAgentMessage().GetMessage(); message != nil && message.GetRunId() == turn.GetRunId() {
			turn.Response, turn.Usage = message, message.GetUsage()
		}
	}
}

func (h *host) endRunLocked(reply *runpb.Reply, status runpb.Status, problem *runpb.Error) {
	run := reply.GetRun()
	run.Status, run.Error, run.EndedAt = status, problem, h.now.UnixMilli()
	if h.talks[run.GetConversationId()] != nil {
		h.mustLocked(&conversationpb.Command{
			ConversationId: run.GetConversationId(), CommandId: run.GetId() + "/release",
			Caller: &conversationpb.Caller{TenantId: run.GetTenantId(), ProjectId: run.GetProjectId(), Trusted: true},
			Body:   &conversationpb.Command_Hold{Hold: &conversationpb.Hold{RunId: run.GetId(), Release: true}},
		})
	}
}

// place gives the queued runs their places.
func (h *host) place() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.places = 1
	for _, reply := range h.runs {
		if run := reply.GetRun(); run.GetStatus() == runpb.Status_QUEUED {
			h.startLocked(run, &conversationpb.Caller{TenantId: run.GetTenantId(), ProjectId: run.GetProjectId(), UserId: run.GetUserId()})
		}
	}
}

// heads says what the script wants to know of a conversation besides its answers.
func (h *host) told() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var lines []string
	for _, turn := range h.turns {
		line := fmt.Sprintf("turn of %s: version %d by %q token %q", turn.AgentID, turn.AgentVersion, turn.ByUser, turn.ByToken)
		if len(turn.RuntimeContext) > 0 {
			line += fmt.Sprintf(" session context %d bytes", len(turn.RuntimeContext))
		}
		if len(turn.TurnContext) > 0 {
			line += fmt.Sprintf(" turn context %d bytes", len(turn.TurnContext))
		}
		lines = append(lines, line)
	}
	h.turns = nil
	return strings.Join(lines, "\n")
}
