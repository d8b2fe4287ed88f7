package provider

import (
	"bytes"
	"errors"
	"io"
	"time"

	"parley/actors/machine/rawjson"
)

// maxEventHead is what an event may have beside its longest line.
const maxEventHead = 4 << 10

// watchedBody is the body of a streamed response under the limits of its exchange.
type watchedBody struct {
	*Exchange
	body    io.ReadCloser
	total   int64
	line    int // bytes of the line that is being read
	event   int // bytes since the last empty line
	last    byte
	gauge   rawjson.Gauge
	settled time.Time // when the rest must be there, zero before the answer has ended
	closed  bool
	taken   int64 // of the answer's memory, for the event that is being read
	wrong   error // what is too long, behind what was read
}

func newWatchedBody(x *Exchange, body io.ReadCloser) *watchedBody {
	return &watchedBody{
		Exchange: x, body: body,
		gauge: rawjson.Gauge{MaxDepth: x.Limits.MaxDepth, MaxValues: x.Limits.MaxValues, Events: true, CR: true},
	}
}

// Read reads a piece once there is memory for the event that it is of. What was before is decoded, and gone, when the next piece
// is asked for.
func (b *watchedBody) Read(p []byte) (int, error) {
	event, text, values := b.event, b.gauge.Text(), b.gauge.Values()
	n, err := b.read(p)
	if n == 0 {
		return n, err
	}
	most := int64(event+n)*byteCost + int64(max(text+b.gauge.Values()-values-ordinaryValues, 0))*valueCost
	if most < b.taken {
		b.answer.Give(b.taken - most)
	} else if wrong := b.answer.Take(most - b.taken); wrong != nil {
		n, err = 0, wrong
		b.broken = wrong
	}
	b.taken = most
	return n, err
}

// read counts only the time in which the provider is waited for: neither a slow listener nor our memory is its fault.
func (b *watchedBody) read(p []byte) (int, error) {
	if b.alive.Load() {
		b.timer.Reset(b.patience())
		defer b.timer.Stop()
	}
	if b.wrong != nil {
		b.broken = b.wrong
		return 0, b.wrong
	}
	n, err := b.body.Read(p)
	good, wrong := b.count(p[:n])
	if b.total += int64(n); b.Limits.MaxStreamBytes > 0 && b.total > b.Limits.MaxStreamBytes {
		good, wrong = min(good, n-int(min(b.total-b.Limits.MaxStreamBytes, int64(n)))), ErrStreamSize
	}
	if b.Limits.MaxValues > 0 && b.gauge.Take(p[:good]) != nil {
		good, wrong = 0, ErrEventShape
	}
	if wrong != nil { // what came before it was said
		n, err, b.wrong = good, nil, wrong
		if n == 0 {
			err = wrong
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken = err
	}
	return n, err
}

// patience is how long the provider is waited for.
func (b *watchedBody) patience() time.Duration {
	if !b.finished {
		return b.Limits.Idle
	}
	if b.settled.IsZero() {
		b.settled = time.Now().Add(settleWait)
	}
	return min(b.Limits.Idle, max(time.Until(b.settled), 0))
}

// count measures lines and events. When one is too long it says so, and how many bytes come before that.
func (b *watchedBody) count(piece []byte) (int, error) {
	for at := 0; at < len(piece); {
		end := bytes.IndexByte(piece[at:], '\n')
		if end < 0 {
			end = len(piece) - at
		}
		if cr := bytes.IndexByte(piece[at:at+end], '\r'); cr >= 0 {
			end = cr
		}
		end += at
		whole := end < len(piece)
		if !whole {
			end--
		}
		b.line += end + 1 - at
		b.event += end + 1 - at
		switch most := b.Limits.MaxLineBytes; {
		case most == 0:
		case b.line > most:
			return at, ErrLineSize
		case b.event > most+maxEventHead:
			return at, ErrEventSize
		}
		before := b.last
		if end > at {
			before = piece[end-1]
		}
		if whole && b.line == 1 && (before != '\r' || piece[end] != '\n') { // a LF behind a CR ends what has ended
			b.event = 0
		}
		if whole {
			b.line = 0
		}
		b.last = piece[end]
		at = end + 1
	}
	return len(piece), nil
}

// Close reads a finished answer's body to its end, shortly, because a connection whose body was left unread is lost for the next
// call.
func (b *watchedBody) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.answer.Give(b.taken)
	if b.finished && b.broken == nil {
		b.timer.Reset(drainWait)
		_, _ = io.CopyN(io.Discard, b.body, drainBytes) // only the connection's fate depends on it
		b.timer.Stop()
	}
	return b.body.Close()
}
