package replica

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// entryOverhead stands for the fields around an entry's data when sizes are added up.
const entryOverhead = 32

// groupLog is the durable log of one group as raft sees it. Only the raft loop touches it; what the append goroutine has staged is not in it
// until its batch is committed. The newest entries are held in memory, older ones are read from Pebble.
type groupLog struct {
	db   *pebble.DB
	keys groupKeys

	// What raft reads when it starts.
	hard hardState
	conf *raftpb.ConfState

	// start is the last position that has been cut, last the newest one.
	start, last position
	// tail ends at last. Slices of it are handed out, so its elements are never overwritten in place.
	tail      []*raftpb.Entry
	tailBytes int
	tailLimit int
	// bytes is about the size of all entries, to know when to cut.
	bytes uint64

	snapshot func() (*raftpb.Snapshot, error)
}

var _ raft.Storage = (*groupLog)(nil)

// InitialState implements raft.Storage.
func (l *groupLog) InitialState() (*raftpb.HardState, *raftpb.ConfState, error) {
	return &raftpb.HardState{Term: new(l.hard.term), Vote: new(l.hard.vote), Commit: new(l.hard.commit)}, raftpb.EnsureConfState(l.conf), nil
}

// FirstIndex implements raft.Storage.
func (l *groupLog) FirstIndex() (uint64, error) { return l.start.index + 1, nil }

// LastIndex implements raft.Storage.
func (l *groupLog) LastIndex() (uint64, error) { return l.last.index, nil }

// Snapshot implements raft.Storage.
func (l *groupLog) Snapshot() (*raftpb.Snapshot, error) { return l.snapshot() }

// Term implements raft.Storage.
func (l *groupLog) Term(index uint64) (uint64, error) {
	switch {
	case index < l.start.index:
		return 0, raft.ErrCompacted
	case index == l.start.index:
		return l.start.term, nil
	case index == l.last.index:
		return l.last.term, nil
	case index > l.last.index:
		return 0, raft.ErrUnavailable
	case index >= l.tailFirst():
		return l.tail[index-l.tailFirst()].GetTerm(), nil
	}
	row, closer, err := l.db.Get(l.keys.entry(index))
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, raft.ErrUnavailable
	}
	if err != nil {
		return 0, fmt.Errorf("read log entry: %w", err)
	}
	defer closer.Close() //nolint:errcheck // a Get's closer has nothing to say
	e, err := parseEntryRow(index, row)
	if err != nil {
		return 0, err
	}
	return e.GetTerm(), nil
}

// Entries implements raft.Storage.
func (l *groupLog) Entries(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	switch {
	case lo <= l.start.index:
		return nil, raft.ErrCompacted
	case hi > l.last.index+1:
		return nil, raft.ErrUnavailable
	case lo < l.tailFirst():
		return l.read(lo, hi, maxSize)
	}
	first := l.tailFirst()
	entries := l.tail[lo-first : hi-first : hi-first]
	var size uint64
	for i, e := range entries {
		size += entrySize(e)
		if size > maxSize && i > 0 {
			return entries[:i:i], nil
		}
	}
	return entries, nil
}

func (l *groupLog) read(lo, hi, maxSize uint64) ([]*raftpb.Entry, error) {
	it, err := l.db.NewIter(&pebble.IterOptions{LowerBound: l.keys.entry(lo), UpperBound: l.keys.entry(hi)})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	defer it.Close() //nolint:errcheck // it.Error is checked below
	var entries []*raftpb.Entry
	var size uint64
	for ok := it.First(); ok; ok = it.Next() {
		index, err := l.keys.entryIndex(it.Key())
		if err != nil {
			return nil, err
		}
		if index != lo+uint64(len(entries)) {
			return nil, inconsistent("log jumps from %d to %d", lo+uint64(len(entries)), index)
		}
		e, err := parseEntryRow(index, it.Value())
		if err != nil {
			return nil, err
		}
		size += entrySize(e)
		if size > maxSize && len(entries) > 0 {
			break
		}
		entries = append(entries, e)
	}
	if err := it.Error(); err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	if len(entries) == 0 {
		return nil, raft.ErrUnavailable
	}
	return entries, nil
}

// committed makes entries visible after their batch has been committed. They may replace a conflicting suffix.
func (l *groupLog) committed(entries []*raftpb.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	first := entries[0].GetIndex()
	if first > l.last.index+1 || first <= l.start.index {
		return inconsistent("entries from %d do not fit a log of %d to %d", first, l.start.index+1, l.last.index)
	}
	if first <= l.last.index {
		keep := 0
		if first > l.tailFirst() {
			keep = int(first - l.tailFirst())
		}
		for _, e := range l.tail[keep:] {
			l.tailBytes -= int(entrySize(e))
		}
		l.tail = l.tail[:keep:keep]
	}
	l.tail = append(l.tail, entries...)
	for _, e := range entries {
		l.tailBytes += int(entrySize(e))
		l.bytes += entrySize(e)
	}
	newest := entries[len(entries)-1]
	l.last = position{index: newest.GetIndex(), term: newest.GetTerm()}
	l.trimTail(l.tailLimit)
	return nil
}

// trimTail drops the oldest entries of the tail; their memory is freed when append next moves the slice.
func (l *groupLog) trimTail(limit int) {
	n := 0
	for ; n < len(l.tail) && l.tailBytes > limit; n++ {
		l.tailBytes -= int(entrySize(l.tail[n]))
	}
	if n == len(l.tail) {
		l.tail = nil
		return
	}
	l.tail = l.tail[n:]
}

// cut drops everything up to and including index.
func (l *groupLog) cut(to position) {
	total := l.last.index - l.start.index
	l.bytes = l.bytes / max(total, 1) * (l.last.index - to.index)
	for len(l.tail) > 0 && l.tailFirst() <= to.index {
		l.tailBytes -= int(entrySize(l.tail[0]))
		l.tail = l.tail[1:]
	}
	l.start = to
}

// reset empties the log after a snapshot has been installed.
func (l *groupLog) reset(to position) {
	l.start, l.last = to, to
	l.tail, l.tailBytes, l.bytes = nil, 0, 0
}

func (l *groupLog) tailFirst() uint64 { return l.last.index + 1 - uint64(len(l.tail)) }

func entrySize(e *raftpb.Entry) uint64 { return uint64(len(e.GetData())) + entryOverhead }

// trimApplied drops applied entries from the tail, on a node without followers.
func (l *groupLog) trimApplied(index uint64) {
	if index >= l.last.index {
		l.tail, l.tailBytes = nil, 0
		return
	}
	for len(l.tail) > 0 && l.tailFirst() <= index {
		l.tailBytes -= int(entrySize(l.tail[0]))
		l.tail = l.tail[1:]
	}
}
