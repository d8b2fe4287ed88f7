package endpoint

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fasthttp/router"
	"github.com/valyala/fasthttp"

	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/httpedge/site"
	"parley/proto/failurepb"
)

// MuxConfig is what every route shares. Package httpedge fills it from its own Config, which says what the fields mean.
type MuxConfig struct {
	Node           string // value of X-Served-By
	MaxPathBytes   int
	MaxJSONDepth   int
	MaxStreams     int
	MaxBodyBytes   int // of bodies that are held in memory, unless the route says otherwise
	MaxLargeBodies int
	MaxTransfers   int
	RequestTimeout time.Duration
	ReadTimeout    time.Duration // for the next piece of a body that is read by its handler; 0 = none
	WriteTimeout   time.Duration // for the next piece of a file; 0 = none
	RecheckEvery   time.Duration // how often callers of long requests are watched
	CORS           CORS
	Authenticator  Authenticator
	Limiter        Limiter     // nil = no limits per caller
	Idempotency    Idempotency // nil = Idempotency-Key means nothing
	Observer       Observer    // nil = nobody looks
	// Taken hears of a connection that HTTP does not serve any more, before whoever has it now does. nil = nobody counts them.
	Taken func(conn net.Conn)
	// Reuse serves a connection that a stream has given back.
	Reuse func(conn net.Conn)
	// Part closes a connection that was answered for the last time, when its client may still be sending. It may wait. nil = it
	// is just closed.
	Part func(conn net.Conn)
	// Credentials are the headers, besides Authorization, that say who asks: a request may have each only once.
	Credentials []string
	// Site says which pages may call a server without authentication; nil = the server asks who calls.
	Site *site.Policy
	// Proxies are believed when they say whom a request comes from; the zero value believes nobody.
	Proxies Proxies
}

// What a mux without these settings has; package httpedge always sets them.
const (
	defaultMaxBody     = 1 << 20
	defaultLargeBodies = 16
	defaultTransfers   = 512
	defaultRecheck     = 15 * time.Second
)

// Observer hears of every request when it has been answered. It must not keep Done.
type Observer interface {
	Observe(done *Done)
}

// Done is an answered request. Method and Path are the server's own bytes: copy what is to be kept.
type Done struct {
	Route        *Route // nil when no route matched
	Surface      string
	Call         *Call
	Method, Path []byte
	Status       int
	Code         string // wire code of the error that was answered
	Streamed     bool   // the connection went on as an event stream
	Bytes        int    // of the body
	Elapsed      time.Duration
	Cause        error // what broke, when something broke
}

// Mux answers requests with the routes that were mounted on it. Mount everything before the first request.
type Mux struct {
	config MuxConfig
	cors   *cors
	// credentials are the headers that may be there once.
	credentials [][]byte
	router      *router.Router
	surfaces    []*mounted // longest prefix first
	first       *mounted   // words what is below no prefix
	routes      []MountedRoute
	taken       map[string]string
	base        context.Context //nolint:containedctx // parent of every request's context; ended by Abort
	abort       context.CancelFunc
	stopping    atomic.Bool
	inFlight    atomic.Int64
	idle        chan struct{} // told when a stopping mux has answered its last request
	streams     atomic.Int64
	room        chan struct{} // places for bodies above MaxBodyBytes
	transfer    chan struct{} // places for files that are sent or received
	handovers   sync.Map      // net.Conn -> func(), to be called when the connection dies on its way out of HTTP
	probes      sync.Pool     // of *fasthttp.RequestCtx, to look for routes with
	idPrefix    string
	idCounter   atomic.Uint64
}

// mounted is a surface at its place.
type mounted struct {
	Surface
	prefix string
}

// NewMux returns a mux without routes.
func NewMux(config MuxConfig) *Mux {
	var random [5]byte
	_, _ = rand.Read(random[:]) // never fails, it ends the process instead
	base, abort := context.WithCancel(context.Background())
	if config.MaxBodyBytes <= 0 {
		config.MaxBodyBytes = defaultMaxBody
	}
	if config.MaxLargeBodies <= 0 {
		config.MaxLargeBodies = defaultLargeBodies
	}
	if config.MaxTransfers <= 0 {
		config.MaxTransfers = defaultTransfers
	}
	if config.RecheckEvery <= 0 {
		config.RecheckEvery = defaultRecheck
	}
	credentials := [][]byte{[]byte(fasthttp.HeaderAuthorization)}
	for _, name := range config.Credentials {
		if !strings.EqualFold(name, fasthttp.HeaderAuthorization) {
			credentials = append(credentials, []byte(name))
		}
	}
	return &Mux{
		config:      config,
		credentials: credentials,
		cors:        newCORS(config.CORS),
		router:      router.New(),
		taken:       make(map[string]string),
		base:        base, abort: abort,
		room:     make(chan struct{}, config.MaxLargeBodies),
		transfer: make(chan struct{}, config.MaxTransfers),
		idle:     make(chan struct{}, 1),
		idPrefix: "req_" + hex.EncodeToString(random[:]),
	}
}

// Mount adds a surface's routes under a prefix ("" or "/api/agents"; a trailing slash is dropped). The surface whose
// prefix fits a request best words the answer when no route fits, the first one where none does.
func (m *Mux) Mount(prefix string, surface Surface) error {
	prefix = strings.TrimSuffix(prefix, "/")
	if prefix != "" && !strings.HasPrefix(prefix, "/") {
		return fmt.Errorf("mount %s: base path %q must begin with /", surface.Name, prefix)
	}
	at := &mounted{Surface: surface, prefix: prefix}
	for i := range surface.Routes {
		if err := m.register(at, &at.Routes[i]); err != nil {
			return fmt.Errorf("mount %s: %w", surface.Name, err)
		}
	}
	if m.first == nil {
		m.first = at
	}
	m.surfaces = append(m.surfaces, at)
	slices.SortStableFunc(m.surfaces, func(a, b *mounted) int { return len(b.prefix) - len(a.prefix) })
	return nil
}

func (m *Mux) register(at *mounted, route *Route) error {
	if complaint := route.check(); complaint != "" {
		return errors.New(complaint)
	}
	path := at.prefix + route.Path
	key := route.Method + " " + path
	if other, ok := m.taken[key]; ok {
		return fmt.Errorf("%s: %s is taken by %s", route.Source, key, other)
	}
	m.taken[key] = route.Source
	m.routes = append(m.routes, MountedRoute{Surface: at.Name, Method: route.Method, Path: path, Route: route})
	found := &match{at, route}
	handle := func(rc *fasthttp.RequestCtx) { rc.SetUserValue(routeKey, found) }
	m.router.Handle(route.Method, path, handle)
	if route.Method == fasthttp.MethodGet && route.Kind != Events {
		m.router.Handle(fasthttp.MethodHead, path, handle)
	}
	return nil
}

// MountedRoute is a route under the prefix of its surface.
type MountedRoute struct {
	Surface string
	Method  string
	Path    string // with the prefix
	Route   *Route
}

// Routes lists what is mounted, in the order of mounting.
func (m *Mux) Routes() []MountedRoute { return m.routes }

// match is what the router finds.
type match struct {
	at    *mounted
	route *Route
}

// routeKey is where the router leaves it. No parameter of a path has such a name.
const routeKey = "/route"

// find looks for the route of a request, nil = there is none. The fields of its path are left in rc.
func (m *Mux) find(method, path string, rc *fasthttp.RequestCtx) *match {
	handle, _ := m.router.Lookup(method, path, rc)
	if handle == nil {
		return nil
	}
	handle(rc)
	found, _ := rc.UserValue(routeKey).(*match)
	return found
}

// Serve answers one request.
func (m *Mux) Serve(rc *fasthttp.RequestCtx) {
	if refused := m.ambiguous(rc); refused != nil {
		rc.SetConnectionClose()
		m.refuse(rc, refused)
		return
	}
	if refused := m.foreign(rc); refused != nil {
		m.refuse(rc, refused)
		return
	}
	path := rc.URI().PathOriginal()
	if len(path) > m.config.MaxPathBytes {
		m.refuse(rc, &Problem{
			Status: fasthttp.StatusRequestURITooLong, Code: codePathTooLong,
			Message: fmt.Sprintf("the path is longer than %d bytes", m.config.MaxPathBytes),
		})
		return
	}
	if found := m.find(string(rc.Method()), string(path), rc); found != nil {
		m.run(rc, found.at, found.route)
		return
	}
	m.unmatched(rc)
}

// ambiguous says what in a header somebody in front may have read otherwise than this server, "" = nothing: a body in chunks
// that came with a length, too (RFC 9112, section 6.3), a line that goes on in the next one (section 5.2), a target of another host
// (section 3.2.2), and two credentials.
func (m *Mux) ambiguous(rc *fasthttp.RequestCtx) *failure.Failure {
	if foreignTarget(rc) {
		return failure.New(failurepb.Code_VALIDATION, failure.ForeignTarget)
	}
	const inChunks = -1
	chunked, seen := rc.Request.Header.ContentLength() == inChunks, 0
	for line := range bytes.Lines(rc.Request.Header.RawHeaders()) {
		if line[0] == ' ' || line[0] == '\t' {
			return failure.New(failurepb.Code_VALIDATION, failure.FoldedHeader)
		}
		name, _, _ := bytes.Cut(line, []byte(":"))
		if chunked && bytes.EqualFold(name, []byte(fasthttp.HeaderContentLength)) {
			return failure.New(failurepb.Code_VALIDATION, failure.TwoLengths)
		}
		for i, credential := range m.credentials {
			if !bytes.EqualFold(name, credential) {
				continue
			}
			if seen&(1<<i) != 0 {
				return failure.New(failurepb.Code_VALIDATION, failure.RepeatedHeader).Param("header", string(credential))
			}
			seen |= 1 << i
		}
	}
	return nil
}

// foreignTarget says whether the request target, in absolute form, names another host than Host.
func foreignTarget(rc *fasthttp.RequestCtx) bool {
	target := rc.Request.Header.RequestURI()
	if len(target) == 0 || target[0] == '/' || target[0] == '*' {
		return false
	}
	return !bytes.EqualFold(rc.URI().Host(), rc.Request.Header.Host())
}

func (m *Mux) run(rc *fasthttp.RequestCtx, at *mounted, route *Route) {
	x := m.newExchange(rc, at)
	x.route = route
	m.inFlight.Add(1) // until finish
	defer x.end()
	x.begin()
	x.answer()
}

// refuse answers a request that never got to a route.
func (m *Mux) refuse(rc *fasthttp.RequestCtx, err error) {
	x := m.newExchange(rc, m.surfaceOf(rc.URI().PathOriginal()))
	defer x.end()
	x.begin()
	x.fail(err)
}

func (m *Mux) newExchange(rc *fasthttp.RequestCtx, at *mounted) *exchange {
	return &exchange{mux: m, surface: at, rc: rc, started: time.Now(), call: new(Call)}
}

// unmatched answers a request for which there is no route: a preflight, a wrong method, or an unknown path.
func (m *Mux) unmatched(rc *fasthttp.RequestCtx) {
	if m.preflight(rc) {
		return
	}
	method, path := string(rc.Method()), string(rc.URI().PathOriginal())
	if allowed := m.allowed(path); len(allowed) > 0 {
		rc.Response.Header.Set("Allow", strings.Join(allowed, ", "))
		m.refuse(rc, failure.New(failurepb.Code_METHOD_NOT_ALLOWED, failure.MethodNotAllowed).Param("method", method).Param("path", printable(path)))
		return
	}
	m.refuse(rc, failure.New(failurepb.Code_NOT_FOUND, failure.RouteNotFound).Param("method", method).Param("path", printable(path)))
}

func (m *Mux) preflight(rc *fasthttp.RequestCtx) bool {
	if m.cors == nil || !rc.IsOptions() || len(rc.Request.Header.Peek("Access-Control-Request-Method")) == 0 {
		return false
	}
	x := m.newExchange(rc, m.surfaceOf(rc.URI().PathOriginal()))
	defer x.end()
	x.begin()
	if m.cors.allow(x.Header("Origin")) != "" {
		rc.Response.Header.Set("Access-Control-Allow-Methods", m.cors.methods)
		rc.Response.Header.Set("Access-Control-Allow-Headers", m.cors.allowHeaders(x.Header("Access-Control-Request-Headers")))
		rc.Response.Header.Set("Access-Control-Max-Age", m.cors.maxAge)
	}
	rc.SetStatusCode(fasthttp.StatusNoContent)
	return true
}

// allowed lists the methods that a path has.
func (m *Mux) allowed(path string) []string {
	var methods []string
	for _, method := range []string{"DELETE", "GET", "HEAD", "PATCH", "POST", "PUT"} {
		if handle, _ := m.router.Lookup(method, path, nil); handle != nil {
			methods = append(methods, method)
		}
	}
	return methods
}

func (m *Mux) surfaceOf(path []byte) *mounted {
	for _, at := range m.surfaces {
		rest, ok := strings.CutPrefix(string(path), at.prefix)
		if ok && (rest == "" || rest[0] == '/') {
			return at
		}
	}
	return m.first
}

// RefuseBroken answers a request that could not even be read. The connection is closed after it.
func (m *Mux) RefuseBroken(rc *fasthttp.RequestCtx, err error) {
	m.refuse(rc, brokenRequest(err))
}

// AppendUnavailable renders the body with which a connection is refused before a request has been read from it.
func (m *Mux) AppendUnavailable(dst []byte, reason failure.Reason) []byte {
	at := m.surfaces[len(m.surfaces)-1]
	return at.AppendProblem(dst, at.problem(failure.New(failurepb.Code_UNAVAILABLE, reason)))
}

// openStream takes a place for a stream, of the server's and of the caller's.
func (m *Mux) openStream(x *exchange) (func(), *machine.Failure) {
	if m.streams.Add(1) > int64(m.config.MaxStreams) {
		m.streams.Add(-1)
		return nil, failure.New(failurepb.Code_UNAVAILABLE, failure.ServerStreamsFull)
	}
	release := func() {}
	if m.config.Limiter != nil {
		var refused *machine.Failure
		if release, refused = m.config.Limiter.OpenStream(x.call.Caller, x); refused != nil {
			m.streams.Add(-1)
			return nil, refused
		}
	}
	return once(func() {
		m.streams.Add(-1)
		release()
	}), nil
}

// ConnClosed must hear of every connection that the server has closed.
func (m *Mux) ConnClosed(conn net.Conn) {
	if value, ok := m.handovers.LoadAndDelete(conn); ok {
		if died, ok := value.(func()); ok {
			died()
		}
	}
}

// InFlight is the number of requests that are being answered; Streams that of open event streams.
func (m *Mux) InFlight() int64 { return m.inFlight.Load() }

// Streams is the number of open event streams.
func (m *Mux) Streams() int64 { return m.streams.Load() }

// Refuse refuses new requests with UNAVAILABLE from now on.
func (m *Mux) Refuse() { m.stopping.Store(true) }

// Drain refuses new requests as Refuse does and waits until those under way are answered, or ctx ends.
func (m *Mux) Drain(ctx context.Context) error {
	m.Refuse()
	for m.inFlight.Load() > 0 {
		select {
		case <-m.idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Abort ends the contexts of all requests that are still under way.
func (m *Mux) Abort() { m.abort() }

func (m *Mux) left() {
	if m.inFlight.Add(-1) == 0 && m.stopping.Load() {
		select {
		case m.idle <- struct{}{}:
		default:
		}
	}
}

func (m *Mux) newRequestID() string {
	var buffer [40]byte
	id := append(buffer[:0], m.idPrefix...)
	id = append(id, '_')
	return string(strconv.AppendUint(id, m.idCounter.Add(1), 36))
}

// printable shortens a path for an error text and drops what is no text.
func printable(path string) string {
	const maxLen = 200
	if len(path) > maxLen {
		path = path[:maxLen] + "..."
	}
	return strings.ToValidUTF8(path, "?")
}
