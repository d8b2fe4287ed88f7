package identity_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/access"
	"parley/actors/core/collection"
	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/identity"
	"parley/actors/core/quota"
	"parley/proto/directorypb"
)

// members is a tenant with an owner who signs in.
type members struct {
	*identity.Accounts

	t     *testing.T
	store *collectiontest.Records
	made  identity.Founded
	owner identity.Caller
}

func newMembers(t *testing.T) *members {
	t.Helper()
	store := &collectiontest.Records{}
	accounts := newAccounts(store)
	in := identity.Registration{Company: "Acme", Name: "Olga", Email: "olga@acme.test", Password: "Passw0rd!"}
	require.NoError(t, in.Check())
	made, err := accounts.Register(t.Context(), &in, []byte("hash"))
	require.NoError(t, err)
	m := &members{Accounts: accounts, t: t, store: store, made: made}
	m.tier("ENTERPRISE")
	m.owner = m.caller(made.Owner)
	return m
}

func (m *members) tier(tier string) {
	m.t.Helper()
	tenant, err := m.UpdateTenant(m.t.Context(), identity.Operator(), m.made.Tenant.GetId(), "", tier)
	require.NoError(m.t, err)
	m.made.Tenant = tenant
	m.owner = m.caller(m.made.Owner)
}

// caller is a user with all that they may.
func (m *members) caller(user *directorypb.User) identity.Caller {
	return identity.Bearer(access.NewGrant(&directorypb.Token{}, user, m.made.Tenant, m.made.Project))
}

// scoped is the owner with a token of a scope.
func (m *members) scoped(scope map[string]string) identity.Caller {
	return identity.Bearer(access.NewGrant(&directorypb.Token{Scoped: true, Scope: scope}, m.made.Owner, m.made.Tenant, m.made.Project))
}

// join is a user who was invited and has accepted.
func (m *members) join(email, role string) *directorypb.User {
	m.t.Helper()
	_, secret, err := m.Invite(m.t.Context(), m.owner, identity.Invitation{Name: email, Email: email, Role: role})
	require.NoError(m.t, err)
	user, err := m.AcceptInvite(m.t.Context(), secret, "", []byte("hash"))
	require.NoError(m.t, err)
	return user
}

// reason is why something was refused, "" when it was not.
func reason(t *testing.T, err error) failure.Reason {
	t.Helper()
	if err == nil {
		return ""
	}
	refused, is := errors.AsType[*failure.Failure](err)
	require.True(t, is, "%v", err)
	return refused.Reason
}

func TestInvitations(t *testing.T) {
	m := newMembers(t)
	ctx := t.Context()
	user, secret, err := m.Invite(ctx, m.owner, identity.Invitation{Name: " Ann ", Email: " Ann@Acme.test", Role: "user"})
	require.NoError(t, err)
	require.Equal(t, []string{"Ann", "ann@acme.test"}, []string{user.GetName(), user.GetEmail()})
	require.True(t, strings.HasPrefix(secret, user.GetId()+"."))
	require.False(t, identity.MaySignIn(user))
	for _, record := range m.store.List(identity.Users, "") {
		require.NotContains(t, string(record.Value), secret[len(user.GetId())+1:], "it is not stored")
	}
	for _, bad := range []string{"", ".", user.GetId(), user.GetId() + ".", secret + "0", secret[:len(secret)-1], "usr_none" + secret[len(user.GetId()):], strings.Repeat("x", 30<<10)} {
		_, err = m.AcceptInvite(ctx, bad, "", []byte("hash"))
		require.Equal(t, failure.InvitationInvalid, reason(t, err), bad)
	}
	_, again, err := m.InviteAgain(ctx, m.owner, user.GetId())
	require.NoError(t, err)
	_, err = m.AcceptInvite(ctx, secret, "", []byte("hash"))
	require.Equal(t, failure.InvitationInvalid, reason(t, err), "there is a newer one")

	var wg sync.WaitGroup
	outcomes := make([]error, 8)
	for i := range outcomes {
		wg.Go(func() { _, outcomes[i] = m.AcceptInvite(context.WithoutCancel(ctx), again, "Anna", []byte{byte(i)}) })
	}
	wg.Wait()
	accepted := 0
	for _, outcome := range outcomes {
		if outcome == nil {
			accepted++
			continue
		}
		require.Equal(t, failure.InvitationInvalid, reason(t, outcome))
	}
	require.Equal(t, 1, accepted)
	_, _, err = m.InviteAgain(ctx, m.owner, user.GetId())
	require.Equal(t, failure.InvitationAccepted, reason(t, err), "else an admin could take the account over")

	_, _, err = m.Invite(ctx, m.owner, identity.Invitation{Name: "Ann", Email: "ANN@acme.test", Role: "user"})
	require.Equal(t, failure.EmailTaken, reason(t, err))
	for _, in := range []identity.Invitation{
		{Email: "a@b.test", Role: "user"},
		{Name: "A", Role: "user"},
		{Name: "A", Email: "a@b.test"},
		{Name: "A", Email: "a", Role: "user"},
		{Name: "A", Email: "a@b.test", Role: "owner"},
		{Name: "A", Email: "a@b.test\r\nBcc: x@y.test", Role: "user"},
		{Name: strings.Repeat("A", 30<<10), Email: "a@b.test", Role: "user"},
		{Name: "A\u202Eb", Email: "a@b.test", Role: "user"},
		{Name: "A", Email: "a@b.test", Role: "user", ProjectID: "proj_other"},
	} {
		_, _, err = m.Invite(ctx, m.owner, in)
		require.NotEmpty(t, reason(t, err), in)
	}
}

// An invitation that was taken back, by deleting the user or by forbidding them to sign in, is of no use; nor is one too old.
func TestInvitationsEnd(t *testing.T) {
	store := &collectiontest.Records{}
	now := time.Now()
	accounts := identity.New(store, identity.Env{
		NewID: newIDs(), Now: func() time.Time { return now }, Random: func(into []byte) { copy(into, "random") },
	})
	in := identity.Registration{Company: "Acme", Name: "Olga", Email: "olga@acme.test", Password: "Passw0rd!"}
	require.NoError(t, in.Check())
	made, err := accounts.Register(t.Context(), &in, []byte("hash"))
	require.NoError(t, err)
	owner := identity.Bearer(access.NewGrant(&directorypb.Token{}, made.Owner, made.Tenant, made.Project))
	invite := func(email string) (id, secret string) {
		user, secret, failed := accounts.Invite(t.Context(), owner, identity.Invitation{Name: "A", Email: email, Role: "user"})
		require.NoError(t, failed)
		return user.GetId(), secret
	}
	deleted, first := invite("a@acme.test")
	require.NoError(t, accounts.DeleteUser(t.Context(), owner, deleted))
	barred, second := invite("b@acme.test")
	no := false
	_, err = accounts.UpdateUser(t.Context(), owner, barred, identity.UserChange{CanLogin: &no})
	require.NoError(t, err)
	_, third := invite("c@acme.test")
	_, err = accounts.Invited(t.Context(), third)
	require.NoError(t, err)
	now = now.Add(identity.InviteLifetime)
	for _, secret := range []string{first, second, third} {
		_, err = accounts.Invited(t.Context(), secret)
		require.Equal(t, failure.InvitationInvalid, reason(t, err))
	}
}

func newIDs() func(string) string {
	var mu sync.Mutex
	next := 0
	return func(kind string) string {
		mu.Lock()
		defer mu.Unlock()
		next++
		return kind + "_" + strings.Repeat("i", next)
	}
}

// Two owners who take each other's role at once, or an owner and an operator, leave one.
func TestLastOwnerStays(t *testing.T) {
	for range 20 {
		m := newMembers(t)
		other := m.join("otto@acme.test", "admin")
		other, err := m.UpdateUser(t.Context(), m.owner, other.GetId(), identity.UserChange{Role: "owner"})
		require.NoError(t, err)
		callers := []identity.Caller{m.caller(other), m.owner}
		var wg sync.WaitGroup
		for i, id := range []string{m.made.Owner.GetId(), other.GetId()} {
			wg.Go(func() {
				_, _ = m.UpdateUser(context.WithoutCancel(t.Context()), callers[i], id, identity.UserChange{Role: "user"})
			})
		}
		wg.Wait()
		owners := 0
		users, err := m.ListUsers(identity.Operator(), m.made.Tenant.GetId())
		require.NoError(t, err)
		for _, user := range users {
			if user.GetRole() == "owner" {
				owners++
			}
		}
		require.Equal(t, 1, owners)
	}
}

func TestOwnersAreOthersBusiness(t *testing.T) {
	m := newMembers(t)
	ctx, id := t.Context(), m.made.Owner.GetId()
	admin := m.join("ada@acme.test", "admin")
	no := false
	for _, change := range []identity.UserChange{{Role: "user"}, {Permissions: access.Scope{"agents": "none"}}, {CanLogin: &no}, {Name: "Mallory"}} {
		_, err := m.UpdateUser(ctx, m.caller(admin), id, change)
		require.Equal(t, failure.OwnerFixed, reason(t, err))
	}
	_, err := m.UpdateUser(ctx, m.caller(admin), admin.GetId(), identity.UserChange{Role: "owner"})
	require.Equal(t, failure.BadRole, reason(t, err))
	_, err = m.UpdateUser(ctx, m.scoped(map[string]string{"members": "admin"}), admin.GetId(), identity.UserChange{Role: "owner"})
	require.Equal(t, failure.BadRole, reason(t, err), "a token gives no more than its scope")
	require.Equal(t, failure.OwnerUndeletable, reason(t, m.DeleteUser(ctx, m.caller(admin), id)))
	require.Equal(t, failure.OwnAccount, reason(t, m.DeleteUser(ctx, m.caller(admin), admin.GetId())))
	_, err = m.UpdateUser(ctx, m.owner, id, identity.UserChange{Role: "admin"})
	require.Equal(t, failure.LastOwner, reason(t, err))
	robot, err := m.CreateUser(ctx, identity.Operator(), identity.NewUser{TenantID: m.made.Tenant.GetId(), Name: "Robot", Role: "owner"})
	require.NoError(t, err)
	_, err = m.UpdateUser(ctx, m.owner, id, identity.UserChange{Role: "admin"})
	require.Equal(t, failure.LastOwner, reason(t, err), "an owner who cannot sign in is none to come back to")
	require.Equal(t, failure.OwnerUndeletable, reason(t, m.DeleteUser(ctx, m.owner, robot.GetId())))
	yes := true
	plain, err := m.CreateUser(ctx, m.owner, identity.NewUser{Name: "Plain", Role: "user"})
	require.NoError(t, err)
	_, err = m.UpdateUser(ctx, m.owner, plain.GetId(), identity.UserChange{CanLogin: &yes})
	require.Equal(t, failure.NeverInvited, reason(t, err), "users who only own tokens never sign in")
}

// Nobody gives more than they have, by whatever way.
func TestMembersAreNotAWayUp(t *testing.T) {
	m := newMembers(t)
	ctx := t.Context()
	narrow := m.scoped(map[string]string{"members": "admin", "projects": "write", "models": "read"})
	user, _, err := m.Invite(ctx, narrow, identity.Invitation{Name: "A", Email: "a@acme.test", Role: "admin", Permissions: access.Scope{"agents": "admin"}})
	require.NoError(t, err)
	holds := func(user *directorypb.User, service access.Service) access.Level {
		return access.NewGrant(&directorypb.Token{}, user, m.made.Tenant, m.made.Project).Level(service)
	}
	for _, definition := range access.Definitions() {
		most := map[access.Service]access.Level{"members": access.Admin, "projects": access.Write, "models": access.Read}[definition.Service]
		require.Equal(t, most, holds(user, definition.Service), definition.Service)
	}
	full := m.join("full@acme.test", "admin")
	low := m.join("low@acme.test", "user")
	low, err = m.UpdateUser(ctx, m.owner, low.GetId(), identity.UserChange{Permissions: access.Scope{"agents": "none"}})
	require.NoError(t, err)
	for _, change := range []identity.UserChange{
		{Permissions: access.Scope{"agents": "admin", "models": "admin"}}, {Permissions: access.Scope{}}, {Role: "admin"},
	} {
		low, err = m.UpdateUser(ctx, narrow, low.GetId(), change)
		require.NoError(t, err)
		require.Equal(t, access.None, holds(low, access.Agents), change)
		require.LessOrEqual(t, holds(low, access.Models), access.Write, change)
	}
	unchanged, err := m.UpdateUser(ctx, narrow, full.GetId(), identity.UserChange{Name: "Fuller"})
	require.NoError(t, err)
	require.Equal(t, access.Admin, holds(unchanged, access.Agents), "what somebody holds already is not taken away unasked")

	admin := "admin"
	_, err = m.CreateGroup(ctx, narrow, identity.GroupChange{Name: &admin, TenantRole: &admin})
	require.Equal(t, failure.MoreThanOwn, reason(t, err))
	group, err := m.CreateGroup(ctx, m.owner, identity.GroupChange{Name: &admin, TenantRole: &admin})
	require.NoError(t, err)
	require.Equal(t, failure.MoreThanOwn, reason(t, m.AddToGroup(ctx, narrow, group.GetId(), low.GetId())))
	_, err = m.UpdateGroup(ctx, narrow, group.GetId(), identity.GroupChange{Permissions: &access.Scope{"agents": "admin"}})
	require.Equal(t, failure.MoreThanOwn, reason(t, err))

	pending, _, err := m.Invite(ctx, m.owner, identity.Invitation{Name: "P", Email: "p@acme.test", Role: "admin"})
	require.NoError(t, err)
	_, _, err = m.InviteAgain(ctx, narrow, pending.GetId())
	require.Equal(t, failure.MoreThanOwn, reason(t, err), "whoever has the link becomes the user")

	project, err := m.CreateProject(ctx, m.owner, identity.NewProject{Name: "Second"})
	require.NoError(t, err)
	someone := m.join("someone@acme.test", "user")
	member, err := m.AddProjectMember(ctx, narrow, project.GetId(), someone.GetId(), identity.MembershipChange{
		Role: "project_admin", Permissions: &access.Scope{"agents": "admin", "license": "admin"},
	})
	require.NoError(t, err)
	there := access.NewGrant(&directorypb.Token{}, member.User, m.made.Tenant, project)
	require.Equal(t, access.None, there.Level(access.Agents))
	require.Equal(t, access.None, there.Level("license"))
	require.Equal(t, access.Read, there.Level(access.Models))
}

func TestGroupsRaise(t *testing.T) {
	m := newMembers(t)
	ctx := t.Context()
	user := m.join("u@acme.test", "user")
	name, role := "Admins", "admin"
	group, err := m.CreateGroup(ctx, m.owner, identity.GroupChange{Name: &name, TenantRole: &role})
	require.NoError(t, err)
	lower := "ADMINS"
	_, err = m.CreateGroup(ctx, m.owner, identity.GroupChange{Name: &lower})
	require.Equal(t, failure.GroupNameTaken, reason(t, err))
	resume := func() identity.Member {
		member, failed := m.Resume(ctx, identity.Session{UserID: user.GetId(), TenantID: user.GetTenantId(), Generation: 1})
		require.NoError(t, failed)
		return member
	}
	grant := func() *access.Grant {
		member := resume()
		return access.NewGrant(&directorypb.Token{}, member.User, member.Tenant, member.Project, member.Groups...)
	}
	before := grant()
	require.True(t, m.Holds(before))
	require.NoError(t, m.AddToGroup(ctx, m.owner, group.GetId(), user.GetId()))
	require.NoError(t, m.AddToGroup(ctx, m.owner, group.GetId(), user.GetId()), "once more")
	require.Equal(t, 1, m.GroupSize(group.GetId()))
	require.False(t, m.Holds(before))
	raised := grant()
	require.True(t, raised.Administrates())
	require.Equal(t, access.Admin, raised.Level(access.Members))
	require.True(t, m.Holds(raised))
	require.False(t, access.NewGrant(&directorypb.Token{}, resume().User, m.made.Tenant, m.made.Project).Administrates(), "not for tokens")

	none := ""
	_, err = m.UpdateGroup(ctx, m.owner, group.GetId(), identity.GroupChange{TenantRole: &none, Permissions: &access.Scope{"members": "read", "agents": "none"}})
	require.NoError(t, err)
	require.False(t, m.Holds(raised), "what its groups give has changed")
	require.Equal(t, access.Read, grant().Level(access.Members))
	require.Equal(t, access.Write, grant().Level(access.Agents), "it never lowers")
	require.NoError(t, m.RemoveFromGroup(ctx, m.owner, group.GetId(), user.GetId()))
	require.Equal(t, access.None, grant().Level(access.Members))
	require.Equal(t, failure.NotGroupMember, reason(t, m.RemoveFromGroup(ctx, m.owner, group.GetId(), user.GetId())))
	require.NoError(t, m.AddToGroup(ctx, m.owner, group.GetId(), user.GetId()))
	held := grant()
	require.NoError(t, m.DeleteGroup(ctx, m.owner, group.GetId()))
	require.False(t, m.Holds(held))
	require.Equal(t, access.None, grant().Level(access.Members))
}

func TestProjectMembers(t *testing.T) {
	m := newMembers(t)
	ctx := t.Context()
	second, err := m.CreateProject(ctx, m.owner, identity.NewProject{Name: "Second"})
	require.NoError(t, err)
	user := m.join("u@acme.test", "user")
	in := func(project *directorypb.Project) *access.Grant {
		users, failed := m.ListUsers(identity.Operator(), m.made.Tenant.GetId())
		require.NoError(t, failed)
		for _, known := range users {
			if known.GetId() == user.GetId() {
				user = known
			}
		}
		return access.NewGrant(&directorypb.Token{}, user, m.made.Tenant, project)
	}
	require.False(t, access.MemberOf(user, second.GetId()))
	_, err = m.UpdateProjectMember(ctx, m.owner, second.GetId(), user.GetId(), identity.MembershipChange{Role: "member"})
	require.Equal(t, failure.NotProjectMember, reason(t, err))
	_, err = m.AddProjectMember(ctx, m.owner, second.GetId(), user.GetId(), identity.MembershipChange{Role: "owner"})
	require.Equal(t, failure.BadProjectRole, reason(t, err))
	_, err = m.AddProjectMember(ctx, m.owner, second.GetId(), user.GetId(), identity.MembershipChange{Role: "project_admin"})
	require.NoError(t, err)
	_, err = m.AddProjectMember(ctx, m.owner, second.GetId(), user.GetId(), identity.MembershipChange{})
	require.Equal(t, failure.AlreadyProjectMember, reason(t, err))
	require.Equal(t, []access.Level{access.Read, access.None, access.Write, access.None}, []access.Level{
		in(second).Level(access.Members), in(second).Level(access.Webhooks), in(second).Level(access.Agents), in(second).Level(access.Audit),
	})
	require.True(t, in(second).SeesAll())
	require.Equal(t, access.None, in(m.made.Project).Level(access.Members), "there only")
	require.False(t, in(m.made.Project).SeesAll())
	_, err = m.UpdateProjectMember(ctx, m.owner, second.GetId(), user.GetId(), identity.MembershipChange{
		Role: "member", Permissions: &access.Scope{"agents": "read", "webhooks": "admin"},
	})
	require.NoError(t, err)
	require.Equal(t, []access.Level{access.None, access.Admin, access.Read}, []access.Level{
		in(second).Level(access.Members), in(second).Level(access.Webhooks), in(second).Level(access.Agents),
	})
	for _, project := range []*directorypb.Project{second, m.made.Project} {
		_, _, err = m.CreateToken(ctx, m.owner, identity.NewToken{UserID: user.GetId(), ProjectID: project.GetId(), Label: "token"})
		require.NoError(t, err)
	}
	require.NoError(t, m.RemoveProjectMember(ctx, m.owner, second.GetId(), user.GetId()))
	_, total, err := m.PageTokens(ctx, m.owner, user.GetId(), 10, 0)
	require.NoError(t, err)
	require.Equal(t, 1, total, "those for the project are gone")
	require.NoError(t, m.RemoveProjectMember(ctx, m.owner, m.made.Project.GetId(), user.GetId()))
	in(second)
	require.False(t, access.MemberOf(user, m.made.Project.GetId()), "an empty list is not every project")
	require.Equal(t, failure.NotProjectMember, reason(t, m.RemoveProjectMember(ctx, m.owner, second.GetId(), user.GetId())))
	require.Equal(t, failure.NotProjectMember, reason(t, m.RemoveProjectMember(ctx, m.owner, second.GetId(), m.join("a@acme.test", "admin").GetId())))

	// A user of an older release without recorded projects is in every one, until they are taken out of one.
	everywhere := &directorypb.User{Id: "usr_old", TenantId: m.made.Tenant.GetId(), Name: "Old", Role: "user"}
	put(t, m.store, identity.Users, everywhere.GetId(), everywhere)
	require.NoError(t, m.RemoveProjectMember(ctx, m.owner, second.GetId(), "usr_old"))
	shown, total, err := m.ProjectMembers(ctx, m.owner, m.made.Project.GetId(), 10, 0)
	require.NoError(t, err)
	require.Equal(t, 3, total, "the owner, an admin, and who is left")
	for _, member := range shown {
		require.Equal(t, member.User.GetId() != "usr_old", member.Inherited, member.User.GetName())
	}
	_, err = m.AddProjectMember(ctx, m.owner, second.GetId(), "usr_none", identity.MembershipChange{})
	_, is := errors.AsType[*collection.MissingError](err)
	require.True(t, is)
}

// The plan's projects are exact when many are made at once, and one of two last projects stays.
func TestProjectsOfAPlan(t *testing.T) {
	m := newMembers(t)
	m.tier("FREE")
	var wg sync.WaitGroup
	made := make([]error, 12)
	for i := range made {
		wg.Go(func() {
			_, made[i] = m.CreateProject(context.WithoutCancel(t.Context()), m.owner, identity.NewProject{Name: "p" + strings.Repeat("x", i)})
		})
	}
	wg.Wait()
	count := 0
	for _, err := range made {
		if err == nil {
			count++
			continue
		}
		require.Equal(t, failure.RecordLimitReached, reason(t, err))
	}
	require.Equal(t, 1, count, "two with the first")
	projects, err := m.ListProjects(identity.Operator(), m.made.Tenant.GetId())
	require.NoError(t, err)
	require.Len(t, projects, 2)
	gone := make([]error, 2)
	for i, project := range projects {
		wg.Go(func() { gone[i] = m.DeleteProject(context.WithoutCancel(t.Context()), m.owner, project.GetId()) })
	}
	wg.Wait()
	require.NotEqual(t, gone[0] == nil, gone[1] == nil)
	users := make([]error, 12)
	for i := range users {
		wg.Go(func() {
			_, _, users[i] = m.Invite(context.WithoutCancel(t.Context()), m.owner, identity.Invitation{
				Name: "A", Email: strings.Repeat("a", i+1) + "@acme.test", Role: "user",
			})
		})
	}
	wg.Wait()
	count = 0
	for _, err := range users {
		if err == nil {
			count++
			continue
		}
		require.Equal(t, failure.UserQuota, reason(t, err))
	}
	require.Equal(t, 4, count, "five with the owner")
}

func TestMembersWaitForTheUpgrade(t *testing.T) {
	accounts := identity.New(&collectiontest.Records{}, identity.Env{
		NewID: newIDs(), Now: time.Now, Random: func([]byte) {}, Ready: func() bool { return false },
	})
	in := identity.Registration{Company: "Acme", Name: "Olga", Email: "olga@acme.test", Password: "Passw0rd!"}
	require.NoError(t, in.Check())
	made, err := accounts.Register(t.Context(), &in, []byte("hash"))
	require.NoError(t, err)
	owner := identity.Bearer(access.NewGrant(&directorypb.Token{}, made.Owner, made.Tenant, made.Project))
	_, _, err = accounts.Invite(t.Context(), owner, identity.Invitation{Name: "A", Email: "a@b.test", Role: "user"})
	require.Equal(t, failure.MembersNotYet, reason(t, err))
	_, err = accounts.AddProjectMember(t.Context(), owner, made.Project.GetId(), made.Owner.GetId(), identity.MembershipChange{})
	require.Equal(t, failure.MembersNotYet, reason(t, err))
	name := "g"
	_, err = accounts.CreateGroup(t.Context(), owner, identity.GroupChange{Name: &name})
	require.Equal(t, failure.MembersNotYet, reason(t, err))
}

func put(t *testing.T, store collection.Store, name, key string, message proto.Message) {
	t.Helper()
	value, err := proto.Marshal(message)
	require.NoError(t, err)
	_, err = store.Put(t.Context(), name, key, 0, value)
	require.NoError(t, err)
}

// Quotas of policies bind whatever a plan leaves, for everybody but the operator.
func TestQuotasOfATenant(t *testing.T) {
	store := &collectiontest.Records{}
	limits := ""
	accounts := identity.New(store, identity.Env{
		NewID: newIDs(), Now: time.Now, Random: func([]byte) {}, Policies: func(tenantID string) []*quota.Policy {
			return quota.Read([]*directorypb.QuotaPolicy{{Id: "qp", TenantId: tenantID, ProjectId: "any", Scope: quota.Tenant, Domain: quota.Global, Enabled: true, Limits: []byte(limits)}})
		},
	})
	in := identity.Registration{Company: "Acme", Name: "Olga", Email: "olga@acme.test", Password: "Passw0rd!"}
	require.NoError(t, in.Check())
	made, err := accounts.Register(t.Context(), &in, []byte("hash"))
	require.NoError(t, err)
	m := &members{Accounts: accounts, t: t, store: store, made: made}
	m.tier("ENTERPRISE")
	m.owner = m.caller(made.Owner)
	limits = `{"quotas":{"maxProjects":2,"maxUsers":1}}`
	projects := make([]error, 8)
	var calls sync.WaitGroup
	for i := range projects {
		calls.Go(func() {
			_, projects[i] = m.CreateProject(context.WithoutCancel(t.Context()), m.owner, identity.NewProject{Name: "p" + strings.Repeat("x", i)})
		})
	}
	calls.Wait()
	fits := 0
	for _, err := range projects {
		if err == nil {
			fits++
			continue
		}
		require.ErrorContains(t, err, "projects limit reached (2/2)")
	}
	require.Equal(t, 1, fits, "two with the first")
	_, _, err = m.Invite(t.Context(), m.owner, identity.Invitation{Name: "A", Email: "a@acme.test", Role: "user"})
	require.Equal(t, failure.UserQuota, reason(t, err))
	_, err = m.CreateUser(t.Context(), m.owner, identity.NewUser{Name: "A", Role: "user"})
	require.ErrorContains(t, err, "users limit reached (1/1)")
	_, err = m.CreateUser(t.Context(), identity.Operator(), identity.NewUser{TenantID: made.Tenant.GetId(), Name: "A", Role: "user"})
	require.NoError(t, err)
	_, err = m.CreateProject(t.Context(), identity.Operator(), identity.NewProject{TenantID: made.Tenant.GetId(), Name: "of the operator"})
	require.NoError(t, err)
}
