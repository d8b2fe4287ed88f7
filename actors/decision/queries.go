package decision

import (
	"context"
	"slices"

	"parley/actors/core/permission"
	"parley/actors/kit"
	"parley/proto/decisionpb"
)

// readDecision finds a decision of a tenant in its batch.
func readDecision(state *decisionpb.State, query *decisionpb.DecisionQuery) (*decisionpb.DecisionReply, error) {
	for _, d := range state.GetDecisions() {
		if d.GetId() == query.GetDecisionId() && d.GetTenantId() == query.GetTenantId() {
			return &decisionpb.DecisionReply{Decision: d}, nil
		}
	}
	return nil, missing()
}

// batchPage is how many batches are read at once.
const batchPage = 16

// listDecisions lists decisions of a tenant, newest first.
func listDecisions(ctx context.Context, from kit.Lists, query *decisionpb.DecisionsQuery) (*decisionpb.DecisionsReply, error) {
	page := &decisionpb.DecisionsReply{}
	whole, err := newest(ctx, from, ListOf(query.GetTenantId()), firstCursor(query), func(batch *decisionpb.State) bool {
		for _, d := range slices.Backward(batch.GetDecisions()) {
			if d.GetTenantId() != query.GetTenantId() || !behind(d, batch, query) {
				continue
			}
			if len(page.Decisions) == int(query.GetLimit()) {
				return false // NextAt is the last one's
			}
			page.Decisions, page.NextAt = append(page.Decisions, d), batch.GetCreatedAt()
		}
		return true
	})
	if whole {
		page.NextAt = 0
	}
	return page, err
}

// newest goes through the batches of a list behind a place, newest first, while more says so; whole = to the end.
func newest(ctx context.Context, from kit.Lists, list string, after *kit.Cursor, more func(*decisionpb.State) bool) (whole bool, err error) {
	for {
		rows, err := from.Page(ctx, kit.ListQuery{List: list, Descending: true, Limit: batchPage, After: after})
		if err != nil {
			return false, err
		}
		batches, err := kit.States[decisionpb.State](ctx, from, rows)
		if err != nil {
			return false, err
		}
		for _, batch := range batches {
			if !more(batch) {
				return false, nil
			}
		}
		if len(rows) < batchPage {
			return true, nil
		}
		last := rows[len(rows)-1]
		after = &kit.Cursor{Score: last.Score, Member: last.Member}
	}
}

// firstCursor begins with the batch of the decision that the page comes after: some of it may be left.
func firstCursor(query *decisionpb.DecisionsQuery) *kit.Cursor {
	batch, _, ok := permission.BatchOf(query.GetAfter())
	if !ok {
		return nil
	}
	return &kit.Cursor{Score: query.GetAfterAt(), Member: batch + "~"} // right before the batch, in descending order
}

// behind says that a decision comes after the one that the page comes after.
func behind(d *decisionpb.Decision, batch *decisionpb.State, query *decisionpb.DecisionsQuery) bool {
	of, last, ok := permission.BatchOf(query.GetAfter())
	if !ok || of != batch.GetId() {
		return true
	}
	_, number, _ := permission.BatchOf(d.GetId())
	return number < last
}

// listVerdicts lists verdicts of a shield or a guardrail, newest first.
func listVerdicts(ctx context.Context, from kit.Lists, query *decisionpb.VerdictsQuery) (*decisionpb.VerdictsReply, error) {
	page := &decisionpb.VerdictsReply{}
	list := ListOfShield(query.GetProjectId(), query.GetShieldId())
	if query.GetGuardrailKey() != "" {
		list = ListOfGuardrail(query.GetProjectId(), query.GetGuardrailKey())
	}
	_, err := newest(ctx, from, list, nil, func(batch *decisionpb.State) bool {
		for _, v := range slices.Backward(batch.GetVerdicts()) {
			if listOfVerdict(v) != list || query.GetDecision() != "" && v.GetDecision() != query.GetDecision() {
				continue
			}
			if page.Verdicts = append(page.Verdicts, v); len(page.Verdicts) >= int(query.GetLimit()) {
				return false
			}
		}
		return true
	})
	return page, err
}
