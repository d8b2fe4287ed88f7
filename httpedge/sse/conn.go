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
	endDone                   // the view had nothing more to send
	endGone                   // the conversation was deleted
	endLost                   // the conversation could not be followed any more
	endStop                   // the node stops
	endRefused                // the client has lost its access
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

// owner is notified of a connection's events, on the writer's goroutine and outside the connection's lock.
type owner interface {
	// drained means that there is room again, after awaitRoom returned false.
	drained()
	// refused means that the client has lost its access.
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
	// release frees the caller's place in the server; reuse returns the connection to HTTP after a clean end.
	release func()
	reuse   func(net.Conn)
	still   func() *machine.Failure // the check of the client's access; nil = none

	fd  int32
	gen uint32 // tells events of this connection from those of an earlier one with the same descriptor

	place wheelPlace

	mu        sync.Mutex
	queue     frameQueue
	writer    writerState
	finishing bool // the last chunk is queued
	dead      bool
	lean      bool // Options.Lean
	plain     bool // Handover.Plain
	clean     bool // everything queued was written
	why       ending
}

// writerState is the state shared by a connection's producers and its writer.
type writerState struct {
	// stalled is when the first unwritten byte was found not to fit, in Unix seconds; 0 = nothing waits for the client.
	stalled   uint32
	scheduled bool // in the writer's list, or being written; stays set once the connection is closed
	blocked   bool // the kernel's buffer is full: wait for the poller
	roomSeen  bool // the poller reported room while a write was under way
	hungry    bool // the owner waits for room
}

// push queues a frame. It is false if the stream accepts no more; a frame that does not fit ends the stream.
func (c *conn) push(f Frame, on lane) bool {
	c.mu.Lock()
	if c.dead || c.finishing {
		c.mu.Unlock()
		return false
	}
	if !c.queue.empty() && (c.queue.exceeds(f, c.wire.cfg.QueueBytes) || c.queue.frames()+1 > c.wire.cfg.QueueFrames) {
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
	c.queue = frameQueue{}
	c.writer.blocked = false
	if c.loop == nil {
		_ = c.raw.SetDeadline(time.Unix(1, 0)) // frees a blocked write
	}
	c.unlockAndSchedule(urgent)
}

// recheck has the owner end the stream if its client has lost its access.
func (c *conn) recheck() {
	if c.still == nil {
		return
	}
	if failure := c.still(); failure != nil {
		c.owner.refused(failure)
	}
}

// ping queues a comment on an idle stream, and ends one whose client has stalled.
func (c *conn) ping(f Frame, now time.Time) {
	c.mu.Lock()
	if c.dead {
		c.mu.Unlock()
		return
	}
	if !c.queue.empty() {
		stalled := c.writer.stalled != 0 && now.Unix()-int64(c.writer.stalled) >= int64(c.wire.cfg.StallTimeout/time.Second)
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

// awaitRoom reports whether more may be queued now; if not, the owner's drained is called when everything queued has
// been written.
func (c *conn) awaitRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queue.empty() || c.dead || (int(c.queue.queued) <= c.wire.cfg.QueueBytes/4 && c.queue.frames() <= c.wire.cfg.QueueFrames/2) {
		return true
	}
	c.writer.hungry = true
	return false
}

// enqueue appends a frame to the queue.
func (c *conn) enqueue(f Frame) {
	if c.plain {
		f = Unchunked(f)
	}
	c.queue.push(f)
}

func (c *conn) unlockAndSchedule(on lane) {
	if c.writer.scheduled || c.writer.blocked {
		c.mu.Unlock()
		return
	}
	c.writer.scheduled = true
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

// writable is called by the poller when the socket has become writable.
func (c *conn) writable() {
	c.mu.Lock()
	c.writer.blocked = false
	c.writer.roomSeen = true
	if c.queue.empty() && !c.dead {
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
	c.writer.roomSeen = false
	if c.dead {
		return nil, closeNow
	}
	if c.queue.empty() {
		c.writer.scheduled = false
		return nil, idle
	}
	return c.queue.next(scratch), more
}

// wrote records the outcome of a write. drained is true if the owner waits for room.
func (c *conn) wrote(n int, err error) (v verdict, drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dead {
		return closeNow, false
	}
	if n > 0 {
		c.writer.stalled = 0
	}
	if n >= 0 {
		c.queue.consume(int32(n)) // also for an empty frame
	}
	if err != nil {
		if !errors.Is(err, syscall.EAGAIN) {
			c.dead = true
			c.why = writeEnding(err)
			return closeNow, false
		}
		if c.writer.stalled == 0 {
			c.writer.stalled = uint32(time.Now().Unix())
		}
		c.wire.metrics.blocked.Inc()
		if c.writer.roomSeen {
			return more, false
		}
		c.writer.blocked = true
		c.writer.scheduled = false
		return idle, false
	}
	if !c.queue.empty() {
		return more, false
	}
	if c.finishing {
		c.dead, c.clean = true, true
		return closeNow, false
	}
	c.writer.scheduled = false
	drained, c.writer.hungry = c.writer.hungry, false
	return idle, drained
}

func writeEnding(err error) ending {
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		return endClient
	}
	return endWrite
}
