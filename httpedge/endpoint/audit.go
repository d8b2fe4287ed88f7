package endpoint

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/actors/core/audit"
	"parley/actors/machine"
	"parley/proto/failurepb"
)

// Auditor keeps the trail of who changed what. It hears of each request that may change something, unless its route
// is Unaudited, and of all that are denied.
type Auditor interface {
	// Begin writes down that a request is about to be carried out. A refusal ends it: nothing is changed that could not be written
	// down.
	Begin(ctx context.Context, request *Audited) (Trailed, *machine.Failure)
	// Denied notes a request that was denied and changed nothing. It must not block.
	Denied(request *Audited, status int)
}

// Trailed is a request of which the trail knows that it began.
type Trailed interface {
	// End writes down what became of it. It is called once, before the answer is sent.
	End(ctx context.Context, outcome string, status int, notes *audit.Notes)
}

// Audited is a request as the trail sees it.
type Audited struct {
	Caller    Caller // nobody on public routes
	Route     *Route
	Prefix    string            // of the surface
	Path      string            // as it was sent, without the values of parameters that are secret
	Params    map[string]string // of the path
	RequestID string
	Request   Request
	Until     time.Time // by when it has ended
}

// verdict is what the trail, and Idempotency, need to know of an answer.
type verdict struct {
	denied  bool // the problem is that the caller may not do it
	reached bool // the route was run, without a panic
	ran     bool // the problem is of what was carried out: Problem.Ran
	cut     bool // the request was over before its handler was: its caller may not go on, or has left
}

// auditTimeout bounds how long an answer waits for its outcome to be written down.
const auditTimeout = 10 * time.Second

// audited says whether the trail hears of requests of this route.
func (x *exchange) audited() bool {
	return x.surface.Auditor != nil && x.route.Audited()
}

// Audited says whether the route changes something and does so under the eyes of the audit trail.
func (r *Route) Audited() bool { return r.Changes() && r.unaudited == "" }

// Changes says whether the route may change something.
func (r *Route) Changes() bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodOptions
}

// Exempt is why a route that changes something is not audited; empty when it is.
func (r *Route) Exempt() string { return r.unaudited }

// auditing is a request that the trail has heard of. The zero value is of one that it has not.
type auditing struct {
	began Trailed
	notes *audit.Notes
}

// beginAudit has the trail hear of the request before it is carried out.
func (x *exchange) beginAudit(ctx context.Context) (context.Context, auditing, *machine.Failure) {
	if !x.audited() {
		return ctx, auditing{}, nil
	}
	began, refused := x.surface.Auditor.Begin(ctx, x.forAudit())
	if refused != nil {
		return ctx, auditing{}, refused
	}
	notes := &audit.Notes{}
	return audit.With(ctx, notes), auditing{began, notes}, nil
}

// endAudit tells the trail of the outcome.
func (x *exchange) endAudit(ctx context.Context, a auditing) {
	if a.began == nil {
		x.auditDenied()
		return
	}
	outcome, status := audit.Success, x.status()
	switch {
	case !x.verdict.reached: // it panics
		outcome, status = audit.Failure, http.StatusInternalServerError
	case x.verdict.denied:
		outcome = audit.Denied
	case status >= http.StatusBadRequest:
		outcome = audit.Failure
	}
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	a.began.End(late, outcome, status, a.notes)
}

// auditDenied notes that the caller may not do what the request asks for. Without a caller there is no trail that it belongs to.
func (x *exchange) auditDenied() {
	if x.verdict.denied && x.surface.Auditor != nil && x.call.Caller.TenantID != "" {
		x.surface.Auditor.Denied(x.forAudit(), x.status())
	}
}

func (x *exchange) forAudit() *Audited {
	path, params := x.auditPath()
	return &Audited{
		Caller: x.call.Caller, Route: x.route, Prefix: x.surface.prefix, Path: path, Params: params, RequestID: x.call.RequestID, Request: x, Until: x.deadline,
	}
}

// auditPath is the path without what is secret in it: parameters by which somebody proves who they are.
func (x *exchange) auditPath() (path string, params map[string]string) {
	params = make(map[string]string)
	segments := strings.Split(x.route.Path, "/")
	for i, segment := range segments {
		name, isParam := strings.CutPrefix(segment, "{")
		if !isParam {
			continue
		}
		name, _, _ = strings.Cut(strings.TrimSuffix(name, "}"), ":")
		value, _ := x.rc.UserValue(name).(string)
		if decoded, err := url.PathUnescape(value); err == nil {
			value = decoded
		}
		switch name {
		case "token", "secret", "code", "key_secret", "inviteToken":
			value = "[hidden]"
		}
		segments[i], params[name] = value, value
	}
	return x.surface.prefix + strings.Join(segments, "/"), params
}

// isDenial says whether an error is this server's own word that the caller may not do something.
func isDenial(err error) bool {
	refused := (*machine.Failure)(nil)
	if !errors.As(err, &refused) {
		return false
	}
	return slices.Contains([]failurepb.Code{
		failurepb.Code_FORBIDDEN, failurepb.Code_AUTH_REQUIRED, failurepb.Code_IDENTITY_REQUIRED, failurepb.Code_LICENSE_REQUIRED,
	}, refused.Code)
}
