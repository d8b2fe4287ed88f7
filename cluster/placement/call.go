package placement

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"parley/cluster"
	"parley/proto/nodepb"
)

// call is a request that waits for its answer.
type call struct {
	sent int64       // clock
	done chan result // capacity 1; whoever removes the call from the link's map sends once
}

type result struct {
	response *nodepb.Response
	err      error
}

// Ask sends a command to an entity of another node.
func (s *System) Ask(ctx context.Context, to cluster.Owner, id string, command proto.Message) (proto.Message, error) {
	request := &nodepb.Request{Kind: nodepb.Kind_ASK, Shard: uint32(to.Shard), Epoch: uint64(to.Epoch), Id: id}
	return s.ask(ctx, to.Node, request, command)
}

// Read sends a query to a shard of another node.
func (s *System) Read(ctx context.Context, to cluster.Owner, query proto.Message) (proto.Message, error) {
	request := &nodepb.Request{Kind: nodepb.Kind_READ, Shard: uint32(to.Shard), Epoch: uint64(to.Epoch)}
	return s.ask(ctx, to.Node, request, query)
}

// Call sends a request to another node itself.
func (s *System) Call(ctx context.Context, node string, request proto.Message) (proto.Message, error) {
	return s.ask(ctx, node, &nodepb.Request{Kind: nodepb.Kind_CALL}, request)
}

func (s *System) ask(ctx context.Context, node string, request *nodepb.Request, body proto.Message) (proto.Message, error) {
	start := time.Now()
	reply, err := s.tryAsk(ctx, node, request, body)
	s.metrics.asked(request.GetKind(), err, time.Since(start))
	return reply, err
}

func (s *System) tryAsk(ctx context.Context, node string, request *nodepb.Request, body proto.Message) (proto.Message, error) {
	packed, err := anypb.New(body)
	if err != nil {
		return nil, fmt.Errorf("encode call: %w", err)
	}
	if len(packed.GetValue()) > s.config.MessageBytes {
		return nil, fmt.Errorf("a call of %d bytes is too large", len(packed.GetValue()))
	}
	request.Body = packed
	response, err := s.carry(ctx, node, request.GetShard(), func(on *session, passTo string) (*nodepb.Response, error) {
		if passTo == "" {
			return s.exchange(ctx, on, request)
		}
		// A new request: the engine may still be encoding the previous one.
		return s.exchange(ctx, on, &nodepb.Request{
			Kind: request.GetKind(), Shard: request.GetShard(), Epoch: request.GetEpoch(), Id: request.GetId(),
			Body: packed, PassTo: passTo,
		})
	})
	if err != nil {
		return nil, err
	}
	return s.replyOf(node, response)
}

// exchange sends a request over a connection and waits for the answer.
func (s *System) exchange(ctx context.Context, on *session, request *nodepb.Request) (*nodepb.Response, error) {
	if deadline, bounded := ctx.Deadline(); bounded {
		request.TimeoutNs = max(int64(time.Until(deadline)), 1)
	}
	id := s.ids.Add(1)
	process := nodeTarget
	if request.GetKind() != nodepb.Kind_CALL {
		process = gateOf(request.GetShard())
	}
	w := waiting{on: on, id: id, shard: request.GetShard(), process: process}
	return w.exchange(ctx, &nodepb.Envelope{Body: &nodepb.Envelope_Call{Call: &nodepb.Call{Id: id, Request: request}}},
		len(request.GetBody().GetValue())+callBytes, nil)
}

// callBytes is the approximate size of a call or an answer without its body.
const callBytes = 256

func (s *System) replyOf(node string, response *nodepb.Response) (proto.Message, error) {
	packed := response.GetReply()
	if packed == nil {
		return nil, s.decode(node, response)
	}
	reply, err := packed.UnmarshalNew()
	if err != nil {
		return nil, fmt.Errorf("decode answer of node %s: %w", node, err)
	}
	return reply, nil
}

// reach returns the connection to a node. It waits up to ReachWait for a connection that has just been lost, not for a node that
// has been down for longer.
func (s *System) reach(ctx context.Context, node string, in uint32) (*session, error) {
	l := s.links.Load().byName[node]
	if l == nil {
		return nil, notSent(node, in, "it is not a member")
	}
	if on := l.connected(); on != nil {
		return on, nil
	}
	patience := time.NewTimer(s.config.ReachWait - l.downFor())
	defer patience.Stop()
	ticker := time.NewTicker(reachPoll)
	defer ticker.Stop()
	for {
		l.want()
		select {
		case <-ticker.C:
		case <-patience.C:
			return nil, notSent(node, in, "it cannot be reached")
		case <-l.life.Done():
			return nil, notSent(node, in, "it is not a member any more")
		case <-ctx.Done():
			return nil, fmt.Errorf("reach node %s: %w", node, ctx.Err())
		}
		if on := l.connected(); on != nil {
			return on, nil
		}
	}
}

// reachPoll is how often a caller checks whether a link has come up. Such waits are rare and short.
const reachPoll = 5 * time.Millisecond

// waiting is a caller that waits for an answer.
type waiting struct {
	on      *session
	id      uint64
	shard   uint32
	process string // receives the request
}

// exchange sends a request and waits for the answer. A follow receives changes once it is answered.
func (w *waiting) exchange(ctx context.Context, envelope *nodepb.Envelope, size int, follow *subscription) (*nodepb.Response, error) {
	l := w.on.link
	c := &call{sent: l.system.clock(), done: make(chan result, 1)}
	l.mu.Lock()
	if l.state.session != w.on {
		l.mu.Unlock()
		return nil, notSent(l.name, w.shard, "the connection was lost")
	}
	l.state.calls[w.id] = c
	if follow != nil {
		l.state.follows[w.id] = follow
		l.system.metrics.follows.Inc()
	}
	l.mu.Unlock()
	if !w.on.send(w.process, envelope, size) {
		w.forget()
		return nil, notSent(l.name, w.shard, "too much waits to be sent to it")
	}
	select {
	case r := <-c.done:
		if r.err == nil && r.response == nil {
			return nil, &lostError{node: l.name, why: "its answer could not be sent"}
		}
		return r.response, r.err
	case <-ctx.Done():
	}
	if w.forget() {
		w.abandon()
	}
	return nil, fmt.Errorf("wait for node %s: %w", l.name, ctx.Err())
}

// forget stops waiting; false if the call has ended already.
func (w *waiting) forget() bool {
	l := w.on.link
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waiting := l.state.calls[w.id]
	delete(l.state.calls, w.id)
	if _, followed := l.state.follows[w.id]; followed {
		delete(l.state.follows, w.id)
		l.system.metrics.follows.Dec()
		waiting = true
	}
	return waiting && l.state.session == w.on
}

// abandon tells the other side that nobody waits any more. It goes to the same process as the request, so that it arrives after it.
func (w *waiting) abandon() {
	w.on.send(w.process, &nodepb.Envelope{Body: &nodepb.Envelope_Abandon{Abandon: &nodepb.Abandon{Id: w.id}}}, beatBytes)
}

// answered passes an answer to its caller.
func (l *link) answered(answer *nodepb.Answer) {
	l.mu.Lock()
	c := l.state.calls[answer.GetCall()]
	delete(l.state.calls, answer.GetCall())
	if on := l.state.session; c != nil && on != nil && c.sent >= on.since {
		on.echoed = max(on.echoed, c.sent) // proves as much as the echo of a beat
	}
	l.mu.Unlock()
	if c != nil {
		c.done <- result{response: answer.GetResponse()}
	}
}
