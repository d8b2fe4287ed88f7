package replica

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

const (
	spoolSuffix = ".snapshot"
	// restoreBatch is the size of the batches in which a snapshot is written.
	restoreBatch = 1 << 20
	// spoolSync is how much of a snapshot may wait to be written to disk.
	spoolSync = 1 << 20
)

// Deliver takes messages from other nodes. It never blocks; messages that do not fit or are not for this node are
// dropped. A message from the leader of a group without a replica here creates one.
func (d *Driver) Deliver(msgs ...Message) {
	if !d.running.Load() {
		return
	}
	kept := make([]Message, 0, len(msgs))
	for _, m := range msgs {
		if d.acceptable(m) {
			kept = append(kept, m)
		}
	}
	d.metrics.dropped.Add(float64(len(msgs) - len(kept) + d.inbox.deliver(kept)))
}

// acceptable lets through the kinds of messages that raft nodes exchange here. Snapshots come by ReceiveSnapshot;
// proposals and reads are not forwarded.
func (d *Driver) acceptable(m Message) bool {
	if m.raft == nil || m.To() != d.cfg.Node || m.From() == 0 || m.From() == d.cfg.Node || m.raft.GetTerm() == 0 {
		return false
	}
	if d.table.get(m.Group) == nil && (!fromLeader(m.raft) || m.Group > d.cfg.MaxGroup) {
		return false
	}
	switch m.raft.GetType() {
	case raftpb.MsgHeartbeatResp:
		return len(m.raft.GetContext()) == 0 || len(m.raft.GetContext()) == 8
	case raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote, raftpb.MsgPreVoteResp,
		raftpb.MsgHeartbeat, raftpb.MsgTimeoutNow:
		return true
	default:
		return false
	}
}

// ReceiveSnapshot takes the stream of a snapshot, makes it durable and passes it to the group, which installs it unless
// its log has advanced beyond it. One at a time per group: ErrBusy otherwise.
func (d *Driver) ReceiveSnapshot(ctx context.Context, header Message, r io.Reader) error {
	switch {
	case header.Group > d.cfg.MaxGroup:
		return fmt.Errorf("%w %d", ErrUnknownGroup, header.Group)
	case d.cfg.SpoolDir == "":
		return errors.New("this node takes no snapshots: no spool directory")
	case header.raft == nil, header.raft.GetType() != raftpb.MsgSnap, header.To() != d.cfg.Node, header.raft.GetTerm() == 0,
		header.raft.GetSnapshot().GetMetadata().GetIndex() == 0:
		return fmt.Errorf("%w: header", errBadSnapshot)
	case !d.running.Load() || d.Err() != nil:
		return d.closedErr()
	}
	g, err := d.ensure(ctx, header.Group, header.raft)
	if err != nil {
		return err
	}
	if !g.shared.receiving.CompareAndSwap(false, true) {
		return ErrBusy
	}
	err = d.receive(ctx, g, header, r)
	outcome := "received"
	if err != nil {
		g.shared.receiving.Store(false)
		outcome = "failed"
	}
	d.metrics.snapshots.WithLabelValues("in", outcome).Inc()
	return err
}

func (d *Driver) receive(ctx context.Context, g *group, header Message, r io.Reader) error {
	name := fmt.Sprintf("%d-%d-%d%s", g.id, header.raft.GetSnapshot().GetMetadata().GetIndex(), d.spools.Add(1), spoolSuffix)
	if err := d.spool(ctx, g, name, r); err != nil {
		return errors.Join(err, d.removeSpool(name))
	}
	m, ok := proto.Clone(header.raft).(*raftpb.Message)
	if !ok {
		return errors.New("clone message")
	}
	m.Snapshot.Data = []byte(name)
	if d.inbox.deliver([]Message{{Group: g.id, raft: m}}) > 0 {
		return errors.Join(ErrBusy, d.removeSpool(name))
	}
	return nil
}

// spool writes a stream to a file and makes it durable.
func (d *Driver) spool(ctx context.Context, g *group, name string, r io.Reader) error {
	fs := d.cfg.FS
	file, err := fs.Create(d.spoolPath(name), vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("create spool: %w", err)
	}
	// One large sync at the end would delay the logs.
	file = vfs.NewSyncingFile(file, vfs.SyncingFileOptions{BytesPerSync: spoolSync})
	start, end := d.cfg.Machine.Span(g.id)
	if err := copySnapshot(file, contextReader{ctx: ctx.Err, r: r}, start, end); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	return d.syncDir(d.cfg.SpoolDir)
}

func (d *Driver) syncDir(path string) error {
	dir, err := d.cfg.FS.OpenDir(path)
	if err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("sync directory: %w", err)
	}
	return nil
}

// contextReader stops reading once the context is over; a read that blocks is for the connection's own deadline.
type contextReader struct {
	ctx func() error
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

func (d *Driver) spoolPath(name string) string { return d.cfg.FS.PathJoin(d.cfg.SpoolDir, name) }

func (d *Driver) removeSpool(name string) error {
	if err := d.cfg.FS.Remove(d.spoolPath(name)); err != nil {
		return fmt.Errorf("remove spool: %w", err)
	}
	return nil
}

// dropSpool removes the file of a snapshot that raft refused.
func (d *Driver) dropSpool(g *group) {
	if g.snapshots.spool == "" {
		return
	}
	d.discardSpool(g.snapshots.spool)
	g.snapshots.spool = ""
}

func (d *Driver) discardSpool(name string) {
	d.background(func(context.Context) {
		if err := d.removeSpool(name); err != nil {
			d.logger.Warn("spool file left behind", slog.String("file", name), slog.Any("err", err))
		}
	})
}

// cleanSpool removes files that a crash left in the spool directory. Interrupted installations have been completed by
// then.
func (d *Driver) cleanSpool() error {
	if d.cfg.SpoolDir == "" {
		return nil
	}
	if err := d.cfg.FS.MkdirAll(d.cfg.SpoolDir, 0o700); err != nil {
		return fmt.Errorf("create spool directory: %w", err)
	}
	// Without a durable directory entry a power failure would lose the directory, and with it the file that an intent
	// relies on.
	if err := d.syncDir(d.cfg.FS.PathDir(d.cfg.SpoolDir)); err != nil {
		return err
	}
	names, err := d.cfg.FS.List(d.cfg.SpoolDir)
	if err != nil {
		return fmt.Errorf("list spool directory: %w", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, spoolSuffix) {
			if err := d.removeSpool(name); err != nil {
				return err
			}
		}
	}
	return nil
}

// startInstall replaces the group's state in the background. The append goroutine holds back the group's messages meanwhile; the other groups go on.
func (d *Driver) startInstall(g *group, m *raftpb.Message) {
	g.shared.replacing.Store(true)
	d.background(func(ctx context.Context) {
		if !d.applyBarrier() {
			return
		}
		begin := time.Now()
		err := d.recordIntent(g, m.GetSnapshot())
		if err == nil {
			err = d.install(ctx, g, m.GetSnapshot())
		}
		switch {
		case d.Err() != nil:
			return
		case ctx.Err() != nil:
			// Stopped half way: the next start redoes the installation.
			return
		case err != nil:
			d.Fail(fmt.Errorf("install snapshot of group %d: %w", g.id, err))
			return
		}
		d.logger.Info("snapshot installed", slog.Uint64("shard", uint64(g.id)),
			slog.Uint64("index", m.GetSnapshot().GetMetadata().GetIndex()), slog.Duration("elapsed", time.Since(begin)))
		d.cfg.OnSnapshot(g.id)
		d.appends.push(appendItem{group: g, msg: m, installed: true})
	})
}

var errCommit = errors.New("commit failed")

// recordIntent makes an installation durable before the old state is deleted, so that a crash in between redoes it. The
// spool file is durable already.
func (d *Driver) recordIntent(g *group, snapshot *raftpb.Snapshot) error {
	row, err := encodeMessage(snapshot)
	if err != nil {
		return err
	}
	batch := d.cfg.DB.NewBatch()
	if err := batch.Set(g.keys.row(kindIntent), row, nil); err != nil {
		return fmt.Errorf("stage intent: %w", err)
	}
	if !d.commit("record snapshot intent", batch, pebble.Sync) {
		return errCommit
	}
	return nil
}

// redoInstall finishes at start what a crash interrupted.
func (d *Driver) redoInstall(g *group) error {
	row, err := d.get(g.keys.row(kindIntent))
	if err != nil || row == nil {
		return err
	}
	snapshot := &raftpb.Snapshot{}
	if err := parseMessage("snapshot intent", row, snapshot); err != nil {
		return err
	}
	d.logger.Info("installing an interrupted snapshot", slog.Uint64("shard", uint64(g.id)))
	if err := d.install(context.Background(), g, snapshot); err != nil {
		return errors.Join(fmt.Errorf("redo snapshot: %w", err), d.Err())
	}
	return nil
}

// install replaces the state, then log, membership and hard state in one synced batch. Until that batch the intent
// makes a restart start over.
func (d *Driver) install(ctx context.Context, g *group, snapshot *raftpb.Snapshot) error {
	name := string(snapshot.GetData())
	if err := d.restore(ctx, g, name); err != nil {
		return err
	}
	batch := d.cfg.DB.NewBatch()
	if err := d.stageInstalled(batch, g, snapshot.GetMetadata()); err != nil {
		return fmt.Errorf("stage snapshot: %w", err)
	}
	if !d.commit("install snapshot", batch, pebble.Sync) {
		return errCommit
	}
	return d.removeSpool(name)
}

func (d *Driver) stageInstalled(batch *pebble.Batch, g *group, meta *raftpb.SnapshotMetadata) error {
	at := position{index: meta.GetIndex(), term: meta.GetTerm()}
	conf, err := encodeMessage(meta.GetConfState())
	if err != nil {
		return err
	}
	row, err := d.get(g.keys.row(kindHardState))
	if err != nil {
		return err
	}
	var hard hardState
	if row != nil {
		// There is none if the snapshot is the first thing this node has of the group.
		if hard, err = parseHardState(row); err != nil {
			return err
		}
	}
	// The vote is kept unless the snapshot is from a newer term, in which this node cannot have voted.
	if at.term > hard.term {
		hard.term, hard.vote = at.term, 0
	}
	hard.commit = at.index
	start, end := g.keys.entries()
	return errors.Join(
		batch.DeleteRange(start, end, nil),
		batch.Set(g.keys.row(kindStart), encodePosition(at), nil),
		batch.Set(g.keys.row(kindApplied), encodePosition(at), nil),
		batch.Set(g.keys.row(kindConfState), conf, nil),
		batch.Set(g.keys.row(kindHardState), encodeHardState(hard), nil),
		batch.Delete(g.keys.row(kindIntent), nil),
	)
}

// restore replaces the rows of a group by those of a spool file.
func (d *Driver) restore(ctx context.Context, g *group, name string) error {
	file, err := d.cfg.FS.Open(d.spoolPath(name))
	if err != nil {
		return fmt.Errorf("open spool: %w", err)
	}
	defer file.Close() //nolint:errcheck // read only
	r := &restorer{driver: d, batch: d.cfg.DB.NewBatch(), pace: newPacer(ctx, d.cfg.SnapshotRate)}
	start, end := d.cfg.Machine.Span(g.id)
	if err = r.batch.DeleteRange(start, end, nil); err != nil {
		return fmt.Errorf("clear state: %w", err)
	}
	source := contextReader{ctx: ctx.Err, r: bufio.NewReaderSize(file, snapshotFrame)}
	if err = readSnapshot(source, r.take); err != nil {
		return err
	}
	return r.commit()
}

// restorer writes the frames of a snapshot in batches of a bounded size.
type restorer struct {
	driver *Driver
	batch  *pebble.Batch
	pace   *pacer
}

func (r *restorer) take(frame []byte) error {
	r.pace.wait(len(frame))
	err := eachRow(frame, func(key, value []byte) error { return r.batch.Set(key, value, nil) })
	if err != nil || r.batch.Len() < restoreBatch {
		return err
	}
	return r.commit()
}

func (r *restorer) commit() error {
	if !r.driver.commit("restore snapshot", r.batch, pebble.NoSync) {
		return errCommit
	}
	r.batch = r.driver.cfg.DB.NewBatch()
	return nil
}
