package reads

import (
	"context"

	"parley/cluster/shard"
	"parley/proto/nodepb"
)

// record answers what is stored under a key.
func (a *Answerer) record(ctx context.Context, q *nodepb.RecordQuery) (*nodepb.RecordReply, error) {
	if _, err := a.version(ctx); err != nil {
		return nil, err
	}
	stored, found := a.local.store.Directory().Get(q.GetCollection(), q.GetKey())
	return &nodepb.RecordReply{Found: found, Version: stored.Version, Value: stored.Value}, nil
}

// version answers how far the directory is, of which everything acknowledged is in memory then.
func (a *Answerer) version(ctx context.Context) (*nodepb.VersionReply, error) {
	store := a.local.store
	if err := store.Confirm(ctx, uint32(shard.Directory)); err != nil {
		return nil, readFault("confirm the directory", err)
	}
	if err := store.Directory().Refresh(); err != nil {
		return nil, readFault("read the directory", err)
	}
	return &nodepb.VersionReply{Version: store.Directory().Version()}, nil
}
