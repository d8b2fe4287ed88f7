package clientapi

import (
	"context"
	"net/mail"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/machine"
	"parley/httpedge/endpoint"
	"parley/httpedge/endpoint/wire"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// Texts and limits of users and tokens (document 3, section 6). Lengths are in bytes.
const (
	textNoUser    = "User not found"
	textNoProject = "Project not found"
	maxUserName   = 200
	maxEmail      = 254
)

// permissionsInput is servicePermissions in any of the forms that access.Parse knows.
type permissionsInput struct {
	given bool
	scope access.Scope
}

// UnmarshalJSON refuses what is none of those forms.
func (p *permissionsInput) UnmarshalJSON(raw []byte) (err error) {
	if p.scope, p.given, err = access.Parse(raw); err != nil {
		return machine.Fail(failurepb.Code_VALIDATION, "%s", err.Error())
	}
	return nil
}

// Described implements openapi.Described.
func (p permissionsInput) Described() (value any, nullable bool) { return map[string]any{}, true }

// permissions is servicePermissions in an answer; null = what the role gives, or what the owner may.
type permissions map[string]string

// Described implements openapi.Described.
func (p permissions) Described() (value any, nullable bool) { return map[string]any{}, true }

type userListInput struct {
	Limit  int `query:"limit"`
	Offset int `query:"offset"`
}

type userSchema struct {
	ID                 string      `json:"id"`
	InternalID         string      `json:"_id"`
	Name               string      `json:"name"`
	Email              *string     `json:"email"`
	Role               string      `json:"role"`
	CanLogin           bool        `json:"canLogin"`
	ServicePermissions permissions `json:"servicePermissions"`
	ProjectIDs         []string    `json:"projectIds"`
	InvitedBy          *string     `json:"invitedBy"`
	InvitedAt          *string     `json:"invitedAt"`
	InviteAcceptedAt   *string     `json:"inviteAcceptedAt"`
	CreatedAt          string      `json:"createdAt"`
	UpdatedAt          string      `json:"updatedAt"`
}

// paginationSchema says where a page stands that is asked for by offset.
type paginationSchema struct {
	Limit   int  `json:"limit"`
	Offset  int  `json:"offset"`
	HasMore bool `json:"hasMore"`
}

type oneUserOut struct {
	User userSchema `json:"user"`
}

type userListOut struct {
	Users      []userSchema     `json:"users"`
	Pagination paginationSchema `json:"pagination"`
}

func (a *API) listUsers(ctx context.Context, in *userListInput) (*userListOut, error) {
	grant, failure := administrator(ctx)
	if failure != nil {
		return nil, failure
	}
	users, err := a.usersOf(grant.Tenant.GetId())
	if err != nil {
		return nil, err
	}
	out := &userListOut{Users: []userSchema{}}
	users, out.Pagination = pageOf(users, in.Limit, in.Offset)
	for _, user := range users {
		out.Users = append(out.Users, userJSON(user))
	}
	return out, nil
}

type createUserInput struct {
	Name               string           `json:"name"`
	Role               string           `json:"role"`
	Email              string           `json:"email"`
	ProjectID          string           `json:"projectId"`
	ServicePermissions permissionsInput `json:"servicePermissions"`
}

// createUser makes a user who owns tokens and never signs in, whatever the body says about that.
func (a *API) createUser(ctx context.Context, in *createUserInput) (*oneUserOut, error) {
	grant, failure := administrator(ctx)
	if failure != nil {
		return nil, failure
	}
	email, failure := in.check()
	if failure != nil {
		return nil, failure
	}
	projectID, err := a.projectFor(ctx, grant, in.ProjectID)
	if err != nil {
		return nil, err
	}
	now := time.Now().UnixMilli()
	user := &directorypb.User{
		Id: a.IDs.NewID("usr"), TenantId: grant.Tenant.GetId(), Name: strings.TrimSpace(in.Name), Email: email, Role: in.Role,
		ProjectIds: []string{projectID}, ServicePermissions: in.ServicePermissions.scope.Within(grant),
		CreatedBy: grant.Owner.GetId(), CreatedAt: now, UpdatedAt: now,
	}
	err = a.createRecord(ctx, endpoint.Users, func() (string, proto.Message, error) {
		return user.GetId(), user, a.roomForUser(grant, email)
	})
	if err != nil {
		return nil, err
	}
	return &oneUserOut{User: userJSON(user)}, nil
}

// check says what is wrong with a new user, and returns the email as it is stored.
func (in *createUserInput) check() (email string, failure *machine.Failure) {
	invalid := func(format string, args ...any) (string, *machine.Failure) {
		return "", machine.Fail(failurepb.Code_VALIDATION, format, args...)
	}
	if strings.TrimSpace(in.Name) == "" || in.Role == "" {
		return invalid("Name and role are required")
	}
	if len(in.Name) > maxUserName {
		return invalid("name must have at most %d bytes", maxUserName)
	}
	email = strings.ToLower(strings.TrimSpace(in.Email))
	if email != "" {
		parsed, err := mail.ParseAddress(email)
		if err != nil || parsed.Address != email || len(email) > maxEmail {
			return invalid("Invalid email format")
		}
	}
	if !slices.Contains([]string{access.RoleUser, access.RoleProjectAdmin, access.RoleAdmin}, in.Role) {
		return invalid("Invalid role. Must be user, project_admin, or admin")
	}
	return email, nil
}

// roomForUser refuses an email that is taken, and a user above what the plan has.
func (a *API) roomForUser(grant *access.Grant, email string) error {
	limit := grant.Tier().Limits().MaxUsers
	if email == "" && limit == access.Unlimited {
		return nil
	}
	users, err := a.usersOf(grant.Tenant.GetId())
	if err != nil {
		return err
	}
	if email != "" && slices.ContainsFunc(users, func(u *directorypb.User) bool { return u.GetEmail() == email }) {
		return machine.Fail(failurepb.Code_ALREADY_EXISTS, "User with this email already exists in your organization")
	}
	if limit != access.Unlimited && len(users) >= limit {
		return limitReached("users", len(users), limit)
	}
	return nil
}

// administrator returns what the caller's token gives if it acts for an owner or admin.
func administrator(ctx context.Context) (*access.Grant, *machine.Failure) {
	grant := endpoint.CallerFrom(ctx).Grant
	if !grant.Administrates() {
		return nil, machine.Fail(failurepb.Code_FORBIDDEN, "Forbidden")
	}
	return grant, nil
}

// projectFor returns a project of the tenant: the one that is named, else the token's.
func (a *API) projectFor(ctx context.Context, grant *access.Grant, id string) (string, error) {
	if id == "" || id == grant.Project.GetId() {
		return grant.Project.GetId(), nil
	}
	var project directorypb.Project
	found, err := a.read(ctx, endpoint.Projects, id, &project)
	if err != nil {
		return "", err
	}
	if !found || project.GetTenantId() != grant.Tenant.GetId() {
		return "", machine.Fail(failurepb.Code_NOT_FOUND, textNoProject)
	}
	return id, nil
}

// usersOf returns the users of a tenant, newest first.
func (a *API) usersOf(tenant string) ([]*directorypb.User, error) {
	users, err := decodeAll[directorypb.User](a.Records.List(endpoint.Users, ""))
	users = slices.DeleteFunc(users, func(u *directorypb.User) bool { return u.GetTenantId() != tenant })
	newestFirst(users, (*directorypb.User).GetId)
	return users, err
}

// read reads a record into a message, and says whether there is one.
func (a *API) read(ctx context.Context, collection, key string, into proto.Message) (bool, error) {
	record, ok, err := a.Records.Find(ctx, collection, key)
	if err != nil || !ok {
		return false, err
	}
	return true, proto.Unmarshal(record.Value, into)
}

func userJSON(user *directorypb.User) userSchema {
	own := permissions(user.GetServicePermissions())
	if len(own) == 0 { // nothing beyond the role, however that came about
		own = nil
	}
	return userSchema{
		ID: user.GetId(), InternalID: user.GetId(), Name: user.GetName(), Email: nullable(user.GetEmail()), Role: user.GetRole(),
		CanLogin: user.GetCanLogin(), ServicePermissions: own,
		ProjectIDs: append([]string{}, user.GetProjectIds()...), InvitedBy: nullable(user.GetCreatedBy()),
		CreatedAt: timeText(user.GetCreatedAt()), UpdatedAt: timeText(user.GetUpdatedAt()),
	}
}

// nullable is a text that is null when it is empty.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// timeText is a time as the wire has it, without the quotes.
func timeText(unixMilli int64) string {
	quoted := wire.AppendTime(nil, unixMilli)
	return string(quoted[1 : len(quoted)-1])
}

// nullableTime is a time that is null when it is 0.
func nullableTime(unixMilli int64) *string {
	if unixMilli == 0 {
		return nil
	}
	return nullable(timeText(unixMilli))
}
