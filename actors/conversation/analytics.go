package conversation

import (
	"context"
	"errors"

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

// readTokens adds up the tokens of a conversation's runs.
func readTokens(view kit.View, _ uint64, query *nodepb.TokensQuery) (*nodepb.TokensReply, error) {
	reply := &nodepb.TokensReply{}
	var damage error
	err := view.Items(query.GetId(), kit.ItemQuery{Table: TableRuns, Limit: countedRuns}, func(_, value []byte) bool {
		run := &conversationpb.Run{}
		if damage = proto.Unmarshal(value, run); damage != nil {
			return false
		}
		reply.Tokens += run.GetUsage().GetInputTokens() + run.GetUsage().GetOutputTokens()
		return true
	})
	return reply, errors.Join(err, damage)
}
