package replica

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Sizes of raft's flow control.
const (
	maxSizePerMsg           = 1 << 20
	maxInflightMsgs         = 64
	maxInflightBytes        = 16 << 20
	maxUncommittedSize      = 64 << 20
	maxCommittedSizePerTake = 4 << 20
)

// Open recovers the groups from cfg.DB, or creates them in an empty one. It refuses an inconsistent store with
// ErrInconsistent. Nothing runs before Start, but an interrupted snapshot installation is completed now.
func Open(cfg Config) (*Driver, error) {
	cfg.setDefaults()
	if err := cfg.validate(); err != nil {
		return nil, fmt.Errorf("replica config: %w", err)
	}
	d := newDriver(cfg)
	groups, err := d.openStore()
	if err != nil {
		return nil, err
	}
	d.table = make(table, d.cfg.MaxGroup+1)
	d.metrics = newMetrics(cfg.Registerer, d)
	for _, id := range groups {
		g, err := d.openGroup(id)
		if err != nil {
			return nil, fmt.Errorf("open group %d: %w", id, err)
		}
		d.add(g)
	}
	if err := d.cleanSpool(); err != nil {
		return nil, err
	}
	return d, nil
}

// openStore returns the groups in the store.
func (d *Driver) openStore() ([]GroupID, error) {
	row, err := d.get(storeKey(d.cfg.KeyPrefix))
	if err != nil {
		return nil, err
	}
	if row == nil {
		return slices.Sorted(slices.Values(d.cfg.Groups)), d.createStore()
	}
	node, listed, err := parseStore(row)
	if err != nil {
		return nil, err
	}
	if node != d.cfg.Node {
		return nil, inconsistent("it belongs to node %d, this is node %d", node, d.cfg.Node)
	}
	groups, err := d.findGroups()
	if err != nil {
		return nil, err
	}
	for _, id := range listed {
		if !slices.Contains(groups, id) {
			return nil, inconsistent("group %d is lost", id)
		}
	}
	if len(listed) > 0 {
		// The row is of an old format, from when a node always held the same groups. An old release must not take a
		// dropped group for a lost one.
		if err := d.cfg.DB.Set(storeKey(d.cfg.KeyPrefix), encodeStore(node), pebble.Sync); err != nil {
			return nil, fmt.Errorf("write store row: %w", err)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	highest := groups[len(groups)-1]
	if d.cfg.MaxGroup == 0 && highest <= maxMaxGroup {
		d.cfg.MaxGroup = highest
	}
	if highest > d.cfg.MaxGroup {
		return nil, inconsistent("it holds group %d, the highest there can be is %d", highest, d.cfg.MaxGroup)
	}
	return groups, nil
}

// findGroups returns the groups that have more rows than the hard state that a dropped replica leaves behind.
func (d *Driver) findGroups() ([]GroupID, error) {
	start, end := groupArea(d.cfg.KeyPrefix)
	it, err := d.cfg.DB.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	defer it.Close() //nolint:errcheck // it.Error is checked below
	var groups []GroupID
	for ok := it.First(); ok; {
		id, kind, err := parseGroupKey(it.Key(), len(start))
		if err != nil {
			return nil, err
		}
		if kind == kindHardState {
			ok = it.Next()
			continue
		}
		groups = append(groups, id)
		ok = it.SeekGE(prefixEnd(keysOf(d.cfg.KeyPrefix, id).prefix))
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("read store: %w", err)
	}
	return groups, nil
}

// createStore creates all groups in one batch, as if a snapshot at index 1, term 1, with the first voters had been
// installed, so that all replicas begin alike.
func (d *Driver) createStore() error {
	if err := d.checkEmpty(d.cfg.KeyPrefix, prefixEnd(d.cfg.KeyPrefix)); err != nil {
		return err
	}
	batch := d.cfg.DB.NewBatch()
	defer batch.Close() //nolint:errcheck // nothing to do about a batch that does not close
	err := SeedStore(batch, d.cfg.KeyPrefix, d.cfg.Node)
	for _, id := range d.cfg.Groups {
		if foreign := d.checkEmpty(d.cfg.Machine.Span(id)); foreign != nil {
			return foreign
		}
		err = errors.Join(err, Seed(batch, d.cfg.KeyPrefix, GroupSeed{Group: id, Index: 1, Term: 1, Voters: d.cfg.Peers}))
	}
	if err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	if err := batch.Commit(pebble.Sync); err != nil {
		return fmt.Errorf("create store: %w", err)
	}
	d.logger.Info("created raft groups", slog.Int("groups", len(d.cfg.Groups)), slog.Uint64("node", uint64(d.cfg.Node)))
	return nil
}

func (d *Driver) checkEmpty(start, end []byte) error {
	it, err := d.cfg.DB.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	found := it.First()
	key := slices.Clone(it.Key())
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return fmt.Errorf("read store: %w", err)
	}
	if found {
		return inconsistent("it was not made by this program: no store row, but a row at key %x", key)
	}
	return nil
}

// get returns a copy of a row, nil when there is none.
func (d *Driver) get(key []byte) ([]byte, error) {
	return getRow(d.cfg.DB, key)
}

func getRow(r pebble.Reader, key []byte) ([]byte, error) {
	row, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read row: %w", err)
	}
	row = bytes.Clone(row)
	if err := closer.Close(); err != nil {
		return nil, fmt.Errorf("read row: %w", err)
	}
	return row, nil
}

func (d *Driver) openGroup(id GroupID) (*group, error) {
	g := d.newGroup(id)
	if err := d.redoInstall(g); err != nil {
		return nil, err
	}
	if err := d.loadGroup(g); err != nil {
		return nil, err
	}
	if err := g.checkLoaded(); err != nil {
		return nil, err
	}
	return g, d.startNode(g)
}

func (d *Driver) newGroup(id GroupID) *group {
	g := &group{id: id, self: d.cfg.Node, keys: keysOf(d.cfg.KeyPrefix, id)}
	g.log = &groupLog{
		db: d.cfg.DB, keys: g.keys, conf: &raftpb.ConfState{}, tailLimit: d.cfg.TailBytes,
		snapshot: func() (*raftpb.Snapshot, error) { return d.snapshotMeta(g) },
	}
	return g
}

// startNode creates the raft node of a group whose log has been loaded.
func (d *Driver) startNode(g *group) error {
	node, err := d.newNode(g)
	if err != nil {
		return err
	}
	l := g.log
	g.node = node
	g.role.term = l.hard.term
	g.settleAt = l.hard.commit
	g.append.last, g.append.hard = l.last.index, l.hard
	g.apply.last = g.applied.index
	g.setConf(l.conf)
	return nil
}

func (d *Driver) loadGroup(g *group) error {
	l := g.log
	rows := make(map[byte][]byte, 4)
	for _, kind := range []byte{kindHardState, kindStart, kindApplied, kindConfState} {
		row, err := d.get(g.keys.row(kind))
		if err != nil {
			return err
		}
		rows[kind] = row
	}
	var errs [4]error
	l.hard, errs[0] = parseHardState(rows[kindHardState])
	l.start, errs[1] = parsePosition("log start", rows[kindStart])
	g.applied, errs[2] = parsePosition("applied", rows[kindApplied])
	errs[3] = parseMessage("conf state", rows[kindConfState], l.conf)
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if err := l.loadEnds(); err != nil {
		return err
	}
	start, end := g.keys.entries()
	size, err := d.cfg.DB.EstimateDiskUsage(start, end)
	if err != nil {
		return fmt.Errorf("estimate log size: %w", err)
	}
	l.bytes = size
	// Applied entries were committed, even if the hard state with that commit index has not been written.
	l.hard.commit = max(l.hard.commit, g.applied.index)
	return nil
}

// loadEnds finds the newest entry, and checks that the oldest one is where the start row says.
func (l *groupLog) loadEnds() error {
	start, end := l.keys.entries()
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer it.Close() //nolint:errcheck // it.Error is checked below
	l.last = l.start
	if it.First() {
		first, err := l.keys.entryIndex(it.Key())
		if err != nil {
			return err
		}
		if first != l.start.index+1 {
			return inconsistent("log starts at %d, not behind %d", first, l.start.index)
		}
		it.Last()
		index, err := l.keys.entryIndex(it.Key())
		if err != nil {
			return err
		}
		e, err := parseEntryRow(index, it.Value())
		if err != nil {
			return err
		}
		l.last = position{index: index, term: e.GetTerm()}
	}
	if err := it.Error(); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

func (g *group) checkLoaded() error {
	l := g.log
	switch {
	case g.applied.index < l.start.index:
		return inconsistent("state ends at entry %d, but the log only starts behind %d", g.applied.index, l.start.index)
	case g.applied.index > l.last.index:
		return inconsistent("state ends at entry %d, behind the end of the log at %d", g.applied.index, l.last.index)
	case l.hard.commit > l.last.index:
		return inconsistent("entry %d is committed, but the log ends at %d", l.hard.commit, l.last.index)
	case l.hard.term < l.last.term:
		return inconsistent("log ends in term %d, but the newest known term is %d", l.last.term, l.hard.term)
	case len(l.conf.GetVoters()) == 0:
		return inconsistent("no voters")
	}
	return nil
}

func (d *Driver) newNode(g *group) (node *raft.RawNode, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = inconsistent("%v", r)
		}
	}()
	return raft.NewRawNode(&raft.Config{
		ID:                        uint64(d.cfg.Node),
		ElectionTick:              d.cfg.ElectionTicks,
		HeartbeatTick:             d.cfg.HeartbeatTicks,
		Storage:                   g.log,
		Applied:                   g.applied.index,
		AsyncStorageWrites:        true,
		MaxSizePerMsg:             maxSizePerMsg,
		MaxCommittedSizePerReady:  maxCommittedSizePerTake,
		MaxUncommittedEntriesSize: maxUncommittedSize,
		MaxInflightMsgs:           maxInflightMsgs,
		MaxInflightBytes:          maxInflightBytes,
		CheckQuorum:               true,
		PreVote:                   true,
		DisableProposalForwarding: true,
		StepDownOnRemoval:         true,
		Logger:                    &raftLogger{logger: d.logger.With(slog.Uint64("shard", uint64(g.id)))},
	})
}
