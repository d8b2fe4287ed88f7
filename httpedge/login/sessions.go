package login

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/token"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Names of the cookies (document 3, 5.2), and how long the browser keeps the choice of a project.
const (
	SessionCookie = "token"
	ProjectCookie = "active_project_id"

	projectAge = 30 * 24 * time.Hour

	// ProjectHeader names the project in which one request acts, ProjectQuery does so where no header can be set (an EventSource, a
	// link): the address of a page may so name its project. Without them it is the cookie's.
	ProjectHeader = "X-Project-Id"
	ProjectQuery  = "x_project_id"
)

// Config is the settings of sessions.
type Config struct {
	// Secret signs sessions; the same on all nodes, at least 32 bytes. Empty = nobody signs in.
	Secret []byte
	// Lifetime of a session.
	Lifetime time.Duration
	// Reached says by which addresses and through which proxies the server is reached.
	Reached Reached
}

// Sessions makes and checks sessions. It implements endpoint.Authenticator.
type Sessions struct {
	config   Config
	accounts *identity.Accounts
	signer   signer

	permissions token.Permissions
}

var (
	_ endpoint.Authenticator = (*Sessions)(nil)
	_ endpoint.Watcher       = (*Sessions)(nil)
)

// New returns the sessions of the accounts' users, who may do what permissions say.
func New(config Config, accounts *identity.Accounts, permissions token.Permissions) *Sessions {
	return &Sessions{config: config, accounts: accounts, signer: newSigner(config.Secret, ""), permissions: permissions}
}

// Protect returns a surface whose routes are for signed-in users; public ones are only guarded against pages of other sites.
func (s *Sessions) Protect(surface endpoint.Surface) endpoint.Surface {
	surface.Guard, surface.Authenticator, surface.Permit = s.guard, s, s.permitFeature
	surface.Headers = endpoint.SecurityHeaders()
	return surface
}

// ProtectProject is Protect for a surface most of whose routes are about the project in which the user acts: they refuse a user without
// one (NOT_FOUND) rather than act in none.
func (s *Sessions) ProtectProject(surface endpoint.Surface) endpoint.Surface {
	surface = s.Protect(surface)
	surface.Permit = func(ctx context.Context, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
		if refused := s.permit(ctx, caller, route); refused != nil {
			return refused
		}
		if caller.ProjectID == "" && !ofTenant(route) {
			return failure.New(failurepb.Code_NOT_FOUND, failure.ProjectNotFound)
		}
		return nil
	}
	return surface
}

// ofTenant says that a route is about the tenant rather than a project: that is where somebody without a project makes one.
func ofTenant(route *endpoint.Route) bool {
	service, _, _ := strings.Cut(route.Access, ":")
	switch access.Service(service) {
	case access.Members, access.Projects, access.Audit, access.Webhooks, access.Licensing:
		return true
	default:
		return false
	}
}

// ownRoutes begins the Access of routes that every signed-in user may use.
const ownRoutes = "session:"

// permit decides by service and level as the Client API does. Of licences only the areas of the highest tiers ask. Requests of the
// dashboard do not count for the month.
func (s *Sessions) permit(ctx context.Context, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
	if strings.HasPrefix(route.Access, ownRoutes) {
		return nil
	}
	if refused := token.Check(ctx, s.permissions, caller, route); refused != nil {
		return refused
	}
	if route.IsEnterprise() && !caller.Grant.Tier().HasEnterprise() {
		return failure.New(failurepb.Code_LICENSE_REQUIRED, failure.NotLicensed)
	}
	return nil
}

// permitFeature is permit for surfaces at /api, whose paths belong to features of the licence (document 3, 3.3).
func (s *Sessions) permitFeature(ctx context.Context, caller endpoint.Caller, route *endpoint.Route) *machine.Failure {
	if refused := s.permit(ctx, caller, route); refused != nil {
		return refused
	}
	if !strings.HasPrefix(route.Access, ownRoutes) && !caller.Grant.Tier().AllowsSignedIn(route.Path) {
		return failure.New(failurepb.Code_LICENSE_REQUIRED, failure.LicenseLacksFeature).
			With("error", "Forbidden").With("requiredLicense", "Please upgrade your plan")
	}
	return nil
}

// Ready refuses while nothing is there to sign sessions with.
func (s *Sessions) Ready() error {
	if len(s.config.Secret) == 0 {
		return failure.New(failurepb.Code_SECRETS_UNAVAILABLE, failure.SessionSecretMissing)
	}
	return nil
}

// Begin signs a user in: the answer to the request sets both cookies.
func (s *Sessions) Begin(ctx context.Context, member identity.Member) error {
	if err := s.Ready(); err != nil {
		return err
	}
	user, tenant, now := member.User, member.Tenant, time.Now()
	licence := s.accounts.Licence(tenant)
	claims := sessionClaims{
		UserID: user.GetId(), Email: user.GetEmail(), TenantID: tenant.GetId(), TenantSlug: tenant.GetSlug(),
		TenantDBName: identity.DatabaseName(tenant), Role: user.GetRole(), LicenseID: licence.ID, LicenseType: string(licence.Tier()),
		Features: licence.Tier().Features(), Generation: user.GetSignIn().GetGeneration(),
		Issued: now.Unix(), Expires: now.Add(s.config.Lifetime).Unix(),
	}
	if licence.Offline && !licence.Expires.IsZero() {
		claims.LicenseExpiresAt = licence.Expires.UTC().Format(time.RFC3339)
	}
	signed, err := s.signer.sign(claims)
	if err != nil {
		return err
	}
	s.setCookie(ctx, SessionCookie, signed, s.config.Lifetime)
	if member.Project != nil {
		s.SetProject(ctx, member.Project.GetId())
	}
	return nil
}

// Client is the address by which attempts of a request are counted.
func (s *Sessions) Client(ctx context.Context) string {
	request := endpoint.RequestFrom(ctx)
	if request == nil {
		return ""
	}
	return client(request)
}

// SetProject has the answer set the cookie of the active project.
func (s *Sessions) SetProject(ctx context.Context, id string) {
	s.setCookie(ctx, ProjectCookie, id, projectAge)
}

// End has the answer clear both cookies.
func (s *Sessions) End(ctx context.Context) {
	s.setCookie(ctx, SessionCookie, "", 0)
	s.setCookie(ctx, ProjectCookie, "", 0)
}

func (s *Sessions) setCookie(ctx context.Context, name, value string, age time.Duration) {
	if request := endpoint.RequestFrom(ctx); request != nil {
		s.answerCookie(request, name, value, age)
	}
}

func (s *Sessions) answerCookie(request endpoint.Request, name, value string, age time.Duration) {
	headers, ok := request.(endpoint.Headers)
	if !ok {
		return
	}
	cookie := http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int(age / time.Second), HttpOnly: name != ProjectCookie,
		SameSite: http.SameSiteLaxMode, Secure: s.config.Reached.securely(request),
	}
	if value == "" {
		cookie.MaxAge = -1
	}
	headers.AnswerHeader("Set-Cookie", cookie.String())
}

// Authenticate returns who is signed in.
func (s *Sessions) Authenticate(ctx context.Context, request endpoint.Request) (endpoint.Caller, *machine.Failure) {
	signed, chosen := cookies(request)
	if signed == "" {
		return endpoint.Caller{}, titled(failure.AuthenticationRequired)
	}
	var claims sessionClaims
	if len(s.config.Secret) == 0 || s.signer.open(signed, time.Now(), &claims) != nil {
		return endpoint.Caller{}, s.over(request, titled(failure.SessionInvalid))
	}
	if claims.TenantID == "" {
		return endpoint.Caller{}, titled(failure.SessionWithoutTenant)
	}
	member, err := s.accounts.Resume(ctx, identity.Session{
		UserID: claims.UserID, TenantID: claims.TenantID, Generation: claims.Generation, ProjectID: chosen,
	})
	if err != nil {
		refused := refusal(err)
		if refused.Code == failurepb.Code_AUTH_REQUIRED {
			return endpoint.Caller{}, s.over(request, titled(refused.Reason))
		}
		return endpoint.Caller{}, refused
	}
	if named := cmp.Or(request.Header(ProjectHeader), request.Query(ProjectQuery)); named != "" {
		if member.Project, err = s.accounts.ChooseProject(member.User, named); err != nil {
			return endpoint.Caller{}, refusal(err)
		}
	}
	caller := callerOf(member, claims.Expires)
	announce(request, member)
	return caller, nil
}

// callerOf is a signed-in user as handlers see them. The token in the grant is no record: it is all that the user may, until the
// session ends.
func callerOf(member identity.Member, expires int64) endpoint.Caller {
	grant := access.NewGrant(&directorypb.Token{
		TenantId: member.Tenant.GetId(), ProjectId: member.Project.GetId(), UserId: member.User.GetId(), ExpiresAt: expires * 1000,
	}, member.User, member.Tenant, member.Project, member.Groups...).Under(member.Licence)
	return endpoint.Caller{
		TenantID: member.Tenant.GetId(), ProjectID: member.Project.GetId(), UserID: member.User.GetId(),
		Identified: true, Trusted: grant.SeesAll(), Grant: grant,
	}
}

// Watch returns what says whether a session still holds, with the role and in the project with which it was let in. It reads what
// this node has in memory.
func (s *Sessions) Watch(caller endpoint.Caller, route *endpoint.Route) func() *machine.Failure {
	expires, highest := caller.Grant.Token.GetExpiresAt(), route.IsEnterprise()
	return func() *machine.Failure {
		if time.Now().UnixMilli() >= expires || !s.accounts.Holds(caller.Grant) {
			return failure.New(failurepb.Code_AUTH_REQUIRED, failure.SessionInvalid)
		}
		if highest && !s.accounts.KnownLicence(caller.TenantID).Tier().HasEnterprise() {
			return failure.New(failurepb.Code_LICENSE_REQUIRED, failure.NotLicensed)
		}
		return nil
	}
}

// over clears the cookies of a session that does not hold any more.
func (s *Sessions) over(request endpoint.Request, refused *failure.Failure) *failure.Failure {
	s.answerCookie(request, SessionCookie, "", 0)
	return refused
}

// titled is a 401 in the form of document 3, 1.3: a title, and the reason as the message.
func titled(reason failure.Reason) *failure.Failure {
	return failure.New(failurepb.Code_AUTH_REQUIRED, reason).With("error", "Unauthorized")
}

func refusal(err error) *failure.Failure {
	if refused, is := errors.AsType[*machine.Failure](err); is {
		return refused
	}
	return failure.New(failurepb.Code_UNAVAILABLE, failure.AuthenticationUnavailable)
}

// cookies returns the session token and the chosen project.
func cookies(request endpoint.Request) (signed, project string) {
	all := cookiesOf(request)
	for _, cookie := range all {
		if cookie.Name == ProjectCookie {
			project = cookie.Value
		}
	}
	return only(all, SessionCookie), project
}

// cookiesOf returns the cookies of a request, of all its lines: HTTP/2 splits them. Those of other applications on the host may be
// malformed, and are left out.
func cookiesOf(request endpoint.Request) []*http.Cookie {
	lines := []string{request.Header("Cookie")}
	if headers, ok := request.(endpoint.Headers); ok {
		lines = headers.HeaderValues("Cookie")
	}
	return (&http.Request{Header: http.Header{"Cookie": lines}}).Cookies()
}

// only returns the value of a cookie, "" when there is none. Of two values one was set by somebody else, a page of a sibling domain for
// example: then there is none.
func only(all []*http.Cookie, name string) (value string) {
	for _, cookie := range all {
		switch {
		case cookie.Name != name:
		case value != "" && value != cookie.Value:
			return ""
		default:
			value = cookie.Value
		}
	}
	return value
}

// identityHeaders are the headers that tell a handler who is signed in (document 1, Authentication, 10).
func identityHeaders() []string {
	return []string{
		"x-user-id", "x-user-email", "x-user-role", "x-tenant-id", "x-tenant-slug", "x-tenant-db-name", "x-license-type", "x-features",
	}
}

// announce sets the identity headers of a request. The guard has removed what the client sent.
func announce(request endpoint.Request, member identity.Member) {
	headers, ok := request.(endpoint.Headers)
	if !ok {
		return
	}
	tier := member.Licence.Tier()
	features, err := json.Marshal(tier.Features())
	if err != nil {
		return // texts always marshal
	}
	values := []string{
		member.User.GetId(), member.User.GetEmail(), access.RoleIn(member.User, "", member.Groups...), member.Tenant.GetId(), member.Tenant.GetSlug(),
		identity.DatabaseName(member.Tenant), string(tier), string(features),
	}
	for i, name := range identityHeaders() {
		headers.ReplaceHeader(name, values[i])
	}
}
