package reads

import (
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"parley/cluster/shard"
	"parley/persistence"
	"parley/persistence/index"
	"parley/proto/nodepb"
)

// sumsPage bounds the rows of sums in one query.
const sumsPage = 4096

// Usage visits the sums of a name by member, each totalled over all shards, from a member up to another one (exclusive; empty =
// to the end), until visit returns false. Rows added meanwhile may be missing; each row is a snapshot on each node.
func (r *Route) Usage(ctx context.Context, name, from, to string, visit func(row persistence.SumRow) (more bool)) error {
	for {
		rows, err := r.sums(ctx, persistence.SumQuery{Name: name, From: from, To: to, Limit: sumsPage})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if !visit(row) {
				return nil
			}
		}
		if len(rows) < sumsPage {
			return nil
		}
		from = rows[len(rows)-1].Member + "\x00"
	}
}

// sums reads a page from the owners of all shards.
func (r *Route) sums(ctx context.Context, query persistence.SumQuery) ([]persistence.SumRow, error) {
	parts, err := r.Router.ReadAll(ctx, r.All(), func(of []shard.ID) proto.Message {
		return &nodepb.SumsQuery{Shards: numbers(of), Name: query.Name, From: query.From, To: query.To, Limit: uint32(query.Limit)}
	})
	if err != nil {
		return nil, err
	}
	pages := make([][]persistence.SumRow, len(parts))
	for i, part := range parts {
		reply, ok := part.Answer.(*nodepb.SumsReply)
		if !ok {
			return nil, fmt.Errorf("node %s answered sums with a %T", part.Node, part.Answer)
		}
		for _, row := range reply.GetRows() {
			pages[i] = append(pages[i], persistence.SumRow{Member: row.GetMember(), Values: row.GetValues()})
		}
	}
	return index.MergeSums(pages, query.Limit), nil
}

// sums answers for the shards that this node owns.
func (a *Answerer) sums(ctx context.Context, q *nodepb.SumsQuery) (*nodepb.SumsReply, error) {
	rows, err := a.local.store.Sums(ctx, q.GetShards(), persistence.SumQuery{
		Name: q.GetName(), From: q.GetFrom(), To: q.GetTo(), Limit: min(int(q.GetLimit()), sumsPage),
	})
	if err != nil {
		return nil, readFault("read sums", err)
	}
	reply := &nodepb.SumsReply{Rows: make([]*nodepb.SumsRow, len(rows))}
	for i, row := range rows {
		reply.Rows[i] = &nodepb.SumsRow{Member: row.Member, Values: row.Values}
	}
	return reply, nil
}
