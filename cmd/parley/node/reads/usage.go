package reads

import (
	"context"
	"fmt"
	"math"

	"google.golang.org/protobuf/proto"

	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/proto/nodepb"
)

// Usage implements kit.Lists.
func (l localRows) Usage(ctx context.Context, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	return usageOf(ctx, l.store, nil, query)
}

// Spread implements kit.Lists.
func (l localRows) Spread(ctx context.Context, query *nodepb.SpreadQuery) (map[int64]int64, error) {
	counts, err := l.store.Spread(ctx, nil, spreadOf(query))
	return counts, readError("count list", err)
}

func spreadOf(query *nodepb.SpreadQuery) persistence.SpreadQuery {
	return persistence.SpreadQuery{List: query.GetList(), From: query.GetFrom(), To: query.GetTo(), Unit: query.GetUnit()}
}

// usage answers for the shards that this node owns.
func (a *Answerer) usage(ctx context.Context, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	return usageOf(ctx, a.local.store, query.GetShards(), query)
}

// spread answers for the shards that this node owns.
func (a *Answerer) spread(ctx context.Context, query *nodepb.SpreadQuery) (*nodepb.SpreadReply, error) {
	counts, err := a.local.store.Spread(ctx, query.GetShards(), spreadOf(query))
	if err != nil {
		return nil, readFault("count list", err)
	}
	return &nodepb.SpreadReply{Counts: counts}, nil
}

func newTally(query *nodepb.UsageQuery) (*machine.UsageTally, error) {
	if query.GetBy() < uint32(machine.UsageByModel) || query.GetBy() > uint32(machine.UsageByAgent) ||
		query.GetInterval() > uint32(machine.UsageMonthly) || query.GetOnly() > uint32(machine.UsageByAgent) {
		return nil, fmt.Errorf("usage by %d in intervals of %d is not known", query.GetBy(), query.GetInterval())
	}
	return machine.NewUsageTally(machine.UsagePart(query.GetBy()), machine.UsageInterval(query.GetInterval()),
		machine.UsagePart(query.GetOnly()), query.GetValue()), nil
}

// usageOf adds up rows of these shards.
func usageOf(ctx context.Context, store *persistence.Store, groups []uint32, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	tally, err := newTally(query)
	if err != nil {
		return nil, err
	}
	rows := persistence.SumQuery{
		Name: machine.UsageName(query.GetTenantId(), query.GetProjectId()), From: machine.UsageHour(query.GetFrom()), Head: machine.UsageHead,
	}
	if to := query.GetTo(); to > 0 && to < math.MaxInt64 {
		rows.To = machine.UsageHour(to)
	}
	// A pack is of one day, or of an hour in it.
	if err := store.VisitSums(ctx, groups, rows, tally); err != nil {
		return nil, readFault("read usage", err)
	}
	return usageReply(tally), nil
}

func usageReply(tally *machine.UsageTally) *nodepb.UsageReply {
	parts, periods := tally.Totals()
	return &nodepb.UsageReply{Rows: usageRows(parts), Periods: usageRows(periods)}
}

func usageRows(of []machine.UsageTotal) []*nodepb.UsageRow {
	rows := make([]*nodepb.UsageRow, len(of))
	for i := range of {
		rows[i] = &nodepb.UsageRow{Part: of[i].Part, Start: of[i].Start, Values: of[i].Numbers[:]}
	}
	return rows
}

func usageTotals(of []*nodepb.UsageRow) []machine.UsageTotal {
	totals := make([]machine.UsageTotal, len(of))
	for i, row := range of {
		totals[i].Part, totals[i].Start = row.GetPart(), row.GetStart()
		copy(totals[i].Numbers[:], row.GetValues())
	}
	return totals
}

// Usage implements kit.Lists: each owner adds up its shards, and this node what they say.
func (s scatteredRows) Usage(ctx context.Context, query *nodepb.UsageQuery) (*nodepb.UsageReply, error) {
	tally, err := newTally(query)
	if err != nil {
		return nil, err
	}
	parts, err := s.Router.ReadAll(ctx, s.All(), func(of []shard.ID) proto.Message {
		return &nodepb.UsageQuery{
			Shards: numbers(of), TenantId: query.GetTenantId(), ProjectId: query.GetProjectId(), From: query.GetFrom(), To: query.GetTo(),
			By: query.GetBy(), Interval: query.GetInterval(), Only: query.GetOnly(), Value: query.GetValue(),
		}
	})
	if err != nil {
		return nil, err
	}
	for _, part := range parts {
		reply, ok := part.Answer.(*nodepb.UsageReply)
		if !ok {
			return nil, fmt.Errorf("node %s answered usage with a %T", part.Node, part.Answer)
		}
		tally.Merge(usageTotals(reply.GetRows()), usageTotals(reply.GetPeriods()))
	}
	return usageReply(tally), nil
}

// Spread implements kit.Lists in the same way.
func (s scatteredRows) Spread(ctx context.Context, query *nodepb.SpreadQuery) (map[int64]int64, error) {
	parts, err := s.Router.ReadAll(ctx, s.All(), func(of []shard.ID) proto.Message {
		return &nodepb.SpreadQuery{
			Shards: numbers(of), List: query.GetList(), From: query.GetFrom(), To: query.GetTo(), Unit: query.GetUnit(),
		}
	})
	if err != nil {
		return nil, err
	}
	counts := map[int64]int64{}
	for _, part := range parts {
		reply, ok := part.Answer.(*nodepb.SpreadReply)
		if !ok {
			return nil, fmt.Errorf("node %s answered a count with a %T", part.Node, part.Answer)
		}
		for at, n := range reply.GetCounts() {
			counts[at] += n
		}
	}
	return counts, nil
}
