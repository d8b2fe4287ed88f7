package endpoint

import (
	"context"
	"net/http"
	"net/textproto"
	"strings"
	"sync/atomic"

	"parley/actors/core/access"
	"parley/actors/machine"
)

// Caller is who asks, as the edge established it.
type Caller struct {
	TenantID, ProjectID string
	// UserID is the person behind the request; empty = nobody in particular.
	UserID string
	// Identified says that the server established UserID. Without it, UserID is at most a claim of the request.
	Identified bool
	// Trusted callers (a backend with its own key) may act on conversations of any user of their project.
	Trusted bool
	// Grant is what an API token gives; nil = none was presented.
	Grant *access.Grant
}

// TokenID is the API token that was presented; empty = none was.
func (c *Caller) TokenID() string {
	if c.Grant == nil {
		return ""
	}
	return c.Grant.Token.GetId()
}

// Request is what authentication and limits see of a request. The strings are copies and may be kept.
type Request interface {
	Method() string
	// Path is the path as sent, after the surface's base path: "/conversations/conv_x".
	Path() string
	// Header returns the first header of that name in any case, or "".
	Header(name string) string
	// Query returns the first query field of that name, decoded, or "".
	Query(name string) string
	// RemoteIP is the address that the request comes from, without port: that of the other end of the connection, or of whom a trusted
	// proxy asks for.
	RemoteIP() string
}

// Proxied is an optional interface of a Request.
type Proxied interface {
	// FromProxy says that the other end of the connection is a trusted proxy, whose headers about the client are true.
	FromProxy() bool
}

// Patterned is an optional interface of a Request.
type Patterned interface {
	// Pattern is the path of the request's route, with {name} for parameters; "" = no route.
	Pattern() string
}

// HeaderPeeker is an optional interface of a Request: it reads a header without copying it.
type HeaderPeeker interface {
	// PeekHeader returns the first header of that name, or nothing. The bytes are the server's own: they may only be read, and
	// only until the request is answered.
	PeekHeader(name string) []byte
}

// Headers is what a Request may be, too: all header lines of a name are seen, headers of the request are replaced for whoever
// handles it, and headers are added to the answer, whatever it will be. It may be used until the handler returns. Values must not
// come from outside unchecked.
type Headers interface {
	// HeaderValues returns the values of all header lines of that name, in order.
	HeaderValues(name string) []string
	// ReplaceHeader has the request carry a header once with a value, whatever the client sent; an empty value removes it.
	ReplaceHeader(name, value string)
	// AnswerHeader adds a header to the answer. Set-Cookie may be added several times, others are replaced.
	AnswerHeader(name, value string)
}

// Authenticator establishes the caller of a request. A failure ends the request (AUTH_REQUIRED, FORBIDDEN). It is
// called once per request before the input is read, from many goroutines.
type Authenticator interface {
	Authenticate(ctx context.Context, request Request) (Caller, *machine.Failure)
}

// Limiter bounds what one caller may ask for.
type Limiter interface {
	// Allow counts one request on a route and refuses it (RATE_LIMITED, with details.retryAfter in seconds) when the
	// caller has used up what it may ask for.
	Allow(caller Caller, request Request, route *Route) *machine.Failure
	// OpenStream takes one of the caller's places for open streams. release gives it back; it is safe to call twice.
	OpenStream(caller Caller, request Request) (release func(), failure *machine.Failure)
}

type callKey struct{}

// Call is what a handler knows of its request besides the input, and what it records about the answer.
type Call struct {
	Caller    Caller
	RequestID string

	request     atomic.Pointer[exchange] // nil once the handler has returned
	requestKey  string
	wantsStale  bool
	servedBy    atomic.Pointer[string]
	servedStale atomic.Bool
}

// ServedBy is the node that answered, "" when the handlers named none.
func (c *Call) ServedBy() string {
	if name := c.servedBy.Load(); name != nil {
		return *name
	}
	return ""
}

// ServedStale says that the answer may not include all acknowledged writes.
func (c *Call) ServedStale() bool { return c.servedStale.Load() }

// WithCall returns a context that carries the call.
func WithCall(ctx context.Context, call *Call) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

// CallerFrom returns who asks. Without a call in the context it is the zero Caller: nobody.
func CallerFrom(ctx context.Context) Caller {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call.Caller
	}
	return Caller{}
}

// RequestIDFrom returns the id under which the request is logged.
func RequestIDFrom(ctx context.Context) string {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call.RequestID
	}
	return ""
}

// MintID makes an id for what the request creates; a repeated request gets the same one (RequestKey). With like it routes to the shard of that id.
func MintID(ctx context.Context, ids IDs, kind, like string) string {
	key := RequestKey(ctx)
	switch {
	case key != "" && like != "":
		return ids.NewIDFromFor(kind, key, like)
	case key != "":
		return ids.NewIDFrom(kind, key)
	case like != "":
		return ids.NewIDFor(kind, like)
	}
	return ids.NewID(kind)
}

// CommandID is the id of a command of the request. step names it within the request, so that a repeated request repeats the same command.
func CommandID(ctx context.Context, ids IDs, step string) string {
	if key := RequestKey(ctx); key != "" {
		return key + "/" + step
	}
	return ids.NewID("cmd")
}

// RequestKey is a text that is the same when the same request is repeated, also after a crash in between, and as hard to guess
// as an id; "" when the caller sent no Idempotency-Key, or the route does not take one. Ids and command ids that a handler
// makes from it let the repetition do nothing twice.
func RequestKey(ctx context.Context) string {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		return call.requestKey
	}
	return ""
}

// RequestFrom returns the request itself (its headers, RemoteIP); nil when there is none. It may only be used by the handler's
// own goroutine, until the handler returns.
func RequestFrom(ctx context.Context) Request {
	if x := exchangeFrom(ctx); x != nil {
		return x
	}
	return nil
}

// CountAgain counts one more request of the caller on the route, for a handler that carries out several calls that came in one
// request, and refuses it as it would have been refused alone. It may be used where RequestFrom may.
func CountAgain(ctx context.Context) error {
	if x := exchangeFrom(ctx); x != nil {
		if refused := x.count(ctx); refused != nil {
			return refused
		}
	}
	return nil
}

// RequestedURL returns the scheme and host under which the client asked, with what a proxy in front says of the scheme. It may be
// used where RequestFrom may.
func RequestedURL(ctx context.Context) (scheme, host string) {
	x := exchangeFrom(ctx)
	if x == nil {
		return "http", ""
	}
	scheme = "http"
	if x.rc.IsTLS() {
		scheme = "https"
	}
	forwarded, _, _ := strings.Cut(x.Header("X-Forwarded-Proto"), ",")
	switch forwarded = strings.ToLower(strings.TrimSpace(forwarded)); forwarded {
	case "http", "https":
		scheme = forwarded
	}
	return scheme, string(x.rc.Host())
}

// ProblemOf words an error as the surface of the request does, for a handler that puts it into a body of its own. What broke is
// logged with the request. It may be used where RequestFrom may.
func ProblemOf(ctx context.Context, err error) *Problem {
	x := exchangeFrom(ctx)
	if x == nil {
		return &Problem{Status: http.StatusInternalServerError, Cause: err}
	}
	problem := x.surface.problem(refused(ctx, err))
	if problem.Status == http.StatusInternalServerError {
		x.code, x.cause = problem.Code, problem.Cause
	}
	return problem
}

// PrefixedHeaders returns copies of the request's headers whose name begins with a prefix, in any case, by what follows the
// prefix in canonical form; of several with one name the last. It may be used where RequestFrom may.
func PrefixedHeaders(ctx context.Context, prefix string) map[string]string {
	x := exchangeFrom(ctx)
	if x == nil {
		return nil
	}
	var found map[string]string
	for name, value := range x.rc.Request.Header.All() {
		if len(name) <= len(prefix) || !strings.EqualFold(string(name[:len(prefix)]), prefix) {
			continue
		}
		if found == nil {
			found = make(map[string]string)
		}
		found[textproto.CanonicalMIMEHeaderKey(string(name[len(prefix):]))] = string(value)
	}
	return found
}

func exchangeFrom(ctx context.Context) *exchange {
	call, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		return nil
	}
	return call.request.Load()
}

// ServedBy notes which node answered for the conversation; of several words the last counts. The edge names it in
// X-Served-By, and itself when nothing was noted. It may be called from any goroutine until the handler returns.
func ServedBy(ctx context.Context, node string) {
	if call, ok := ctx.Value(callKey{}).(*Call); ok && node != "" {
		call.servedBy.Store(&node)
	}
}

// StaleAllowed says that the caller would rather have a possibly old answer than none (X-Read-Consistency: stale).
func StaleAllowed(ctx context.Context) bool {
	call, ok := ctx.Value(callKey{}).(*Call)
	return ok && call.wantsStale
}

// ServedStale notes that the answer was read from a replica that could not be confirmed: it may be old. The edge says
// so in X-Read-Stale. Only where StaleAllowed.
func ServedStale(ctx context.Context) {
	if call, ok := ctx.Value(callKey{}).(*Call); ok {
		call.servedStale.Store(true)
	}
}

// Apart returns a context for a handler that asks several conversations: the node that answers for one of them is not recorded,
// since no node answers for the whole.
func Apart(ctx context.Context) context.Context {
	call, ok := ctx.Value(callKey{}).(*Call)
	if !ok {
		return ctx
	}
	return WithCall(ctx, &Call{
		Caller: call.Caller, RequestID: call.RequestID, requestKey: call.requestKey, wantsStale: call.wantsStale,
	})
}
