package identity

import (
	"bytes"
	"context"
	"crypto/subtle"
	"slices"

	"parley/actors/core/access"
	"parley/actors/core/failure"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// AsksForCode says that a user signs in with a code besides.
func AsksForCode(user *directorypb.User) bool {
	return user.GetSignIn().GetSecondFactor().GetConfirmedAt() != 0
}

// BeginSecondFactor keeps the sealed secret of a second factor that the user has yet to confirm, in place of one that they have not.
func (a *Accounts) BeginSecondFactor(ctx context.Context, userID string, sealed []byte) error {
	_, err := a.users.Change(ctx, userID, func(user *directorypb.User) error {
		switch {
		case AsksForCode(user):
			return failure.New(failurepb.Code_CONFLICT, failure.SecondFactorExists)
		case !MaySignIn(user):
			return failure.New(failurepb.Code_AUTH_REQUIRED, failure.SessionInvalid)
		}
		user.SignIn.SecondFactor = &directorypb.SecondFactor{Secret: sealed}
		return nil
	})
	return err
}

// ConfirmSecondFactor has a user asked for codes of this secret from now on. All sessions that began without one end.
func (a *Accounts) ConfirmSecondFactor(ctx context.Context, userID string, sealed []byte, recovery [][]byte) (*directorypb.User, error) {
	return a.users.Change(ctx, userID, func(user *directorypb.User) error {
		factor := user.GetSignIn().GetSecondFactor()
		if AsksForCode(user) || !bytes.Equal(factor.GetSecret(), sealed) {
			return failure.New(failurepb.Code_CONFLICT, failure.SecondFactorChanged)
		}
		factor.ConfirmedAt, factor.Recovery = a.env.Now().UnixMilli(), recovery
		user.SignIn.Generation++
		return nil
	})
}

// ReplaceRecoveryCodes gives a user new recovery codes; the old ones are void.
func (a *Accounts) ReplaceRecoveryCodes(ctx context.Context, userID string, recovery [][]byte) error {
	_, err := a.users.Change(ctx, userID, func(user *directorypb.User) error {
		if !AsksForCode(user) {
			return failure.New(failurepb.Code_CONFLICT, failure.SecondFactorMissing)
		}
		user.SignIn.SecondFactor.Recovery = recovery
		return nil
	})
	return err
}

// UseRecoveryCode uses a code up, by its hash. Of several at once one is let in.
func (a *Accounts) UseRecoveryCode(ctx context.Context, userID string, hash []byte) error {
	_, err := a.users.Change(ctx, userID, func(user *directorypb.User) error {
		factor := user.GetSignIn().GetSecondFactor()
		left := slices.DeleteFunc(slices.Clone(factor.GetRecovery()), func(other []byte) bool {
			return subtle.ConstantTimeCompare(other, hash) == 1
		})
		if len(left) == len(factor.GetRecovery()) {
			return failure.New(failurepb.Code_AUTH_REQUIRED, failure.WrongCode)
		}
		factor.Recovery = left
		return nil
	})
	return err
}

// EndSecondFactor has a user sign in without codes: themselves, or by an owner or admin somebody else in the tenant who has lost
// theirs. Only an owner does it for an owner. All sessions of the user end.
func (a *Accounts) EndSecondFactor(ctx context.Context, caller Caller, userID string) (*directorypb.User, error) {
	if err := a.mayEnd(ctx, caller, userID); err != nil {
		return nil, err
	}
	return a.users.Change(ctx, userID, func(user *directorypb.User) error {
		if user.GetSignIn().GetSecondFactor() == nil {
			return failure.New(failurepb.Code_CONFLICT, failure.SecondFactorMissing)
		}
		user.SignIn.SecondFactor = nil
		user.SignIn.Generation++
		user.UpdatedAt = a.env.Now().UnixMilli()
		return nil
	})
}

// mayEnd refuses callers who may not end what a user signs in with.
func (a *Accounts) mayEnd(ctx context.Context, caller Caller, userID string) error {
	if caller.id() == userID && !caller.operator {
		return nil
	}
	target, err := a.user(ctx, caller, userID)
	if err == nil && !caller.operator && target.GetRole() == access.RoleOwner && caller.grant.Owner.GetRole() != access.RoleOwner {
		err = failure.New(failurepb.Code_FORBIDDEN, failure.OwnerSessions)
	}
	return err
}
