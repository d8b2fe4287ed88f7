package main

import (
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/mailer/mailertest"
)

// neutral is what whoever asks for a reset is told.
const neutral = "If an account with that email exists, a password reset link has been sent."

// outbox returns the texts of the mails to an address that a node without a mail server keeps, oldest first.
func (p *process) outbox(to string) (texts []string) {
	names, err := filepath.Glob(filepath.Join(p.dir, "outbox", "*.eml"))
	require.NoError(p.t, err)
	slices.Sort(names)
	for _, name := range names {
		file, err := os.Open(name)
		require.NoError(p.t, err)
		message, err := mail.ReadMessage(file)
		require.NoError(p.t, err)
		if message.Header.Get("To") == "<"+to+">" {
			texts = append(texts, message.Header.Get("Subject")+"\n"+mailertest.Text(p.t, message))
		}
		require.NoError(p.t, file.Close())
	}
	return texts
}

var resetLink = regexp.MustCompile(`(\S+)/reset-password#token=(\S+)`)

// ticketIn returns the link of a mail, and the token in it.
func ticketIn(t *testing.T, text string) (base, token string) {
	t.Helper()
	found := resetLink.FindStringSubmatch(text)
	require.NotEmpty(t, found, text)
	return found[1], found[2]
}

// forgot asks for a reset, and returns the token that is mailed.
func forgot(t *testing.T, p *process, body object1) (base, token string) {
	t.Helper()
	given, _ := body["email"].(string)
	to := strings.ToLower(strings.TrimSpace(given))
	before := len(p.outbox(to))
	require.Equal(t, neutral, newVisitor(t, p).done(t, "POST", "/auth/forgot-password", body).text("message"))
	require.Eventually(t, func() bool { return len(p.outbox(to)) > before }, waitLong, waitStep)
	return ticketIn(t, p.outbox(to)[before])
}

func forgottenPasswords(t *testing.T, p *process) {
	t.Helper()
	owner, email, slug := company(t, p)
	require.Eventually(t, func() bool { return len(p.outbox(email)) == 1 }, waitLong, waitStep, "the welcome")
	welcome := p.outbox(email)[0]
	require.Contains(t, welcome, slug)
	require.Contains(t, welcome, "FREE")

	for _, body := range []object1{{"email": email, "slug": "first-co"}, {"email": email, "slug": "no-such"}, {"email": "nobody@example.test"}} {
		began := time.Now()
		a := newVisitor(t, p).call(t, "POST", "/auth/forgot-password", body)
		require.Equal(t, 200, a.status, a.text)
		require.Equal(t, neutral, decode(t, a.text).text("message"))
		require.GreaterOrEqual(t, time.Since(began), 250*time.Millisecond)
	}
	base, token := forgot(t, p, object1{"email": " " + strings.ToUpper(email) + " "})
	require.Equal(t, "http://"+p.listen, base, "not what a request's Host says")
	require.Len(t, p.outbox(email), 2, "and none of another company")
	require.Empty(t, p.outbox("nobody@example.test"))

	reset := func(token, password string) answer {
		return newVisitor(t, p).call(t, "POST", "/auth/reset-password", object1{"token": token, "newPassword": password})
	}
	for _, wrong := range []struct{ token, password, text string }{
		{token, "short", "Password must be at least 8 characters long"},
		{"", goodPassword, "Invalid or expired reset token"},
		{token + "x", goodPassword, "Invalid or expired reset token"},
		{strings.Repeat("x", 10_000), goodPassword, "Invalid or expired reset token"},
		{strings.TrimPrefix(owner.cookie("token"), "token="), goodPassword, "Invalid or expired reset token"},
	} {
		a := reset(wrong.token, wrong.password)
		require.Equal(t, 400, a.status, a.text)
		require.Contains(t, a.said(), wrong.text)
		require.NotContains(t, a.text, token)
	}
	require.False(t, newVisitor(t, p).withCookie(token).signedIn(t), "a token of a mail is no session")
	_, other := forgot(t, p, object1{"email": email, "slug": slug})
	statuses := atOnce(8, func(i int) int { return reset([]string{token, other}[i%2], goodPassword+"2").status })
	require.Equal(t, 1, statuses[200], "one of two links, once: %v", statuses)
	require.Equal(t, 7, statuses[400], statuses)
	require.False(t, owner.signedIn(t), "all sessions are over")
	login := object1{"email": email, "password": goodPassword}
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/auth/login", login).status)
	login["password"] = goodPassword + "2"
	owner.done(t, "POST", "/auth/login", login)
	for _, bad := range []object1{{}, {"email": " "}, {"email": "no address"}, {"email": "a@example.test\r\nBcc: b@example.test"}} {
		require.Equal(t, 400, newVisitor(t, p).call(t, "POST", "/auth/forgot-password", bad).status)
	}
	require.NotContains(t, p.log.String(), token)
}

// atOnce counts what calls that are made at once return.
func atOnce(count int, call func(i int) int) map[int]int {
	var wg sync.WaitGroup
	results := make([]int, count)
	for i := range results {
		wg.Go(func() { results[i] = call(i) })
	}
	wg.Wait()
	counts := map[int]int{}
	for _, result := range results {
		counts[result]++
	}
	return counts
}

// cookie returns one that the visitor holds, as it is sent.
func (b *visitor) cookie(name string) string {
	for _, cookie := range b.jar.Cookies(b.root()) {
		if cookie.Name == name {
			return name + "=" + cookie.Value
		}
	}
	return ""
}

// withCookie has the visitor hold a session token.
func (b *visitor) withCookie(token string) *visitor {
	b.jar.SetCookies(b.root(), []*http.Cookie{{Name: "token", Value: token, Path: "/"}})
	return b
}

// mailsOfACluster: a mail goes out through whichever node; none is lost when the mail server is away and the node that was to send it
// dies; the limit on resets holds in the whole cluster.
func mailsOfACluster(t *testing.T, c *cluster, at []*visitor, server *mailertest.Server) {
	t.Helper()
	const to = "ann@acme.test"
	welcome := server.Next(t)
	require.Equal(t, []any{to, true, "parley"}, []any{welcome.To, welcome.Encrypted, welcome.User})
	require.Equal(t, `"Parley" <hello@parley.test>`, welcome.Header.Get("From"))

	server.Refuse(func(string) string { return "451 come back" })
	body := object1{"email": to}
	statuses := atOnce(6, func(i int) int { return at[i%len(at)].call(t, "POST", "/auth/forgot-password", body).status })
	require.Equal(t, map[int]int{200: 3, 429: 3}, statuses, "three in the whole cluster, exactly")
	require.Eventually(t, func() bool { return server.Tries() >= 3 }, waitLong, waitStep)
	for _, n := range c.Nodes() { // an attempt that dies with its node counts as lost after three minutes, which is not what this is about
		require.Eventually(t, func() bool {
			_, text := at[0].try("GET", n.OpsURL()+"/metrics", nil)
			return strings.Contains(string(text), "\nparley_actors_running_deliveries 0\n")
		}, waitLong, waitStep)
	}
	require.NoError(t, c.Nodes()[2].Kill())
	server.Refuse(nil)
	require.NoError(t, c.Nodes()[2].Start(t.Context()))
	mails := map[string]string{}
	for len(mails) < 3 {
		m := server.Next(t)
		require.Equal(t, to, m.To)
		mails[m.Header.Get("Message-Id")] = mailertest.Text(t, m.Message)
	}
	for _, text := range mails {
		base, token := ticketIn(t, text)
		require.Equal(t, "https://parley.test", base)
		require.NotContains(t, c.Logs(1_000_000), token)
	}
}
