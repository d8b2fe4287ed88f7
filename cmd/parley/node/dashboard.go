package node

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/core/feature"
	"parley/actors/core/identity"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/ids"
	"parley/cmd/parley/node/seal"
	"parley/httpedge/clientapi"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/clientapi/license"
	"parley/httpedge/clientapi/webhooks"
	"parley/httpedge/dashboard"
	"parley/httpedge/endpoint"
	"parley/httpedge/login"
	"parley/httpedge/openid"
	"parley/httpedge/password"
	"parley/httpedge/permission"
	"parley/proto/attemptpb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
)

// dashboardPath is before all routes of signed-in users.
const dashboardPath = "/api"

// sessionKeyFile holds the secret that a single node generates to sign sessions.
const sessionKeyFile = "session.key"

// consolePath is before the routes of the Client API for signed-in users.
const consolePath = dashboardPath + consoleBelow

const consoleBelow = "/console/v1"

// mountDashboard mounts the routes by which people sign in, and those of signed-in users: api is the Client API, whose resources they have, too.
func (n *Node) mountDashboard(permissions *permission.Engine, api *clientapi.API) error {
	settings, err := loginConfig(n.config, n.links == nil)
	if err != nil {
		return err
	}
	n.edge.letters.Store(n.newLetters(&settings))
	accounts := n.directory.accounts.Load()
	sessions := login.New(settings, accounts, permissions)
	hasher, err := n.newHasher()
	if err != nil {
		return err
	}
	access := dashboard.Config{Registration: dashboard.Registration(n.config.Accounts.Registration)}
	provider, err := n.newProvider()
	if err != nil {
		return err
	}
	access.Provider = dashboard.Provider{Name: n.config.OIDC.Name, Slug: n.config.OIDC.Company, Role: n.config.OIDC.CreateRole}
	access.Limits = accountLimits(&n.config.Accounts, n.config.Mail.MaxPerHour)
	for _, code := range n.config.Accounts.AccessCodes {
		access.AccessCodes = append(access.AccessCodes, code.Reveal())
	}
	surface := dashboard.New(access, dashboard.Parts{
		Sessions: sessions, Accounts: accounts, Hasher: hasher,
		Attempts: &attempts{client: &client{n}, ids: ids.New(n.shards), features: n.features, key: settings.Secret},
		Mails:    mails{n}, Tickets: login.NewTickets(settings.Secret), Sealer: n.directory.seal, Provider: provider,
	}).Surface()
	hooks := sessions.Protect(dashboardWebhooks(webhooks.Parts{
		Webhooks: n.directory.webhooks.Load(), Permissions: permissions,
		Side: webhooks.Sessions{Projects: func(tenantID string) ([]*directorypb.Project, error) {
			return accounts.ListProjects(identity.Operator(), tenantID)
		}},
	}))
	people := sessions.Protect(dashboardMembers(handler.Parts{Accounts: accounts, InviteLink: inviteLink(&n.config.Accounts)}))
	// Each further surface of signed-in users: sessions.Protect(its surface), here and in Surfaces.
	others := []endpoint.Surface{
		hooks, people, sessions.Protect(dashboardAudit(n.auditLog())), sessions.Protect(dashboardLicense(license.Parts{Accounts: accounts})),
		sessions.ProtectProject(api.Dashboard()), sessions.ProtectProject(api.Aegis()), sessions.ProtectProject(api.Quotas()),
	}
	for _, mounted := range dashboardSurfaces(n.config.HTTP.Docs, surface, sessions.ProtectProject(api.Console()), others...) {
		if err := n.edge.server.Mount(mounted.Prefix, mounted.Surface); err != nil {
			return err
		}
	}
	return nil
}

// inviteLink is where people accept an invitation, nil while nobody has said where they find the server. The secret is in the
// fragment, which browsers send to nobody.
func inviteLink(accounts *config.Accounts) func(secret string) string {
	if accounts.URL == "" {
		return nil
	}
	return func(secret string) string { return strings.TrimSuffix(accounts.URL, "/") + "/accept-invite#" + secret }
}

// newProvider makes the OpenID provider at which people sign in, nil when there is none.
func (n *Node) newProvider() (*openid.Provider, error) {
	settings := &n.config.OIDC
	if settings.Issuer == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	base, err := url.Parse(n.config.Accounts.URL)
	if err != nil {
		return nil, err
	}
	roots, err := certificates(settings.CAFile)
	if err != nil {
		return nil, fmt.Errorf("oidc.ca_file: %w", err)
	}
	provider := openid.New(openid.Config{
		Issuer: settings.Issuer, ClientID: settings.ClientID, ClientSecret: settings.ClientSecret.Reveal(), Scopes: settings.Scopes,
		Redirect: base.JoinPath(dashboardPath, "auth/oidc/callback"), Roots: roots, Timeout: settings.Timeout, Logger: n.log,
	})
	n.later(func(context.Context) { provider.Close() })
	return provider, nil
}

func (n *Node) newHasher() (*password.Pool, error) {
	settings := password.DefaultConfig()
	settings.MaxQueued = n.config.Accounts.MaxQueuedHashes
	settings.Workers = cmp.Or(n.config.Accounts.HashWorkers, settings.Workers)
	settings.Cost = cmp.Or(n.config.Accounts.HashCost, settings.Cost)
	settings.Command = password.OwnWorker()
	pool := password.New(settings, n.log)
	n.later(func(context.Context) { pool.Stop() })
	return pool, pool.Register(n.metrics)
}

func loginConfig(c *config.Config, alone bool) (login.Config, error) {
	a := &c.Accounts
	settings := login.Config{Secret: []byte(a.SessionSecret.Reveal())}
	if len(settings.Secret) == 0 {
		secret, err := seal.KeptSecret(filepath.Join(c.DataDir, sessionKeyFile), alone)
		if err != nil {
			return settings, err
		}
		settings.Secret = []byte(secret)
	}
	days, err := strconv.Atoi(strings.TrimSuffix(a.SessionLifetime, "d"))
	if err != nil {
		return settings, err
	}
	settings.Lifetime = time.Duration(days) * 24 * time.Hour
	settings.Reached, err = reachedBy(a)
	return settings, err
}

// reachedBy says by which address and through which proxies people reach the server.
func reachedBy(a *config.Accounts) (by login.Reached, err error) {
	if a.URL != "" {
		if by.URL, err = url.Parse(a.URL); err != nil {
			return by, err
		}
	}
	return by, nil
}

// resetWindow is that of document 3, 5.3.
const resetWindow = 15 * time.Minute

func accountLimits(a *config.Accounts, mailsPerHour int) dashboard.Limits {
	return dashboard.Limits{
		Login:    dashboard.Limit{Most: a.LoginAttempts, Window: a.LoginWindow},
		Account:  dashboard.Limit{Most: a.AccountAttempts, Window: a.LoginWindow},
		Register: dashboard.Limit{Most: a.RegisterAttempts, Window: time.Hour},
		Founded:  dashboard.Limit{Most: a.RegisterTotal, Window: time.Hour},
		Code:     dashboard.Limit{Most: a.CodeAttempts, Window: a.LoginWindow},
		Reset:    dashboard.Limit{Most: a.ResetAttempts, Window: resetWindow},
		Mails:    dashboard.Limit{Most: mailsPerHour, Window: time.Hour},
	}
}

// attempts implements dashboard.Attempts: what is counted is an entity in the shard that its name hashes to. Names hold addresses
// and emails: they are hashed with the secret, so that ids give none away.
type attempts struct {
	client   entity.Client
	ids      ids.IDs
	features *feature.Gate
	key      []byte
}

// Take counts an attempt at the entity's owner.
func (a *attempts) Take(ctx context.Context, name string, limit dashboard.Limit) (allowed bool, again time.Time, err error) {
	if !a.features.On(feature.Webhooks) { // the level of the release that brought them, too
		return false, again, failure.New(failurepb.Code_UNAVAILABLE, failure.AttemptsNotCounted)
	}
	mac := hmac.New(sha256.New, a.key)
	_, _ = mac.Write([]byte(name)) // a hash takes everything
	id := a.ids.NewIDFrom("attempt", hex.EncodeToString(mac.Sum(nil)))
	reply, err := entity.Ask[*attemptpb.Reply](ctx, a.client, id, &attemptpb.Command{Id: id, Body: &attemptpb.Command_Take{
		Take: &attemptpb.Take{Limit: int64(limit.Most), WindowMs: limit.Window.Milliseconds()},
	}})
	if refused, is := errors.AsType[*failure.Failure](err); is && (refused.Reason == failure.TooManyCommands || refused.Reason == failure.TooManyWaiters) {
		return false, time.Now().Add(time.Second), nil // so many at once are too many
	}
	return reply.GetAllowed(), time.UnixMilli(reply.GetExpiresAt()), err
}
