package convapi

import (
	"context"
	"time"

	"parley/httpedge/endpoint"
	"parley/httpedge/sse"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
)

// streamMessage sends a message and streams its turn: stream.start, stream.text as it comes, stream.done or
// stream.error, and the response ends. Refusals are JSON with their status: nothing is streamed before the message is
// accepted. The turn does not hang on the connection.
func (a *API) streamMessage(ctx context.Context, in *sendMessageIn, stream endpoint.Stream) error {
	if !plausible(in.ID) {
		return notFound("conversation")
	}
	if err := stream.Admit(); err != nil {
		return err
	}
	// Followed before the message is sent, so that nothing of its turn must be read back from the log.
	lease, err := a.hub.Acquire(ctx, in.ID)
	if err != nil {
		return err
	}
	reply, err := a.ask(ctx, a.sendCommand(ctx, in, false))
	if err != nil {
		lease.Release()
		return err
	}
	accepted := reply.GetAccepted()
	view := newMessageView(in.ID, accepted)
	err = stream.Start(func(take endpoint.Takeover) {
		lease.Open(sse.Handover(take), sse.Options{After: accepted.GetSeq(), Opening: view.start(), View: view})
	})
	if err != nil {
		lease.Release()
	}
	return err
}

// messageView renders one run for the client that asked for it.
//
// The pieces of stream.text, put together, are the content of stream.done. Text that was not streamed (missed while
// the owner moved, or skipped for a slow client) is sent before stream.done. A recovered run says its text again: as
// far as it repeats what was sent nothing is sent, and from there on it goes on. Only when it says something else
// than what was already sent, which cannot be taken back, are no more pieces sent: content is then what counts.
type messageView struct {
	conversationID string
	run            string
	userMessageID  string
	seq            uint64 // of frames, from 1
	now            func() time.Time

	said, heard         int    // bytes sent; bytes of the present saying, at most said of them compared
	saidHash, heardHash uint64 // of those bytes
	diverged            bool   // the present saying differs from what was sent

	title  string
	answer *conversationpb.Message
}

func newMessageView(conversationID string, accepted *conversationpb.Accepted) *messageView {
	return &messageView{
		conversationID: conversationID,
		run:            accepted.GetRunId(),
		userMessageID:  accepted.GetUserMessage().GetId(),
		now:            time.Now,
		saidHash:       hashSeed, heardHash: hashSeed,
	}
}

func (v *messageView) start() sse.Frame {
	b := v.begin("stream.start", 0)
	b = appendMember(b, `,"conversationId":`, v.conversationID)
	b = appendMember(b, `,"messageId":`, v.userMessageID)
	return v.seal(b)
}

// Event implements sse.View.
func (v *messageView) Event(event *conversationpb.Event) (sse.Frame, bool) {
	if patch := event.GetUpdated().GetPatch(); patch != nil && patch.Title != nil {
		v.title = patch.GetTitle()
	}
	if event.GetRunId() != v.run {
		return nil, false
	}
	if message := event.GetAgentMessage().GetMessage(); message != nil {
		v.answer = message
		return v.rest(message.GetContent()), false
	}
	ended := event.GetTurnEnded()
	if ended == nil {
		return nil, false
	}
	if ended.GetError() != nil || ended.GetStopReason() == conversationpb.StopReason_ERROR {
		return v.failed(ended.GetError().GetMessage(), ended.GetError().GetCode()), true
	}
	return v.done(ended), true
}

// Snapshot implements sse.View: the run's text begins again.
func (v *messageView) Snapshot(run sse.Run) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	v.heard, v.heardHash, v.diverged = 0, hashSeed, false
	return v.hear(run.Text)
}

// Delta implements sse.View.
func (v *messageView) Delta(run sse.Run, offset int) sse.Frame {
	if run.ID != v.run {
		return nil
	}
	return v.hear(run.Text[offset:])
}

// Parting implements sse.View.
func (v *messageView) Parting(why sse.Parting) sse.Frame {
	table := refusals()
	switch why {
	case sse.Deleted:
		return v.failed("the conversation was deleted", table[failurepb.Code_NOT_FOUND].Code)
	case sse.Stopping:
		return v.failed("the server is stopping; the turn goes on, its answer will be in the conversation",
			table[failurepb.Code_UNAVAILABLE].Code)
	default:
		return v.failed("the turn cannot be followed any more; its answer will be in the conversation",
			table[failurepb.Code_UNAVAILABLE].Code)
	}
}

// hear takes the next piece of the present saying and sends what is new of it.
func (v *messageView) hear(text []byte) sse.Frame {
	if v.diverged {
		return nil
	}
	if again := min(len(text), v.said-v.heard); again > 0 {
		v.heardHash = hash(v.heardHash, text[:again])
		v.heard += again
		text = text[again:]
		v.diverged = v.heard == v.said && v.heardHash != v.saidHash
	}
	if len(text) == 0 || v.diverged {
		return nil
	}
	v.saidHash = hash(v.saidHash, text)
	v.heardHash = v.saidHash
	v.said += len(text)
	v.heard = v.said
	return v.text(string(text))
}

// rest sends what of the answer was not sent, if what was sent is its beginning.
func (v *messageView) rest(content string) sse.Frame {
	if len(content) <= v.said || hash(hashSeed, content[:v.said]) != v.saidHash {
		return nil
	}
	rest := content[v.said:]
	v.saidHash = hash(v.saidHash, rest)
	v.said = len(content)
	v.heard, v.heardHash = v.said, v.saidHash
	return v.text(rest)
}

// FNV-1a, 64 bit: it compares a text with one that is not kept.
const (
	hashSeed  uint64 = 14695981039346656037
	hashPrime uint64 = 1099511628211
)

func hash[T string | []byte](sum uint64, text T) uint64 {
	for i := range len(text) {
		sum = (sum ^ uint64(text[i])) * hashPrime
	}
	return sum
}
