package actors

import (
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

const (
	// feedPause is how long the rows of a feed wait for each other after some were sent: a session that changes all the time is told of
	// four times a second.
	feedPause = 250 * time.Millisecond
	// feedRows bounds the rows that wait. More of them are sent before the pause is over.
	feedRows = 256
)

// feed is the rows of a project's lists that change in a shard, for those who follow them. It is a live stream without events: rows wait
// here for each other, and the newest of an id is told.
type feed struct {
	rows  []*conversationpb.ListRow
	at    map[string]int // where in rows an id is
	epoch uint64
	pause *time.Timer // nil = none is under way
}

// List has a kind tell the feeds of projects of its rows in their lists. Where nobody follows any it costs one look at a number.
func (r *LiveStreams) List(kind *Kind) {
	before := kind.OnCommit
	kind.OnCommit = func(commit Commit) {
		if before != nil {
			before(commit)
		}
		if r.feeds.Load() > 0 {
			r.listed(commit)
		}
	}
}

// listed tells the feed of a project of a change, if it has one in this shard and the row looks different.
func (r *LiveStreams) listed(commit Commit) {
	was, _ := commit.Before.(listedState)
	is, _ := commit.After.(listedState)
	of := is
	if of == nil {
		of = was
	}
	if of == nil {
		return // of a kind that is in no list
	}
	ls := r.find(follow.Feed(commit.Shard, of.GetTenantId(), of.GetProjectId()))
	if ls == nil {
		return
	}
	old, row := rowOf(commit.Before), rowOf(commit.After)
	switch {
	case old == nil && row == nil:
		return
	case row == nil:
		row = &conversationpb.ListRow{Id: old.GetId(), Deleted: true, UserId: old.GetUserId(), LastSeq: old.GetLastSeq() + 1}
	case old != nil:
		old.LastSeq = row.GetLastSeq()
		if proto.Equal(old, row) {
			return
		}
	}
	ls.mu.Lock()
	defer ls.unlock()
	ls.addRowLocked(row, commit.Epoch)
}

// listedState is the state of an entity that lists of a project show.
type listedState interface {
	proto.Message
	GetTenantId() string
	GetProjectId() string
}

// rowOf is a row of the lists, nil for what is in none.
func rowOf(state proto.Message) *conversationpb.ListRow {
	switch s := state.(type) {
	case *conversationpb.State:
		if s.IsSession() {
			return s.ListRow()
		}
	case *runpb.State:
		if s != nil {
			return s.ListRow()
		}
	}
	return nil
}

func (ls *liveStream) addRowLocked(row *conversationpb.ListRow, epoch uint64) {
	f := ls.feed
	if f == nil || ls.closed {
		return
	}
	f.epoch = epoch
	if at, waits := f.at[row.GetId()]; waits {
		f.rows[at] = row
	} else {
		if f.at == nil {
			f.at = make(map[string]int)
		}
		f.at[row.GetId()] = len(f.rows)
		f.rows = append(f.rows, row)
	}
	if f.pause == nil || len(f.rows) >= feedRows {
		ls.sendRowsLocked()
	}
}

// sendRowsLocked sends the rows that wait, and begins a pause.
func (ls *liveStream) sendRowsLocked() {
	f := ls.feed
	change := &conversationpb.Change{Epoch: f.epoch, Rows: f.rows}
	f.rows = nil
	clear(f.at)
	for _, fl := range ls.followers {
		if fl.ready && !fl.quit.Load() {
			fl.sink.Change(change)
		}
	}
	if f.pause == nil {
		f.pause = time.AfterFunc(feedPause, ls.endPause)
	}
}

// endPause sends what has come in meanwhile.
func (ls *liveStream) endPause() {
	ls.mu.Lock()
	defer ls.unlock()
	f := ls.feed
	f.pause = nil
	if ls.closed || len(f.rows) == 0 {
		return
	}
	ls.sendRowsLocked()
}
