package sse

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"parley/actors/core/expected"
	"parley/actors/machine"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

type topicState uint8

const (
	opening topicState = iota // no subscription; ready is open
	live
	closed
)

// topic is one followed conversation.
type topic struct {
	hub *Hub
	id  string

	expected bool // it was first followed before the conversation was made

	mu        sync.Mutex
	state     topicState
	ready     chan struct{} // closed when opening has ended
	err       error         // why it is closed
	endReason EndReason     // why it is closed, for streams that come late
	refs      int           // leases and streams
	idleSince time.Time     // when refs fell to 0
	sub       *subscription
	since     time.Time // start of the subscription
	flaps     int       // subscriptions in a row that did not last
	epoch     uint64
	lastSeq   uint64
	ring      ring
	run       Run
	gen       uint32 // version of the text: a new run, or text that does not continue what was sent
	followers []*follower
}

// bulkFrom is the number of followers from which a topic counts as mass fan-out.
const bulkFrom = 64

func newTopic(h *Hub, id string) *topic {
	return &topic{hub: h, id: id, ready: make(chan struct{})}
}

// lane is the lane of frames that go to all followers.
func (t *topic) lane() lane {
	if len(t.followers) >= bulkFrom {
		return bulk
	}
	return urgent
}

// attach adds a stream to the topic.
func (t *topic) attach(f *follower) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.over { // the client left before it was added
		return
	}
	if t.state == closed {
		f.end(t.endReason)
		return
	}
	f.at = int32(len(t.followers))
	t.followers = append(t.followers, f)
	if t.state == live {
		f.greet(t)
		if t.pump(f) {
			t.hub.catchup.add(f)
		}
	}
}

// change applies a change from upstream.
func (t *topic) change(s *subscription, change *conversationpb.Change) {
	t.mu.Lock()
	ok := t.sub != s || t.apply(change)
	t.mu.Unlock()
	if !ok {
		t.resync(s)
	}
}

// apply is false when the change does not continue what is known.
func (t *topic) apply(change *conversationpb.Change) bool {
	if epoch := change.GetEpoch(); epoch != 0 && t.epoch != 0 && epoch != t.epoch {
		return false
	}
	for _, event := range change.GetEvents() {
		if !t.event(event) {
			return false
		}
	}
	if started := change.GetRunStarted(); started != nil {
		t.begin(Run{ID: started.GetRunId(), UserMessage: started.GetUserMessage()})
	}
	if delta := change.GetDelta(); delta != nil {
		return t.delta(delta)
	}
	return true
}

// event fans out a durable event.
func (t *topic) event(event *conversationpb.Event) bool {
	seq := event.GetSeq()
	if seq <= t.lastSeq {
		return true
	}
	if seq != t.lastSeq+1 {
		return false
	}
	t.lastSeq = seq
	e := t.ring.push(event, t.hub.cfg.RingEvents, t.hub.cfg.RingBytes)
	if event.EndsText() && event.GetRunId() == t.run.ID {
		t.run = Run{}
	}
	on := t.lane()
	for _, f := range t.followers {
		if f.live && !f.over && f.cursor+1 == seq {
			f.deliver(e, on)
		}
	}
	return true
}

// begin makes a run the active one. A run that begins again (recovered) sends its text again.
func (t *topic) begin(run Run) {
	again := run.ID == t.run.ID
	t.gen++
	t.run = run
	if again {
		t.fanText()
	}
}

func (t *topic) delta(d *conversationpb.Delta) bool {
	if d.GetRunId() != t.run.ID || d.GetOffset() != uint64(len(t.run.Text)) {
		return false
	}
	t.run.Text = append(t.run.Text, d.GetText()...)
	t.fanText()
	return true
}

func (t *topic) fanText() {
	var cache renderedDeltas
	on := t.lane()
	for _, f := range t.followers {
		if f.live && !f.over {
			f.sendText(t, &cache, on)
		}
	}
}

// open makes the first subscription. A failure is reported at once to those who wait for it.
func (t *topic) open() {
	if err := t.subscribe(); err != nil {
		t.end(err, Lost)
	}
}

// unsubscribe ends a closed topic's subscription.
func (t *topic) unsubscribe() {
	t.mu.Lock()
	s := t.sub
	t.sub = nil
	t.close(errStopped, Stopping)
	t.mu.Unlock()
	if s != nil {
		s.cancel()
	}
}

// retire closes the topic to new streams and returns the present ones.
func (t *topic) retire() []*follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.close(errStopped, Stopping)
	return slices.Clone(t.followers)
}

// subscribe follows the conversation upstream and installs the result.
func (t *topic) subscribe() error {
	h := t.hub
	ctx, cancel := context.WithCancel(h.ctx)
	limit := time.AfterFunc(h.cfg.OpenTimeout, cancel)
	if t.unheard() {
		ctx = expected.Context(ctx)
	}
	s := &subscription{topic: t}
	snapshot, stop, err := h.upstream.Follow(ctx, t.id, s)
	if !limit.Stop() && err == nil {
		stop()
		err = context.DeadlineExceeded
	}
	if err != nil {
		cancel()
		return err
	}
	s.cancel = func() {
		stop()
		cancel()
	}
	s.begin(snapshot, t.missed(ctx, snapshot.GetLastSeq()))
	return nil
}

// unheard reports whether the conversation may still have to be made.
func (t *topic) unheard() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.expected && t.lastSeq == 0
}

// missed reads the events between the topic and a new snapshot once for all streams, if the ring can hold them.
func (t *topic) missed(ctx context.Context, last uint64) []*conversationpb.Event {
	t.mu.Lock()
	from := t.lastSeq
	wanted := len(t.followers) > 0
	t.mu.Unlock()
	if !wanted || last <= from || last-from > uint64(t.hub.cfg.RingEvents) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, t.hub.cfg.ReadTimeout)
	defer cancel()
	events, _, err := t.hub.upstream.Events(ctx, t.id, from, int(last-from))
	if err != nil {
		return nil // then every stream reads by itself
	}
	return events
}

// install makes a subscription the topic's current one. It is false if the topic has been closed meanwhile.
func (t *topic) install(s *subscription, snapshot *conversationpb.Snapshot, missed []*conversationpb.Event) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.state != opening {
		return false
	}
	for _, event := range missed {
		if event.GetSeq() <= snapshot.GetLastSeq() && !t.event(event) {
			break
		}
	}
	t.sub = s
	t.since = time.Now()
	t.epoch = snapshot.GetEpoch()
	if t.lastSeq != snapshot.GetLastSeq() {
		t.ring.clear()
		t.lastSeq = snapshot.GetLastSeq()
	}
	run := Run{ID: snapshot.GetRunId(), UserMessage: snapshot.GetUserMessage(), Text: []byte(snapshot.GetText())}
	if run.ID != t.run.ID || !bytes.HasPrefix(run.Text, t.run.Text) {
		t.gen++
	}
	t.run = run
	t.state = live
	close(t.ready)
	for _, f := range t.followers {
		f.greet(t)
		if f.live && f.cursor == t.lastSeq {
			f.sendText(t, nil, urgent)
			continue
		}
		f.live = false
		t.hub.catchup.add(f)
	}
	return true
}

// resync drops a subscription and makes the topic subscribe again.
func (t *topic) resync(s *subscription) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sub != s || t.state != live {
		return
	}
	t.sub = nil
	t.state = opening
	t.ready = make(chan struct{})
	t.hub.metrics.resyncs.Inc()
	// Not here: this is the upstream's callback.
	if !t.hub.group.spawn(func() {
		s.cancel()
		t.reopen()
	}) {
		t.close(errStopped, Stopping)
	}
}

// reopen subscribes again, with growing pauses, until it succeeds, the topic has no followers, or GiveUp has passed.
func (t *topic) reopen() {
	cfg := &t.hub.cfg
	t.mu.Lock()
	if time.Since(t.since) > cfg.RetryMax {
		t.flaps = 0
	} else {
		t.flaps++
	}
	tries := t.flaps // the first retry after a subscription that lasted is immediate
	t.mu.Unlock()
	for started := time.Now(); ; tries++ {
		if tries > 0 {
			pause := min(cfg.RetryMin<<min(tries-1, 20), cfg.RetryMax)
			if !t.hub.sleep(pause/2 + rand.N(pause)) {
				return
			}
		}
		if t.hub.closeIdle(t) {
			return
		}
		err := t.subscribe()
		switch {
		case err == nil:
			return
		case isGone(err):
			t.end(err, Deleted)
			return
		case time.Since(started) > cfg.GiveUp:
			t.hub.log.Warn("conversation cannot be followed", slog.String("conversation", t.id), slog.Any("err", err))
			t.end(err, Lost)
			return
		}
	}
}

// end closes the topic and all its streams.
func (t *topic) end(err error, why EndReason) {
	t.hub.forget(t)
	t.mu.Lock()
	s := t.sub
	t.sub = nil
	t.close(err, why)
	for _, f := range t.followers {
		f.end(why)
	}
	t.mu.Unlock()
	if s != nil {
		s.cancel()
	}
}

// close marks the topic as closed. The lock is held.
func (t *topic) close(err error, why EndReason) {
	if t.state == closed {
		return
	}
	if t.state == opening {
		close(t.ready)
	}
	t.state = closed
	t.err = err
	t.endReason = why
}

// isGone reports whether the conversation does not exist.
func isGone(err error) bool {
	var failure *machine.Failure
	return errors.As(err, &failure) && failure.Code == failurepb.Code_NOT_FOUND
}
