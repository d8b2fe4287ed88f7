package endpoint

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORS says which pages of other origins may call this server. The zero value lets none.
type CORS struct {
	// Origins may call: exact origins ("https://app.example.com"), or "*" for any. Empty = CORS is off.
	Origins []string
	// Methods and Headers are what a preflight allows. Defaults: GET, POST, PUT, PATCH, DELETE, OPTIONS; Content-Type,
	// Authorization, Last-Event-ID, X-Request-Id, X-Read-Consistency, Idempotency-Key. Add the name of a custom token header here.
	Methods, Headers []string
	// MaxAge is how long a browser may keep a preflight's answer. Default 24 h.
	MaxAge time.Duration
}

// cors is CORS made ready to be sent.
type cors struct {
	any              bool
	origins          []string
	methods, headers string
	maxAge           string
}

func newCORS(config CORS) *cors {
	if len(config.Origins) == 0 {
		return nil
	}
	if len(config.Methods) == 0 {
		config.Methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	}
	if len(config.Headers) == 0 {
		config.Headers = []string{"Content-Type", "Authorization", "Last-Event-ID", "X-Request-Id", headerConsistency, headerIdempotency}
	}
	if config.MaxAge <= 0 {
		config.MaxAge = 24 * time.Hour
	}
	return &cors{
		any:     slices.Contains(config.Origins, "*"),
		origins: config.Origins,
		methods: strings.Join(config.Methods, ", "),
		headers: strings.Join(config.Headers, ", "),
		maxAge:  strconv.Itoa(int(config.MaxAge.Seconds())),
	}
}

// allow returns what Access-Control-Allow-Origin says to an origin, "" when the header is not to be sent.
func (c *cors) allow(origin string) string {
	switch {
	case c == nil || origin == "":
		return ""
	case c.any:
		return "*"
	case slices.Contains(c.origins, origin):
		return origin
	}
	return ""
}
