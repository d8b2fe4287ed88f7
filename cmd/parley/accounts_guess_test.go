package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/mail"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/mailer/mailertest"
)

// guessesAtAccount is how often the accounts of one email may be tried in TestAccountsOfACluster, from wherever.
const guessesAtAccount = 15

// from is a client at an address of this machine.
func from(t *testing.T, address string) *http.Client {
	t.Helper()
	transport := &http.Transport{DialContext: (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	c := client()
	c.Transport = transport
	return c
}

// guess tries a password, with a forged X-Forwarded-For, which nobody believes.
func guess(t *testing.T, by *http.Client, at *visitor, email string, number int) (status int, header http.Header, err error) {
	t.Helper()
	body, err := json.Marshal(object1{"email": email, "password": "x"})
	if err != nil {
		return 0, nil, err
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+at.listen+"/api/auth/login", bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Forwarded-For", fmt.Sprintf("203.0.113.%d", number%250))
	request.Header.Set("Forwarded", fmt.Sprintf("for=203.0.113.%d", number%250))
	response, err := by.Do(request)
	if err != nil {
		return 0, nil, err
	}
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header, errors.Join(err, response.Body.Close())
}

// guessesOfACluster: 200 guesses that are made at once through three nodes, from one address at many accounts, and from many addresses
// at one account. Exactly so many as are allowed reach the hash.
func guessesOfACluster(t *testing.T, c *cluster, at []*visitor, left int) {
	t.Helper()
	const guesses, perAddress = 200, 4
	checked := func() (sum float64) {
		for _, n := range c.Nodes() {
			sum += (&process{t: t, ops: n.Ops}).metric(t, "parley_password_checks_total")
		}
		return sum
	}
	clients := map[string]*http.Client{}
	for i := range guesses / perAddress {
		address := fmt.Sprintf("127.77.0.%d", i+1)
		clients[address] = from(t, address)
	}
	for name, round := range map[string]struct {
		allowed int
		of      func(i int) (*http.Client, string)
	}{
		"by_address": {left, func(i int) (*http.Client, string) { return client(), fmt.Sprint("u", i, "@acme.test") }},
		"by_account": {guessesAtAccount, func(i int) (*http.Client, string) {
			return clients[fmt.Sprintf("127.77.0.%d", i/perAddress+1)], "target@acme.test"
		}},
	} {
		before := checked()
		var wg sync.WaitGroup
		var mu sync.Mutex
		counts, again := map[int]int{}, 0
		for i := range guesses {
			by, email := round.of(i)
			wg.Go(func() {
				status, header, err := guess(t, by, at[i%len(at)], email, i)
				for asked := 0; status == http.StatusServiceUnavailable && err == nil && asked < 50; asked++ { // a shard moves, or a disk is slow
					mu.Lock()
					again++
					mu.Unlock()
					status, header, err = guess(t, by, at[i%len(at)], email, i)
				}
				mu.Lock()
				defer mu.Unlock()
				counts[status]++
				if err != nil {
					t.Error(err)
				}
				if status == http.StatusTooManyRequests && (header.Get("X-RateLimit-Remaining") != "0" || header.Get("X-RateLimit-Reset") == "" || header.Get("Retry-After") == "") {
					t.Errorf("a 429 does not say when to come back: %v", header)
				}
			})
		}
		wg.Wait()
		hashes := checked() - before
		if again == 0 {
			require.Equal(t, map[int]int{401: round.allowed, 429: guesses - round.allowed}, counts, name)
			require.InDelta(t, float64(round.allowed), hashes, 0.1, "%s: hashes", name)
			continue
		}
		// What was told 503 may have been counted: then fewer are left, never more.
		require.Equal(t, guesses, counts[401]+counts[429], "%s: %v", name, counts)
		require.LessOrEqual(t, max(counts[401], int(hashes)), round.allowed, name)
	}
}

// registrationsOfACluster: of a flood of registrations from one address through all nodes exactly what is left of the limit succeed.
func registrationsOfACluster(t *testing.T, at []*visitor, left int) {
	t.Helper()
	const flood = 12
	counts := atOnce(flood, func(i int) int {
		return newVisitor(t, at[i%len(at)].process).call(t, "POST", "/auth/register", object1{
			"companyName": fmt.Sprint("Flood ", i), "name": "F", "email": fmt.Sprint("f", i, "@flood.test"), "password": goodPassword,
		}, "X-Forwarded-For", fmt.Sprint("203.0.113.", i)).status
	})
	require.Equal(t, map[int]int{201: left, 429: flood - left}, counts)
}

// TestRegistrationsInAll: whoever has many addresses registers no more companies than all may, and has no more mails sent.
func TestRegistrationsInAll(t *testing.T) {
	t.Parallel()
	const allowed, flood = 3, 9
	p := newProcess(t, fmt.Sprintf("node: {name: few}\nlog: {level: warn}\naccounts: {register_total: %d}\nmail: {max_per_hour: 2}\n", allowed))
	p.start()
	counts := atOnce(flood, func(i int) int {
		status, text := register(t, from(t, fmt.Sprintf("127.78.0.%d", i+1)), p, object1{
			"companyName": fmt.Sprintf("Flood\r\nBcc: b%d@evil.test", i), "name": "F\r\nBcc: c@evil.test", "email": fmt.Sprint("f", i, "@flood.test"), "password": goodPassword,
		})
		if status != http.StatusCreated && status != http.StatusTooManyRequests {
			t.Error(text)
		}
		return status
	})
	require.Equal(t, map[int]int{201: allowed, 429: flood - allowed}, counts)
	var names []string
	require.Eventually(t, func() bool {
		var err error
		names, err = filepath.Glob(filepath.Join(p.dir, "outbox", "*.eml"))
		return err == nil && len(names) >= 2
	}, waitLong, waitStep)
	require.Len(t, names, 2, "welcomes")
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		message, err := mail.ReadMessage(bytes.NewReader(text))
		require.NoError(t, err)
		require.Empty(t, message.Header.Get("Bcc"))
		require.Contains(t, mailertest.Text(t, message), "is registered")
	}
}

// register registers a company from some address.
func register(t *testing.T, by *http.Client, p *process, body object1) (status int, text string) {
	t.Helper()
	encoded, err := json.Marshal(body)
	if err != nil {
		return 0, err.Error()
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+p.listen+"/api/auth/register", bytes.NewReader(encoded))
	if err != nil {
		return 0, err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := by.Do(request)
	if err != nil {
		return 0, err.Error()
	}
	read, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(read)
}
