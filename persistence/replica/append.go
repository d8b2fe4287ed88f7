package replica

import (
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// maxAppendBatch is the size at which a batch is committed although more is queued.
const maxAppendBatch = 8 << 20

// appendItem is work for the append goroutine: a storage message, a cut of the log, the news that a snapshot is installed, or the end of the group.
type appendItem struct {
	group     *group
	msg       *raftpb.Message
	cut       position
	installed bool
	// drop is answered once the rows of the group are gone.
	drop chan<- error
}

// appender writes the logs of all groups. Everything queued goes into one batch, committed once.
type appender struct {
	driver *Driver
	batch  *pebble.Batch
	// awaited is set when someone waits for this batch; unsynced when entries, terms or votes have been written since
	// the last sync.
	awaited  bool
	unsynced bool
	entries  int
	done     []appended
	outgoing map[NodeID][]Message
	// lazy are the groups whose hard state has yet to be written. If only the commit index moved, safety does not need
	// it, and it is written with the next batch.
	lazy []*group
}

func (a *appender) run() {
	a.outgoing = make(map[NodeID][]Message)
	for {
		items := a.driver.appends.take()
		if len(items) == 0 {
			a.finish()
			return
		}
		for _, item := range items {
			a.stage(item)
			if a.batch != nil && a.batch.Len() > maxAppendBatch {
				a.flush()
			}
		}
		a.flush()
		a.driver.appends.recycle(items)
		if a.driver.Err() != nil {
			return
		}
	}
}

func (a *appender) stage(item appendItem) {
	g := item.group
	switch {
	case item.installed:
		a.installed(g, item.msg)
	case g.append.installing:
		g.append.parked = append(g.append.parked, item)
	case item.drop != nil:
		a.stageDrop(g, item.drop)
	case item.cut.index != 0:
		a.stageCut(g, item.cut)
	case !raft.IsEmptySnap(item.msg.GetSnapshot()):
		// What is staged for the group must be written before the snapshot.
		a.flush()
		g.append.installing = true
		a.driver.startInstall(g, item.msg)
	default:
		a.stageMessage(g, item.msg, nil)
	}
}

// installed resumes the group after a snapshot: with the rest of the message that brought it, then with the parked
// items.
func (a *appender) installed(g *group, msg *raftpb.Message) {
	meta := msg.GetSnapshot().GetMetadata()
	g.append.installing = false
	g.append.last = meta.GetIndex()
	g.append.hard = hardState{}
	a.stageMessage(g, msg, msg.GetSnapshot())
	parked := g.append.parked
	g.append.parked = nil
	for _, item := range parked {
		// A cut was meant for the log that the snapshot replaced.
		if item.cut.index == 0 {
			a.stage(item)
		}
	}
}

// stageDrop ends a group in this goroutine: nothing of it is staged from now on.
func (a *appender) stageDrop(g *group, reply chan<- error) {
	a.lazy = slices.DeleteFunc(a.lazy, func(other *group) bool { return other == g })
	g.append.lazy = false
	a.flush()
	a.driver.startDestroy(g, g.append.hard, reply)
}

func (a *appender) stageMessage(g *group, m *raftpb.Message, snapshot *raftpb.Snapshot) {
	if m.Term != nil || m.Vote != nil || m.Commit != nil {
		a.stageHardState(g, hardState{term: m.GetTerm(), vote: m.GetVote(), commit: m.GetCommit()})
	}
	a.stageEntries(g, m.GetEntries())
	done := appended{group: g, entries: m.GetEntries(), snapshot: snapshot}
	for _, r := range m.GetResponses() {
		if to := NodeID(r.GetTo()); to != g.self {
			a.outgoing[to] = append(a.outgoing[to], Message{Group: g.id, raft: r})
			continue
		}
		done.responses = append(done.responses, r)
	}
	a.awaited = a.awaited || len(m.GetResponses()) > 0
	a.done = append(a.done, done)
}

func (a *appender) stageHardState(g *group, h hardState) {
	old := g.append.hard
	g.append.hard = h
	if !g.append.lazy {
		g.append.lazy = true
		a.lazy = append(a.lazy, g)
	}
	if h.term != old.term || h.vote != old.vote {
		a.writeLazy()
		a.unsynced = true
	}
}

// writeLazy writes the newest hard state of every group that has one to write.
func (a *appender) writeLazy() {
	for i, g := range a.lazy {
		a.lazy[i] = nil
		g.append.lazy = false
		a.set(g.keys.row(kindHardState), encodeHardState(g.append.hard))
	}
	a.lazy = a.lazy[:0]
}

func (a *appender) stageEntries(g *group, entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	batch := a.open()
	for _, e := range entries {
		op := batch.SetDeferred(g.keys.entryLen(), entryHeader+len(e.GetData()))
		g.keys.putEntry(op.Key, e.GetIndex())
		putEntryRow(op.Value, e)
		if err := op.Finish(); err != nil {
			a.driver.Fail(fmt.Errorf("stage entry: %w", err))
		}
	}
	last := entries[len(entries)-1].GetIndex()
	if last < g.append.last {
		// A new leader's entries replace a suffix of the log: entries staged behind them, perhaps in this very batch,
		// must be deleted.
		a.deleteRange(g.keys.entry(last+1), g.keys.entry(g.append.last+1))
	}
	g.append.last = last
	a.entries += len(entries)
	a.unsynced = true
}

func (a *appender) stageCut(g *group, at position) {
	start, _ := g.keys.entries()
	a.set(g.keys.row(kindStart), encodePosition(at))
	a.deleteRange(start, g.keys.entry(at.index+1))
}

func (a *appender) open() *pebble.Batch {
	if a.batch == nil {
		a.batch = a.driver.cfg.DB.NewBatch()
	}
	return a.batch
}

func (a *appender) set(key, value []byte) {
	if err := a.open().Set(key, value, nil); err != nil {
		a.driver.Fail(fmt.Errorf("stage row: %w", err))
	}
}

func (a *appender) deleteRange(start, end []byte) {
	if err := a.open().DeleteRange(start, end, nil); err != nil {
		a.driver.Fail(fmt.Errorf("stage cut: %w", err))
	}
}

// flush commits what is staged, then reports it to the raft loop and sends the responses.
func (a *appender) flush() {
	d := a.driver
	sync := a.awaited && a.unsynced
	if sync && a.batch == nil {
		// Someone waits for rows of an earlier batch; an empty batch would sync nothing.
		if err := a.open().LogData([]byte{rowFormat}, nil); err != nil {
			d.Fail(fmt.Errorf("stage sync: %w", err))
		}
	}
	if a.batch != nil {
		a.writeLazy()
		if !a.commit(sync) {
			return
		}
	}
	if sync {
		a.unsynced = false
	}
	a.awaited, a.entries = false, 0
	if len(a.done) > 0 {
		d.inbox.pushAppended(a.done)
		clear(a.done)
		a.done = a.done[:0]
	}
	for to, msgs := range a.outgoing {
		delete(a.outgoing, to)
		if d.cfg.Transport != nil {
			d.cfg.Transport.Send(to, msgs)
		}
	}
}

func (a *appender) commit(sync bool) bool {
	d := a.driver
	opts := pebble.NoSync
	if sync {
		opts = pebble.Sync
		d.metrics.appendEntries.Observe(float64(a.entries))
	}
	d.metrics.appendBytes.Add(float64(a.batch.Len()))
	begin := time.Now()
	d.committing.Store(int64(begin.Sub(d.start)))
	ok := d.commit("append to log", a.batch, opts)
	d.committing.Store(0)
	if sync {
		took := time.Since(begin)
		d.metrics.appendSeconds.Observe(took.Seconds())
		d.delays.add(took, begin.Add(took))
	}
	a.batch = nil
	return ok
}

// finish writes the deferred commit indexes.
func (a *appender) finish() {
	if len(a.lazy) > 0 && a.driver.Err() == nil {
		a.writeLazy()
		a.commit(true)
	}
}

// commit is the only place where batches of the driver become durable. After a failed commit nothing is written any
// more. Pebble reports some failures only to its logger, which calls Fail, so Err is checked as well.
func (d *Driver) commit(what string, batch *pebble.Batch, opts *pebble.WriteOptions) bool {
	if d.Err() != nil {
		return false
	}
	if err := batch.Commit(opts); err != nil {
		d.Fail(fmt.Errorf("%s: %w", what, err))
		return false
	}
	if d.Err() != nil {
		return false
	}
	if err := batch.Close(); err != nil {
		d.Fail(fmt.Errorf("%s: close batch: %w", what, err))
		return false
	}
	return true
}
