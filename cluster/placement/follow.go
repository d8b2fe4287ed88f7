package placement

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/cluster"
	"parley/proto/conversationpb"
	"parley/proto/nodepb"
)

// subscription is a follow of a conversation of another node.
type subscription struct {
	sink   follow.Sink
	quit   atomic.Bool // the sink wants no more changes; may be set from any goroutine, also by the sink
	cancel func()      // ends the follow; nil until it has begun

	mu     sync.Mutex // serializes calls of the sink
	number uint64     // of the newest change received
	closed bool
}

// Follow subscribes to a conversation of another node: it returns a snapshot, then the sink gets all changes after it, in order
// and once each. ctx bounds the set-up only. The sink is closed when the link breaks or a change is missing.
func (s *System) Follow(ctx context.Context, to cluster.Owner, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	var sub *subscription
	response, err := s.carry(ctx, to.Node, uint32(to.Shard), func(on *session, passTo string) (*nodepb.Response, error) {
		sub = &subscription{sink: sink}
		return s.followOver(ctx, on, &nodepb.Follow{
			Shard: uint32(to.Shard), Epoch: uint64(to.Epoch), Conversation: id, PassTo: passTo, Expected: expected.In(ctx),
		}, sub)
	})
	if err != nil {
		return nil, nil, err
	}
	reply, err := s.replyOf(to.Node, response)
	if err == nil {
		if snapshot, ok := reply.(*conversationpb.Snapshot); ok {
			return snapshot, sub.cancel, nil
		}
		err = fmt.Errorf("node %s answered a follow with a %T", to.Node, reply)
	}
	if sub.cancel != nil {
		sub.cancel()
	}
	return nil, nil, err
}

// followOver starts a follow over a connection. It has started if the answer is a reply.
func (s *System) followOver(ctx context.Context, on *session, question *nodepb.Follow, sub *subscription) (*nodepb.Response, error) {
	question.Id = s.ids.Add(1)
	if deadline, bounded := ctx.Deadline(); bounded {
		question.TimeoutNs = max(int64(time.Until(deadline)), 1)
	}
	w := waiting{on: on, id: question.GetId(), shard: question.GetShard(), process: gateOf(question.GetShard())}
	response, err := w.exchange(ctx, &nodepb.Envelope{Body: &nodepb.Envelope_Follow{Follow: question}}, callBytes, sub)
	if err != nil || response.GetReply() == nil {
		sub.quit.Store(true)
		w.forget()
		return response, err
	}
	sub.cancel = func() {
		if !sub.quit.Swap(true) && w.forget() {
			w.abandon()
		}
	}
	return response, nil
}

// receiveNews passes changes of followed conversations to their sinks.
func (l *link) receiveNews(batch *nodepb.Batch) {
	for _, news := range batch.GetNews() {
		id := news.GetFollow()
		l.mu.Lock()
		sub := l.state.follows[id]
		l.mu.Unlock()
		switch {
		case sub == nil:
			// It has ended here, and the other side does not know that yet.
			l.dropFollow(id)
		case !sub.hear(news):
			l.dropFollow(id)
			sub.close(&lostError{node: l.name, why: "news of a conversation is missing"})
		case news.GetClosed() != nil:
			l.mu.Lock()
			l.forgetFollowLocked(id)
			l.mu.Unlock()
			sub.close(l.system.decode(l.name, news.GetClosed()))
		}
	}
	l.acknowledge(batch.GetSent())
}

func (l *link) forgetFollowLocked(id uint64) {
	if l.state.follows[id] != nil {
		delete(l.state.follows, id)
		l.system.metrics.follows.Dec()
	}
}

// dropFollow ends a follow on the other side.
func (l *link) dropFollow(id uint64) {
	l.mu.Lock()
	l.forgetFollowLocked(id)
	on := l.state.session
	l.mu.Unlock()
	if on != nil {
		on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Abandon{Abandon: &nodepb.Abandon{Id: id}}}, beatBytes)
	}
}

// acknowledge makes room for more news on the other side, once for several batches.
func (l *link) acknowledge(sent uint64) {
	l.mu.Lock()
	l.state.received = max(l.state.received, sent)
	due := l.state.received-l.state.acked >= uint64(l.system.config.NewsWindow/4)
	on := l.state.session
	if due && on != nil {
		l.state.acked = l.state.received
	}
	received := l.state.received
	l.mu.Unlock()
	if due && on != nil {
		on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Ack{Ack: &nodepb.Ack{Received: received}}}, beatBytes)
	}
}

// hear passes news to the sink; false if changes before it are missing.
func (f *subscription) hear(news *nodepb.News) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return true
	}
	if len(news.GetChanges()) > 0 && news.GetFirst() != f.number+1 {
		return false
	}
	for _, change := range news.GetChanges() {
		if f.quit.Load() {
			return true
		}
		f.number++
		f.sink.Change(change)
	}
	return true
}

// close closes the sink.
func (f *subscription) close(reason error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.quit.Load() {
		return
	}
	f.closed = true
	f.sink.Closed(reason)
}
