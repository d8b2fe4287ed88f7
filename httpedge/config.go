package httpedge

import (
	"errors"
	"fmt"
	"time"

	"parley/httpedge/endpoint"
	"parley/httpedge/site"
)

// Config is the settings of one HTTP listener.
type Config struct {
	// ReadTimeout bounds the arrival of one whole request, header and body, from its first byte; a slower client
	// gets 408 and is cut off. Of a file it bounds each 64 KiB. It also bounds how long a new connection may stay silent. Default 30 s. Shorter frees
	// connections from slow-loris clients sooner and cuts off uploads over slow lines.
	ReadTimeout time.Duration
	// IdleTimeout is how long a connection is kept between two requests. Default 75 s, above the 60 s of common
	// proxies, so that they close first and never send into a closed connection.
	IdleTimeout time.Duration
	// WriteTimeout bounds the writing of one answer, and of each 64 KiB of a file. Default 30 s. Event streams have their own rules.
	WriteTimeout time.Duration
	// RequestTimeout bounds a handler that has no limit of its own. Default 15 s. When it is over the caller gets
	// 503 unavailable; what was sent to the conversation may still happen.
	RequestTimeout time.Duration
	// RecheckEvery is how often the caller of a request that takes longer is looked at anew: whose token was revoked meanwhile
	// gets 401. Default 4 s. Streams do so as often.
	RecheckEvery time.Duration
	// MaxHeaderBytes is the largest request line with header; more is 431. Default 8192. Every open connection holds
	// a buffer of this size.
	MaxHeaderBytes int
	// WriteBufferBytes is the size of a connection's write buffer. Default 16384: a page of 20 messages leaves in
	// one system call. Every active connection holds one.
	WriteBufferBytes int
	// MaxBodyBytes is the largest request body; more is 413. Default 1 MiB. It is held in memory while it is read.
	// Routes that take files set limits of their own.
	MaxBodyBytes int
	// MaxLargeBodies is how many bodies above MaxBodyBytes may be held in memory at a time, on routes that take them;
	// more are 503. Default 16. Uploads of bytes are not held and do not count.
	MaxLargeBodies int
	// MaxTransfers is how many files may be on their way up or down at a time; more are 503. Each holds up to 1 MiB in
	// memory. Default 512.
	MaxTransfers int
	// MaxPathBytes is the longest path, without query; more is 414. Default 2048.
	MaxPathBytes int
	// MaxJSONDepth is how deep a body may nest; more is 400. Default 64.
	MaxJSONDepth int
	// MaxConnections is how many connections may be open, event streams not counted; more are answered 503 and
	// closed. Default 16384.
	MaxConnections int
	// MaxSockets is how many connections may be open, event streams counted; more are answered 503 and closed. Default 0:
	// only MaxConnections and MaxStreams bound them. It must stay under the process's file limit.
	MaxSockets int
	// MaxStreams is how many event streams may be open; more are 503. Default 50000. How many one
	// caller may hold is for the Limiter to say.
	MaxStreams int
	// Credentials are the headers, besides Authorization, that say who asks; a request that has one twice is 400. Default none.
	Credentials []string
	// Site says which pages may call a server that does not ask who calls. Default nil: it asks.
	Site *site.Policy
	// Proxies are believed when they say whom a request comes from. Default nobody.
	Proxies endpoint.Proxies
	// CORS lets pages of other origins call. Default off.
	CORS endpoint.CORS
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		ReadTimeout:      30 * time.Second,
		IdleTimeout:      75 * time.Second,
		WriteTimeout:     30 * time.Second,
		RequestTimeout:   15 * time.Second,
		RecheckEvery:     4 * time.Second,
		MaxHeaderBytes:   8 << 10,
		WriteBufferBytes: 16 << 10,
		MaxBodyBytes:     1 << 20,
		MaxLargeBodies:   16,
		MaxTransfers:     512,
		MaxPathBytes:     2048,
		MaxJSONDepth:     64,
		MaxConnections:   16384,
		MaxStreams:       50_000,
	}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	for _, timeout := range []struct {
		name  string
		value time.Duration
	}{
		{"read_timeout", c.ReadTimeout},
		{"idle_timeout", c.IdleTimeout},
		{"write_timeout", c.WriteTimeout},
		{"request_timeout", c.RequestTimeout},
		{"recheck_every", c.RecheckEvery},
	} {
		if timeout.value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s, must be positive", timeout.name, timeout.value))
		}
	}
	for _, size := range []struct {
		name         string
		value, least int
	}{
		{"max_header_bytes", c.MaxHeaderBytes, 1024},
		{"write_buffer_bytes", c.WriteBufferBytes, 1024},
		{"max_body_bytes", c.MaxBodyBytes, 1024},
		{"max_large_bodies", c.MaxLargeBodies, 1},
		{"max_transfers", c.MaxTransfers, 1},
		{"max_path_bytes", c.MaxPathBytes, 64},
		{"max_json_depth", c.MaxJSONDepth, 2},
		{"max_connections", c.MaxConnections, 1},
		{"max_streams", c.MaxStreams, 1},
		{"max_sockets", c.MaxSockets, 0},
	} {
		if size.value < size.least {
			errs = append(errs, fmt.Errorf("%s is %d, must be at least %d", size.name, size.value, size.least))
		}
	}
	if c.MaxPathBytes > c.MaxHeaderBytes {
		errs = append(errs, fmt.Errorf("max_path_bytes is %d, must fit into max_header_bytes %d", c.MaxPathBytes, c.MaxHeaderBytes))
	}
	return errors.Join(errs...)
}
