package dashboard

import (
	"context"
	"strconv"
	"time"

	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Sealer encrypts what is stored of second factors.
type Sealer interface {
	Seal(secret []byte, about string) ([]byte, error)
	Open(sealed []byte, about string) ([]byte, error)
}

func aboutFactor(userID string) string { return "second-factor/" + userID }

// askForCode refuses a user who has shown their password, with what they go on with.
func (a *API) askForCode(user *directorypb.User) error {
	ticket, err := a.Tickets.Make(login.SecondStep, user, time.Now())
	if err != nil {
		return err
	}
	return failure.New(failurepb.Code_AUTH_REQUIRED, failure.CodeRequired).With("challenge", ticket)
}

type loginCodeInput struct {
	Challenge string `json:"challenge" doc:"Of the answer to login"`
	Code      string `json:"code" doc:"Of the app, or a recovery code"`
}

// loginWithCode is the second step of signing in.
func (a *API) loginWithCode(ctx context.Context, in *loginCodeInput) (*loginOut, error) {
	if err := a.Sessions.Ready(); err != nil {
		return nil, err
	}
	if err := a.attempt(ctx, "login", a.config.Limits.Login, failure.TooManyLogins); err != nil {
		return nil, err
	}
	void := failure.New(failurepb.Code_AUTH_REQUIRED, failure.ChallengeInvalid)
	ticket, valid := a.Tickets.Open(login.SecondStep, in.Challenge)
	if !valid {
		return nil, void
	}
	member, err := a.Accounts.Resume(ctx, identity.Session{UserID: ticket.UserID, TenantID: ticket.TenantID, Generation: ticket.Generation})
	if err != nil {
		return nil, unauthorized(err, void)
	}
	if !identity.AsksForCode(member.User) { // it was ended meanwhile, and the sessions with it
		return nil, void
	}
	if err = a.checkCode(ctx, member.User, in.Code); err != nil {
		return nil, err
	}
	return a.signIn(ctx, member.User)
}

// checkCode refuses a code that is not the user's, or that was used before, on whichever node. Attempts are counted.
func (a *API) checkCode(ctx context.Context, user *directorypb.User, code string) error {
	if err := a.take(ctx, "code/user/"+user.GetId(), a.config.Limits.Code, failure.TooManyCodes); err != nil {
		return err
	}
	if hash, is := login.RecoveryHash(code); is {
		return a.Accounts.UseRecoveryCode(ctx, user.GetId(), hash)
	}
	secret, err := a.Sealer.Open(user.GetSignIn().GetSecondFactor().GetSecret(), aboutFactor(user.GetId()))
	if err != nil {
		return err
	}
	wrong := failure.New(failurepb.Code_AUTH_REQUIRED, failure.WrongCode)
	step, right := login.CheckCode(secret, code, time.Now())
	if !right {
		return wrong
	}
	// Who looks over a shoulder has half a minute: each code is taken once in the whole cluster.
	fresh, _, err := a.Attempts.Take(ctx, "code/used/"+user.GetId()+"/"+strconv.FormatInt(step, 10), Limit{Most: 1, Window: login.CodeKept})
	if err != nil {
		return err
	}
	if !fresh {
		return wrong
	}
	return nil
}

// checkOwnPassword refuses who has a session, but not the password. Attempts are counted; those to sign in, which anybody can make, do
// not count here.
func (a *API) checkOwnPassword(ctx context.Context, user *directorypb.User, password string) error {
	if err := a.take(ctx, "change/user/"+user.GetId(), a.config.Limits.Account, failure.TooManyLogins); err != nil {
		return err
	}
	matches, err := a.Hasher.Matches(ctx, user.GetSignIn().GetPassword(), password)
	if err == nil && !matches {
		err = failure.New(failurepb.Code_AUTH_REQUIRED, failure.WrongPassword)
	}
	return err
}

type enrolInput struct {
	Password string `json:"password"`
}

type enrolOut struct {
	Secret string `json:"secret" doc:"For an app for one-time codes, to be typed"`
	URI    string `json:"uri" doc:"The same, to be shown as a QR code"`
}

// enrol makes the secret of a second factor. It counts once it is confirmed.
func (a *API) enrol(ctx context.Context, in *enrolInput) (*enrolOut, error) {
	user := endpoint.CallerFrom(ctx).Grant.Owner
	if err := a.checkOwnPassword(ctx, user, in.Password); err != nil {
		return nil, err
	}
	secret := login.NewCodeSecret()
	sealed, err := a.Sealer.Seal(secret, aboutFactor(user.GetId()))
	if err != nil {
		return nil, err
	}
	if err = a.Accounts.BeginSecondFactor(ctx, user.GetId(), sealed); err != nil {
		return nil, err
	}
	text, uri := login.CodeSecretText(secret, user.GetEmail())
	return &enrolOut{Secret: text, URI: uri}, nil
}

type confirmInput struct {
	Code string `json:"code"`
}

type recoveryOut struct {
	RecoveryCodes []string `json:"recoveryCodes" doc:"Each lets the user in once without the app; shown only now"`
}

// confirm has the user asked for a code from now on, when they have shown one.
func (a *API) confirm(ctx context.Context, in *confirmInput) (*recoveryOut, error) {
	user := endpoint.CallerFrom(ctx).Grant.Owner
	switch {
	case identity.AsksForCode(user):
		return nil, failure.New(failurepb.Code_CONFLICT, failure.SecondFactorExists)
	case user.GetSignIn().GetSecondFactor() == nil:
		return nil, failure.New(failurepb.Code_CONFLICT, failure.SecondFactorMissing)
	}
	if err := a.checkCode(ctx, user, in.Code); err != nil {
		return nil, err
	}
	codes, hashes := login.NewRecoveryCodes()
	changed, err := a.Accounts.ConfirmSecondFactor(ctx, user.GetId(), user.GetSignIn().GetSecondFactor().GetSecret(), hashes)
	if err != nil {
		return nil, err
	}
	_, err = a.begin(ctx, changed)
	return &recoveryOut{RecoveryCodes: codes}, err
}

type provenInput struct {
	Password string `json:"password"`
	Code     string `json:"code" doc:"Of the app, or a recovery code"`
}

// prove refuses who does not show both password and code.
func (a *API) prove(ctx context.Context, in *provenInput) (*directorypb.User, error) {
	user := endpoint.CallerFrom(ctx).Grant.Owner
	if !identity.AsksForCode(user) {
		return nil, failure.New(failurepb.Code_CONFLICT, failure.SecondFactorMissing)
	}
	if err := a.checkOwnPassword(ctx, user, in.Password); err != nil {
		return nil, err
	}
	return user, a.checkCode(ctx, user, in.Code)
}

// renewRecovery replaces the recovery codes.
func (a *API) renewRecovery(ctx context.Context, in *provenInput) (*recoveryOut, error) {
	user, err := a.prove(ctx, in)
	if err != nil {
		return nil, err
	}
	codes, hashes := login.NewRecoveryCodes()
	return &recoveryOut{RecoveryCodes: codes}, a.Accounts.ReplaceRecoveryCodes(ctx, user.GetId(), hashes)
}

// disable has the user sign in with the password alone.
func (a *API) disable(ctx context.Context, in *provenInput) (*successOut, error) {
	user, err := a.prove(ctx, in)
	if err != nil {
		return nil, err
	}
	changed, err := a.Accounts.EndSecondFactor(ctx, identity.Bearer(endpoint.CallerFrom(ctx).Grant), user.GetId())
	if err != nil {
		return nil, err
	}
	_, err = a.begin(ctx, changed)
	return &successOut{Success: true}, err
}

type removeFactorInput struct {
	UserID string `json:"userId" doc:"Who has lost app and recovery codes"`
}

// removeFactor is how an owner or admin lets somebody in again who has lost what the codes come from. One's own takes a code.
func (a *API) removeFactor(ctx context.Context, in *removeFactorInput) (*successOut, error) {
	caller := endpoint.CallerFrom(ctx)
	if in.UserID == "" || in.UserID == caller.UserID {
		return nil, failure.New(failurepb.Code_VALIDATION, failure.OwnSecondFactor).In("userId")
	}
	_, err := a.Accounts.EndSecondFactor(ctx, identity.Bearer(caller.Grant), in.UserID)
	return &successOut{Success: err == nil}, err
}
