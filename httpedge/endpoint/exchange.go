package endpoint

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/accept"
	"parley/proto/failurepb"
)

// Header names of the edge, in canonical form.
const (
	headerRequestID   = "X-Request-Id"
	headerServedBy    = "X-Served-By"
	headerNoSniff     = "X-Content-Type-Options"
	headerConsistency = "X-Read-Consistency"
	headerReadStale   = "X-Read-Stale"
	headerIdempotency = "Idempotency-Key"
)

// exchange is one request and its answer. It is what handlers see as Stream and what authentication sees as Request;
// it does not outlive the request, its call does.
type exchange struct {
	mux     *Mux
	surface *mounted
	route   *Route // nil when no route matched
	rc      *fasthttp.RequestCtx
	started time.Time
	call    *Call

	deadline time.Time          // of the handler, and of what it streams
	cancel   context.CancelFunc // ends the handler's context
	body     *bodyReader        // nil = not looked at, else reader
	reader   bodyReader
	held     []byte    // the whole body, once it was read ahead of the handler
	leave    func()    // gives back the room for a large body
	down     *download // the file that is sent when the handler has returned
	release  func()    // of the place for a stream
	unread   bool      // some of the body is still to come
	moves    bool      // holds a place for a file that is sent or received
	serve    func(Takeover)
	code     string // wire code of the problem that was answered
	cause    error  // what broke
	verdict  verdict
}

var (
	_ Request      = (*exchange)(nil)
	_ Patterned    = (*exchange)(nil)
	_ HeaderPeeker = (*exchange)(nil)
	_ Headers      = (*exchange)(nil)
	_ Proxied      = (*exchange)(nil)
	_ Stream       = (*exchange)(nil)
)

// Method implements Request.
func (x *exchange) Method() string { return string(x.rc.Method()) }

// Path implements Request.
func (x *exchange) Path() string {
	return strings.TrimPrefix(string(x.rc.URI().PathOriginal()), x.surface.prefix)
}

// Pattern is the route's path with the names of its parameters, "" when no route matched.
func (x *exchange) Pattern() string {
	if x.route == nil {
		return ""
	}
	return x.route.Path
}

// Header implements Request.
func (x *exchange) Header(name string) string { return string(x.rc.Request.Header.Peek(name)) }

// PeekHeader implements HeaderPeeker.
func (x *exchange) PeekHeader(name string) []byte { return x.rc.Request.Header.Peek(name) }

// HeaderValues implements Headers.
func (x *exchange) HeaderValues(name string) []string {
	var values []string
	for _, value := range x.rc.Request.Header.PeekAll(name) {
		values = append(values, string(value))
	}
	return values
}

// ReplaceHeader implements Headers.
func (x *exchange) ReplaceHeader(name, value string) {
	x.rc.Request.Header.Del(name)
	if value != "" {
		x.rc.Request.Header.Set(name, value)
	}
}

// AnswerHeader implements Headers.
func (x *exchange) AnswerHeader(name, value string) { x.rc.Response.Header.Set(name, value) }

// Query implements Request.
func (x *exchange) Query(name string) string { return string(x.rc.QueryArgs().Peek(name)) }

// RemoteIP implements Request.
func (x *exchange) RemoteIP() string {
	peer, _ := netip.AddrFromSlice(x.rc.RemoteIP()) // fails for nothing but an address that is none
	return x.mux.config.Proxies.client(peer, x.HeaderValues).String()
}

// FromProxy implements Proxied.
func (x *exchange) FromProxy() bool {
	peer, _ := netip.AddrFromSlice(x.rc.RemoteIP())
	return x.mux.config.Proxies.trust(peer.Unmap())
}

// Admit implements Stream.
func (x *exchange) Admit() error {
	if x.release != nil {
		return nil
	}
	release, refused := x.mux.openStream(x)
	if refused != nil {
		return refused
	}
	x.release = release
	return nil
}

// Start implements Stream.
func (x *exchange) Start(serve func(Takeover)) error {
	if x.serve != nil {
		return errors.New("stream started twice")
	}
	if err := x.Admit(); err != nil {
		return err
	}
	x.serve = serve
	return nil
}

// begin writes the headers that every answer has and decides the request's id.
func (x *exchange) begin() {
	if x.call.RequestID == "" {
		x.call.RequestID = x.requestID()
	}
	x.eachHeader(func(name, value string) {
		x.rc.Response.Header.Set(name, value)
	})
}

// eachHeader calls set for every header that the edge adds to an answer, whatever the answer is.
func (x *exchange) eachHeader(set func(name, value string)) {
	set(headerRequestID, x.call.RequestID)
	set(headerServedBy, cmp.Or(x.call.ServedBy(), x.mux.config.Node))
	if x.call.ServedStale() {
		set(headerReadStale, "true")
	}
	set(headerNoSniff, "nosniff")
	for _, header := range x.surface.Headers {
		set(header.Name, header.Value)
	}
	if x.mux.cors == nil {
		return
	}
	if allowed := x.mux.cors.allow(x.Header("Origin")); allowed != "" {
		set("Access-Control-Allow-Origin", allowed)
		set("Access-Control-Expose-Headers", "X-Request-Id, X-Served-By, X-Read-Stale, X-Service-Cache, Retry-After, "+headerReplayed+", "+
			"Content-Disposition, Content-Range, ETag")
	}
	if !x.mux.cors.any {
		set("Vary", "Origin")
	}
}

// requestID takes the client's id when it is short and plain, so that it is safe to echo and to log.
func (x *exchange) requestID() string {
	const maxLen = 128
	given := x.rc.Request.Header.Peek(headerRequestID)
	if len(given) == 0 || len(given) > maxLen {
		return x.mux.newRequestID()
	}
	for _, c := range given {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("-_.:/+=@", c) >= 0:
		default:
			return x.mux.newRequestID()
		}
	}
	return string(given)
}

// answer runs the route: who asks, may they, what do they want, here it is.
func (x *exchange) answer() {
	if x.mux.stopping.Load() {
		x.rc.SetConnectionClose()
		x.fail(failure.New(failurepb.Code_UNAVAILABLE, failure.ServerShuttingDown))
		return
	}
	route := x.route
	timeout := route.Timeout
	if timeout == 0 {
		timeout = x.mux.config.RequestTimeout
	}
	ctx, cancel := context.WithTimeout(x.mux.base, timeout)
	x.cancel = cancel
	x.deadline, _ = ctx.Deadline()
	if refused := x.admitCaller(ctx); refused != nil {
		x.fail(refused)
		x.auditDenied()
		return
	}
	ctx = x.attended(x.watched(ctx))
	ctx, audited, refused := x.beginAudit(ctx)
	if refused != nil {
		x.fail(refused)
		return
	}
	defer x.endAudit(ctx, audited)
	kept, err := x.beginKeyed(ctx)
	switch {
	case err != nil:
		x.fail(err)
	case kept != nil && kept.Answer != nil:
		x.replay(kept.Answer)
	default:
		x.invoke(ctx)
		x.keep(ctx, kept)
	}
	x.verdict.reached = true
}

// invoke runs the handler and answers with what it returned.
func (x *exchange) invoke(ctx context.Context) {
	x.call.request.Store(x)
	out, err := x.route.invoke(WithCall(ctx, x.call), x)
	x.call.request.Store(nil)
	x.nameServer()
	switch {
	case err != nil:
		x.serve, x.verdict.cut = nil, ctx.Err() != nil
		x.fail(refused(ctx, err))
	case x.serve != nil:
		x.handOver()
	case out.file != nil:
		if err := x.writeFile(out.file); err != nil {
			x.fail(err)
		}
	default:
		x.writeResult(out.body)
	}
}

// nameServer puts into the headers what the handler noted of where it was answered.
func (x *exchange) nameServer() {
	if name := x.call.ServedBy(); name != "" {
		x.rc.Response.Header.Set(headerServedBy, name)
	}
	if x.call.ServedStale() {
		x.rc.Response.Header.Set(headerReadStale, "true")
	}
}

func (x *exchange) admitCaller(ctx context.Context) *machine.Failure {
	if x.surface.Guard != nil {
		if refused := x.surface.Guard(x); refused != nil {
			return refused
		}
	}
	if authenticator := x.authenticator(); authenticator != nil {
		caller, refused := authenticator.Authenticate(ctx, x)
		if refused != nil {
			return refused
		}
		x.call.Caller = caller
	}
	return x.count(ctx)
}

// count says whether the caller may have the route once, or once more.
func (x *exchange) count(ctx context.Context) *machine.Failure {
	if x.surface.Permit != nil && x.authenticator() != nil {
		if refused := x.surface.Permit(ctx, x.call.Caller, x.route); refused != nil {
			return refused
		}
	}
	if x.mux.config.Limiter != nil {
		return x.mux.config.Limiter.Allow(x.call.Caller, x, x.route)
	}
	return nil
}

func (x *exchange) writeResult(body any) {
	response := &x.rc.Response
	status := x.route.Status
	if s, ok := body.(Statuser); ok {
		status = s.HTTPStatus()
	}
	if status == fasthttp.StatusNoContent {
		response.SetStatusCode(status)
		return
	}
	if body == nil {
		x.fail(errors.New("handler returned neither a result nor an error"))
		return
	}
	encoded, err := appendBody(response.SwapBody(nil)[:0], body)
	if err != nil {
		x.fail(err)
		return
	}
	kind := "application/json"
	if typed, ok := body.(ContentTyper); ok {
		kind = typed.ContentType()
	}
	response.SetStatusCode(status)
	response.Header.SetContentType(kind)
	response.Header.Set("Cache-Control", "no-store")
	response.SwapBody(encoded)
}

// fail answers with what the surface makes of an error.
func (x *exchange) fail(err error) {
	if refused := (*machine.Failure)(nil); errors.As(err, &refused) && refused.Code == failurepb.Code_VALIDATION && x.route != nil && x.route.invalid != 0 {
		err = refused.WithCode(x.route.invalid)
	}
	problem := x.surface.problem(err)
	x.verdict.denied, x.verdict.ran = isDenial(err), problem.Ran
	x.code, x.cause = problem.Code, problem.Cause
	response := &x.rc.Response
	response.SetStatusCode(problem.Status)
	response.Header.SetContentType("application/json")
	response.Header.Set("Cache-Control", "no-store")
	if seconds := problem.RetrySeconds(); seconds > 0 {
		response.Header.Set("Retry-After", strconv.Itoa(seconds))
	}
	if problem.Status == fasthttp.StatusUnauthorized {
		response.Header.Set("WWW-Authenticate", "Bearer")
	}
	response.SwapBody(x.surface.AppendProblem(response.SwapBody(nil)[:0], problem))
}

// handOver gives the connection to the receiver of the stream.
func (x *exchange) handOver() {
	var head strings.Builder
	x.eachHeader(func(name, value string) {
		head.WriteString(name)
		head.WriteString(": ")
		head.WriteString(value)
		head.WriteString("\r\n")
	})
	take := Takeover{Head: []byte(head.String()), Release: x.release, Still: x.still(), Plain: http10(x.rc)}
	x.release = nil
	serve, reuse, rc := x.serve, x.mux.config.Reuse, x.rc
	x.takeConn(func(conn net.Conn, ahead []byte) {
		take.Conn = accept.Socket(conn)
		if reuse != nil && !take.Plain && !rc.Response.ConnectionClose() {
			take.Reuse = func(back net.Conn) { reuse(prime(accept.Returned(back, conn), ahead)) }
		}
		serve(take)
	})
}

// end is what follows on the handler, whatever became of it. A panic is turned into a fault.
func (x *exchange) end() {
	if caught := recover(); caught != nil {
		x.call.request.Store(nil)
		x.serve = nil
		x.rc.Response.Reset()
		x.begin()
		x.rc.SetConnectionClose()
		x.fail(fmt.Errorf("panic: %v\n%s", caught, debug.Stack()))
	}
	x.settleBody()
	if x.down == nil { // else the download does it
		x.finish()
	}
	if x.unread {
		x.part()
	}
}

// finish closes the books on a request.
func (x *exchange) finish() {
	if x.cancel != nil {
		x.cancel()
	}
	if x.release != nil {
		x.release()
	}
	if x.moves {
		<-x.mux.transfer
	}
	if observer := x.mux.config.Observer; observer != nil {
		done := &Done{
			Route: x.route, Surface: x.surface.Name, Call: x.call,
			Status: x.status(), Code: x.code, Streamed: x.serve != nil,
			Elapsed: time.Since(x.started), Cause: x.cause,
		}
		if x.down != nil {
			done.Method, done.Path, done.Bytes = []byte(x.down.method), []byte(x.down.path), int(x.down.sent)
		} else {
			done.Method, done.Path, done.Bytes = x.rc.Method(), x.rc.URI().PathOriginal(), len(x.rc.Response.Body())
		}
		observer.Observe(done)
	}
	if x.route != nil {
		x.mux.left()
	}
}

func (x *exchange) status() int {
	switch {
	case x.serve != nil:
		return fasthttp.StatusOK
	case x.down != nil:
		return x.down.status
	}
	return x.rc.Response.StatusCode()
}

// once makes a release harmless to call twice.
func once(release func()) func() {
	var o sync.Once
	return func() { o.Do(release) }
}
