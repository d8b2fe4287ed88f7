package main

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// app is an app for one-time codes with one secret.
type app struct{ secret []byte }

func newApp(t *testing.T, secret string) app {
	t.Helper()
	decoded, err := base32.StdEncoding.DecodeString(secret)
	require.NoError(t, err)
	return app{decoded}
}

// code is the one of now, or of so many half minutes later.
func (a app) code(later int64) string {
	mac := hmac.New(sha1.New, a.secret)
	_ = binary.Write(mac, binary.BigEndian, time.Now().Unix()/30+later)
	sum := mac.Sum(nil)
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff%1e6)
}

// wrong is a code that is none of those of now.
func (a app) wrong() string {
	for i := range 10 {
		code := fmt.Sprintf("%06d", i)
		if code != a.code(-1) && code != a.code(0) && code != a.code(1) && code != a.code(2) {
			return code
		}
	}
	return ""
}

// challenged shows the password, and returns the challenge that is the answer.
func challenged(t *testing.T, p *process, email, password string) string {
	t.Helper()
	a := newVisitor(t, p).call(t, "POST", "/auth/login", object1{"email": email, "password": password})
	require.Equal(t, 401, a.status, a.text)
	require.Empty(t, a.header.Values("Set-Cookie"))
	require.Equal(t, "A code is required to sign in", a.said())
	return decode(t, a.text).text("details", "challenge")
}

func secondFactor(t *testing.T, p *process) {
	t.Helper()
	owner, email, _ := company(t, p)
	elsewhere := newVisitor(t, p)
	login := object1{"email": email, "password": goodPassword}
	post := func(b *visitor, path string, body object1) answer { return b.call(t, "POST", "/auth"+path, body) }
	require.Equal(t, 401, post(owner, "/second-factor/enrol", object1{"password": "x"}).status)
	require.Equal(t, 409, post(owner, "/second-factor/confirm", object1{"code": "123456"}).status)
	enrolled := owner.done(t, "POST", "/auth/second-factor/enrol", object1{"password": goodPassword})
	uri, err := url.Parse(enrolled.text("uri"))
	require.NoError(t, err)
	require.Equal(t, []string{"otpauth", "totp", "/Parley:" + email, enrolled.text("secret")}, []string{uri.Scheme, uri.Host, uri.Path, uri.Query().Get("secret")})
	phone := newApp(t, enrolled.text("secret"))
	elsewhere.done(t, "POST", "/auth/login", login) // it is not confirmed: nobody is locked out by a picture that was never read
	require.Equal(t, 401, post(owner, "/second-factor/confirm", object1{"code": phone.wrong()}).status)
	now := phone.code(0)
	var recovery []string
	for _, code := range owner.done(t, "POST", "/auth/second-factor/confirm", object1{"code": now}).at("recoveryCodes").list() {
		text, _ := code.v.(string)
		recovery = append(recovery, text)
	}
	require.Len(t, recovery, 10)
	require.False(t, elsewhere.signedIn(t), "a session without the second factor is over")
	require.True(t, owner.done(t, "GET", "/auth/session", nil).flag("secondFactor"))
	require.Equal(t, 409, post(owner, "/second-factor/enrol", object1{"password": goodPassword}).status)

	challenge := challenged(t, p, email, goodPassword)
	require.Equal(t, 401, newVisitor(t, p).call(t, "POST", "/auth/login", object1{"email": email, "password": "Passw0rd?"}).status)
	second := func(challenge, code string) answer {
		return post(newVisitor(t, p), "/login/code", object1{"challenge": challenge, "code": code})
	}
	for _, c := range []struct{ challenge, code, text string }{
		{challenge, now, "Invalid or already used code"}, // that confirmed
		{challenge, phone.wrong(), "Invalid or already used code"},
		{challenge, "", "Invalid or already used code"},
		{challenge, "aaaa-aaaa-aaaa-aaaa", "Invalid or already used code"},
		{challenge + "x", phone.code(1), "Invalid or expired challenge: sign in again"},
		{"", phone.code(1), "Invalid or expired challenge: sign in again"},
	} {
		a := second(c.challenge, c.code)
		require.Equal(t, []any{401, c.text}, []any{a.status, a.said()})
		require.Empty(t, a.header.Values("Set-Cookie"))
	}
	require.False(t, newVisitor(t, p).withCookie(challenge).signedIn(t), "a challenge is no session")
	require.Equal(t, 400, post(owner, "/reset-password", object1{"token": challenge, "newPassword": goodPassword}).status, "nor a reset token")

	next := phone.code(1)
	require.Equal(t, map[int]int{200: 1, 401: 7}, atOnce(8, func(int) int { return second(challenge, next).status }), "a code is taken once")
	require.Equal(t, map[int]int{200: 1, 401: 7}, atOnce(8, func(int) int { return second(challenge, strings.ToUpper(recovery[0])).status }))
	require.Equal(t, 401, post(owner, "/second-factor/recovery-codes", object1{"password": "x", "code": recovery[1]}).status)
	renewed := owner.done(t, "POST", "/auth/second-factor/recovery-codes", object1{"password": goodPassword, "code": recovery[1]}).at("recoveryCodes").list()
	require.Len(t, renewed, 10)
	require.Equal(t, 401, second(challenge, recovery[2]).status, "the old ones are void")

	_, token := forgot(t, p, object1{"email": email})
	require.Equal(t, 200, post(newVisitor(t, p), "/reset-password", object1{"token": token, "newPassword": goodPassword + "2"}).status)
	recoveryCode, _ := renewed[0].v.(string)
	require.Equal(t, 401, second(challenge, recoveryCode).status, "what was shown before does not count")
	challenge = challenged(t, p, email, goodPassword+"2") // a mailbox is one factor
	in := second(challenge, recoveryCode)
	require.Equal(t, 200, in.status, in.text)
	owner.withCookie((&http.Response{Header: in.header}).Cookies()[0].Value)
	require.True(t, owner.signedIn(t))

	last, _ := renewed[1].v.(string)
	for _, c := range []struct {
		password, code string
		status         int
	}{{goodPassword + "2", phone.wrong(), 401}, {"x", last, 401}, {goodPassword + "2", last, 200}, {goodPassword + "2", last, 409}} {
		require.Equal(t, c.status, post(owner, "/second-factor/disable", object1{"password": c.password, "code": c.code}).status, c)
	}
	login["password"] = goodPassword + "2"
	elsewhere.done(t, "POST", "/auth/login", login)

	other, _, _ := company(t, p)
	stranger := other.done(t, "GET", "/auth/session", nil).text("userId")
	require.Equal(t, 404, post(owner, "/second-factor/remove", object1{"userId": stranger}).status)
	require.Equal(t, 400, post(owner, "/second-factor/remove", object1{}).status)

	other.done(t, "POST", "/auth/second-factor/enrol", object1{"password": goodPassword})
	statuses := map[int]int{}
	for range codesAllowed + 5 {
		statuses[post(other, "/second-factor/confirm", object1{"code": "1"}).status]++
	}
	require.Equal(t, map[int]int{401: codesAllowed, 429: 5}, statuses)
	for _, secret := range []string{enrolled.text("secret"), challenge, last} {
		require.NotContains(t, p.log.String(), secret)
	}
}

// codesAllowed is how many codes of a user accountsConfig lets be tried.
const codesAllowed = 40

// codesOfACluster: a code that is shown to three nodes at once is taken by one of them.
func codesOfACluster(t *testing.T, at []*visitor) {
	t.Helper()
	owner := newVisitor(t, at[0].process)
	owner.done(t, "POST", "/auth/register", object1{"companyName": "Bmce", "name": "Bob", "email": "bob@bmce.test", "password": goodPassword})
	phone := newApp(t, owner.done(t, "POST", "/auth/second-factor/enrol", object1{"password": goodPassword}).text("secret"))
	owner.done(t, "POST", "/auth/second-factor/confirm", object1{"code": phone.code(0)})
	proof := object1{"password": goodPassword, "code": phone.code(1)}
	require.Equal(t, map[int]int{200: 1, 401: 5}, atOnce(6, func(i int) int {
		return newVisitor(t, at[i%len(at)].process).call(t, "POST", "/auth/second-factor/recovery-codes", proof, "Cookie", owner.cookie("token")).status
	}))
}
