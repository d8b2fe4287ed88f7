package placement

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/expected"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// publication is a follow of another node on an entity of this one. It is the shell's sink: changes wait in it until the link's
// pump sends them.
type publication struct {
	link *link
	id   uint64
	in   uint32
	stop context.CancelFunc // ends the context of the follow

	mu      sync.Mutex
	cancel  func()           // ends the follow; nil until it has started
	open    bool             // the snapshot has been sent: changes may follow
	over    bool             // nobody waits for changes any more
	closed  *nodepb.Response // why the follow ended; sent after the waiting changes
	waiting []waitingChange
	bytes   int
	listed  bool   // in the pump's list
	number  uint64 // of the newest change that was sent
}

// waitingChange is a change, or merged deltas of text that continue one another.
type waitingChange struct {
	change *conversationpb.Change
	text   *strings.Builder // the merged text; nil = nothing was merged
	bytes  int
}

// mergedText bounds the merged text of one change.
const mergedText = 32 << 10

// changeBytes is the approximate size of a change without its text.
const changeBytes = 96

// publish starts a follow in a goroutine of its own.
func (l *link) publish(question *nodepb.Follow) {
	s := l.system
	ctx, stop := context.WithCancel(s.life)
	p := &publication{link: l, id: question.GetId(), in: question.GetShard(), stop: stop}
	l.mu.Lock()
	full := len(l.state.publications) >= s.config.Follows
	if !full {
		l.state.publications[p.id] = p
	}
	l.mu.Unlock()
	if full {
		stop()
		s.metrics.refused.Inc()
		l.answer(p.id, s.refusal(p.in, "too many conversations are followed"))
		return
	}
	s.metrics.publications.Inc()
	if why := s.admit(func() { p.begin(ctx, question) }); why != "" {
		l.abandoned(p.id)
		l.answer(p.id, s.refusal(p.in, why))
	}
}

func (p *publication) begin(ctx context.Context, question *nodepb.Follow) {
	l, s := p.link, p.link.system
	timeout := s.config.CallLimit
	if left := time.Duration(question.GetTimeoutNs()); left > 0 {
		timeout = min(timeout, left)
	}
	limit := time.AfterFunc(timeout, p.stop) // bounds the set-up only: the context lives as long as the follow
	response, cancel := p.follow(ctx, question)
	limit.Stop()
	if cancel == nil {
		l.abandoned(p.id)
		l.answer(p.id, response)
		return
	}
	p.mu.Lock()
	p.cancel = cancel
	over := p.over
	p.mu.Unlock()
	if over {
		cancel()
		return
	}
	if !l.answer(p.id, response) {
		l.abandoned(p.id)
		return
	}
	p.mu.Lock()
	p.open = true
	p.listLocked()
	p.mu.Unlock()
}

// follow starts the follow, here or at the node that it is addressed to. cancel is nil if it has not started.
func (p *publication) follow(ctx context.Context, question *nodepb.Follow) (response *nodepb.Response, cancel func()) {
	s := p.link.system
	if to := question.GetPassTo(); to != "" && to != s.config.Name {
		return s.passFollowOn(ctx, question, p)
	}
	if question.GetExpected() {
		ctx = expected.Context(ctx)
	}
	snapshot, cancel, err := s.config.Serve.Follow(ctx, question.GetShard(), question.GetConversation(), p)
	if err != nil {
		return s.encode(question.GetShard(), err), nil
	}
	return s.reply(snapshot), cancel
}

// Change implements follow.Sink.
func (p *publication) Change(change *conversationpb.Change) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.closed != nil {
		return
	}
	// Protobuf strings must be UTF-8: the engine would silently drop the whole batch.
	if !utf8.ValidString(change.GetDelta().GetText()) {
		p.dropLocked()
		p.closed = fault("text that is not UTF-8 cannot be passed on")
		p.listLocked()
		return
	}
	size := p.addLocked(change)
	p.bytes += size
	limits := &p.link.system.config
	if total := p.link.pump.waiting.Add(int64(size)); len(p.waiting) > limits.FollowChanges || p.bytes > limits.FollowBytes || total > int64(limits.NewsBytes) {
		p.dropLocked()
		p.closed = fault("the follower fell behind")
		p.link.system.metrics.overflows.Inc()
	}
	p.listLocked()
}

// addLocked queues a change and returns its size. Text that continues the last change is merged into it.
func (p *publication) addLocked(change *conversationpb.Change) (size int) {
	delta := change.GetDelta()
	plain := delta != nil && len(change.GetEvents()) == 0 && change.GetRunStarted() == nil
	if plain && p.mergeLocked(change) {
		return len(delta.GetText())
	}
	if plain {
		size = changeBytes + len(delta.GetText())
	} else {
		size = changeBytes + proto.Size(change)
	}
	p.waiting = append(p.waiting, waitingChange{change: change, bytes: size})
	return size
}

func (p *publication) mergeLocked(change *conversationpb.Change) bool {
	if len(p.waiting) == 0 {
		return false
	}
	last := &p.waiting[len(p.waiting)-1]
	before, delta := last.change.GetDelta(), change.GetDelta()
	if before == nil || len(last.change.GetEvents()) > 0 || last.change.GetRunStarted() != nil ||
		before.GetRunId() != delta.GetRunId() || last.change.GetEpoch() != change.GetEpoch() {
		return false
	}
	length := len(before.GetText())
	if last.text != nil {
		length = last.text.Len()
	}
	if before.GetOffset()+uint64(length) != delta.GetOffset() || length > mergedText {
		return false
	}
	if last.text == nil {
		last.text = &strings.Builder{}
		last.text.WriteString(before.GetText())
	}
	last.text.WriteString(delta.GetText())
	last.bytes += len(delta.GetText())
	return true
}

// Closed implements follow.Sink.
func (p *publication) Closed(reason error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.closed != nil {
		return
	}
	p.closed = p.link.system.encode(p.in, reason)
	p.listLocked()
}

// listLocked puts the publication on the pump's list if it has something to send.
func (p *publication) listLocked() {
	if p.open && !p.listed && !p.over && (len(p.waiting) > 0 || p.closed != nil) {
		p.listed = true
		p.link.pump.add(p)
	}
}

// dropLocked drops the waiting changes.
func (p *publication) dropLocked() {
	p.link.pump.waiting.Add(-int64(p.bytes))
	p.waiting, p.bytes = nil, 0
}

// portion is a part of a publication's waiting changes.
type portion struct {
	news *nodepb.News // nil = nothing waits
	size int
	more bool // changes are left
}

// take removes waiting changes up to about limit bytes.
func (p *publication) take(limit int) portion {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over {
		p.listed = false
		return portion{}
	}
	news := &nodepb.News{Follow: p.id, First: p.number + 1}
	size, taken := 0, 0
	for taken < len(p.waiting) && (taken == 0 || size < limit) {
		next := &p.waiting[taken]
		news.Changes = append(news.Changes, next.finish())
		size += next.bytes
		taken++
	}
	p.number += uint64(taken)
	clear(p.waiting[:taken])
	p.waiting = p.waiting[taken:]
	p.bytes -= size
	p.link.pump.waiting.Add(-int64(size))
	if len(p.waiting) > 0 {
		return portion{news: news, size: size, more: true}
	}
	p.waiting, p.listed = nil, false
	news.Closed = p.closed
	return portion{news: news, size: size + changeBytes}
}

func (w *waitingChange) finish() *conversationpb.Change {
	if w.text == nil {
		return w.change // shared with other followers: must not be modified
	}
	before := w.change.GetDelta()
	return &conversationpb.Change{
		Epoch: w.change.GetEpoch(),
		Delta: &conversationpb.Delta{RunId: before.GetRunId(), Offset: before.GetOffset(), Text: w.text.String()},
	}
}

// abandon ends the follow because nobody waits for its changes.
func (p *publication) abandon() {
	p.mu.Lock()
	over := p.over
	p.over = true
	p.dropLocked()
	cancel := p.cancel
	p.mu.Unlock()
	if over {
		return
	}
	p.stop()
	if cancel != nil {
		cancel()
	}
}
