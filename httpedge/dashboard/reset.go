package dashboard

import (
	"context"
	"errors"
	"time"

	"parley/actors/core/audit"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/httpedge/login"
	"parley/proto/failurepb"
	"parley/proto/mailpb"
)

// Mails sends mails: each is kept by the cluster before Send returns, and composed (Letters) when it is sent.
type Mails interface {
	Send(ctx context.Context, letter *mailpb.Letter) error
}

// mailsCount names the count of mails that people ask for who are not signed in.
const mailsCount = "mails"

// shortestForgot is how long a request for a reset takes at least (document 3, 5.1).
const shortestForgot = 250 * time.Millisecond

type forgotInput struct {
	Email string `json:"email"`
	Slug  string `json:"slug,omitempty" doc:"Of the company; without it all companies in which the email has an account"`
}

// forgotPassword has a link to reset a password mailed, if there is such an account. Whether there is one is looked up only when the
// mail is sent: so it changes neither the answer nor its time.
func (a *API) forgotPassword(ctx context.Context, in *forgotInput) (*messageOut, error) {
	enough := time.NewTimer(shortestForgot)
	defer enough.Stop()
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	if identity.LoginEmail(in.Email) == "" {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.EmailRequired)
	}
	email, err := identity.SignInEmail(in.Email)
	if err != nil {
		return nil, err
	}
	if err = a.attempt(ctx, "reset", a.config.Limits.Reset, failure.TooManyResets); err != nil {
		return nil, err
	}
	if err = a.take(ctx, "reset/account/"+email, a.config.Limits.Reset, failure.TooManyResets); err != nil {
		return nil, err
	}
	if err = a.take(ctx, mailsCount, a.config.Limits.Mails, failure.TooManyResets); err != nil {
		return nil, err
	}
	if err = a.Mails.Send(ctx, &mailpb.Letter{
		Template: mailpb.Template_PASSWORD_RESET, Email: email, Slug: shortened(in.Slug), AskedAt: time.Now().UnixMilli(),
	}); err != nil {
		return nil, err
	}
	select {
	case <-enough.C:
	case <-ctx.Done():
	}
	return &messageOut{Message: "If an account with that email exists, a password reset link has been sent."}, nil
}

// shortened cuts what no slug is as long as.
func shortened(slug string) string {
	const longest = 200
	return slug[:min(len(slug), longest)]
}

type resetInput struct {
	Token       string `json:"token" doc:"Of the link that was mailed"`
	NewPassword string `json:"newPassword"`
}

// resetPassword sets the password of the user of a ticket, which is void with it, and ends all their sessions.
func (a *API) resetPassword(ctx context.Context, in *resetInput) (*successOut, error) {
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	if err := identity.CheckPassword(in.NewPassword); err != nil {
		return nil, err
	}
	if err := a.attempt(ctx, "reset/use", a.config.Limits.Login, failure.TooManyResets); err != nil {
		return nil, err
	}
	void := failure.New(failurepb.Code_VALIDATION, failure.ResetInvalid)
	ticket, valid := a.Tickets.Open(login.PasswordReset, in.Token)
	if !valid {
		return nil, void
	}
	holder := identity.Session{UserID: ticket.UserID, TenantID: ticket.TenantID, Generation: ticket.Generation}
	member, err := a.Accounts.Resume(ctx, holder)
	if err != nil {
		return nil, unauthorized(err, void)
	}
	audit.ActsFor(ctx, actorOf(member.User))
	hash, err := a.Hasher.Hash(ctx, in.NewPassword)
	if err != nil {
		return nil, err
	}
	if _, err = a.Accounts.ChangePassword(ctx, ticket.UserID, ticket.Generation, hash); err != nil {
		return nil, unauthorized(err, void)
	}
	a.Sessions.End(ctx)
	return &successOut{Success: true}, nil
}

// unauthorized replaces a failure that says that a session is over.
func unauthorized(err error, by *failure.Failure) error {
	if refused, is := errors.AsType[*failure.Failure](err); is && refused.Code == failurepb.Code_AUTH_REQUIRED {
		return by
	}
	return err
}
