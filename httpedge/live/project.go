package live

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/proto/conversationpb"
)

const (
	// lead is how long the first rows after a pause wait for what changes with them; they are told on a goroutine that is nobody's turn.
	lead = 20 * time.Millisecond
	// pause is how long rows wait for each other after some were sent.
	pause = 500 * time.Millisecond
	// maxRows bounds the rows of a pause: when more changes, reading the lists anew is cheaper.
	maxRows = 200
	// resetGap is the shortest time between two resets. What is told meanwhile is dropped: the later one covers it.
	resetGap = 3 * time.Second
	// openWait is how long a stream waits until all shards are followed.
	openWait = time.Second
	// openTimeout bounds one attempt to follow a shard; the pauses between them grow from soonest to latest.
	openTimeout     = 10 * time.Second
	soonest, latest = 50 * time.Millisecond, 5 * time.Second
)

// reader is a topic of the hub.
type reader struct {
	topic  string
	sink   follow.Sink
	all    bool
	userID string
	sent   atomic.Uint64 // number of the newest event
}

// tell sends rows that the reader may see, or that some were missed.
func (r *reader) tell(listed *conversationpb.Listed) {
	if !r.all && !listed.GetReset_() {
		own := slices.DeleteFunc(slices.Clone(listed.GetRows()), func(row *conversationpb.ListRow) bool { return row.GetUserId() != r.userID })
		if len(own) == 0 {
			return
		}
		listed = &conversationpb.Listed{Rows: own}
	}
	event := &conversationpb.Event{Seq: r.sent.Add(1), Body: &conversationpb.Event_Listed{Listed: listed}}
	r.sink.Change(&conversationpb.Change{Epoch: topicEpoch, Events: []*conversationpb.Event{event}})
}

// project is the followed feeds of a project.
type project struct {
	feeds *Feeds
	place
	readers int // guarded by the feeds' lock

	ctx    context.Context //nolint:containedctx // of its follows
	cancel context.CancelFunc
	opened chan struct{} // closed when every shard was tried once

	mu      sync.Mutex
	joined  []*reader
	untried int               // shards
	cancels map[uint32]func() // of follows, by shard
	rows    map[string]*conversationpb.ListRow
	missed  bool        // a reset is due; then there are no rows
	reset   time.Time   // when the newest one was told
	pausing *time.Timer // nil = none is under way
	closed  bool
}

func newProject(f *Feeds, at place) *project {
	p := &project{
		feeds: f, place: at, untried: len(f.shards), opened: make(chan struct{}), cancels: make(map[uint32]func()),
		rows: make(map[string]*conversationpb.ListRow),
	}
	p.ctx, p.cancel = context.WithCancel(f.ctx)
	return p
}

func (p *project) openAll() {
	for _, shard := range p.feeds.shards {
		p.feeds.spawn(func() { p.open(shard, 0) })
	}
}

// await waits until the shards are followed, and not for long where one cannot be.
func (p *project) await(ctx context.Context) error {
	timer := time.NewTimer(openWait)
	defer timer.Stop()
	select {
	case <-p.opened:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// open follows the feed of a shard, and tries again until it succeeds.
func (p *project) open(shard uint32, tries int) {
	if p.ctx.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(expected.Context(p.ctx), openTimeout)
	defer cancel()
	s := &shardSink{project: p, shard: shard}
	end, err := p.feeds.follow(ctx, shard, p.tenantID, p.projectID, s)

	if !p.keep(s, end, err, tries) && err == nil {
		end()
	}
}

// keep takes note of a follow, or of its failure. It is false for one that is of no use any more.
func (p *project) keep(s *shardSink, end func(), err error, tries int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if tries == 0 {
		if p.untried--; p.untried == 0 {
			close(p.opened)
		}
	}
	if err != nil || s.over || p.closed {
		p.againLocked(s.shard, tries+1)
		return false
	}
	p.cancels[s.shard] = end
	if tries > 0 { // rows may have been missed since
		p.missLocked()
	}
	return true
}

// againLocked follows a shard again, a little later each time.
func (p *project) againLocked(shard uint32, tries int) {
	if p.closed {
		return
	}
	wait := min(soonest<<min(tries-1, 10), latest)
	time.AfterFunc(wait/2+rand.N(wait), func() {
		if p.ctx.Err() == nil {
			p.feeds.spawn(func() { p.open(shard, tries) })
		}
	})
}

// shardSink hears a shard's feed.
type shardSink struct {
	project *project
	shard   uint32
	over    bool // guarded by the project's lock
}

// Change implements follow.Sink.
func (s *shardSink) Change(change *conversationpb.Change) { s.project.add(change.GetRows()) }

// Closed implements follow.Sink.
func (s *shardSink) Closed(error) {
	p := s.project
	p.mu.Lock()
	defer p.mu.Unlock()
	s.over = true
	if _, followed := p.cancels[s.shard]; followed { // else open sees it
		delete(p.cancels, s.shard)
		p.againLocked(s.shard, 1)
	}
}

// add takes rows; the newest of an id is kept.
func (p *project) add(rows []*conversationpb.ListRow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.missed || len(rows) == 0 {
		return
	}
	for _, row := range rows {
		if known := p.rows[row.GetId()]; known == nil || known.GetLastSeq() <= row.GetLastSeq() {
			p.rows[row.GetId()] = row
		}
	}
	if len(p.rows) > maxRows {
		p.missLocked()
		return
	}
	if p.pausing == nil {
		p.pausing = time.AfterFunc(lead, p.endPause)
	}
}

// missLocked has the readers told that rows may have been missed, after a pause: a change of hands is one of several shards.
func (p *project) missLocked() {
	clear(p.rows)
	p.missed = true
	if p.pausing == nil {
		p.pausing = time.AfterFunc(pause, p.endPause)
	}
}

// tellLocked tells what there is, and begins a pause.
func (p *project) tellLocked() {
	listed := &conversationpb.Listed{Reset_: p.missed, Rows: slices.Collect(maps.Values(p.rows))}
	clear(p.rows)
	if p.missed {
		p.missed, p.reset = false, time.Now()
	}
	for _, r := range p.joined {
		r.tell(listed)
	}
	p.pausing = time.AfterFunc(pause, p.endPause)
}

func (p *project) endPause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pausing = nil
	switch {
	case p.closed || len(p.rows) == 0 && !p.missed:
	case p.missed && time.Since(p.reset) < resetGap:
		p.pausing = time.AfterFunc(pause, p.endPause)
	default:
		p.tellLocked()
	}
}

func (p *project) join(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = append(p.joined, r)
}

func (p *project) part(r *reader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.joined = slices.DeleteFunc(p.joined, func(other *reader) bool { return other == r })
}

// close ends the follows.
func (p *project) close() {
	p.cancel()
	p.mu.Lock()
	p.closed = true
	if p.pausing != nil {
		p.pausing.Stop()
	}
	ends := slices.Collect(maps.Values(p.cancels))
	clear(p.cancels)
	p.mu.Unlock()
	for _, end := range ends {
		end()
	}
}
