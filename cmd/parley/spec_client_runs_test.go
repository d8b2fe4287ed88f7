package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// receiver takes the callbacks of runs.
type receiver struct {
	*httptest.Server

	mu struct {
		sync.Mutex
		posts   map[string][]post // by path
		answers map[string]func(w http.ResponseWriter, nth int)
	}
}

type post struct {
	at     time.Time
	method string
	header http.Header
	body   string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	return newReceiverAt(t, listener)
}

// newReceiverAt is a receiver at the address of the listener.
func newReceiverAt(t *testing.T, listener net.Listener) *receiver {
	t.Helper()
	r := &receiver{}
	r.mu.posts, r.mu.answers = map[string][]post{}, map[string]func(http.ResponseWriter, int){}
	r.Server = serveAt(listener, http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body) // a body that is cut has a wrong signature
		r.mu.Lock()
		all := append(r.mu.posts[request.URL.Path], post{time.Now(), request.Method, request.Header.Clone(), string(body)})
		r.mu.posts[request.URL.Path] = all
		answer := r.mu.answers[request.URL.Path]
		r.mu.Unlock()
		if answer != nil {
			answer(w, len(all))
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// forget makes ready for the next test.
func (r *receiver) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.posts, r.mu.answers = map[string][]post{}, map[string]func(http.ResponseWriter, int){}
}

// answers has posts to a path answered.
func (r *receiver) answers(path string, answer func(w http.ResponseWriter, nth int)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.answers[path] = answer
}

func (r *receiver) posts(path string) []post {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]post(nil), r.mu.posts[path]...)
}

// got waits for so many posts to a path.
func (r *receiver) got(t *testing.T, path string, count int) []post {
	t.Helper()
	require.Eventually(t, func() bool { return len(r.posts(path)) >= count }, waitLong, waitStep, path)
	posts := r.posts(path)
	require.Len(t, posts, count)
	return posts
}

const callbackSecret = "the-secret-of-a-callback"

// callbackSigned checks a signature over the raw bytes.
func callbackSigned(t *testing.T, p post, secret string) {
	t.Helper()
	stamp, sum, found := strings.Cut(strings.TrimPrefix(p.header.Get("X-Service-Signature"), "t="), ",v1=")
	require.True(t, found, p.header)
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	require.NoError(t, err)
	require.WithinDuration(t, time.Now(), time.Unix(seconds, 0), 5*time.Minute, "the tolerance of receivers")
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(stamp + "." + p.body)) // never fails
	require.Equal(t, hex.EncodeToString(mac.Sum(nil)), sum)
}

// TestClientRuns: background runs in each of their states.
func TestClientRuns(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	t.Run("succeeds", func(t *testing.T) {
		run := n.run(t, "worker", script(part{Text: "done", Hold: "run-1"}), object1{"previous_response_id": nil})
		id := run.text("id")
		n.reaches(t, id, "running")
		require.Equal(t, "running", n.read(t, run.text("session_id")).text("runtime_status"))
		t.Run("wait_gives_up", func(t *testing.T) {
			for _, query := range []string{"?timeout_ms=0", "?timeout_ms=50"} {
				n.get(t, "/agents/runs/"+id+"/wait"+query).fits(200, runShape(fields{"status": exactly("running"), "completed_at": exactly(nil), "result": exactly(nil)}))
			}
			for _, query := range []string{"?timeout_ms=x", "?timeout_ms=-1", "?timeout_ms=1.5"} {
				n.get(t, "/agents/runs/"+id+"/wait"+query).coded(400, "invalid_request")
			}
		})
		came := n.p.asking(t, "GET", n.url("/agents/runs/"+id+"/wait"), nil, "Authorization", "Bearer "+n.token)
		close(n.shop.gate("run-1"))
		ended := came().fits(200, runShape(fields{
			"status": exactly("succeeded"), "error": exactly(nil), "started_at": moment, "completed_at": moment,
			"result": responseShape(fields{"status": exactly("completed"), "previous_response_id": exactly(nil), "id": exactly("resp_" + run.text("session_id"))}),
		}))
		require.Equal(t, "done", ended.at("result").said())
		require.Equal(t, ended.v, n.get(t, "/agents/runs/"+id).fits(200, runShape(nil)).v)
		require.Equal(t, ended.v, n.post(t, "/agents/runs/"+id+"/cancel", nil).fits(200, runShape(nil)).v, "one that is over stays as it is")
		require.Equal(t, []string{"succeeded", "idle"}, []string{ended.text("status"), n.read(t, run.text("session_id")).text("runtime_status")})
	})
	t.Run("continues_a_session", func(t *testing.T) {
		first := n.respond(t, "quick", "one", nil).fits(200, responseShape(nil))
		run := n.run(t, "quick", "two", object1{"previous_response_id": first.text("id")})
		ended := n.wait(t, run.text("id"))
		require.Equal(t, first.text("id"), ended.text("result", "previous_response_id"))
		require.Len(t, n.done(t, "GET", "/agents/sessions/"+first.text("session_id")+"/messages", nil).at("data").list(), 4)
	})
	t.Run("fails", func(t *testing.T) {
		ended := n.wait(t, n.run(t, "broken", "go", nil).text("id"))
		require.Equal(t, "failed", ended.text("status"))
		require.NotEmpty(t, ended.text("error", "type"))
		require.Equal(t, "failed", ended.text("result", "status"))
	})
	t.Run("requires_action", func(t *testing.T) {
		run := n.run(t, "worker", script(calls(wipe("run-2")), part{Text: "gone"}), nil)
		paused := n.wait(t, run.text("id"))
		require.Equal(t, "requires_action", paused.text("status"))
		action := paused.at("result", "pending_actions").list()[0].text("id")
		session := "/agents/sessions/" + run.text("session_id")
		n.respond(t, "worker", "hi", object1{"session_id": run.text("session_id")}).status4xx(409)
		going := n.post(t, session+"/actions/"+action, object1{"resolution": allow}).fits(202, runShape(fields{"id": exactly(run.text("id"))}))
		require.Contains(t, []string{"running", "succeeded"}, going.text("status"), "nobody is asked again")
		ended := n.wait(t, run.text("id"))
		require.Equal(t, "succeeded", ended.text("status"))
		require.Contains(t, ended.at("result").said(), "gone")
		require.Len(t, n.shop.uses("wipe", "run-2"), 1)
	})
	for _, state := range []string{"queued", "running", "requires_action"} {
		t.Run("cancelled_while_"+state, func(t *testing.T) {
			for range 2 { // which have the places of the project
				if state == "queued" {
					blocks := n.run(t, "worker", script(part{Text: "x", Hold: "run-3"}), nil).text("id")
					n.reaches(t, blocks, "running")
				}
			}
			what := script(part{Text: "half", Hold: "never"})
			if state == "requires_action" {
				what = script(calls(wipe("run-4")))
			}
			run := n.run(t, "worker", what, nil)
			id, session := run.text("id"), run.text("session_id")
			n.reaches(t, id, state)
			n.post(t, "/agents/runs/"+id+"/cancel", nil).fits(200, runShape(nil))
			ended := n.wait(t, id)
			require.Equal(t, []any{"canceled", nil}, []any{ended.text("status"), ended.at("error").v})
			n.becomes(t, session, "idle")
			if state == "queued" {
				require.Nil(t, ended.at("started_at").v)
				require.Empty(t, n.done(t, "GET", "/agents/sessions/"+session+"/messages", nil).at("data").list(), "nothing ran")
				close(n.shop.gate("run-3"))
			}
			require.Eventually(t, func() bool {
				return n.respond(t, "worker", "on", object1{"session_id": session}).status == 200
			}, waitLong, waitStep, "the session is free again")
			require.Empty(t, n.shop.uses("wipe", "run-4"))
		})
	}
	t.Run("places_and_line_are_bounded", func(t *testing.T) {
		n = newFloor(t, n.shop, n.p) // a run's place is given back after its end: in a project of its own there are none of other tests
		var ids []string
		for range 5 { // two run, three wait
			ids = append(ids, n.run(t, "worker", script(part{Text: "x", Hold: "run-5"}), nil).text("id"))
		}
		before := len(n.done(t, "GET", "/agents/sessions?limit=100", nil).at("data").list())
		a := n.respond(t, "worker", "one too many", object1{"background": true})
		require.NotEmpty(t, a.header.Get("Retry-After"))
		require.NoError(t, exactly(object1{"max_queued": 3})(a.coded(429, "quota_reached").at("details").v))
		require.Len(t, n.done(t, "GET", "/agents/sessions?limit=100", nil).at("data").list(), before, "its session went with it")
		n.reaches(t, ids[0], "running")
		n.reaches(t, ids[1], "running")
		for i, id := range ids {
			want := map[bool]string{true: "running", false: "queued"}[i < 2]
			require.Equal(t, want, n.get(t, "/agents/runs/"+id).fits(200, anyObject).text("status"), "first come, first served")
		}
		n.respond(t, "quick", "not a run", nil).fits(200, responseShape(nil))
		waiting := n.get(t, "/agents/runs/"+ids[2]).fits(200, anyObject).text("session_id")
		require.NoError(t, object(fields{
			"cancelled": exactly(true), "settled": exactly(true), "run_id": exactly(ids[2]), "cancelled_action_ids": exactly([]any{}),
			"session": sessionShape(fields{"id": exactly(waiting), "runtime_status": exactly("idle")}),
		})(n.done(t, "POST", "/agents/sessions/"+waiting+"/cancel", nil).v))
		require.Equal(t, "canceled", n.get(t, "/agents/runs/"+ids[2]).fits(200, anyObject).text("status"), "settled means so")
		n.respond(t, "worker", script(part{Text: "free"}), object1{"session_id": waiting}).fits(200, responseShape(nil))
		again := n.done(t, "POST", "/agents/sessions/"+waiting+"/cancel", nil)
		require.Equal(t, []any{false, true}, []any{again.at("cancelled").v, again.at("settled").v})
		late := n.run(t, "quick", "too late", nil).text("id")
		n.done(t, "PATCH", "/agents/"+n.agents["quick"], object1{"status": "inactive"})
		close(n.shop.gate("run-5"))
		for i, id := range ids {
			want := map[bool]string{true: "canceled", false: "succeeded"}[i == 2]
			require.Equal(t, want, n.wait(t, id).text("status"))
		}
		ended := n.wait(t, late)
		require.Equal(t, []string{"failed", "agent_not_active"}, []string{ended.text("status"), ended.text("error", "type")})
	})
	t.Run("unknown", func(t *testing.T) {
		for _, id := range []string{"run_AAAAAAAAAAAAAAAAAAAAA", "x", "conv_AAAAAAAAAAAAAAAAAAAAA", strings.Repeat("r", 300)} {
			n.get(t, "/agents/runs/"+id).coded(404, "run_not_found")
			n.get(t, "/agents/runs/"+id+"/wait").coded(404, "run_not_found")
			n.post(t, "/agents/runs/"+id+"/cancel", nil).coded(404, "run_not_found")
		}
	})
}

// status4xx checks only the status of a refusal.
func (a answer) status4xx(status int) {
	a.t.Helper()
	require.Equalf(a.t, status, a.status, "%s: %s", a.what, a.text)
}

// TestClientRunCallbacks: the signed posts of a run (document 1, "Run callbacks").
func TestClientRunCallbacks(t *testing.T) {
	t.Parallel()
	n := onFloor(t)
	r := newReceiver(t)
	to := func(path string) object1 {
		return object1{"callback_url": r.URL + path, "callback_secret": callbackSecret}
	}
	expect := func(t *testing.T, p post, event string, run tree, data fields) string {
		t.Helper()
		callbackSigned(t, p, callbackSecret)
		require.Equal(t, []string{"POST", "application/json", "service-runs/1.0", event}, []string{
			p.method, p.header.Get("Content-Type"), p.header.Get("User-Agent"), p.header.Get("X-Service-Event"),
		})
		require.Empty(t, p.header.Get("webhook-id"), "only of subscriptions")
		body := decode(t, p.body)
		require.NoError(t, object(fields{
			"id": like(`^evt_[0-9a-f]{32}$`), "event": exactly(event), "createdAt": moment, "runId": exactly(run.text("id")), "tenantId": exactly(n.id),
			"projectId": exactly(n.project), "conversationId": exactly(run.text("session_id")),
			"data": object(fields{
				"runId": exactly(run.text("id")), "conversationId": exactly(run.text("session_id")), "agentKey": exactly(run.text("agent")), "status": nonEmpty,
			}.with(data)),
		})(body.v), p.body)
		require.Equal(t, body.text("id"), p.header.Get("X-Service-Event-Id"))
		return body.text("id")
	}
	t.Run("each_end", func(t *testing.T) {
		paused := n.run(t, "worker", script(calls(wipe("cb-1"))), to("/paused"))
		failed := n.run(t, "broken", "go", to("/failed"))
		done := n.run(t, "quick", "go", to("/done"))
		expect(t, r.got(t, "/done", 1)[0], "agent_run.succeeded", done, fields{"status": exactly("succeeded")})
		expect(t, r.got(t, "/failed", 1)[0], "agent_run.failed", failed, fields{
			"status": exactly("failed"), "error": object(fields{"type": nonEmpty, "message": nonEmpty}),
		})
		expect(t, r.got(t, "/paused", 1)[0], "agent_run.requires_action", paused, fields{"status": exactly("requires_action")})
		n.post(t, "/agents/runs/"+paused.text("id")+"/cancel", nil).fits(200, runShape(nil))
		expect(t, r.got(t, "/paused", 2)[1], "agent_run.canceled", paused, fields{"status": exactly("canceled")})
	})
	t.Run("tried_again_under_the_same_id", func(t *testing.T) {
		r.answers("/again", func(w http.ResponseWriter, nth int) {
			if nth == 1 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		})
		run := n.run(t, "quick", "go", to("/again"))
		posts := r.got(t, "/again", 2)
		require.Equal(t, expect(t, posts[0], "agent_run.succeeded", run, nil), expect(t, posts[1], "agent_run.succeeded", run, nil))
		require.Equal(t, posts[0].body, posts[1].body)
		require.GreaterOrEqual(t, posts[1].at.Sub(posts[0].at), 1900*time.Millisecond, "2 s after the first")
	})
	t.Run("without_a_secret", func(t *testing.T) {
		n.run(t, "quick", "go", object1{"callback_url": r.URL + "/open"})
		require.Empty(t, r.got(t, "/open", 1)[0].header.Get("X-Service-Signature"))
	})
	t.Run("redirects_hop_by_hop", func(t *testing.T) {
		other := newReceiver(t)
		for _, status := range []int{301, 302, 307, 308} {
			path := fmt.Sprintf("/hop-%d", status)
			r.answers(path, func(w http.ResponseWriter, _ int) {
				w.Header().Set("Location", other.URL+path)
				w.WriteHeader(status)
			})
			run := n.run(t, "quick", "go", to(path))
			p := other.got(t, path, 1)[0]
			require.Equal(t, r.got(t, path, 1)[0].body, p.body)
			expect(t, p, "agent_run.succeeded", run, nil)
		}
	})
	t.Run("never_to_a_private_address", func(t *testing.T) {
		const forbidden = `parley_actors_run_callbacks_total{outcome="forbidden"}`
		for i, location := range []string{"http://169.254.169.254/latest", "http://10.0.0.1/"} {
			before := n.p.metric(t, forbidden)
			path := fmt.Sprintf("/away-%d", i)
			r.answers(path, func(w http.ResponseWriter, _ int) {
				w.Header().Set("Location", location)
				w.WriteHeader(http.StatusTemporaryRedirect)
			})
			n.run(t, "quick", "go", to(path))
			require.Eventually(t, func() bool { return n.p.metric(t, forbidden) > before }, waitLong, waitStep, location)
			require.Len(t, r.posts(path), 1)
		}
		for _, private := range []string{"http://10.0.0.1/x", "http://169.254.169.254/", "http://[fd00::1]/"} {
			a := n.respond(t, "quick", "go", object1{"background": true, "callback_url": private})
			a.denied(400, "invalid_request", "callback_url leads to an address that is not allowed")
		}
	})
	t.Run("state_in_the_record", func(t *testing.T) {
		about := func(id string) tree { return n.done(t, "GET", "/agents/runs/"+id, nil).at("callback") }
		require.Nil(t, about(n.run(t, "quick", "go", nil).text("id")).v)
		told := n.run(t, "quick", "go", object1{"callback_url": r.URL + "/state?token=hidden", "callback_secret": callbackSecret}).text("id")
		require.Eventually(t, func() bool { return about(told).text("status") == "delivered" }, waitLong, waitStep)
		require.NoError(t, object(fields{
			"url": exactly(r.URL + "/state?..."), "signed": exactly(true), "status": exactly("delivered"), "event": exactly("agent_run.succeeded"),
			"event_id": exactly(r.got(t, "/state", 1)[0].header.Get("X-Service-Event-Id")), "attempts": exactly(1.0),
			"last_attempt_at": moment, "last_error": exactly(nil),
		})(about(told).v))
		r.answers("/broken", func(w http.ResponseWriter, _ int) { w.WriteHeader(http.StatusInternalServerError) })
		failing := n.run(t, "quick", "go", object1{"callback_url": r.URL + "/broken"}).text("id")
		require.Eventually(t, func() bool { return about(failing).at("last_error").v == "answered with status 500" }, waitLong, waitStep)
		require.Equal(t, "pending", about(failing).text("status"), "it is tried again")
		r.answers("/astray", func(w http.ResponseWriter, _ int) {
			w.Header().Set("Location", "http://10.0.0.1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		})
		astray := n.run(t, "quick", "go", object1{"callback_url": r.URL + "/astray"}).text("id")
		require.Eventually(t, func() bool { return about(astray).text("status") == "failed" }, waitLong, waitStep)
		require.Equal(t, "leads to an address that is not allowed", about(astray).text("last_error"))
	})
	t.Run("of_a_resumed_session", func(t *testing.T) {
		run := n.run(t, "talker", "go", object1{"budget": object1{"max_cost_usd": 0.02}, "callback_url": r.URL + "/cut", "callback_secret": callbackSecret})
		expect(t, r.got(t, "/cut", 1)[0], "agent_run.failed", run, fields{
			"status": exactly("failed"), "error": object(fields{"type": exactly("budget_reached"), "message": nonEmpty}),
		})
	})
	t.Run("secret_stays_secret", func(t *testing.T) {
		a := n.respond(t, "quick", "go", object1{"background": true, "callback_url": r.URL + "/secret", "callback_secret": callbackSecret})
		require.NotContains(t, a.text, callbackSecret)
		r.got(t, "/secret", 1)
		run := decode(t, a.text).text("id")
		require.NotContains(t, n.get(t, "/agents/runs/"+run).text, callbackSecret)
		require.NotContains(t, n.p.log.String(), callbackSecret)
		notInFiles(t, n.p.dir, callbackSecret)
	})
}
