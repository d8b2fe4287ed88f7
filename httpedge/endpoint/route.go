package endpoint

import (
	"context"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"parley/actors/core/access"
	"parley/proto/failurepb"
)

// Kind says what a route answers with.
type Kind int

// Kinds of routes.
const (
	JSON    Kind = iota // a JSON body
	Events              // an event stream, or JSON when the input asks for it
	Bytes               // a file
	Uploads             // a JSON body; the request's body may be a file
)

// Route is the declaration of one route. It is made by On, OnStream, OnBytes or OnUpload and not changed afterwards.
type Route struct {
	Method string
	Path   string // relative to the surface, with {name} for parameters
	// Access is the permission that the route needs, "resource:verb".
	Access  string
	Handler string // name of the function, also the operation id
	Kind    Kind
	Status  int       // of a success, unless the output says otherwise
	Also    []Outcome // other successes, with the same output, and refusals that are not of Errors
	Errors  []failurepb.Code
	Summary string
	Tag     string        // group in the document
	Timeout time.Duration // of the handler; 0 = the server's default
	MaxBody int           // largest JSON body in bytes; 0 = the server's default
	Media   []string      // what a file, or the form of an upload, may be, for the document
	Ranged  bool          // its file has a fixed size and an entity tag: parts of it can be asked for, and whether it changed
	In, Out reflect.Type  // structs
	Source  string        // file:line of the route
	Hidden  bool          // not in the document
	// Idempotent routes take an Idempotency-Key: the same request again gets the first one's answer.
	Idempotent bool

	public         bool
	enterprise     bool
	uncounted      bool
	unaudited      string         // why; see Unaudited
	invalid        failurepb.Code // in the place of VALIDATION; 0 = VALIDATION
	stale          bool
	once           bool // see Once
	endsWithClient bool
	pages          []page
	input          *inputPlan
	invoke         func(context.Context, *exchange) (output, error)
}

// Outcome is a success that a route may answer with besides its usual one.
type Outcome struct {
	Status  int
	Meaning string
	Out     reflect.Type // of its body, for the document; nil = as usual
	Refuses bool         // it is no success: Meaning is the code of an error
}

// Option sets a property of a route.
type Option func(*Route)

// Status sets the status of a success. The default is 200.
func Status(code int) Option { return func(r *Route) { r.Status = code } }

// Errors names the failures of this route, besides those that any route can have.
func Errors(codes ...failurepb.Code) Option {
	return func(r *Route) { r.Errors = append(r.Errors, codes...) }
}

// Also names another status of a success; the output says when it is that one (Statuser).
func Also(status int, meaning string) Option {
	return func(r *Route) { r.Also = append(r.Also, Outcome{Status: status, Meaning: meaning}) }
}

// AlsoRefuses names a status of an error, with its code, that is no failure of ours: a provider's.
func AlsoRefuses(status int, code string) Option {
	return func(r *Route) { r.Also = append(r.Also, Outcome{Status: status, Meaning: code, Refuses: true}) }
}

// AlsoAs is Also for a status whose body looks like another type.
func AlsoAs[Out any](status int, meaning string) Option {
	return func(r *Route) {
		r.Also = append(r.Also, Outcome{Status: status, Meaning: meaning, Out: reflect.TypeFor[Out]()})
	}
}

// Ranged says that a file can be asked for in parts, and whether it has changed (304, 206, 416).
func Ranged() Option { return func(r *Route) { r.Ranged = true } }

// Summary is the route in one line, for people.
func Summary(text string) Option { return func(r *Route) { r.Summary = text } }

// Tag names the group of the route in the document.
func Tag(name string) Option { return func(r *Route) { r.Tag = name } }

// Timeout bounds the handler's run when the server's default does not fit.
func Timeout(limit time.Duration) Option { return func(r *Route) { r.Timeout = limit } }

// MaxBody bounds a JSON body, in bytes, when the server's default does not fit. Bodies above that default are held in
// memory a few at a time only.
func MaxBody(limit int) Option { return func(r *Route) { r.MaxBody = limit } }

// Media names the types of the file that the route answers with; of an upload, those that it takes besides JSON.
func Media(types ...string) Option { return func(r *Route) { r.Media = types } }

// Hidden leaves the route out of the document.
func Hidden() Option { return func(r *Route) { r.Hidden = true } }

// StaleReads lets callers accept an old answer when the conversation's node is not available: "X-Read-Consistency:
// stale". The handler learns it by StaleAllowed.
func StaleReads() Option { return func(r *Route) { r.stale = true } }

// Idempotent lets callers repeat a request safely: "Idempotency-Key". The handler learns of it by RequestKey.
func Idempotent() Option { return func(r *Route) { r.Idempotent = true } }

// Once lets callers repeat a request safely ("Idempotency-Key") whose handler makes new ids each time: it is carried out once. A
// repetition gets the first answer, and 409 while there is none, also when the answer was a stream.
func Once() Option { return func(r *Route) { r.Idempotent, r.once = true, true } }

// EndsWithClient cancels the handler's context when the client closes its connection, or its half of it, before the answer: nobody
// else can use the result. It is noticed within a second or two.
func EndsWithClient() Option { return func(r *Route) { r.endsWithClient = true } }

// Unaudited leaves a route that changes something out of the audit trail, for a reason.
func Unaudited(reason string) Option { return func(r *Route) { r.unaudited = reason } }

// InvalidAs makes the route refuse malformed requests under a code of its own instead of VALIDATION.
func InvalidAs(code failurepb.Code) Option { return func(r *Route) { r.invalid = code } }

// Public serves the route without authentication.
func Public() Option { return func(r *Route) { r.public = true } }

// IsPublic says whether the route is served without authentication.
func (r *Route) IsPublic() bool { return r.public }

// Enterprise keeps the route to tenants whose licence has the highest tiers' areas; for others it is LICENSE_REQUIRED. Paths of
// access.EnterpriseArea are kept without it.
func Enterprise() Option { return func(r *Route) { r.enterprise = true } }

// IsEnterprise says that the route is in an area of the highest tiers.
func (r *Route) IsEnterprise() bool { return r.enterprise || access.EnterpriseArea(r.Path) }

// Uncounted leaves the route out of the requests of the tenant's month: what lifts that limit has to work when it is reached.
func Uncounted() Option { return func(r *Route) { r.uncounted = true } }

// IsUncounted says that the route is not among the requests of a month.
func (r *Route) IsUncounted() bool { return r.uncounted }

// On declares a route that answers with JSON.
func On[In, Out any](pattern, needs string, handle func(context.Context, *In) (*Out, error), options ...Option) Route {
	route := newRoute[In, Out](pattern, needs, JSON, handle, options)
	route.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := route.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in)
		return newOutput(out), err
	}
	return route
}

// Declared is a route's handler whose input and answer are declared as data, not as types of Go: structs that were made while the
// program runs, with the tags that inputs and answers have.
type Declared struct {
	Name    string // the operation's
	In, Out reflect.Type
}

// OnDeclared declares a route that answers with JSON, which Out looks like. handle is given an In.
func OnDeclared(
	pattern, needs string, declared Declared, handle func(context.Context, reflect.Value) (any, error), options ...Option,
) Route {
	route := makeRoute(pattern, needs, JSON, declared, options)
	route.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := reflect.New(declared.In)
		if err := route.input.decode(x, in.Elem(), in.Interface()); err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in.Elem())
		return output{body: out}, err
	}
	return route
}

// OnStream declares a route that answers with an event stream, or with JSON when its handler returns a result
// without having started the stream.
func OnStream[In, Out any](pattern, needs string, handle func(context.Context, *In, Stream) (*Out, error), options ...Option) Route {
	route := newRoute[In, Out](pattern, needs, Events, handle, options)
	route.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := route.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in, x)
		return newOutput(out), err
	}
	return route
}

// OnBytes declares a route that answers with a file.
func OnBytes[In any](pattern, needs string, handle func(context.Context, *In) (*File, error), options ...Option) Route {
	route := newRoute[In, File](pattern, needs, Bytes, handle, options)
	route.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := route.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		file, err := handle(ctx, in)
		return output{file: file}, err
	}
	return route
}

func newRoute[In, Out any](pattern, needs string, kind Kind, handle any, options []Option) Route {
	return makeRoute(pattern, needs, kind, Declared{functionName(handle), reflect.TypeFor[In](), reflect.TypeFor[Out]()}, options)
}

func makeRoute(pattern, needs string, kind Kind, declared Declared, options []Option) Route {
	method, path, _ := strings.Cut(pattern, " ")
	route := Route{
		Method: method, Path: path, Access: needs, Kind: kind, Status: 200,
		Handler: declared.Name, In: declared.In, Out: declared.Out, Source: declaredAt(),
	}
	for _, option := range options {
		option(&route)
	}
	route.input = planInput(route.In, route.pages)
	if route.stale {
		route.input.params = append(route.input.params, consistencyParam())
	}
	if route.Idempotent {
		route.input.params = append(route.input.params, idempotencyParam())
	}
	return route
}

// functionName returns "getConversation" for a.getConversation.
func functionName(handle any) string {
	name := runtime.FuncForPC(reflect.ValueOf(handle).Pointer()).Name()
	name = strings.TrimSuffix(name, "-fm")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// declaredAt returns where the route was written, as "httpedge/convapi/routes.go:17".
func declaredAt() string {
	callers := make([]uintptr, 8)
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers)])
	for {
		frame, more := frames.Next()
		ours := strings.Contains(frame.File, "/httpedge/endpoint/") || strings.Contains(frame.File, "/httpedge/resource/")
		if ours && more && !strings.HasSuffix(frame.File, "_test.go") {
			continue
		}
		file := frame.File
		if i := strings.LastIndex(file, "/httpedge/"); i >= 0 {
			file = file[i+1:]
		}
		return file + ":" + strconv.Itoa(frame.Line)
	}
}
