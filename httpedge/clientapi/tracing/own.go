package tracing

import (
	"context"
	"slices"

	"parley/actors/core/entity"
	"parley/actors/core/tracing"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/turns"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
	"parley/proto/tracepb"
)

// maxTurns bounds the turns of a conversation that are read, the newest ones.
const maxTurns = 1000

// ofConversation is a conversation as a thread, whose sessions are its turns (document 3, 7.10: a session of each run, in the thread of its
// conversation); nil where the id is not that of one that the caller may see and that has had a turn. They are read where they are: nothing is stored for it.
func (a *api) ofConversation(ctx context.Context, id string) (*tracepb.Group, error) {
	if !turns.Plausible(id) {
		return nil, nil //nolint:nilnil // see above
	}
	reply, err := entity.Read[*nodepb.TurnsReply](ctx, a.Entities, &nodepb.TurnsQuery{Id: id, Limit: maxTurns})
	switch {
	case handler.IsCode(err, failurepb.Code_NOT_FOUND):
		return nil, nil //nolint:nilnil // see above
	case err != nil:
		return nil, err
	case !handler.Visible(ctx, reply.GetState()):
		return nil, nil //nolint:nilnil // see above
	}
	state := reply.GetState()
	group := &tracepb.Group{ThreadId: id, Count: reply.GetTotal(), Conversation: true}
	open := state.GetLease()
	if open == nil {
		open = state.GetPaused()
	}
	ended := func(turn *nodepb.EndedTurn) bool { return turn.GetRun().GetId() == open.GetRunId() }
	if open != nil && !slices.ContainsFunc(reply.GetTurns(), ended) { // one that its budget cut has ended, and may be continued
		group.Count++
		group.Sessions = append(group.Sessions, turnOf(state, &nodepb.EndedTurn{Run: &conversationpb.Run{
			Id: open.GetRunId(), StartedAt: open.GetStartedAt(), Usage: open.GetUsage(),
		}}, tracing.InProgress))
	}
	for _, turn := range reply.GetTurns() {
		status := tracing.Success
		if turn.GetRun().GetError() != nil {
			status = tracing.Failed
		}
		group.Sessions = append(group.Sessions, turnOf(state, turn, status))
	}
	if len(group.GetSessions()) == 0 {
		return nil, nil //nolint:nilnil // as a thread without a session: there is none yet
	}
	return group, nil
}

func turnOf(state *conversationpb.State, turn *nodepb.EndedTurn, status string) *tracepb.Session {
	run, usage := turn.GetRun(), turn.GetRun().GetUsage()
	calls, tools := int64(usage.GetModelCalls()), int64(turn.GetToolCalls())
	s := &tracepb.Session{
		SessionId: run.GetId(), Events: calls + tools, Tools: turn.GetTools(),
		Record: &tracepb.Record{
			ThreadId: state.GetId(), AgentName: state.GetAgentName(), AgentModel: usage.GetModel(), Status: status,
			StartedAt: run.GetStartedAt(), EndedAt: run.GetEndedAt(),
		},
		Counted: &tracepb.Numbers{
			InputTokens: usage.GetInputTokens(), OutputTokens: usage.GetOutputTokens(), CachedInputTokens: usage.GetCachedInputTokens(),
			EventCounts: map[string]int64{},
		},
	}
	for kind, n := range map[string]int64{tracing.ModelCall: calls, tracing.ToolCall: tools} {
		if n > 0 {
			s.Counted.EventCounts[kind] = n
		}
	}
	if usage.GetModel() != "" {
		s.Models = []string{usage.GetModel()}
	}
	return s
}
