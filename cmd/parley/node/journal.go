package node

import (
	"context"
	"errors"
	"fmt"

	"parley/actors"
	"parley/persistence"
	"parley/proto/logpb"
)

// journal implements actors.Journal over the store.
type journal struct {
	store *persistence.Store
}

// Load returns an entity's head.
func (j journal) Load(ctx context.Context, shard uint32, id string) (actors.Head, bool, error) {
	head, found, err := j.store.Head(ctx, shard, id)
	if err != nil {
		return actors.Head{}, false, journalError(err)
	}
	return actors.Head{Seq: head.Seq, Epoch: head.Epoch, State: head.Value}, found, nil
}

// Append makes an entry durable.
func (j journal) Append(ctx context.Context, shard uint32, entry *logpb.Append) (*logpb.Result, error) {
	result, err := j.store.Append(ctx, shard, entry)
	if err != nil {
		return nil, journalError(err)
	}
	return result, nil
}

// recoverPage bounds the open leases read at once, so that a shard with many does not fill memory.
const recoverPage = 1000

// Running visits the members of a shard's part of a list, the oldest first.
func (j journal) Running(ctx context.Context, shard uint32, list string, visit func(id string)) error {
	query := persistence.ListQuery{List: list, Limit: recoverPage}
	for {
		rows, err := j.store.ListShard(ctx, shard, query)
		if err != nil {
			return journalError(err)
		}
		for _, row := range rows {
			visit(row.Member)
		}
		if len(rows) < recoverPage {
			return nil
		}
		last := rows[len(rows)-1]
		query.After = &persistence.ListCursor{Score: last.Score, Member: last.Member}
	}
}

// Due visits the first members of a shard's part of a list that are due. The read may be stale: the command that follows checks
// again.
func (j journal) Due(ctx context.Context, shard uint32, due actors.DueQuery, visit func(id string)) error {
	ctx = persistence.WithStale(ctx)
	query := persistence.ListQuery{List: due.List, Limit: min(due.Limit, 1)} // usually nothing is due, and one row shows that
	for left := due.Limit; left > 0; {
		rows, err := j.store.ListShard(ctx, shard, query)
		if err != nil {
			return journalError(err)
		}
		for _, row := range rows {
			if row.Score > due.Until.UnixMilli() {
				return nil
			}
			visit(row.Member)
			query.After = &persistence.ListCursor{Score: row.Score, Member: row.Member}
		}
		if len(rows) < query.Limit {
			return nil
		}
		left -= len(rows)
		query.Limit = min(left, recoverPage)
	}
	return nil
}

// Listed visits rows of a shard's part of a list.
func (j journal) Listed(ctx context.Context, shard uint32, query actors.ListedQuery, visit func(actors.ListedRow)) error {
	if query.Stale {
		ctx = persistence.WithStale(ctx)
	}
	rows, err := j.store.ListShard(ctx, shard, persistence.ListQuery{List: query.List, Descending: query.Last, Limit: query.Limit})
	if err != nil {
		return journalError(err)
	}
	for _, row := range rows {
		visit(actors.ListedRow{Score: row.Score, Member: row.Member, Value: row.Value})
	}
	return nil
}

// Confirm waits for the shard's quorum to say that this node still leads it.
func (j journal) Confirm(ctx context.Context, shard uint32) error {
	if err := j.store.Confirm(ctx, shard); err != nil {
		return journalError(err)
	}
	return nil
}

// Owns asks what the log knows, without a round trip. Epochs only grow: one that is still in force was in force all the
// time.
func (j journal) Owns(shard uint32, epoch uint64) bool {
	node, term, known := j.store.Leader(shard)
	return known && term == epoch && node == j.store.Identity().NodeID
}

// journalError translates what the store says into what the shell tells apart. The store's own words stay for the log.
func journalError(err error) error {
	for _, known := range []struct{ store, shell error }{
		{persistence.ErrNotLeader, actors.ErrNotOwner},
		{persistence.ErrUnknownGroup, actors.ErrNotOwner},
		{persistence.ErrOutcomeUnknown, actors.ErrOutcomeUnknown},
		{persistence.ErrFull, actors.ErrFull},
		{persistence.ErrFailed, actors.ErrFailed},
		{persistence.ErrCorrupt, actors.ErrFailed},
		{persistence.ErrBusy, actors.ErrBusy},
		{persistence.ErrTooLarge, actors.ErrTooLarge},
		{persistence.ErrInvalid, actors.ErrTooLarge},
		{persistence.ErrStopped, actors.ErrNotOwner},
	} {
		if errors.Is(err, known.store) {
			return fmt.Errorf("%w: %w", known.shell, err)
		}
	}
	return err
}
