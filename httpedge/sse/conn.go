package sse

import (
	"errors"
	"net"
	"sync"
	"syscall"
	"time"

	"parley/actors/machine"
)

// ending is why a stream ended.
type ending uint8

const (
	endClient   ending = iota // the client left
	endOverflow               // the queue was full
	endStalled                // the client took nothing for too long
	endWrite                  // writing failed
	endDone                   // the view had said all
	endGone                   // the conversation was deleted
	endLost                   // the conversation could not be followed any more
	endStop                   // the node stops
	endRefused                // the client would not be let in any more
	endings
)

func (e ending) String() string {
	return [endings]string{"client_left", "overflow", "stalled", "write_error", "done", "gone", "lost", "stop", "refused"}[e]
}

// lane orders the streams that wait for a write loop.
type lane uint8

const (
	urgent lane = iota // few streams share the frame: running answers
	bulk               // one of many copies
)

// owner hears what becomes of a connection, on the writer's goroutine and outside of the connection's lock.
type owner interface {
	// drained says that there is room again, after awaitRoom had answered false.
	drained()
	// refused says that the client would not be let in any more.
	refused(failure *machine.Failure)
	// ended is the last call: the connection is closed.
	ended(why ending)
}

// conn is one open stream: a bounded queue in front of a socket. Any goroutine queues; only its writer (a loop, or
// its own goroutine) writes and closes.
type conn struct {
	wire  *wire
	loop  *loop         // nil = own goroutine
	kick  chan struct{} // wakes the own goroutine
	raw   net.Conn      // nil while there is only the descriptor
	owner owner
	// release gives back the caller's place; reuse takes the connection back to HTTP after a clean end.
	release func()
	reuse   func(net.Conn)
	still   func() *machine.Failure // nil = the client may stay

	fd  int32
	gen uint32 // tells an event of this connection from one of an earlier user of the descriptor

	pingSlot, pingAt int32 // place in the wheel

	mu     sync.Mutex
	first  Frame // queue: first, then rest; first is nil when it is empty
	rest   []Frame
	sent   int32 // bytes of first that are written
	queued int32 // bytes not yet written
	// stalled is when the first unwritten byte was found not to fit, in Unix seconds; 0 = nothing waits for the client.
	stalled   uint32
	scheduled bool // in the writer's list, or being written; stays set once the connection is closed
	blocked   bool // the kernel's buffer is full: wait for the poller
	roomSeen  bool // the poller reported room while a write was under way
	hungry    bool // the owner waits for room
	finishing bool // the last chunk is queued
	dead      bool
	lean      bool // Options.Lean
	plain     bool // Handover.Plain
	clean     bool // everything queued was written
	why       ending
}

// push queues a frame. It is false when the stream takes nothing any more; a frame that does not fit ends the stream.
func (c *conn) push(f Frame, on lane) bool {
	c.mu.Lock()
	if c.dead || c.finishing {
		c.mu.Unlock()
		return false
	}
	if c.first != nil && (c.tooMuchWith(f) || len(c.rest)+2 > c.wire.cfg.QueueFrames) {
		c.mu.Unlock()
		c.kill(endOverflow)
		return false
	}
	c.enqueue(f)
	c.unlockAndSchedule(on)
	return true
}

// finish queues the last frame and the end of the response; the connection closes once both are written.
func (c *conn) finish(last Frame, why ending) {
	c.mu.Lock()
	if c.dead || c.finishing {
		c.mu.Unlock()
		return
	}
	c.finishing = true
	c.why = why
	c.enqueue(Join(last, Frame(lastChunk)))
	c.unlockAndSchedule(urgent)
}

// kill drops what is queued and has the writer close the connection.
func (c *conn) kill(why ending) {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	c.dead = true
	c.why = why
	c.first, c.rest, c.queued, c.sent = nil, nil, 0, 0
	c.blocked = false
	if c.loop == nil {
		_ = c.raw.SetDeadline(time.Unix(1, 0)) // frees a blocked write
	}
	c.unlockAndSchedule(urgent)
}

// recheck has the owner end a stream whose client would not be let in any more.
func (c *conn) recheck() {
	if c.still == nil {
		return
	}
	if failure := c.still(); failure != nil {
		c.owner.refused(failure)
	}
}

// ping queues a comment on a stream that has nothing to say, and ends one whose client has stalled.
func (c *conn) ping(f Frame, now time.Time) {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	if c.first != nil {
		stalled := c.stalled != 0 && now.Unix()-int64(c.stalled) >= int64(c.wire.cfg.StallTimeout/time.Second)
		c.mu.Unlock()
		if stalled {
			c.kill(endStalled)
		}
		return
	}
	if c.finishing {
		c.mu.Unlock()
		return
	}
	c.enqueue(f)
	c.unlockAndSchedule(bulk)
}

// tooMuchWith says that a frame does not fit. The largest frame that waits, or is to, does not count: a message or what a client
// that lags is told in one piece can be larger than the queue, and more follows at once.
func (c *conn) tooMuchWith(f Frame) bool {
	bytes, most := int(c.queued)+len(f), c.wire.cfg.QueueBytes
	if bytes <= most {
		return false
	}
	largest := max(len(f), len(c.first)-int(c.sent))
	for _, waits := range c.rest {
		largest = max(largest, len(waits))
	}
	return bytes-largest > most
}

// awaitRoom says whether more may be queued now; if not, the owner hears drained when everything queued is written.
func (c *conn) awaitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.first == nil || c.dead || (int(c.queued) <= c.wire.cfg.QueueBytes/4 && len(c.rest)+1 <= c.wire.cfg.QueueFrames/2) {
		return true
	}
	c.hungry = true
	return false
}

// enqueue puts a frame behind what waits.
func (c *conn) enqueue(f Frame) {
	if c.plain {
		f = Unchunked(f)
	}
	c.begin(f)
}

// begin is enqueue for bytes as they are to be sent.
func (c *conn) begin(f Frame) {
	c.queued += int32(len(f))
	if c.first == nil {
		c.first = f
		return
	}
	c.rest = append(c.rest, f)
}

func (c *conn) unlockAndSchedule(on lane) {
	if c.scheduled || c.blocked {
		c.mu.Unlock()
		return
	}
	c.scheduled = true
	c.mu.Unlock()
	if c.loop != nil {
		c.loop.schedule(c, on)
		return
	}
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// writable is the poller's word that the kernel takes more.
func (c *conn) writable() {
	c.mu.Lock()
	c.blocked = false
	c.roomSeen = true
	if c.first == nil && !c.dead {
		c.mu.Unlock()
		return
	}
	c.unlockAndSchedule(urgent)
}

// verdict is what the writer does next.
type verdict uint8

const (
	idle verdict = iota
	more
	closeNow
)

// take returns bytes to write: one frame as it is, or several copied into scratch.
func (c *conn) take(scratch []byte) ([]byte, verdict) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.roomSeen = false
	if c.dead {
		return nil, closeNow
	}
	if c.first == nil {
		c.scheduled = false
		return nil, idle
	}
	head := c.first[c.sent:]
	if len(c.rest) == 0 || len(head) >= len(scratch) {
		return head, more
	}
	n := copy(scratch, head)
	for _, f := range c.rest {
		m := copy(scratch[n:], f)
		n += m
		if m < len(f) {
			break
		}
	}
	return scratch[:n], more
}

// wrote takes note of a write's outcome. drained says that the owner waits to hear of it.
func (c *conn) wrote(n int, err error) (v verdict, drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return closeNow, false
	}
	if n > 0 {
		c.stalled = 0
	}
	if n >= 0 {
		c.consume(int32(n)) // of a frame without text, too
	}
	if err != nil {
		if !errors.Is(err, syscall.EAGAIN) {
			c.dead = true
			c.why = writeEnding(err)
			return closeNow, false
		}
		if c.stalled == 0 {
			c.stalled = uint32(time.Now().Unix())
		}
		c.wire.metrics.blocked.Inc()
		if c.roomSeen {
			return more, false
		}
		c.blocked = true
		c.scheduled = false
		return idle, false
	}
	if c.first != nil {
		return more, false
	}
	if c.finishing {
		c.dead, c.clean = true, true
		return closeNow, false
	}
	c.scheduled = false
	drained, c.hungry = c.hungry, false
	return idle, drained
}

func writeEnding(err error) ending {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return endClient
	}
	return endWrite
}

func (c *conn) consume(n int32) {
	c.queued -= n
	n += c.sent
	for c.first != nil && n >= int32(len(c.first)) {
		n -= int32(len(c.first))
		if len(c.rest) == 0 {
			c.first, c.rest = nil, nil
			break
		}
		c.first = c.rest[0]
		c.rest[0] = nil
		c.rest = c.rest[1:]
	}
	c.sent = n
}
