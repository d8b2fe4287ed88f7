package main

import (
	"encoding/base64"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestNewSessionsUnderKills: a response in a new session makes the session, its files and its first message at once, or nothing,
// whenever the process dies.
func TestNewSessionsUnderKills(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds the binary and runs processes")
	}
	p := newProcess(t, strings.Replace(floorConfig, "spec-client", "spec-client-whole", 1))
	require.NoError(t, os.MkdirAll(p.dir, 0o700))
	p.start()
	n := newFloor(t, openWorkshop(t), p)
	n.agent(t, "filer", object1{"modelKey": "quick"}, object1{
		"background": object1{"enabled": true}, "files": object1{"enabled": true},
	})
	said := func(text string, files ...any) []any {
		return []any{object1{"role": "user", "content": append([]any{object1{"type": "input_text", "text": text}}, files...)}}
	}
	file := object1{"type": "input_file", "filename": "a.txt", "file_data": base64.StdEncoding.EncodeToString([]byte("bytes"))}
	orders := []struct {
		path string
		more object1
	}{
		{"/agents/responses", object1{"input": "plain"}},
		{"/agents/responses", object1{"input": said("with a file", file), "budget": object1{"max_cost_usd": 1}}},
		{"/agents/responses", object1{"input": said("with a file, in the background", file), "background": true}},
		{"/responses", object1{"input": said("with a file, streamed", file), "stream": true}},
	}
	answered := 0
	for range 4 {
		answered += loadUntilKilled(t, n, func(i int) (string, any) {
			order := orders[i%len(orders)]
			return order.path, n.order("filer", "", order.more)
		})
		p.start()
	}
	require.NotZero(t, answered, "no request was answered before a kill")
	sessions := everySession(t, n)
	require.GreaterOrEqual(t, len(sessions), answered)
	for _, session := range sessions {
		id, title := session.text("id"), session.text("title")
		if !assert.Eventually(t, func() bool {
			return len(n.done(t, "GET", "/agents/sessions/"+id+"/messages", nil).at("data").list()) == 2 ||
				strings.Contains(n.get(t, "/agents/sessions/"+id+"/events").text, `"interrupted"`) // two deaths ended attempts of its turn: it is given up
		}, waitLong, waitStep, "%q has no message, or no answer", title) {
			t.Fatal(session.v, n.get(t, "/agents/sessions/"+id).text, n.get(t, "/agents/sessions/"+id+"/events").text)
		}
		files := n.done(t, "GET", "/agents/sessions/"+id+"/files", nil).at("data").list()
		require.Equal(t, strings.HasPrefix(title, "with a file"), len(files) == 1, "%q has %d files", title, len(files))
		for _, file := range files {
			require.Equal(t, "bytes", n.get(t, "/agents/sessions/"+id+"/files/"+file.text("id")+"/content").text)
		}
	}
}

// loadUntilKilled sends requests from several callers, kills the process in the middle of them, and returns how many were
// answered with success.
func loadUntilKilled(t *testing.T, n *floor, request func(i int) (path string, body any)) (answered int) {
	t.Helper()
	const callers = 6
	var callersDone sync.WaitGroup
	var mu sync.Mutex
	for caller := range callers {
		callersDone.Go(func() {
			for i := caller; ; i++ {
				path, body := request(i)
				r := n.p.newRequest(t, "POST", n.url(path), body, []string{"Authorization", "Bearer " + n.token})
				response, err := client().Do(r)
				if err != nil {
					return // it was killed
				}
				_, err = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
				if err == nil && response.StatusCode/100 == 2 {
					mu.Lock()
					answered++
					mu.Unlock()
				}
			}
		})
	}
	<-time.After(time.Duration(100+rand.IntN(400)) * time.Millisecond)
	n.p.kill()
	callersDone.Wait()
	return answered
}

// everySession reads all pages of the list.
func everySession(t *testing.T, n *floor) (sessions []tree) {
	t.Helper()
	for after := ""; ; {
		page := n.done(t, "GET", "/agents/sessions?limit=100&after="+after, nil)
		sessions = append(sessions, page.at("data").list()...)
		if page.at("has_more").v != true {
			return sessions
		}
		after = page.text("next_cursor")
	}
}
