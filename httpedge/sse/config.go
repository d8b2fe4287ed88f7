package sse

import (
	"errors"
	"fmt"
	"time"
)

// Config holds the hub's bounds and intervals.
type Config struct {
	// MaxStreams is how many streams may be open at once; more are refused as UNAVAILABLE. Default 50,000. Each costs
	// under 1 KB here and about 5 KB in the kernel.
	MaxStreams int
	// Loops is the number of write loops. Default 0 = GOMAXPROCS.
	Loops int
	// SendBuffer is the kernel's send buffer per stream in bytes. Default 64 KiB. Without a bound the kernel buffers
	// megabytes for a client that does not read, and its lag goes unnoticed.
	SendBuffer int
	// QueueBytes and QueueFrames bound the queue of a stream. Defaults 64 KiB, 256. The bytes of the largest frame do
	// not count, so a frame of any size passes. Larger bounds tolerate slower clients and cost memory.
	QueueBytes  int
	QueueFrames int
	// PingEvery is the interval of ": ping" on every stream. Default 15 s.
	PingEvery time.Duration
	// StallTimeout ends a stream whose client has read nothing for so long although data waits; checked once per
	// PingEvery. Default 30 s.
	StallTimeout time.Duration
	// RingEvents and RingBytes bound the newest events kept per conversation. Defaults 64, 256 KiB. A longer ring saves
	// reads of the log when many clients return after a pause.
	RingEvents int
	RingBytes  int
	// CatchupWorkers read the log for streams whose cursor the ring does not cover, CatchupPage events at a time.
	// Defaults 4, 64.
	CatchupWorkers int
	CatchupPage    int
	// ReadTimeout bounds one read of the log, OpenTimeout one subscription. Defaults 5 s, 10 s.
	ReadTimeout time.Duration
	OpenTimeout time.Duration
	// AcquireTimeout bounds how long a new stream waits for a conversation to be followed, before it is refused as
	// UNAVAILABLE. Default 4 s: enough for a change of owner, not for the loss of most nodes.
	AcquireTimeout time.Duration
	// Linger keeps the subscription after the last stream of a conversation has left. Default 2 s: long enough for a
	// reload of the page or the next message.
	Linger time.Duration
	// RetryMin and RetryMax bound the pauses between attempts to subscribe again; after GiveUp without success the
	// streams are ended. Defaults 20 ms, 2 s, 30 s.
	RetryMin time.Duration
	RetryMax time.Duration
	GiveUp   time.Duration
	// Stop ends the streams in batches of StopSlice, StopPause apart, so that clients do not all reconnect to the other
	// nodes in the same instant. Defaults 1,000, 20 ms.
	StopSlice int
	StopPause time.Duration
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		MaxStreams:     50_000,
		SendBuffer:     64 << 10,
		QueueBytes:     64 << 10,
		QueueFrames:    256,
		PingEvery:      15 * time.Second,
		StallTimeout:   30 * time.Second,
		RingEvents:     64,
		RingBytes:      256 << 10,
		CatchupWorkers: 4,
		CatchupPage:    64,
		ReadTimeout:    5 * time.Second,
		OpenTimeout:    10 * time.Second,
		AcquireTimeout: 4 * time.Second,
		Linger:         2 * time.Second,
		RetryMin:       20 * time.Millisecond,
		RetryMax:       2 * time.Second,
		GiveUp:         30 * time.Second,
		StopSlice:      1000,
		StopPause:      20 * time.Millisecond,
	}
}

// Validate reports what is wrong with the configuration.
func (c Config) Validate() error {
	var errs []error
	atLeast := func(name string, value, least int) {
		if value < least {
			errs = append(errs, fmt.Errorf("%s is %d, must be at least %d", name, value, least))
		}
	}
	positive := func(name string, value time.Duration) {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s, must be positive", name, value))
		}
	}
	atLeast("max_streams", c.MaxStreams, 1)
	atLeast("loops", c.Loops, 0)
	atLeast("send_buffer", c.SendBuffer, 2<<10)
	atLeast("queue_bytes", c.QueueBytes, 1<<10)
	atLeast("queue_frames", c.QueueFrames, 4)
	atLeast("ring_events", c.RingEvents, 1)
	atLeast("ring_bytes", c.RingBytes, 1)
	atLeast("catchup_workers", c.CatchupWorkers, 1)
	atLeast("catchup_page", c.CatchupPage, 1)
	atLeast("stop_slice", c.StopSlice, 1)
	positive("ping_every", c.PingEvery)
	positive("stall_timeout", c.StallTimeout)
	positive("read_timeout", c.ReadTimeout)
	positive("open_timeout", c.OpenTimeout)
	positive("acquire_timeout", c.AcquireTimeout)
	positive("retry_min", c.RetryMin)
	positive("retry_max", c.RetryMax)
	positive("give_up", c.GiveUp)
	if c.Linger < 0 {
		errs = append(errs, fmt.Errorf("linger is %s, must not be negative", c.Linger))
	}
	if c.StopPause < 0 {
		errs = append(errs, fmt.Errorf("stop_pause is %s, must not be negative", c.StopPause))
	}
	return errors.Join(errs...)
}
