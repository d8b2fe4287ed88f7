package endpoint

import (
	"context"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

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

// Row is one route. It is made by On, OnStream or OnBytes and not changed afterwards.
type Row struct {
	Method string
	Path   string // relative to the surface, with {name} for parameters
	// Access is the permission that the route needs, "resource:verb".
	Access  string
	Handler string // name of the function, also the operation id
	Kind    Kind
	Status  int       // of a success, unless the output says otherwise
	Also    []Outcome // other successes, with the same output
	Errors  []failurepb.Code
	Summary string
	Tag     string        // group in the document
	Timeout time.Duration // of the handler; 0 = the server's default
	MaxBody int           // largest JSON body in bytes; 0 = the server's default
	Media   []string      // what a file may be, for the document
	Ranged  bool          // its file has a fixed size and an entity tag: parts of it can be asked for, and whether it changed
	In, Out reflect.Type  // structs
	Source  string        // file:line of the row
	Hidden  bool          // not in the document
	// Idempotent routes take an Idempotency-Key: the same request again gets the first one's answer.
	Idempotent bool

	public         bool
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
}

// Option refines a row.
type Option func(*Row)

// Status sets the status of a success. The default is 200.
func Status(code int) Option { return func(r *Row) { r.Status = code } }

// Errors names the refusals that the route is known to answer with, besides those that any route can.
func Errors(codes ...failurepb.Code) Option {
	return func(r *Row) { r.Errors = append(r.Errors, codes...) }
}

// Also names another status of a success; the output says when it is that one (Statuser).
func Also(status int, meaning string) Option {
	return func(r *Row) { r.Also = append(r.Also, Outcome{Status: status, Meaning: meaning}) }
}

// AlsoAs is Also for a status whose body looks like another type.
func AlsoAs[Out any](status int, meaning string) Option {
	return func(r *Row) {
		r.Also = append(r.Also, Outcome{Status: status, Meaning: meaning, Out: reflect.TypeFor[Out]()})
	}
}

// Ranged says that a file can be asked for in parts, and whether it has changed (304, 206, 416).
func Ranged() Option { return func(r *Row) { r.Ranged = true } }

// Summary is the route in one line, for people.
func Summary(text string) Option { return func(r *Row) { r.Summary = text } }

// Tag names the group of the route in the document.
func Tag(name string) Option { return func(r *Row) { r.Tag = name } }

// Timeout bounds the handler's run when the server's default does not fit.
func Timeout(limit time.Duration) Option { return func(r *Row) { r.Timeout = limit } }

// MaxBody bounds a JSON body, in bytes, when the server's default does not fit. Bodies above that default are held in
// memory a few at a time only.
func MaxBody(limit int) Option { return func(r *Row) { r.MaxBody = limit } }

// Media names the types of the file that the route answers with.
func Media(types ...string) Option { return func(r *Row) { r.Media = types } }

// Hidden leaves the route out of the document.
func Hidden() Option { return func(r *Row) { r.Hidden = true } }

// StaleReads lets callers accept an old answer where the conversation's node is not to be had: "X-Read-Consistency:
// stale". The handler learns it by StaleAllowed.
func StaleReads() Option { return func(r *Row) { r.stale = true } }

// Idempotent lets callers repeat a request safely: "Idempotency-Key". The handler learns of it by RequestKey.
func Idempotent() Option { return func(r *Row) { r.Idempotent = true } }

// Once lets callers repeat a request safely ("Idempotency-Key") whose handler makes new ids each time: it is carried out once. A
// repetition gets the first answer, and 409 while there is none, also when the answer was a stream.
func Once() Option { return func(r *Row) { r.Idempotent, r.once = true, true } }

// EndsWithClient ends the handler's context when the client closes its connection, or its half of it, before the answer: what
// it asked for is of use to nobody else. It is noticed within a second or two.
func EndsWithClient() Option { return func(r *Row) { r.endsWithClient = true } }

// InvalidAs has the route refuse what is wrong with a request under a code of its own, in the place of VALIDATION.
func InvalidAs(code failurepb.Code) Option { return func(r *Row) { r.invalid = code } }

// Public lets anybody in without authentication.
func Public() Option { return func(r *Row) { r.public = true } }

// On declares a route that answers with JSON.
func On[In, Out any](pattern, access string, handle func(context.Context, *In) (*Out, error), options ...Option) Row {
	row := newRow[In, Out](pattern, access, JSON, handle, options)
	row.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := row.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in)
		return newOutput(out), err
	}
	return row
}

// OnStream declares a route that answers with an event stream, or with JSON when its handler returns a result
// without having started the stream.
func OnStream[In, Out any](pattern, access string, handle func(context.Context, *In, Stream) (*Out, error), options ...Option) Row {
	row := newRow[In, Out](pattern, access, Events, handle, options)
	row.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := row.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		out, err := handle(ctx, in, x)
		return newOutput(out), err
	}
	return row
}

// OnBytes declares a route that answers with a file.
func OnBytes[In any](pattern, access string, handle func(context.Context, *In) (*File, error), options ...Option) Row {
	row := newRow[In, File](pattern, access, Bytes, handle, options)
	row.invoke = func(ctx context.Context, x *exchange) (output, error) {
		in := new(In)
		if err := row.input.decode(x, reflect.ValueOf(in).Elem(), in); err != nil {
			return output{}, err
		}
		file, err := handle(ctx, in)
		return output{file: file}, err
	}
	return row
}

func newRow[In, Out any](pattern, access string, kind Kind, handle any, options []Option) Row {
	method, path, _ := strings.Cut(pattern, " ")
	row := Row{
		Method: method, Path: path, Access: access, Kind: kind, Status: 200,
		Handler: functionName(handle),
		In:      reflect.TypeFor[In](), Out: reflect.TypeFor[Out](),
		Source: declaredAt(),
	}
	for _, option := range options {
		option(&row)
	}
	row.input = planInput(row.In, row.pages)
	if row.stale {
		row.input.params = append(row.input.params, consistencyParam())
	}
	if row.Idempotent {
		row.input.params = append(row.input.params, idempotencyParam())
	}
	return row
}

// functionName returns "getConversation" for a.getConversation.
func functionName(handle any) string {
	name := runtime.FuncForPC(reflect.ValueOf(handle).Pointer()).Name()
	name = strings.TrimSuffix(name, "-fm")
	return name[strings.LastIndexByte(name, '.')+1:]
}

// declaredAt returns where the row was written, as "httpedge/convapi/routes.go:17".
func declaredAt() string {
	const aboveOn = 3
	_, file, line, ok := runtime.Caller(aboveOn)
	if !ok {
		return ""
	}
	if i := strings.LastIndex(file, "/httpedge/"); i >= 0 {
		file = file[i+1:]
	}
	return file + ":" + strconv.Itoa(line)
}
