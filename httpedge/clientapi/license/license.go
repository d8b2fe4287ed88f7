// Package license is the routes of a tenant's licence (document 3, 3.6). They are mounted twice with the same handlers: for API tokens
// on the Client API, and for signed-in users.
package license

import (
	"context"
	"strings"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/identity"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// maxBody bounds a body, in bytes: a key as it may be escaped.
const maxBody = 32 << 10

// Parts is what the routes need of the rest of the node.
type Parts struct{ Accounts *identity.Accounts }

// api is the handlers.
type api struct{ Parts }

// Routes returns the routes, relative to a surface.
func Routes(parts Parts) []endpoint.Route {
	a := &api{parts}
	const admin = "license:admin"
	tag, forbidden, free := endpoint.Tag("License"), endpoint.Errors(failurepb.Code_FORBIDDEN), endpoint.Uncounted()
	return []endpoint.Route{
		endpoint.On("GET /license", "license:read", a.getLicense, tag, forbidden, free, endpoint.Summary("What the tenant is licensed for")),
		endpoint.On("POST /license", admin, a.setLicense, tag, forbidden, free, endpoint.MaxBody(maxBody), endpoint.Errors(failurepb.Code_VALIDATION),
			endpoint.Summary("Have an offline license key count, on all nodes at once, in place of the one before; one that is refused changes nothing")),
		endpoint.On("DELETE /license", admin, a.removeLicense, tag, forbidden, free,
			endpoint.Summary("Take the license key away: the tenant's own tier counts again")),
	}
}

type nothing struct{}

type keyInput struct {
	Key string `json:"licenseKey" doc:"A signed JWT of 20 to 8192 characters; blanks around it are ignored"`
}

type limitsSchema struct {
	MaxProjects int `json:"maxProjects" doc:"-1 = unlimited"`
}

// licenseSchema is the view of document 3, 3.6, and until when a key counts that has expired.
type licenseSchema struct {
	ID        string       `json:"licenseId"`
	Type      string       `json:"licenseType" doc:"What counts now"`
	Status    string       `json:"status" enum:"free,active,expired,invalid" doc:"expired, invalid: there is a key that does not count"`
	Source    string       `json:"source" enum:"free,offline" doc:"offline = by a license key, free = by the tier that the operator gave the tenant"`
	Features  []string     `json:"features"`
	Limits    limitsSchema `json:"limits"`
	ExpiresAt string       `json:"expiresAt,omitempty" doc:"Of the key"`
	GraceEnds string       `json:"graceEndsAt,omitempty" doc:"Until then the key counts, although it may have expired"`
	Error     string       `json:"error,omitempty" doc:"Why the key does not count"`
}

func (a *api) getLicense(ctx context.Context, _ *nothing) (*licenseSchema, error) {
	return view(a.Accounts.TenantLicence(ctx, endpoint.CallerFrom(ctx).TenantID))
}

func (a *api) setLicense(ctx context.Context, in *keyInput) (*licenseSchema, error) {
	caller := endpoint.CallerFrom(ctx)
	return view(a.Accounts.SetLicence(ctx, caller.TenantID, strings.TrimSpace(in.Key), caller.UserID))
}

func (a *api) removeLicense(ctx context.Context, _ *nothing) (*licenseSchema, error) {
	return view(a.Accounts.RemoveLicence(ctx, endpoint.CallerFrom(ctx).TenantID))
}

func view(l access.Licence, err error) (*licenseSchema, error) {
	if err != nil {
		return nil, handler.RecordError(err)
	}
	out := &licenseSchema{
		ID: l.ID, Type: string(l.Tier()), Status: string(l.Status), Source: "free", Features: l.Tier().Features(),
		Limits: limitsSchema{l.Limits().MaxProjects}, ExpiresAt: timeText(l.Expires), GraceEnds: timeText(l.Ends),
	}
	if l.Offline {
		out.Source = "offline"
	}
	if l.Refused != nil {
		out.Error = handler.Wording().Text(l.Refused)
	}
	return out, nil
}

// timeText is a time as the surface writes it, empty for none.
func timeText(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return render.Time(at.UnixMilli())
}
