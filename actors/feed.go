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

// FeedsConfig is what Feeds needs. Zero values mean the defaults.
type FeedsConfig struct {
	// MaxFollowers bounds the followers of one conversation. The edge has one for all its clients. Default 1024.
	MaxFollowers int
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// Feeds are the live streams of the conversations that this node owns. A feed exists while somebody follows the
// conversation or a turn streams into it, whether or not the conversation's actor is active. Durable events come from
// the actor after each commit, text straight from the turn: no mailbox between a model's token and a follower.
//
// Text is published only while no other node can have owned the shard for longer than a lease: what comes later waits
// for a new proof of ownership. So the next owner knows when a former one has fallen silent, even one that was paused.
//
// What a follower hears, in this order and once each: every event after its snapshot's last_seq; and of the active
// run, after its RunStarted or the snapshot's text, every piece of text before the events that end the run.
type Feeds struct {
	max       int
	seed      maphash.Seed
	shelves   [feedShelves]shelf
	followers prometheus.Gauge
	live      prometheus.Gauge

	lease    time.Duration // how old the newest proof of ownership may be for text to be published; 0 = any age
	tenures  sync.Map      // shard -> *tenure, in force now or last
	governed atomic.Bool   // a system says which shards are owned
}

const feedShelves = 64

// shelf is a part of the registry. Its lock is taken inside a feed's lock, never around it.
type shelf struct {
	mu    sync.RWMutex
	feeds map[string]*feed
}

// NewFeeds returns an empty registry.
func NewFeeds(config FeedsConfig) *Feeds {
	orDefault(&config.MaxFollowers, 1024)
	f := &Feeds{
		max:  config.MaxFollowers,
		seed: maphash.MakeSeed(),
		followers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_followers", Help: "Live follows of conversations on this node.",
		}),
		live: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_feeds", Help: "Conversations that somebody follows or a turn streams into.",
		}),
	}
	for i := range f.shelves {
		f.shelves[i].feeds = make(map[string]*feed)
	}
	if config.Registerer != nil {
		config.Registerer.MustRegister(f.followers, f.live)
	}
	return f
}

// feed is the live stream of one conversation.
type feed struct {
	registry *Feeds
	shard    uint32
	id       string
	quitters atomic.Int32 // followers that have cancelled and are still listed

	mu        sync.Mutex
	followers []*follower
	run       *output // the active run, nil = none
	lastSeq   uint64  // newest event published here, 0 = none yet
	epoch     uint64  // of the newest commit published here
	closed    bool    // out of the registry
}

// follower is one subscription. It hears nothing until it is ready: its snapshot covers what was before.
type follower struct {
	feed   *feed
	sink   follow.Sink
	ready  bool
	cursor uint64 // newest event it knows of
	reason error  // why it was closed
	quit   atomic.Bool
}

func (f *Feeds) shelf(id string) *shelf {
	return &f.shelves[maphash.String(f.seed, id)%feedShelves]
}

func (f *Feeds) find(id string) *feed {
	s := f.shelf(id)
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.feeds[id]
}

// lock returns the conversation's feed, locked, and makes it when there is none.
func (f *Feeds) lock(shard uint32, id string) *feed {
	s := f.shelf(id)
	for {
		s.mu.Lock()
		fd := s.feeds[id]
		if fd == nil {
			fd = &feed{registry: f, shard: shard, id: id}
			s.feeds[id] = fd
			f.live.Inc()
		}
		s.mu.Unlock()
		fd.mu.Lock()
		if !fd.closed {
			return fd
		}
		fd.mu.Unlock() // removed between the two locks
	}
}

// unlock lets go of a feed, drops followers that have cancelled, and removes the feed when nothing is left to do.
func (fd *feed) unlock() {
	if fd.quitters.Load() > 0 {
		fd.dropLocked()
	}
	fd.removeIfIdleLocked()
	fd.mu.Unlock()
	fd.reap()
}

// reap drops followers that have cancelled unless somebody holds the lock, who will then do it: so a sink may cancel
// itself, and cancelling never waits.
func (fd *feed) reap() {
	for fd.quitters.Load() > 0 && fd.mu.TryLock() {
		fd.dropLocked()
		fd.removeIfIdleLocked()
		fd.mu.Unlock()
	}
}

func (fd *feed) dropLocked() {
	left := fd.followers[:0]
	for _, fl := range fd.followers {
		if fl.quit.Load() {
			fd.quitters.Add(-1)
			fd.registry.followers.Dec()
			continue
		}
		left = append(left, fl)
	}
	clear(fd.followers[len(left):])
	fd.followers = left
}

func (fd *feed) removeIfIdleLocked() {
	if fd.closed || fd.run != nil || len(fd.followers) > 0 {
		return
	}
	fd.closed = true
	s := fd.registry.shelf(fd.id)
	s.mu.Lock()
	delete(s.feeds, fd.id)
	s.mu.Unlock()
	fd.registry.live.Dec()
}

// register adds a follower that hears nothing yet.
func (f *Feeds) register(shard uint32, id string, sink follow.Sink) (*follower, error) {
	fd := f.lock(shard, id)
	defer fd.unlock()
	if len(fd.followers) >= f.max {
		return nil, unavailable(failure.TooManyFollowers)
	}
	fl := &follower{feed: fd, sink: sink}
	fd.followers = append(fd.followers, fl)
	f.followers.Inc()
	return fl, nil
}

// cancel ends a follow. It may be called from anywhere, also from the sink, and more than once.
func (fl *follower) cancel() {
	if fl.quit.CompareAndSwap(false, true) {
		fl.feed.quitters.Add(1)
		fl.feed.reap()
	}
}

// open makes a registered follower hear what comes, and returns what was before. The head was read after registering:
// an event that was published before is in it or in the log up to feed.lastSeq, one that is published later is newer
// than the head or dropped by the cursor. Where the head is newer than what was published, the head says which run is
// active, for the feed has yet to hear that its run ended.
func (fl *follower) open(epoch uint64, head *conversationpb.State) (*conversationpb.Snapshot, error) {
	fd := fl.feed
	fd.mu.Lock()
	defer fd.unlock()
	if fl.reason != nil {
		return nil, fl.reason
	}
	run := fd.run
	if run != nil {
		run.flushLocked("")
	}
	if head.GetLastSeq() >= fd.lastSeq && run != nil && head.GetLease().GetRunId() != run.runID {
		run = nil
	}
	fl.cursor = max(head.GetLastSeq(), fd.lastSeq)
	fl.ready = true
	snapshot := &conversationpb.Snapshot{Epoch: epoch, LastSeq: fl.cursor}
	if run != nil {
		snapshot.RunId, snapshot.Text, snapshot.UserMessage = run.runID, string(run.text[:run.sent]), run.userMessage
	}
	return snapshot, nil
}

// publish tells followers what became durable.
func (f *Feeds) publish(commit Commit, events []*conversationpb.Event) {
	fd := f.find(commit.ID)
	if fd == nil {
		return
	}
	fd.mu.Lock()
	defer fd.unlock()
	if fd.closed {
		return
	}
	if commit.After == nil {
		fd.closeLocked(failure.New(failurepb.Code_NOT_FOUND, failure.FollowedConversationDeleted))
		return
	}
	if len(events) == 0 {
		return
	}
	if fd.run != nil && endsRun(events, fd.run.runID) {
		fd.run.publishLocked("") // what is durable needs no other proof
	}
	fd.epoch = commit.Epoch
	fd.lastSeq = max(fd.lastSeq, events[len(events)-1].GetSeq())
	change := &conversationpb.Change{Epoch: commit.Epoch, Events: events}
	for _, fl := range fd.followers {
		fl.hear(change)
	}
	if fd.run != nil && endsRun(events, fd.run.runID) {
		fd.run = nil
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

// hear passes on the events that the follower does not know yet.
func (fl *follower) hear(change *conversationpb.Change) {
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

// reload compares the feed with a state that was read from the journal. Where that is ahead (an append whose outcome
// was not known has happened after all), followers have missed events: they are told to follow anew.
func (f *Feeds) reload(id string, head *conversationpb.State) {
	fd := f.find(id)
	if fd == nil {
		return
	}
	fd.mu.Lock()
	defer fd.unlock()
	fd.lastSeq = max(fd.lastSeq, head.GetLastSeq())
	for _, fl := range fd.followers {
		if fl.ready && fl.cursor < head.GetLastSeq() {
			fl.closeLocked(errMissed())
		}
	}
	if fd.run != nil && fd.run.runID != head.GetLease().GetRunId() {
		fd.run = nil
	}
}

func errMissed() error { return unavailable(failure.EventsMissed) }

// closeLocked ends every follow and takes the feed out of the registry. A turn that still runs streams to nobody.
func (fd *feed) closeLocked(reason error) {
	for _, fl := range fd.followers {
		fl.closeLocked(reason)
	}
	fd.run = nil
}

// closeLocked ends a follow from this side.
func (fl *follower) closeLocked(reason error) {
	if fl.reason == nil {
		fl.reason = reason
	}
	if fl.quit.Swap(true) {
		return
	}
	fl.feed.quitters.Add(1)
	if fl.ready {
		fl.sink.Closed(reason)
	}
}

// closeShard ends the streams of a shard that this node does not own any more under an epoch. What has begun to stream under a
// later one goes on: the node may own the shard again already.
func (f *Feeds) closeShard(shard uint32, epoch uint64, reason error) {
	f.visit(func(fd *feed) bool { return fd.shard == shard }, func(fd *feed) {
		run := fd.run
		fd.closeLocked(reason)
		if run != nil && run.epoch > epoch {
			fd.run = run
		}
	})
}

// close ends all streams.
func (f *Feeds) close(reason error) {
	f.visit(func(*feed) bool { return true }, func(fd *feed) { fd.closeLocked(reason) })
}

// visit shows the feeds that match, each locked.
func (f *Feeds) visit(match func(*feed) bool, show func(*feed)) {
	for i := range f.shelves {
		s := &f.shelves[i]
		var found []*feed
		s.mu.RLock()
		for _, fd := range s.feeds {
			if match(fd) {
				found = append(found, fd)
			}
		}
		s.mu.RUnlock()
		for _, fd := range found {
			fd.mu.Lock()
			show(fd)
			fd.unlock()
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
