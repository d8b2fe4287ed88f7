package replica

import (
	"slices"
	"sync"

	"go.etcd.io/raft/v3/raftpb"
)

// mail is the work that waits for the raft loop.
type mail struct {
	appended []appended
	applied  []applied
	messages []Message
	// unreachable holds each node once.
	unreachable []NodeID
	calls       []func()
	reads       []*read
	proposals   []*proposal
}

// appended reports to the loop that a storage message of a group is durable.
type appended struct {
	group     *group
	entries   []*raftpb.Entry
	snapshot  *raftpb.Snapshot
	responses []*raftpb.Message
}

// applied reports to the loop how far a group's state has advanced.
type applied struct {
	group     *group
	at        position
	confs     int
	responses []*raftpb.Message
}

// reset keeps the slices and drops what they point to.
func (m *mail) reset() {
	m.appended = wiped(m.appended)
	m.applied = wiped(m.applied)
	m.messages = wiped(m.messages)
	m.unreachable = wiped(m.unreachable)
	m.calls = wiped(m.calls)
	m.reads = wiped(m.reads)
	m.proposals = wiped(m.proposals)
}

func wiped[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// inbox collects mail for the raft loop. Messages are bounded here, proposals and reads by their callers, the rest by what raft has in flight.
type inbox struct {
	mu          sync.Mutex
	mail        mail
	closed      bool
	maxMessages int
	wake        chan struct{}
}

func newInbox(maxMessages int) *inbox {
	return &inbox{maxMessages: maxMessages, wake: make(chan struct{}, 1)}
}

// take swaps the mail with an empty one.
func (b *inbox) take(into *mail) {
	b.mu.Lock()
	b.mail, *into = *into, b.mail
	b.mu.Unlock()
}

// close refuses further mail; what is queued can still be taken.
func (b *inbox) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
}

func (b *inbox) signal() {
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// put adds mail and wakes the loop. false: the inbox is closed, and nothing was added.
func (b *inbox) put(add func(*mail)) bool {
	b.mu.Lock()
	ok := !b.closed
	if ok {
		add(&b.mail)
	}
	b.mu.Unlock()
	b.signal()
	return ok
}

func (b *inbox) propose(p *proposal) bool {
	return b.put(func(m *mail) { m.proposals = append(m.proposals, p) })
}

func (b *inbox) read(r *read) bool { return b.put(func(m *mail) { m.reads = append(m.reads, r) }) }

func (b *inbox) call(f func()) bool { return b.put(func(m *mail) { m.calls = append(m.calls, f) }) }

func (b *inbox) reportUnreachable(node NodeID) {
	b.put(func(m *mail) {
		if !slices.Contains(m.unreachable, node) {
			m.unreachable = append(m.unreachable, node)
		}
	})
}

// deliver returns how many messages did not fit.
func (b *inbox) deliver(msgs []Message) int {
	b.mu.Lock()
	room := max(b.maxMessages-len(b.mail.messages), 0)
	if b.closed {
		room = 0
	}
	taken := min(room, len(msgs))
	b.mail.messages = append(b.mail.messages, msgs[:taken]...)
	b.mu.Unlock()
	b.signal()
	return len(msgs) - taken
}

func (b *inbox) pushAppended(done []appended) {
	b.mu.Lock()
	b.mail.appended = append(b.mail.appended, done...)
	b.mu.Unlock()
	b.signal()
}

func (b *inbox) pushApplied(done []applied) {
	b.mu.Lock()
	b.mail.applied = append(b.mail.applied, done...)
	b.mu.Unlock()
	b.signal()
}
