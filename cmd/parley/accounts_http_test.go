package main

import (
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/mailer/mailertest"
	"parley/httpedge/openid/openidtest"
)

// accountsConfig is a node on which many may register and sign in from one address.
const accountsConfig = `
node: {name: people}
log: {level: warn}
outbound: {allow: [127.0.0.0/8]}
accounts: {login_attempts: 1000, register_attempts: 1000, reset_attempts: 1000, code_attempts: 40, bootstrap_company: First & Co, bootstrap_email: Root@First.test, bootstrap_password: ` + goodPassword + `}
`

// companies numbers those that were registered.
var companies atomic.Int64

// goodPassword is one that the policy allows.
const goodPassword = "Passw0rd!"

// visitor is a client with cookies.
type visitor struct {
	*process

	jar http.CookieJar
}

func newVisitor(t *testing.T, p *process) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &visitor{p, jar}
}

// root is the address to which the cookies belong.
func (b *visitor) root() *url.URL { return &url.URL{Scheme: "http", Host: b.listen, Path: "/"} }

// call sends a request below /api with the browser's cookies, and keeps those of the answer. headers as in ask.
func (b *visitor) call(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	at, err := url.Parse("http://" + b.listen + "/api" + path)
	require.NoError(t, err)
	var held []string
	for _, cookie := range b.jar.Cookies(at) {
		held = append(held, cookie.Name+"="+cookie.Value)
	}
	if len(held) > 0 {
		headers = append([]string{"Cookie", strings.Join(held, "; ")}, headers...)
	}
	a := b.ask(t, method, at.String(), body, headers...)
	b.jar.SetCookies(at, (&http.Response{Header: a.header}).Cookies())
	return a
}

// done is call for what has to succeed.
func (b *visitor) done(t *testing.T, method, path string, body any) tree {
	t.Helper()
	a := b.call(t, method, path, body)
	require.Lessf(t, a.status, 300, "%s: %s", a.what, a.text)
	return decode(t, a.text)
}

// company registers one of a name that nobody has, and returns its owner, email and slug.
func company(t *testing.T, p *process) (owner *visitor, email, slug string) {
	t.Helper()
	owner = newVisitor(t, p)
	slug = fmt.Sprintf("company-%d", companies.Add(1))
	email = "owner@" + slug + ".test"
	owner.done(t, "POST", "/auth/register", object1{"companyName": slug, "name": "Olga Owner", "email": email, "password": goodPassword})
	return owner, email, slug
}

func (b *visitor) signedIn(t *testing.T) bool {
	t.Helper()
	a := b.call(t, "GET", "/auth/session", nil)
	if a.status != http.StatusOK {
		require.Equal(t, http.StatusUnauthorized, a.status, a.text)
	}
	return a.status == http.StatusOK
}

func TestAccounts(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	t.Run("the_first_owner_is_configured", func(t *testing.T) {
		b := newVisitor(t, p)
		in := b.done(t, "POST", "/auth/login", object1{"email": "root@first.test", "password": goodPassword})
		require.Equal(t, []string{"default", "First & Co", "first-co"}, []string{in.text("tenant", "id"), in.text("tenant", "companyName"), in.text("tenant", "slug")})
		require.Equal(t, []string{"usr_default", "Administrator", "owner"}, []string{in.text("user", "id"), in.text("user", "name"), in.text("user", "role")})
	})
	t.Run("register", func(t *testing.T) { peopleRegister(t, p) })
	t.Run("sign_in_and_out", func(t *testing.T) { peopleSignIn(t, p) })
	t.Run("sessions_end_everywhere", func(t *testing.T) { sessionsEnd(t, p) })
	t.Run("forgotten_passwords", func(t *testing.T) { forgottenPasswords(t, p) })
	t.Run("second_factor", func(t *testing.T) { secondFactor(t, p) })
	t.Run("pages_of_other_sites_are_refused", func(t *testing.T) { foreignPages(t, p) })
}

func peopleRegister(t *testing.T, p *process) {
	t.Helper()
	b := newVisitor(t, p)
	require.Equal(t, "open", b.done(t, "GET", "/auth/register/options", nil).text("mode"))
	slug := fmt.Sprintf("ünique %d", companies.Add(1))
	whole := object1{"companyName": slug, "name": " Ann ", "email": " Ann@Example.TEST ", "password": goodPassword, "licenseType": "ENTERPRISE"}
	a := b.call(t, "POST", "/auth/register", whole)
	made := a.fits(201, object(fields{
		"message": exactly("Company and user registered successfully"),
		"tenant":  object(fields{"companyName": exactly(slug), "id": nonEmpty, "slug": like(`^nique-\d+$`)}),
		"user": object(fields{
			"email": exactly("ann@example.test"), "features": anything, "id": idOf("usr"), "licenseType": exactly("FREE"), "name": exactly("Ann"), "role": exactly("owner"),
		}),
	}))
	var names []string
	for _, line := range a.header.Values("Set-Cookie") {
		names = append(names, strings.SplitN(line, "=", 2)[0])
		require.Contains(t, line, "; Path=/;")
		require.Contains(t, line, "SameSite=Lax")
		require.Equal(t, strings.HasPrefix(line, "token="), strings.Contains(line, "HttpOnly"))
		require.NotContains(t, line, "Secure", "nothing says that the client came over TLS")
	}
	require.Equal(t, []string{"token", "active_project_id"}, names)
	session := b.done(t, "GET", "/auth/session", nil)
	require.NoError(t, object(fields{
		"authenticated": exactly(true), "mustChangePassword": exactly(false), "projectCount": integer, "userId": exactly(made.text("user", "id")),
		"role": exactly("owner"), "servicePermissions": exactly(nil), "secondFactor": exactly(false),
	})(session.v))
	for _, wrong := range []struct {
		change object1
		status int
		text   string
	}{
		{object1{"email": ""}, 400, "Email, password, name, and company name are required"},
		{object1{"companyName": " "}, 400, "Email, password, name, and company name are required"},
		{object1{"email": "no address"}, 400, "Invalid email format"},
		{object1{"email": "änn@example.test"}, 400, "Invalid email format"},
		{object1{"email": "a@example.test\r\nBcc: b@example.test"}, 400, "Invalid email format"},
		{object1{"password": "short"}, 400, "Password must be at least 8 characters long. Password must contain at least one uppercase letter. " +
			"Password must contain at least one number. Password must contain at least one special character"},
		{object1{"password": strings.Repeat("Aa1!", 19)}, 400, "Password must be at most 72 bytes long"},
		{object1{}, 409, "A company with this name already exists. Please choose a different name."},
	} {
		body := object1{}
		for name, value := range whole {
			body[name] = value
		}
		for name, value := range wrong.change {
			body[name] = value
		}
		refused := newVisitor(t, p).call(t, "POST", "/auth/register", body)
		require.Equal(t, wrong.status, refused.status, refused.text)
		require.Equal(t, wrong.text, refused.said())
		require.Empty(t, refused.header.Values("Set-Cookie"))
	}
}

func peopleSignIn(t *testing.T, p *process) {
	t.Helper()
	_, email, slug := company(t, p)
	for _, body := range []object1{
		{"email": " " + strings.ToUpper(email), "password": goodPassword},
		{"email": email, "password": goodPassword, "slug": slug},
	} {
		b := newVisitor(t, p)
		in := b.call(t, "POST", "/auth/login", body).fits(200, object(fields{
			"message": exactly("Login successful"), "mustChangePassword": exactly(false),
			"tenant": object(fields{"companyName": exactly(slug), "id": nonEmpty, "slug": exactly(slug)}),
			"user": object(fields{
				"email": exactly(email), "features": anything, "id": idOf("usr"), "licenseType": exactly("FREE"), "name": nonEmpty,
				"role": exactly("owner"), "servicePermissions": exactly(nil),
			}),
		}))
		require.Equal(t, in.text("user", "id"), b.done(t, "GET", "/auth/session", nil).text("userId"))
		require.Equal(t, "Logged out successfully", b.done(t, "POST", "/auth/logout", nil).text("message"))
		require.False(t, b.signedIn(t))
		refused := b.call(t, "GET", "/auth/session", nil)
		require.Equal(t, []string{"Unauthorized", "Authentication required"}, []string{refused.said(), decode(t, refused.text).text("message")})
	}
	for _, wrong := range []struct {
		body   object1
		status int
		text   string
	}{
		{object1{"email": email}, 400, "Email and password are required"},
		{object1{"email": email, "password": "Passw0rd?"}, 401, "Invalid email or password"},
		{object1{"email": "nobody@example.test", "password": goodPassword}, 401, "Invalid email or password"},
		{object1{"email": email, "password": goodPassword + strings.Repeat("x", 100)}, 401, "Invalid email or password"},
		{object1{"email": email, "password": goodPassword, "slug": "no-such"}, 401, "Invalid company identifier"},
		{object1{"email": email, "password": goodPassword, "slug": "first-co"}, 401, "Invalid email or password"},
	} {
		refused := newVisitor(t, p).call(t, "POST", "/auth/login", wrong.body)
		require.Equal(t, wrong.status, refused.status, refused.text)
		require.Equal(t, wrong.text, refused.said())
		require.Empty(t, refused.header.Values("Set-Cookie"))
	}
	bad := newVisitor(t, p).call(t, "GET", "/auth/session", nil, "Cookie", "token=abc")
	require.Equal(t, 401, bad.status)
	require.Equal(t, "Invalid or expired token", decode(t, bad.text).text("message"))
	require.Contains(t, bad.header.Get("Set-Cookie"), "token=; Path=/; Max-Age=0", "it is cleared")
}

func sessionsEnd(t *testing.T, p *process) {
	t.Helper()
	owner, email, _ := company(t, p)
	elsewhere := newVisitor(t, p)
	login := object1{"email": email, "password": goodPassword}
	elsewhere.done(t, "POST", "/auth/login", login)
	wrong := owner.call(t, "POST", "/auth/change-password", object1{"currentPassword": "x", "newPassword": goodPassword + "2"})
	require.Equal(t, 401, wrong.status)
	require.True(t, owner.signedIn(t))
	require.Equal(t, 400, owner.call(t, "POST", "/auth/change-password", object1{"currentPassword": goodPassword, "newPassword": "x"}).status)
	require.True(t, owner.done(t, "POST", "/auth/change-password", object1{"currentPassword": goodPassword, "newPassword": goodPassword + "2"}).flag("success"))
	require.True(t, owner.signedIn(t), "under a new cookie")
	require.False(t, elsewhere.signedIn(t))
	require.Equal(t, 401, elsewhere.call(t, "POST", "/auth/login", login).status)
	login["password"] = goodPassword + "2"
	elsewhere.done(t, "POST", "/auth/login", login)
	elsewhere.done(t, "POST", "/auth/sessions/end", object1{})
	require.False(t, owner.signedIn(t))
	require.False(t, elsewhere.signedIn(t))
}

func foreignPages(t *testing.T, p *process) {
	t.Helper()
	owner, _, _ := company(t, p)
	own := "http://" + p.listen
	for _, c := range []struct {
		headers []string
		status  int
	}{
		{[]string{"Origin", own, "Sec-Fetch-Site", "same-origin"}, 200},
		{[]string{"Origin", own}, 200},
		{nil, 200}, // no browser
		{[]string{"Origin", "https://evil.test"}, 403},
		{[]string{"Origin", "null"}, 403},
		{[]string{"Origin", own + ".evil.test"}, 403},
		{[]string{"Sec-Fetch-Site", "cross-site"}, 403},
		{[]string{"Sec-Fetch-Site", "same-site"}, 403},
		{[]string{"Origin", own, "Sec-Fetch-Site", "cross-site"}, 403},
	} {
		for _, path := range []string{
			"/auth/change-password", "/auth/sessions/end", "/projects/active", "/auth/login", "/auth/register", "/auth/logout", "/auth/forgot-password", "/auth/reset-password", "/auth/login/code",
			"/auth/second-factor/enrol", "/auth/second-factor/confirm", "/auth/second-factor/recovery-codes", "/auth/second-factor/disable", "/auth/second-factor/remove",
		} {
			a := newVisitor(t, p).call(t, "POST", path, "{}", append([]string{"Content-Type", "application/json"}, c.headers...)...)
			require.Equal(t, c.status == 403, a.status == 403, "%s %v: %d %s", path, c.headers, a.status, a.text)
		}
		require.True(t, owner.signedIn(t))
	}
}

// TestAccountsOfACluster: a session that was made on one node holds on all and after restarts, and 200 parallel guesses through
// three nodes are counted exactly, by address and by account: only so many reach the hash.
func TestAccountsOfACluster(t *testing.T) {
	t.Parallel()
	const allowed = 7
	secret := strings.Repeat("k", 32)
	server, provider := mailertest.New(t, false), openidtest.New(t)
	certificate := filepath.Join(t.TempDir(), "mail.pem")
	require.NoError(t, os.WriteFile(certificate, server.Certificate, 0o600))
	c := newCluster(t, 3, false, "--accounts-session-secret="+secret, fmt.Sprint("--accounts-login-attempts=", allowed), fmt.Sprint("--accounts-account-attempts=", guessesAtAccount),
		"--mail-server="+server.Address, "--mail-ca-file="+certificate, "--mail-user=parley", "--mail-password="+mailertest.Password,
		"--mail-from=Parley <hello@parley.test>", "--provider-encryption-secret="+secret, "--accounts-url=https://parley.test",
		"--oidc-issuer="+provider.Issuer, "--oidc-client-id="+openidtest.Client, "--oidc-client-secret="+openidtest.Secret, "--oidc-create-role=user")
	require.NoError(t, c.Start(t.Context()))
	var at []*visitor
	for _, n := range c.Nodes() {
		at = append(at, newVisitor(t, &process{t: t, listen: n.Listen}))
	}
	register := object1{"companyName": "Acme", "name": "Ann", "email": "ann@acme.test", "password": goodPassword}
	var registered sync.WaitGroup
	statuses := make([]int, len(at))
	require.Eventually(t, func() bool { // the feature level rises once all nodes have told theirs
		return at[0].call(t, "POST", "/auth/login", object1{"email": "a@b.test", "password": "x"}).status == http.StatusUnauthorized
	}, waitLong, waitStep)
	for i, b := range at {
		registered.Go(func() { statuses[i] = b.asking(t, "POST", "http://"+b.listen+"/api/auth/register", register)().status })
	}
	registered.Wait()
	slices.Sort(statuses)
	require.Equal(t, []int{201, 409, 409}, statuses, "one of them has the name")

	in := at[0].call(t, "POST", "/auth/login", object1{"email": "ann@acme.test", "password": goodPassword})
	require.Equal(t, 200, in.status, in.text)
	cookie := "token=" + (&http.Response{Header: in.header}).Cookies()[0].Value
	for _, b := range at {
		require.Equal(t, 200, newVisitor(t, b.process).call(t, "GET", "/auth/session", nil, "Cookie", cookie).status)
	}
	auditOfACluster(t, at, cookie)
	mailsOfACluster(t, c, at, server)
	codesOfACluster(t, at)
	membersOverNodes(t, at, cookie)
	providerOfACluster(t, at, provider)
	guessesOfACluster(t, c, at, allowed-2) // two were made before
	registrationsOfACluster(t, at, 1)      // four of five

	require.NoError(t, c.Nodes()[1].Kill())
	require.NoError(t, c.Nodes()[1].Start(t.Context()))
	require.Equal(t, 200, newVisitor(t, at[1].process).call(t, "GET", "/auth/session", nil, "Cookie", cookie).status)
	at[2].jar.SetCookies(&url.URL{Scheme: "http", Host: at[2].listen}, (&http.Response{Header: in.header}).Cookies())
	at[2].done(t, "POST", "/auth/sessions/end", object1{})
	for _, b := range at {
		require.Equal(t, 401, newVisitor(t, b.process).call(t, "GET", "/auth/session", nil, "Cookie", cookie).status)
	}
}
