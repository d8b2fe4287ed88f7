package placement

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"parley/proto/nodepb"
)

// gate is the permanent actor of a shard on this node, whether or not the node owns it.
type gate struct {
	system *System
	shard  uint32
}

func gateOf(in uint32) string { return "s" + strconv.FormatUint(uint64(in), 10) }

// Receive implements actor.Actor.
func (g *gate) Receive(ctx actor.Context) {
	if envelope, ok := ctx.Message().(*nodepb.Envelope); ok {
		g.system.receive(envelope, g)
	}
}

// serve handles a call in a goroutine of its own.
func (l *link) serve(question *nodepb.Call, at *gate) {
	s := l.system
	request := question.GetRequest()
	if at != nil {
		request.Shard = at.shard
	}
	timeout := s.config.CallLimit
	if left := time.Duration(request.GetTimeoutNs()); left > 0 {
		timeout = min(timeout, left)
	}
	ctx, cancel := context.WithTimeout(s.life, timeout)
	l.mu.Lock()
	l.state.served[question.GetId()] = cancel
	l.mu.Unlock()
	why := s.admit(func() {
		response := s.handle(ctx, l.name, request)
		cancel()
		if l.finished(question.GetId()) {
			l.answer(question.GetId(), response)
		}
	})
	if why != "" {
		cancel()
		l.finished(question.GetId())
		l.answer(question.GetId(), s.refusal(request.GetShard(), why))
	}
}

// admit runs a task for another node in a goroutine, or returns why it does not.
func (s *System) admit(task func()) (refused string) {
	select {
	case s.slots <- struct{}{}:
	default:
		s.metrics.refused.Inc()
		return "too many calls are served"
	}
	served := s.spawn(func() {
		task()
		<-s.slots
	})
	if !served {
		<-s.slots
		return "the node stops"
	}
	return ""
}

// finished removes a call from those being served; false if nobody waits for its answer any more.
func (l *link) finished(id uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, waited := l.state.served[id]
	delete(l.state.served, id)
	return waited
}

// refusal is the answer that nothing was done, so that the caller may retry.
func (s *System) refusal(in uint32, why string) *nodepb.Response {
	return s.encode(in, &notOwnerError{shard: in, why: why})
}

// handle passes a request to the shell, or to the node that it is addressed to. Nil = there will be no answer.
func (s *System) handle(ctx context.Context, from string, request *nodepb.Request) *nodepb.Response {
	if to := request.GetPassTo(); to != "" && to != s.config.Name {
		return s.passOn(ctx, request)
	}
	body, err := request.GetBody().UnmarshalNew()
	if err != nil {
		return fault(fmt.Sprintf("a message of type %q is not known here: %v", request.GetBody().MessageName(), err))
	}
	var reply proto.Message
	switch request.GetKind() {
	case nodepb.Kind_ASK:
		reply, err = s.config.Serve.Ask(ctx, request.GetShard(), request.GetId(), body)
	case nodepb.Kind_READ:
		reply, err = s.config.Serve.Read(ctx, request.GetShard(), body)
	case nodepb.Kind_CALL:
		reply, err = s.config.Serve.Call(ctx, from, body)
	default:
		return fault("a kind of call is not known here")
	}
	if err != nil {
		return s.encode(request.GetShard(), err)
	}
	return s.reply(reply)
}

func (s *System) reply(reply proto.Message) *nodepb.Response {
	packed, err := anypb.New(reply)
	switch {
	case err != nil:
		return fault("encode answer: " + err.Error())
	case len(packed.GetValue()) > s.config.MessageBytes:
		return fault("the answer is too large to be passed on")
	}
	return &nodepb.Response{Outcome: &nodepb.Response_Reply{Reply: packed}}
}

// answer sends an answer, nil to say that there will be none; false if it is lost. Without a connection it is lost: the other side
// fails its calls when it reconnects.
func (l *link) answer(id uint64, response *nodepb.Response) bool {
	l.mu.Lock()
	on := l.state.session
	l.mu.Unlock()
	if on == nil {
		return false
	}
	if f := response.GetFault(); f != nil {
		f.Message = strings.ToValidUTF8(f.GetMessage(), "?") // otherwise encoding fails and the answer is dropped
	}
	size := len(response.GetReply().GetValue()) + len(response.GetFault().GetMessage()) + len(response.GetFault().GetDetails()) + callBytes
	if on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Answer{Answer: &nodepb.Answer{Call: id, Response: response}}}, size) {
		return true
	}
	// The caller must not be left waiting: an empty answer tells it that the real one is lost.
	if !on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Answer{Answer: &nodepb.Answer{Call: id}}}, callBytes) {
		l.disconnect(on, "too much waits to be sent to it")
	}
	return false
}

// abandoned ends a call or a follow for which nobody waits any more.
func (l *link) abandoned(id uint64) {
	l.mu.Lock()
	cancel, served := l.state.served[id]
	delete(l.state.served, id)
	p := l.state.publications[id]
	delete(l.state.publications, id)
	l.mu.Unlock()
	if served {
		cancel()
	}
	if p != nil {
		l.system.metrics.publications.Dec()
		p.abandon()
	}
}
