package conversation

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

const (
	// overviewSessions is how many sessions an overview shows (document 3, 13.1).
	overviewSessions = 10
	// countedRuns bounds the runs of a session whose tokens are added up.
	countedRuns = 10_000
	// firstMicros is above all scores in milliseconds and below all in microseconds, see createdScore.
	firstMicros = 100_000_000_000_000
)

// addUsageUp adds up what a project has used.
func addUsageUp(ctx context.Context, from kit.Lists, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	return from.Usage(ctx, query)
}

// readOverview reads the newest sessions of a time, and counts all of it by day.
func readOverview(ctx context.Context, from kit.Lists, query *conversationpb.OverviewQuery) (*conversationpb.OverviewReply, error) {
	const day = 24 * 3_600_000 // ms
	list := SessionList{TenantID: query.GetTenantId(), ProjectID: query.GetProjectId()}.Name()
	reply := &conversationpb.OverviewReply{Days: map[int64]int64{}}
	for _, perMilli := range []int64{1000, 1} { // microseconds; milliseconds: of an earlier release
		low, high := query.GetFrom()*perMilli, query.GetTo()*perMilli
		if perMilli == 1 {
			high = min(high, firstMicros)
		} else {
			low = max(low, firstMicros)
		}
		days, err := from.Spread(ctx, &nodepb.SpreadQuery{List: list, From: low, To: high, Unit: day * perMilli})
		if err != nil {
			return nil, err
		}
		counted := false
		for at, n := range days {
			counted = true
			reply.Days[at] += n
		}
		if !counted || len(reply.GetSessions()) == overviewSessions {
			continue
		}
		found, err := from.Page(ctx, kit.ListQuery{
			List: list, Descending: true, Limit: overviewSessions - len(reply.GetSessions()), After: &kit.Cursor{Score: high},
		})
		if err != nil {
			return nil, err
		}
		for len(found) > 0 && found[len(found)-1].Score < low {
			found = found[:len(found)-1]
		}
		states, err := kit.States[conversationpb.State](ctx, from, found)
		if err != nil {
			return nil, err
		}
		reply.Sessions = append(reply.Sessions, states...)
	}
	return reply, nil
}

// readTurns reads the newest ended turns of a conversation, of at most countedRuns.
func readTurns(view kit.View, state *conversationpb.State, query *nodepb.TurnsQuery) (*nodepb.TurnsReply, error) {
	reply := &nodepb.TurnsReply{State: state}
	var runs []*conversationpb.Run
	if err := eachRun(view, query.GetId(), func(run *conversationpb.Run) { runs = append(runs, run) }); err != nil {
		return nil, err
	}
	slices.SortFunc(runs, func(a, b *conversationpb.Run) int {
		return cmp.Or(cmp.Compare(b.GetStartedAt(), a.GetStartedAt()), cmp.Compare(b.GetId(), a.GetId()))
	})
	reply.Total = int64(len(runs))
	for _, run := range runs[:min(len(runs), int(query.GetLimit()))] {
		turn := &nodepb.EndedTurn{Run: run}
		row, found, err := view.Item(query.GetId(), TableMessages, MessageKey(run.GetAnswer()))
		answer := &conversationpb.Message{}
		if err = errors.Join(err, proto.Unmarshal(row, answer)); err != nil {
			return nil, err
		}
		if found && answer.GetRunId() == run.GetId() { // otherwise it has none, or it was replaced
			for _, call := range answer.GetToolCalls() {
				if turn.ToolCalls++; !slices.Contains(turn.GetTools(), call.GetName()) {
					turn.Tools = append(turn.Tools, call.GetName())
				}
			}
		}
		reply.Turns = append(reply.Turns, turn)
	}
	return reply, nil
}

// readTokens adds up the tokens of a conversation's runs.
func readTokens(view kit.View, _ uint64, query *nodepb.TokensQuery) (*nodepb.TokensReply, error) {
	reply := &nodepb.TokensReply{}
	err := eachRun(view, query.GetId(), func(run *conversationpb.Run) {
		reply.Tokens += run.GetUsage().GetInputTokens() + run.GetUsage().GetOutputTokens()
	})
	return reply, err
}

// eachRun reads the ended turns of a conversation, at most countedRuns.
func eachRun(view kit.View, id string, take func(*conversationpb.Run)) error {
	var damage error
	err := view.Items(id, kit.ItemQuery{Table: TableRuns, Limit: countedRuns}, func(_, value []byte) bool {
		run := &conversationpb.Run{}
		if damage = proto.Unmarshal(value, run); damage == nil {
			take(run)
		}
		return damage == nil
	})
	return errors.Join(err, damage)
}
