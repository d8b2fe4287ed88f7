package dashboard

import (
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

// routes is the map of this surface. Access "session:..." is for everybody who is signed in.
func (a *API) routes() []endpoint.Route {
	const (
		invalid    = failurepb.Code_VALIDATION
		unknown    = failurepb.Code_AUTH_REQUIRED
		forbidden  = failurepb.Code_FORBIDDEN
		missing    = failurepb.Code_NOT_FOUND
		taken      = failurepb.Code_ALREADY_EXISTS
		conflict   = failurepb.Code_CONFLICT
		often      = failurepb.Code_RATE_LIMITED
		quota      = failurepb.Code_QUOTA_REACHED
		secretless = failurepb.Code_SECRETS_UNAVAILABLE
	)
	tag, body, public := endpoint.Tag("Accounts"), endpoint.MaxBody(maxBody), endpoint.Public()
	return []endpoint.Route{
		endpoint.On("GET /auth/register/options", "session:none", a.registerOptions, tag, public,
			endpoint.Summary("Who may register")),
		endpoint.On("POST /auth/register", "session:none", a.register, tag, public, body, endpoint.Status(201),
			endpoint.Summary("Register a company; whoever does is its owner, and signed in"),
			endpoint.Errors(invalid, forbidden, taken, often, secretless)),
		endpoint.On("POST /auth/login", "session:none", a.login, tag, public, body,
			endpoint.Summary("Sign in: sets the cookies token and active_project_id"),
			endpoint.Errors(invalid, unknown, forbidden, often, secretless)),
		endpoint.On("POST /auth/accept-invite", "session:none", a.acceptInvite, tag, public, body,
			endpoint.Summary("Accept an invitation, once, by setting a password: signs in as login does"),
			endpoint.Errors(invalid, forbidden, often, secretless)),
		endpoint.On("POST /auth/logout", "session:none", a.logout, endpoint.Unaudited("it clears cookies of the browser"), tag, public,
			endpoint.Summary("Sign out: clears the cookies"), endpoint.Errors(forbidden)),
		endpoint.On("GET /auth/session", "session:read", a.session, tag,
			endpoint.Summary("Who is signed in"), endpoint.Errors(unknown)),
		endpoint.On("POST /auth/sessions/end", "session:write", a.endSessions, tag, body,
			endpoint.Summary("End all sessions: one's own, or by an owner or admin those of userId"),
			endpoint.Errors(unknown, forbidden, missing)),
		endpoint.On("POST /auth/change-password", "session:write", a.changePassword, tag, body,
			endpoint.Summary("Change one's password; all other sessions end"), endpoint.Errors(invalid, unknown, forbidden, often)),
		endpoint.On("POST /auth/login/code", "session:none", a.loginWithCode, tag, public, body,
			endpoint.Summary("The second step of signing in, for users with a second factor: a code of their app, or a recovery code"),
			endpoint.Errors(unknown, forbidden, often, secretless)),
		endpoint.On("GET /auth/oidc", "session:none", a.providerOptions, tag, public,
			endpoint.Summary("Whether people may sign in at an OpenID provider, and its name")),
		endpoint.On("GET /auth/oidc/start", "session:none", a.startAtProvider, tag, public, endpoint.Status(302),
			endpoint.Summary("Sign in at the provider: sends the browser there"), endpoint.Errors(invalid, missing, secretless)),
		endpoint.On("GET /auth/oidc/callback", "session:none", a.backFromProvider, tag, public, endpoint.Status(302),
			endpoint.Summary("Where the provider sends the browser back to: sets the cookies and sends it on; with #challenge for the second step"),
			endpoint.Errors(unknown, forbidden, missing, often, quota, secretless)),
		endpoint.On("POST /auth/second-factor/enrol", "session:write", a.enrol, tag, body,
			endpoint.Summary("A secret for an app for one-time codes; codes are asked for once one was confirmed"),
			endpoint.Errors(unknown, forbidden, conflict, often, secretless)),
		endpoint.On("POST /auth/second-factor/confirm", "session:write", a.confirm, tag, body,
			endpoint.Summary("Show a first code; the answer is the recovery codes, and all other sessions end"),
			endpoint.Errors(unknown, forbidden, conflict, often, secretless)),
		endpoint.On("POST /auth/second-factor/recovery-codes", "session:write", a.renewRecovery, tag, body,
			endpoint.Summary("New recovery codes in place of the old ones"), endpoint.Errors(unknown, forbidden, conflict, often, secretless)),
		endpoint.On("POST /auth/second-factor/disable", "session:write", a.disable, tag, body,
			endpoint.Summary("Sign in without a code from now on; all other sessions end"),
			endpoint.Errors(unknown, forbidden, conflict, often, secretless)),
		endpoint.On("POST /auth/second-factor/remove", "session:write", a.removeFactor, tag, body,
			endpoint.Summary("By an owner or admin: let somebody sign in without a code who has lost theirs"),
			endpoint.Errors(invalid, unknown, forbidden, conflict, missing)),
		endpoint.On("POST /auth/forgot-password", "session:none", a.forgotPassword, tag, public, body, endpoint.Unaudited("it only sends a mail, and nobody says who asks"),
			endpoint.Summary("Have a link to reset a password mailed, if there is such an account"),
			endpoint.Errors(invalid, forbidden, often, secretless)),
		endpoint.On("POST /auth/reset-password", "session:none", a.resetPassword, tag, public, body,
			endpoint.Summary("Set a new password with a token that was mailed; all sessions of the user end"),
			endpoint.Errors(invalid, forbidden, often, secretless)),
		endpoint.On("POST /projects/active", "session:write", a.chooseProject, endpoint.Unaudited("it sets a cookie of the browser"), tag, body,
			endpoint.Summary("Choose the project to act in: sets the cookie active_project_id"),
			endpoint.Errors(invalid, unknown, forbidden, missing)),
	}
}
