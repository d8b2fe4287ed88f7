package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// licenceSigner signs the licence keys of these tests.
var licenceSigner = ed25519.NewKeyFromSeed([]byte("the seed of whoever sells licence")[:ed25519.SeedSize]) // a constant

// licencePublic is its public key as a setting: the ends of lines are escaped.
func licencePublic(t *testing.T) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(licenceSigner.Public())
	require.NoError(t, err)
	return strings.ReplaceAll(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})), "\n", `\n`)
}

// licenceKey is a key that ends in so long.
func licenceKey(t *testing.T, tier, tenantID string, ends time.Duration, more object1) string {
	t.Helper()
	claims := object1{
		"licenseId": "lic-of-" + tier, "licenseType": tier, "tenantId": tenantID, "exp": float64(time.Now().Add(ends).UnixMilli()) / 1000,
	}
	for name, value := range more {
		claims[name] = value
	}
	payload, err := json.Marshal(claims)
	require.NoError(t, err)
	signed, err := jws.Sign(payload, jws.WithKey(jwa.EdDSA(), licenceSigner))
	require.NoError(t, err)
	return string(signed)
}

const day = 24 * time.Hour

// TestLicense: offline licence keys on one node, by token and by session.
func TestLicense(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig+`license: {public_key: '`+licencePublic(t)+`'}`+"\n")
	t.Run("without_a_public_key", func(t *testing.T) {
		n := newTenant(t, house(t).p, "FREE")
		n.ask(t, "POST", "/license", object1{"licenseKey": licenceKey(t, "ENTERPRISE", n.id, day, nil)}).
			denied(400, "invalid_request", "This deployment takes no license keys: it has no public key to check them with")
		require.Equal(t, "free", n.done(t, "GET", "/license", nil).text("status"))
	})
	t.Run("from_beginning_to_end", func(t *testing.T) { licenceBySession(t, p) })
	t.Run("refused_keys_lose_nothing", func(t *testing.T) {
		n := newTenant(t, p, "FREE")
		n.done(t, "POST", "/license", object1{"licenseKey": licenceKey(t, "PROFESSIONAL", n.id, day, nil)})
		good := licenceKey(t, "ENTERPRISE", n.id, day, nil)
		for key, text := range map[string]string{
			"short":                         "licenseKey must have 20 to 8192 characters",
			strings.Repeat("k", 8193):       "licenseKey must have 20 to 8192 characters",
			strings.Repeat("k", 8192):       "The license key is not signed by the issuer that this deployment trusts",
			good[:len(good)-8] + "AAAAAAAA": "The license key is not signed by the issuer that this deployment trusts",
			licenceKey(t, "ENTERPRISE", "tenant_other", day, nil):                                    "The license key is for another tenant",
			licenceKey(t, "GOLD", n.id, day, nil):                                                    "The license key is not valid here: licenseType",
			licenceKey(t, "ENTERPRISE", n.id, day, object1{"nbf": time.Now().Add(time.Hour).Unix()}): "The license is not valid before ",
			licenceKey(t, "ENTERPRISE", n.id, -14*day-time.Minute, nil):                              "The license expired at ",
		} {
			a := n.ask(t, "POST", "/license", object1{"licenseKey": key})
			require.Equal(t, 400, a.status, a.text)
			require.True(t, strings.HasPrefix(a.said(), text), a.text)
		}
		require.Equal(t, 413, n.ask(t, "POST", "/license", object1{"licenseKey": strings.Repeat("k", 40<<10)}).status)
		kept := n.done(t, "GET", "/license", nil)
		require.Equal(t, []string{"PROFESSIONAL", "active", "offline"}, []string{kept.text("licenseType"), kept.text("status"), kept.text("source")})
		require.Equal(t, 400, newTenant(t, p, "FREE").ask(t, "POST", "/license", object1{"licenseKey": good}).status, "another tenant's")
	})
	t.Run("ends_by_the_clock", func(t *testing.T) {
		n := newTenant(t, p, "STARTER")
		moderations := func() int { return n.ask(t, "POST", "/moderations", object1{"input": "hi"}).status }
		require.Equal(t, 403, moderations())
		in := n.done(t, "POST", "/license", object1{"licenseKey": licenceKey(t, "PROFESSIONAL", n.id, -14*day+5*time.Second, nil)})
		require.Equal(t, "active", in.text("status"), "in grace")
		require.NotEqual(t, 403, moderations())
		require.Eventually(t, func() bool { return moderations() == 403 }, waitLong, waitStep)
		over := n.done(t, "GET", "/license", nil)
		require.Equal(t, []string{"STARTER", "expired", "free", "lic-of-PROFESSIONAL"},
			[]string{over.text("licenseType"), over.text("status"), over.text("source"), over.text("licenseId")})
		require.Contains(t, over.text("error"), "The license expired at ")
	})
	t.Run("for_owners_and_admins", func(t *testing.T) {
		n := newTenant(t, p, "STARTER")
		for role, status := range map[string]int{"admin": 200, "project_admin": 403, "user": 403} {
			_, b := n.user(t, role, nil)
			require.Equal(t, status, b.ask(t, "GET", "/license", nil).status, role)
			require.Equal(t, status, b.ask(t, "DELETE", "/license", nil).status, role)
		}
		_, b := n.user(t, "admin", object1{"license": "read"})
		require.Equal(t, 200, b.ask(t, "GET", "/license", nil).status)
		require.Equal(t, 403, b.ask(t, "POST", "/license", object1{"licenseKey": licenceKey(t, "ENTERPRISE", n.id, day, nil)}).status)
	})
	t.Run("enterprise_areas", func(t *testing.T) {
		n := newTenant(t, p, "FREE")
		for _, path := range []string{"/nothing/here", "/aegis/nothing", "/realtime", "/sandbox/x", "/mcp/hubs/x"} {
			a := n.ask(t, "GET", path, nil)
			require.Equal(t, []any{404, "Route not found: GET /api/client/v1" + path}, []any{a.status, a.said()})
		}
	})
}

func licenceBySession(t *testing.T, p *process) {
	t.Helper()
	owner, email, slug := company(t, p)
	signIn := func() tree {
		return owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	}
	in := signIn()
	tenantID := in.text("tenant", "id")
	require.Equal(t, "FREE", in.text("user", "licenseType"))
	free := owner.done(t, "GET", "/license", nil)
	require.Equal(t, []string{"lic_" + tenantID, "FREE", "free", "free"},
		[]string{free.text("licenseId"), free.text("licenseType"), free.text("status"), free.text("source")})
	require.Len(t, free.at("features").list(), 16)
	require.InDelta(t, 2, free.at("limits").number("maxProjects"), 0)
	for _, path := range []string{"/users", "/groups", "/projects", "/webhooks", "/audit/logs", "/users/permissions/services"} {
		require.Equal(t, 200, owner.call(t, "GET", path, nil).status, "FREE has %s", path)
	}
	key := licenceKey(t, "STARTER", "", 30*day, object1{"tenantId": nil, "tenantSlug": slug, "limits": object1{"maxProjects": 3}})
	set := owner.done(t, "POST", "/license", object1{"licenseKey": " " + key + "\n"})
	require.Equal(t, []string{"lic-of-STARTER", "STARTER", "active", "offline"},
		[]string{set.text("licenseId"), set.text("licenseType"), set.text("status"), set.text("source")})
	require.InDelta(t, 3, set.at("limits").number("maxProjects"), 0)
	require.NotEmpty(t, set.text("graceEndsAt"))
	require.Equal(t, set.v, owner.done(t, "GET", "/license", nil).v)
	in = signIn()
	require.Equal(t, "STARTER", in.text("user", "licenseType"))
	require.Len(t, in.at("user", "features").list(), 10)
	for _, path := range []string{"/users", "/groups", "/projects", "/webhooks", "/audit/logs"} {
		require.Equal(t, 200, owner.call(t, "GET", path, nil).status, "STARTER has %s", path)
	}
	owner.done(t, "POST", "/projects", object1{"name": "two"})
	owner.done(t, "POST", "/projects", object1{"name": "three"})
	require.Equal(t, 429, owner.call(t, "POST", "/projects", object1{"name": "four"}).status)
	gone := owner.done(t, "DELETE", "/license", nil)
	require.Equal(t, free.v, gone.v)
	require.Equal(t, gone.v, owner.done(t, "DELETE", "/license", nil).v, "there is none")

	rows := auditTrail(t, func(path string) tree { return owner.done(t, "GET", path, nil) }, "service=license&outcome=success")
	require.Len(t, rows, 3)
	require.Equal(t, "POST /api/license", rows[0].text("event"))
	change := rows[0].at("metadata", "changes").list()[0]
	require.Equal(t, []string{"lic-of-STARTER", "STARTER"}, []string{change.text("after", "license", "license_id"), change.text("after", "license", "license_type")})
	for _, part := range strings.Split(key, ".") {
		require.NotContains(t, fmt.Sprint(rows), part)
		require.NotContains(t, p.log.String(), part)
		require.NotContains(t, fmt.Sprint(set), part)
	}
	refused := newVisitor(t, p)
	require.Equal(t, 401, refused.call(t, "GET", "/license", nil).status)
	_, invitation := owner.invite(t, "user@"+slug+".test", "user")
	require.Equal(t, 403, accept(t, p, invitation).call(t, "GET", "/license", nil).status)
}

// TestLicenseOfACluster: a key that is given at one node counts on all, also after restarts; a plan's projects and a month's requests are
// exact while the licence changes and a node dies.
func TestLicenseOfACluster(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, false, "--license-public-key="+licencePublic(t), "--provider-encryption-secret="+strings.Repeat("k", 32))
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	var members []*process
	for _, node := range c.Nodes() {
		members = append(members, as(t, node))
	}
	n := newTenant(t, members[0], "STARTER")
	everywhere := func(tier, status string) {
		t.Helper()
		for i, p := range members {
			require.Eventuallyf(t, func() bool {
				a := n.at(p).ask(t, "GET", "/license", nil)
				return a.status == 200 && decode(t, a.text).text("licenseType") == tier && decode(t, a.text).text("status") == status
			}, waitLong, waitStep, "node %d", i)
		}
	}
	set := func(p *process, tier string, projects int) {
		t.Helper()
		body := object1{"licenseKey": licenceKey(t, tier, n.id, day, object1{"limits": object1{"maxProjects": projects}})}
		require.Eventually(t, func() bool { // the feature level rises once all nodes have told theirs
			return n.at(p).ask(t, "POST", "/license", body).status == 200
		}, waitLong, waitStep)
	}
	set(members[0], "ENTERPRISE", 4)
	everywhere("ENTERPRISE", "active")

	// Twelve at once while the licence alternates between 4 and 3 projects; then the rest up to 6.
	projects := func() int {
		return len(n.done(t, "GET", "/projects", nil).at("projects").list())
	}
	create := func(round string) *errgroup.Group {
		var work errgroup.Group
		for i := range 12 {
			b := n.at(members[i%3])
			body := object1{"name": fmt.Sprint(round, " ", i)}
			work.Go(func() error {
				got, err := askURL(t.Context(), b.url("/projects"), "POST", body, "Authorization", "Bearer "+b.token, "Content-Type", "application/json")
				if err == nil && (got.status == 201 || got.status == 429) {
					return nil
				}
				return got.wrong("POST /projects", err)
			})
		}
		return &work
	}
	work := create("first")
	for i := range 4 {
		set(members[i%3], "ENTERPRISE", 3+i%2)
	}
	require.NoError(t, work.Wait())
	require.GreaterOrEqual(t, projects(), 3)
	require.LessOrEqual(t, projects(), 4)
	set(members[2], "PROFESSIONAL", 6)
	everywhere("PROFESSIONAL", "active")
	require.NoError(t, create("second").Wait())
	require.Equal(t, 6, projects())
	n.at(members[1]).done(t, "DELETE", "/license", nil)
	everywhere("STARTER", "active")

	// The requests of a month, over nodes of which one dies.
	n = newTenant(t, members[0], "FREE")
	everywhere("FREE", "free")
	var spent atomic.Int64
	var spenders errgroup.Group
	for i := range 4 {
		at := n.at(members[i%2])
		spenders.Go(func() error { return spend(t.Context(), at, &spent) })
	}
	require.Eventually(t, func() bool { return spent.Load() > 300 }, waitLong, waitStep)
	_ = n.at(members[2]).ask(t, "GET", "/agents", nil)
	require.NoError(t, c.Nodes()[2].Kill())
	require.NoError(t, spenders.Wait())
	require.LessOrEqual(t, spent.Load(), int64(1000))
	require.GreaterOrEqual(t, spent.Load(), int64(960), "what a node had taken ahead when it died, or has not given back yet")
	require.NoError(t, c.Nodes()[2].Start(t.Context()))
	for i, node := range c.Nodes()[:2] {
		require.NoError(t, node.Kill(), i)
		require.NoError(t, node.Start(t.Context()), i)
		require.NoError(t, c.awaitSettled(t.Context(), 3))
	}
	everywhere("FREE", "free")
	for _, p := range members { // what was given back in the end may be used
		require.Eventually(t, func() bool { return n.at(p).ask(t, "GET", "/agents", nil).status == http.StatusTooManyRequests }, waitLong, waitStep)
	}
	set(members[1], "STARTER", 6)
	for _, p := range members {
		require.Eventually(t, func() bool { return n.at(p).ask(t, "GET", "/agents", nil).status == 200 }, waitLong, waitStep, "lifted")
	}
}
