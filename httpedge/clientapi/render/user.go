package render

import "parley/proto/directorypb"

// Permissions is servicePermissions in an answer; null = what the role gives, or what the owner may.
type Permissions map[string]string

// Described implements openapi.Described.
func (p Permissions) Described() (value any, nullable bool) { return map[string]any{}, true }

// OwnPermissions are permissions beyond the role, null when there are none, however that came about.
func OwnPermissions(of map[string]string) Permissions {
	if len(of) == 0 {
		return nil
	}
	return of
}

// UserSchema is a user.
type UserSchema struct {
	ID                 string      `json:"id"`
	InternalID         string      `json:"_id"`
	Name               string      `json:"name"`
	Email              *string     `json:"email"`
	Role               string      `json:"role"`
	CanLogin           bool        `json:"canLogin"`
	ServicePermissions Permissions `json:"servicePermissions"`
	ProjectIDs         []string    `json:"projectIds"`
	InvitedBy          *string     `json:"invitedBy"`
	InvitedAt          *string     `json:"invitedAt"`
	InviteAcceptedAt   *string     `json:"inviteAcceptedAt"`
	CreatedAt          string      `json:"createdAt"`
	UpdatedAt          string      `json:"updatedAt"`
}

// User is a user as answers show them.
func User(user *directorypb.User) UserSchema {
	invite := user.GetInvite()
	by := invite.GetInvitedBy()
	if by == "" {
		by = user.GetCreatedBy()
	}
	return UserSchema{
		ID: user.GetId(), InternalID: user.GetId(), Name: user.GetName(), Email: Nullable(user.GetEmail()), Role: user.GetRole(),
		CanLogin: user.GetCanLogin(), ServicePermissions: OwnPermissions(user.GetServicePermissions()),
		ProjectIDs: append([]string{}, user.GetProjectIds()...), InvitedBy: Nullable(by),
		InvitedAt: NullableTime(invite.GetInvitedAt()), InviteAcceptedAt: NullableTime(invite.GetAcceptedAt()),
		CreatedAt: Time(user.GetCreatedAt()), UpdatedAt: Time(user.GetUpdatedAt()),
	}
}

// Users are users as a list shows them.
func Users(users []*directorypb.User) []UserSchema {
	shown := []UserSchema{}
	for _, user := range users {
		shown = append(shown, User(user))
	}
	return shown
}
