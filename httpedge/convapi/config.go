package convapi

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Config is the settings of this surface.
type Config struct {
	// BasePath is where the routes begin. Default "/api/agents". A trailing slash is dropped.
	BasePath string
	// ListPage and MaxListPage are the default and the largest page of the conversation list. Defaults 20, 100.
	ListPage, MaxListPage int
	// MessagePage and MaxMessagePage are those of messages, in a conversation read and in the message list.
	// Defaults 100, 200. A page is held in memory whole while it is answered.
	MessagePage, MaxMessagePage int
	// EventPage and MaxEventPage are those of the event log. Defaults 100, 1000.
	EventPage, MaxEventPage int
	// MaxBulkDelete is how many ids one bulk delete takes. Default 100.
	MaxBulkDelete int
	// BulkDeleteWorkers is how many of them are deleted at a time. Default 8. More finish sooner and let one request
	// take more of the log's attention.
	BulkDeleteWorkers int
	// TurnTimeout is how long a message with stream: false waits for its turn. Default 15 min. When it is over the
	// caller gets 503 unavailable and the turn goes on; its answer is in the conversation.
	TurnTimeout time.Duration
	// ResolveWait is how long resolving an action, or continuing, with stream: false waits for the turn before it
	// answers 202 with status running, at most until shortly before TurnTimeout. Default 15 min. Longer answers the
	// result more often, and holds the caller.
	ResolveWait time.Duration
	// CancelWait is how long a cancel waits for the turn to end before it answers 202. Default 2 s. Longer answers
	// 200 more often, and holds the caller.
	CancelWait time.Duration
	// MaxFileBody is the largest JSON body that may bring files, in bytes; more is 413. Default 16 MiB, room for a file of
	// 11 MiB in base64. Such bodies are held in memory, a few at a time.
	MaxFileBody int
	// FileBytes is the largest file where its agent sets no limit, and of files without a conversation. Default 10 MiB.
	FileBytes int64
	// FileRetention is how long a file without a conversation is kept. Default 0: until it is deleted.
	FileRetention time.Duration
	// TransferTimeout is how long one upload, download or export may take. Default 15 min. A client that makes no
	// progress is cut off sooner.
	TransferTimeout time.Duration
	// AllowAnonymousList lets those whom nobody identified, and who name no user, list the conversations without an
	// owner. Default false: 401 identity_required.
	AllowAnonymousList bool
	// UserIDFromBody lets the body of a create name the owner when nobody was identified. Default true. That of a query
	// is the authenticator's to believe.
	UserIDFromBody bool
	// AuthEnabled says that callers authenticate; the API document then asks for a bearer token. Default false.
	AuthEnabled bool
	// Docs serves /docs and /docs/openapi.json. Default true.
	Docs bool
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{
		BasePath: "/api/agents",
		ListPage: 20, MaxListPage: 100,
		MessagePage: 100, MaxMessagePage: 200,
		EventPage: 100, MaxEventPage: 1000,
		MaxBulkDelete: 100, BulkDeleteWorkers: 8,
		TurnTimeout: 15 * time.Minute,
		ResolveWait: 15 * time.Minute,
		CancelWait:  2 * time.Second,
		MaxFileBody: 16 << 20, FileBytes: 10 << 20, TransferTimeout: 15 * time.Minute,
		Docs: true, UserIDFromBody: true,
	}
}

// Validate says what is wrong with the settings.
func (c Config) Validate() error {
	var errs []error
	if base := c.basePath(); base != "" && !strings.HasPrefix(base, "/") || strings.ContainsAny(base, "{}?# ") {
		errs = append(errs, fmt.Errorf("base_path %q must begin with / and be plain", c.BasePath))
	}
	pages := []struct {
		name            string
		fallback, limit int
	}{
		{"list_page", c.ListPage, c.MaxListPage},
		{"message_page", c.MessagePage, c.MaxMessagePage},
		{"event_page", c.EventPage, c.MaxEventPage},
	}
	for _, page := range pages {
		if page.fallback < 1 || page.limit < page.fallback {
			errs = append(errs, fmt.Errorf("%s is %d, must be at least 1 and at most its maximum %d", page.name, page.fallback, page.limit))
		}
	}
	if c.MaxBulkDelete < 1 {
		errs = append(errs, fmt.Errorf("max_bulk_delete is %d, must be at least 1", c.MaxBulkDelete))
	}
	if c.BulkDeleteWorkers < 1 {
		errs = append(errs, fmt.Errorf("bulk_delete_workers is %d, must be at least 1", c.BulkDeleteWorkers))
	}
	if c.TurnTimeout <= 0 {
		errs = append(errs, fmt.Errorf("turn_timeout is %s, must be positive", c.TurnTimeout))
	}
	if c.ResolveWait <= 0 {
		errs = append(errs, fmt.Errorf("resolve_wait is %s, must be positive", c.ResolveWait))
	}
	if c.CancelWait <= 0 {
		errs = append(errs, fmt.Errorf("cancel_wait is %s, must be positive", c.CancelWait))
	}
	if c.MaxFileBody < 1 || c.FileBytes < 1 {
		errs = append(errs, fmt.Errorf("max_file_body is %d, file_bytes is %d, must be at least 1", c.MaxFileBody, c.FileBytes))
	}
	if c.FileRetention < 0 || c.TransferTimeout <= 0 {
		errs = append(errs, fmt.Errorf("file_retention is %s, transfer_timeout is %s, must be positive", c.FileRetention, c.TransferTimeout))
	}
	return errors.Join(errs...)
}

// basePath is BasePath without its trailing slash.
func (c Config) basePath() string { return strings.TrimSuffix(c.BasePath, "/") }
