package persistence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"parley/persistence/backup"
	"parley/persistence/fsm"
	"parley/persistence/keys"
	"parley/persistence/replica"
)

// restoreBatch is the size of the batches in which rows are written.
const restoreBatch = 4 << 20

// ownCollection reports whether a collection of the directory describes the cluster itself and its nodes. These are not
// restored: the new cluster writes its own.
func ownCollection(name string) bool { return name == clusterCollection || name == "nodes" }

// Restore creates the data directory of a new one-node cluster from a backup, in Options.Dir, which must be empty. The
// backup holds shards conversation shards and the directory; source opens the stream of each, and Restore closes it.
// Cluster and node get new ids unless Options names them, and other nodes can join as usual. On an error the directory
// is emptied again; if the process dies in between, Open refuses the directory.
//
// Errors: ErrRefused for the directory, backup.ErrDamaged and backup.ErrFormat for the backup, ErrFull, ErrFailed.
func Restore(ctx context.Context, opts Options, shards int, source func(group uint32) (io.ReadCloser, error)) (Identity, error) {
	opts.Shards = shards
	opts.setDefaults()
	if err := opts.validate(); err != nil {
		return Identity{}, fmt.Errorf("storage options: %w", err)
	}
	if shards == 0 || opts.Join {
		return Identity{}, errors.New("storage options: a restore needs the number of shards, and joins nothing")
	}
	dir, err := openDir(opts, restoreDraft)
	if err != nil {
		return Identity{}, err
	}
	r := &restore{opts: opts, dir: dir, condition: newCondition(opts.Logger)}
	r.space = newSpace(opts, r.condition)
	err = r.run(ctx, source)
	if err != nil {
		err = errors.Join(err, dir.discard())
	}
	if err = errors.Join(err, dir.lock.Close()); err != nil {
		return Identity{}, err
	}
	opts.Logger.Info("backup restored", slog.String("dir", opts.Dir), slog.Uint64("node", dir.identity.NodeID), slog.Int("shards", shards))
	return dir.identity, nil
}

// restore is a restore in progress.
type restore struct {
	opts      Options
	dir       *dataDir
	condition *condition
	space     *space
	db        *pebble.DB
	batch     *pebble.Batch
	cluster   string // that the backup was made of
}

func (r *restore) run(ctx context.Context, source func(group uint32) (io.ReadCloser, error)) (err error) {
	if r.db, err = openEngine(r.opts, r.condition, r.space, newBlockCache(r.opts, r.opts.Shards), true); err != nil {
		return err
	}
	r.batch = r.db.NewBatch()
	seeds := make([]replica.GroupSeed, 0, r.opts.Shards+1)
	for group := uint32(0); err == nil && group <= uint32(r.opts.Shards); group++ {
		var info BackupInfo
		info, err = r.group(ctx, group, source)
		if err != nil {
			err = fmt.Errorf("restore shard %d: %w", group, err)
		}
		seeds = append(seeds, replica.GroupSeed{
			Group: replica.GroupID(group), Index: info.Index, Term: info.Term, Voters: []replica.NodeID{replica.NodeID(r.dir.identity.NodeID)},
		})
	}
	if err == nil {
		err = r.seed(seeds)
	}
	err = errors.Join(err, r.batch.Close(), closeEngine(r.db, r.condition), r.condition.failure())
	if err != nil {
		return err
	}
	return r.dir.settle()
}

// group writes the rows of a shard.
func (r *restore) group(ctx context.Context, group uint32, source func(group uint32) (io.ReadCloser, error)) (BackupInfo, error) {
	from, err := source(group)
	if err != nil {
		return BackupInfo{}, err
	}
	start, end := keys.Span(group)
	info, err := backup.Read(from, func(h backup.Header) error { return r.expect(h, group) }, func(key, value []byte) error {
		if bytes.Compare(key, start) < 0 || bytes.Compare(key, end) >= 0 {
			return fmt.Errorf("%w: it holds a row of another shard", backup.ErrDamaged)
		}
		return errors.Join(ctx.Err(), r.row(key, value))
	})
	return info, errors.Join(err, from.Close(), ctx.Err())
}

func (r *restore) row(key, value []byte) error {
	k, err := keys.Decode(key)
	if err != nil {
		return fmt.Errorf("%w: %w", backup.ErrDamaged, err)
	}
	if k.Shard == uint32(fsm.Directory) && k.Kind == keys.Record && ownCollection(k.Name) {
		return nil
	}
	if err := r.batch.Set(key, value, nil); err != nil {
		return fmt.Errorf("write row: %w", err)
	}
	if r.batch.Len() < restoreBatch {
		return nil
	}
	return r.commit(pebble.NoSync)
}

// expect refuses a stream that is not the one asked for.
func (r *restore) expect(h backup.Header, group uint32) error {
	if r.cluster == "" {
		r.cluster = h.ClusterID
	}
	switch {
	case h.Group != group:
		return fmt.Errorf("%w: it is a copy of shard %d", backup.ErrDamaged, h.Group)
	case h.Shards != r.opts.Shards:
		return fmt.Errorf("%w: it is of a cluster with %d shards, not %d", backup.ErrDamaged, h.Shards, r.opts.Shards)
	case h.ClusterID != r.cluster:
		return fmt.Errorf("%w: it is of cluster %s, the others are of %s", backup.ErrDamaged, h.ClusterID, r.cluster)
	case h.Index == 0 || h.Term == 0:
		return fmt.Errorf("%w: it has no position", backup.ErrDamaged)
	}
	return nil
}

// commit writes the current batch, if the disk has room for it.
func (r *restore) commit(how *pebble.WriteOptions) error {
	r.space.check()
	if err := r.condition.writable(); err != nil {
		return err
	}
	if err := r.batch.Commit(how); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	if err := r.batch.Close(); err != nil {
		return fmt.Errorf("write rows: %w", err)
	}
	r.batch = r.db.NewBatch()
	return r.condition.failure()
}

// seed starts each log at the position of its rows, with this node as the only voter.
func (r *restore) seed(seeds []replica.GroupSeed) error {
	err := replica.SeedStore(r.batch, nil, replica.NodeID(r.dir.identity.NodeID))
	for _, seed := range seeds {
		err = errors.Join(err, replica.Seed(r.batch, nil, seed))
	}
	if err != nil {
		return err
	}
	return r.commit(pebble.Sync)
}

// discard removes what an unfinished restore has created.
func (d *dataDir) discard() error {
	err := errors.Join(d.remove(identityName), d.fs.RemoveAll(d.path(engineDir)), d.remove(reserveName))
	if err == nil { // while it exists, Open refuses the directory
		err = d.remove(d.drafted)
	}
	if err != nil {
		return fmt.Errorf("clear %s: %w", d.dir, err)
	}
	return nil
}

func (d *dataDir) remove(name string) error {
	if _, err := d.fs.Stat(d.path(name)); err != nil {
		return nil //nolint:nilerr // it is not there
	}
	return d.fs.Remove(d.path(name))
}
