package handler

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is the settings of the Client API.
type Config struct {
	// BasePath is where the routes are. Default "/api/client/v1".
	BasePath string
	// TurnTimeout bounds a request that waits for a turn. Default 15 m.
	TurnTimeout time.Duration
	// CancelWait is how long a cancel waits for the turn to end. Default 2 s.
	CancelWait time.Duration
	// RunWait and MaxRunWait are how long a wait for a run lasts without timeout_ms, and at most. Default 30 s, 5 m.
	RunWait, MaxRunWait time.Duration
	// EventPage and MaxEventPage are how many events a page has. Default 100, 1000.
	EventPage, MaxEventPage int
	// MaxFileBody is the largest JSON body that carries files, in bytes; FileBytes the largest file unless the agent says
	// otherwise. Default 16 MiB, 10 MiB.
	MaxFileBody, FileBytes int
	// TransferTimeout bounds the sending or receiving of one file. Default 15 m.
	TransferTimeout time.Duration
	// TraceBody bounds the body of a reported trace, in bytes, unpacked, too; TraceRetention is how long traces are kept after the last
	// that was heard of them. Default 10 MiB, 720 h.
	TraceBody      int
	TraceRetention time.Duration
	// Docs serves the API's description as a page at /docs. Default true. The document itself is always there.
	Docs bool
}

// DefaultConfig returns the settings in force unless configured otherwise.
func DefaultConfig() Config {
	return Config{
		BasePath:    "/api/client/v1",
		TurnTimeout: 15 * time.Minute,
		CancelWait:  2 * time.Second,
		RunWait:     30 * time.Second, MaxRunWait: 5 * time.Minute,
		EventPage: 100, MaxEventPage: 1000,
		MaxFileBody: 16 << 20, FileBytes: 10 << 20, TransferTimeout: 15 * time.Minute,
		TraceBody: 10 << 20, TraceRetention: 720 * time.Hour,
		Docs: true,
	}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	if !strings.HasPrefix(c.BasePath, "/") || strings.ContainsAny(c.BasePath, "{}?# ") {
		errs = append(errs, fmt.Errorf("base_path %q must begin with / and be plain", c.BasePath))
	}
	for _, wait := range []struct {
		name  string
		value time.Duration
	}{{"turn_timeout", c.TurnTimeout}, {"cancel_wait", c.CancelWait}, {"run_wait", c.RunWait}, {"transfer_timeout", c.TransferTimeout}, {"trace_retention", c.TraceRetention}} {
		if wait.value <= 0 {
			errs = append(errs, fmt.Errorf("%s is %s, must be positive", wait.name, wait.value))
		}
	}
	if c.MaxRunWait < c.RunWait {
		errs = append(errs, fmt.Errorf("max_run_wait is %s, must be at least run_wait", c.MaxRunWait))
	}
	if c.EventPage < 1 || c.MaxEventPage < c.EventPage {
		errs = append(errs, fmt.Errorf("event_page is %d, must be at least 1 and at most its maximum %d", c.EventPage, c.MaxEventPage))
	}
	if c.TraceBody < 1 {
		errs = append(errs, fmt.Errorf("trace_body is %d, must be at least 1", c.TraceBody))
	}
	if c.MaxFileBody < 1 || c.FileBytes < 1 {
		errs = append(errs, fmt.Errorf("max_file_body is %d, file_bytes is %d, must be at least 1", c.MaxFileBody, c.FileBytes))
	}
	return errors.Join(errs...)
}
