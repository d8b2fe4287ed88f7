package actors

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// LiveStreamsConfig is what LiveStreams needs. Zero values mean the defaults.
type LiveStreamsConfig struct {
	// MaxFollowers bounds the followers of one conversation. The edge has one for all its clients. Default 1024.
	MaxFollowers int
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// LiveStreams are the live streams of the conversations that this node owns. A live stream exists while somebody follows the
// conversation or a turn streams into it, whether or not the conversation's actor is active. Durable events come from
// the actor after each commit, text straight from the turn: no mailbox between a model's token and a follower.
//
// Text is published only while the lease holds, that is while the newest proof of ownership is young enough; later text
// waits for a new proof. So the next owner knows when a former one has stopped publishing, even if its process was paused.
//
// A follower receives, in order and exactly once: every event after its snapshot's last_seq; and all text of the active
// run that follows its RunStarted or the snapshot's text, before the events that end the run.
type LiveStreams struct {
	max       int
	seed      maphash.Seed
	buckets   [liveStreamBuckets]bucket
	followers prometheus.Gauge
	live      prometheus.Gauge

	lease    time.Duration // how old the newest proof of ownership may be for text to be published; 0 = any age
	feeds    atomic.Int64  // live streams that are feeds of lists
	terms    sync.Map      // shard -> *term, in force now or last
	governed atomic.Bool   // a System sets which shards are owned
}

const liveStreamBuckets = 64

// bucket is a part of the registry. Its lock is taken inside a live stream's lock, never around it.
type bucket struct {
	mu      sync.RWMutex
	streams map[string]*liveStream
}

// NewLiveStreams returns an empty registry.
func NewLiveStreams(config LiveStreamsConfig) *LiveStreams {
	orDefault(&config.MaxFollowers, 1024)
	r := &LiveStreams{
		max:  config.MaxFollowers,
		seed: maphash.MakeSeed(),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_followers", Help: "Live follows of conversations on this node.",
		}),
		live: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_feeds", Help: "Conversations that somebody follows or a turn streams into.",
		}),
	}
	for i := range r.buckets {
		r.buckets[i].streams = make(map[string]*liveStream)
	}
	if config.Registerer != nil {
		config.Registerer.MustRegister(r.followers, r.live)
	}
	return r
}

// liveStream is the live stream of one conversation.
type liveStream struct {
	registry *LiveStreams
	shard    uint32
	id       string
	quitters atomic.Int32 // followers that have cancelled and are still listed

	mu        sync.Mutex
	followers []*follower
	run       *output // the active run, nil = none
	feed      *feed   // nil = the stream is a conversation's
	lastSeq   uint64  // newest event published here, 0 = none yet
	epoch     uint64  // of the newest commit published here
	closed    bool    // out of the registry
}

// follower is one subscription. It receives nothing until it is ready: its snapshot covers everything before.
type follower struct {
	stream *liveStream
	sink   follow.Sink
	ready  bool
	cursor uint64 // seq of the newest event that it has received or that its snapshot covers
	reason error  // why it was closed
	quit   atomic.Bool
}

func (r *LiveStreams) bucket(id string) *bucket {
	return &r.buckets[maphash.String(r.seed, id)%liveStreamBuckets]
}

func (r *LiveStreams) find(id string) *liveStream {
	s := r.bucket(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.streams[id]
}

// lock returns the conversation's live stream, locked, and makes it when there is none.
func (r *LiveStreams) lock(shard uint32, id string) *liveStream {
	s := r.bucket(id)
	for {
		s.mu.Lock()
		ls := s.streams[id]
		if ls == nil {
			ls = &liveStream{registry: r, shard: shard, id: id}
			s.streams[id] = ls
			r.live.Inc()
		}
		s.mu.Unlock()
		ls.mu.Lock()
		if !ls.closed {
			return ls
		}
		ls.mu.Unlock() // removed between the two locks
	}
}

// unlock removes followers that have cancelled, removes the live stream itself when it is unused, and unlocks it.
func (ls *liveStream) unlock() {
	if ls.quitters.Load() > 0 {
		ls.dropLocked()
	}
	ls.removeIfIdleLocked()
	ls.mu.Unlock()
	ls.reap()
}

// reap removes followers that have cancelled, unless another goroutine holds the lock, which then does it on unlock. So a
// sink may cancel itself, and cancelling never blocks.
func (ls *liveStream) reap() {
	for ls.quitters.Load() > 0 && ls.mu.TryLock() {
		ls.dropLocked()
		ls.removeIfIdleLocked()
		ls.mu.Unlock()
	}
}

func (ls *liveStream) dropLocked() {
	left := ls.followers[:0]
	for _, fl := range ls.followers {
		if fl.quit.Load() {
			ls.quitters.Add(-1)
			ls.registry.followers.Dec()
			continue
		}
		left = append(left, fl)
	}
	clear(ls.followers[len(left):])
	ls.followers = left
}

func (ls *liveStream) removeIfIdleLocked() {
	if ls.closed || ls.run != nil || len(ls.followers) > 0 {
		return
	}
	ls.closed = true
	if ls.feed != nil {
		ls.registry.feeds.Add(-1)
		if ls.feed.pause != nil {
			ls.feed.pause.Stop()
		}
	}
	s := ls.registry.bucket(ls.id)
	s.mu.Lock()
	delete(s.streams, ls.id)
	s.mu.Unlock()
	ls.registry.live.Dec()
}

// register adds a follower that is not ready yet.
func (r *LiveStreams) register(shard uint32, id string, sink follow.Sink) (*follower, error) {
	ls := r.lock(shard, id)
	defer ls.unlock()
	if len(ls.followers) >= r.max {
		return nil, unavailable(failure.TooManyFollowers)
	}
	if ls.feed == nil && follow.IsFeed(id) {
		ls.feed = &feed{}
		r.feeds.Add(1)
	}
	fl := &follower{stream: ls, sink: sink}
	ls.followers = append(ls.followers, fl)
	r.followers.Inc()
	return fl, nil
}

// cancel ends a follow. It may be called from anywhere, also from the sink, and more than once.
func (fl *follower) cancel() {
	if fl.quit.CompareAndSwap(false, true) {
		fl.stream.quitters.Add(1)
		fl.stream.reap()
	}
}

// open makes a registered follower ready and returns its snapshot. The head was read after registering: an event that was
// published earlier is covered by the head or by liveStream.lastSeq, and one that is published later is newer than the
// head or dropped by the cursor. If the head is newer than the newest published event, the head decides which run is
// active, because the live stream has not been notified yet that its run ended.
func (fl *follower) open(epoch uint64, head *conversationpb.State) (*conversationpb.Snapshot, error) {
	ls := fl.stream
	ls.mu.Lock()
	defer ls.unlock()
	if fl.reason != nil {
		return nil, fl.reason
	}
	run := ls.run
	if run != nil {
		run.flushLocked("")
	}
	if head.GetLastSeq() >= ls.lastSeq && run != nil && head.GetLease().GetRunId() != run.runID {
		run = nil
	}
	fl.cursor = max(head.GetLastSeq(), ls.lastSeq)
	fl.ready = true
	snapshot := &conversationpb.Snapshot{Epoch: epoch, LastSeq: fl.cursor}
	if run != nil {
		snapshot.RunId, snapshot.Text, snapshot.UserMessage = run.runID, string(run.text[:run.sent]), run.userMessage
	}
	return snapshot, nil
}

// publish sends durable events to the followers.
func (r *LiveStreams) publish(commit Commit, events []*conversationpb.Event) {
	ls := r.find(commit.ID)
	if ls == nil {
		return
	}
	ls.mu.Lock()
	defer ls.unlock()
	if ls.closed {
		return
	}
	if commit.After == nil {
		ls.closeLocked(failure.New(failurepb.Code_NOT_FOUND, failure.FollowedConversationDeleted))
		return
	}
	if len(events) == 0 {
		return
	}
	if ls.run != nil && endsRun(events, ls.run.runID) {
		ls.run.publishLocked("") // the append has proved the ownership
	}
	ls.epoch = commit.Epoch
	ls.lastSeq = max(ls.lastSeq, events[len(events)-1].GetSeq())
	change := &conversationpb.Change{Epoch: commit.Epoch, Events: events}
	for _, fl := range ls.followers {
		fl.deliver(change)
	}
	if ls.run != nil && endsRun(events, ls.run.runID) {
		ls.run = nil
	}
}

func endsRun(events []*conversationpb.Event, run string) bool {
	for _, event := range events {
		if event.EndsText() && event.GetRunId() == run {
			return true
		}
	}
	return false
}

// deliver passes on the events that the follower has not received yet.
func (fl *follower) deliver(change *conversationpb.Change) {
	if !fl.ready || fl.quit.Load() {
		return
	}
	events := change.GetEvents()
	known := 0
	for known < len(events) && events[known].GetSeq() <= fl.cursor {
		known++
	}
	switch known {
	case len(events):
		return
	case 0:
	default:
		change = &conversationpb.Change{Epoch: change.GetEpoch(), Events: events[known:]}
	}
	if events[known].GetSeq() != fl.cursor+1 {
		fl.closeLocked(errMissed())
		return
	}
	fl.cursor = events[len(events)-1].GetSeq()
	fl.sink.Change(change)
}

// reload compares the live stream with a state that was read from the journal. If the state is ahead (an append with an
// unknown outcome was applied after all), followers have missed events and are closed, so that they follow again.
func (r *LiveStreams) reload(id string, head *conversationpb.State) {
	ls := r.find(id)
	if ls == nil {
		return
	}
	ls.mu.Lock()
	defer ls.unlock()
	ls.lastSeq = max(ls.lastSeq, head.GetLastSeq())
	for _, fl := range ls.followers {
		if fl.ready && fl.cursor < head.GetLastSeq() {
			fl.closeLocked(errMissed())
		}
	}
	if ls.run != nil && ls.run.runID != head.GetLease().GetRunId() {
		ls.run = nil
	}
}

func errMissed() error { return unavailable(failure.EventsMissed) }

// closeLocked ends every follow, after which the live stream is removed from the registry. A turn that still runs has no
// followers.
func (ls *liveStream) closeLocked(reason error) {
	for _, fl := range ls.followers {
		fl.closeLocked(reason)
	}
	ls.run = nil
}

// closeLocked ends a follow from this side.
func (fl *follower) closeLocked(reason error) {
	if fl.reason == nil {
		fl.reason = reason
	}
	if fl.quit.Swap(true) {
		return
	}
	fl.stream.quitters.Add(1)
	if fl.ready {
		fl.sink.Closed(reason)
	}
}

// closeShard closes the live streams of a shard whose ownership under an epoch has ended. Runs of a later epoch go on: the
// node may own the shard again already.
func (r *LiveStreams) closeShard(shard uint32, epoch uint64, reason error) {
	r.visit(func(ls *liveStream) bool { return ls.shard == shard }, func(ls *liveStream) {
		run := ls.run
		ls.closeLocked(reason)
		if run != nil && run.epoch > epoch {
			ls.run = run
		}
	})
}

// close ends all streams.
func (r *LiveStreams) close(reason error) {
	r.visit(func(*liveStream) bool { return true }, func(ls *liveStream) { ls.closeLocked(reason) })
}

// visit calls show with each live stream that matches, locked.
func (r *LiveStreams) visit(match func(*liveStream) bool, show func(*liveStream)) {
	for i := range r.buckets {
		s := &r.buckets[i]
		var found []*liveStream
		s.mu.RLock()
		for _, ls := range s.streams {
			if match(ls) {
				found = append(found, ls)
			}
		}
		s.mu.RUnlock()
		for _, ls := range found {
			ls.mu.Lock()
			show(ls)
			ls.unlock()
		}
	}
}

func eventsOf(messages []proto.Message) []*conversationpb.Event {
	events := make([]*conversationpb.Event, 0, len(messages))
	for _, m := range messages {
		if event, ok := m.(*conversationpb.Event); ok {
			events = append(events, event)
		}
	}
	return events
}
