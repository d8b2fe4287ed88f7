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
	// Authorization, Last-Event-ID, X-Request-Id, X-Read-Consistency, Idempotency-Key, X-Stainless-* (which the official
	// model clients send). A name that ends in * allows every header that begins so. Add the name of a custom token header here.
	Methods, Headers []string
	// MaxAge is how long a browser may keep a preflight's answer. Default 24 h.
	MaxAge time.Duration
}

// cors is CORS made ready to be sent.
type cors struct {
	any              bool
	origins          []string
	methods, headers string
	prefixes         []string // in lower case
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
		config.Headers = []string{"Content-Type", "Authorization", "Last-Event-ID", "X-Request-Id", headerConsistency, headerIdempotency, "X-Stainless-*"}
	}
	names, prefixes := make([]string, 0, len(config.Headers)), []string(nil)
	for _, name := range config.Headers {
		if prefix, ok := strings.CutSuffix(name, "*"); ok {
			prefixes = append(prefixes, strings.ToLower(prefix))
		} else {
			names = append(names, name)
		}
	}
	if config.MaxAge <= 0 {
		config.MaxAge = 24 * time.Hour
	}
	return &cors{
		any:      slices.Contains(config.Origins, "*"),
		origins:  config.Origins,
		methods:  strings.Join(config.Methods, ", "),
		headers:  strings.Join(names, ", "),
		prefixes: prefixes,
		maxAge:   strconv.Itoa(int(config.MaxAge.Seconds())),
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

// maxPreflightHeaders is how many headers allowed by prefix a preflight's answer names.
const maxPreflightHeaders = 64

// allowHeaders returns what Access-Control-Allow-Headers says to a preflight that asks for the listed headers: the configured
// names, and those of the list that begin with a configured prefix, for the header itself knows no prefixes.
func (c *cors) allowHeaders(requested string) string {
	if len(c.prefixes) == 0 || requested == "" {
		return c.headers
	}
	allowed := c.headers
	named := 0
	for name := range strings.SplitSeq(requested, ",") {
		name = strings.ToLower(strings.TrimSpace(name))
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if named == maxPreflightHeaders || !isToken(name) || !slices.ContainsFunc(c.prefixes, begins) {
			continue
		}
		named++
		if allowed != "" {
			allowed += ", "
		}
		allowed += name
	}
	return allowed
}

// isToken says whether a text can be the name of a header (RFC 9110, 5.6.2).
func isToken(name string) bool {
	return name != "" && strings.Trim(name, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
