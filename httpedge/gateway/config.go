package gateway

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is the settings of the gateway.
type Config struct {
	// BasePath is where the routes are. Default "/api/client/v1".
	BasePath string
	// CallTimeout bounds a call; of a stream, the time until its first chunk. Nothing is sent before that, so that a failure has a
	// status, and proxies between client and server must wait as long. It must be above the time limits of the models,
	// whose errors say more. Default 125 s.
	CallTimeout time.Duration
	// StreamTimeout bounds a whole stream. It is a safety net: the call has a limit of its own, whose error says what was too slow. Default
	// 30 m.
	StreamTimeout time.Duration
	// PingEvery is the silence after which a stream that has begun gets ": ping", a comment that clients skip. Default 15 s.
	PingEvery time.Duration
	// WriteTimeout is how long a client may read nothing of a stream before it is cut off. Default 30 s.
	WriteTimeout time.Duration
	// MaxBody is the largest body, in bytes. Default 10 MiB.
	MaxBody int
}

// DefaultConfig returns the settings in force unless configured otherwise.
func DefaultConfig() Config {
	return Config{
		BasePath: "/api/client/v1", CallTimeout: 125 * time.Second, StreamTimeout: 30 * time.Minute,
		PingEvery: 15 * time.Second, WriteTimeout: 30 * time.Second, MaxBody: 10 << 20,
	}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	if !strings.HasPrefix(c.BasePath, "/") || strings.ContainsAny(c.BasePath, "{}?# ") {
		errs = append(errs, fmt.Errorf("base_path %q must begin with / and be plain", c.BasePath))
	}
	if c.CallTimeout <= 0 || c.StreamTimeout < c.CallTimeout || c.PingEvery <= 0 || c.WriteTimeout <= 0 {
		errs = append(errs, errors.New("call_timeout, ping_every and write_timeout must be positive, stream_timeout at least call_timeout"))
	}
	if c.MaxBody < 1 {
		errs = append(errs, fmt.Errorf("max_body is %d, must be at least 1", c.MaxBody))
	}
	return errors.Join(errs...)
}
