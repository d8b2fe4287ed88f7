package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// court is a model that judges: what holds "trap" is full of risk. It never answers what holds "hangs", and once does not answer what
// holds "case-" and a number.
type court struct {
	*httptest.Server

	mu struct {
		sync.Mutex
		asked map[string]int // cases
		told  int            // verdicts
	}
	held chan string // the cases that are not answered
}

var caseRule = regexp.MustCompile(`case-\d`)

func newCourt(t *testing.T) *court {
	t.Helper()
	c := &court{held: make(chan string, 8)}
	c.mu.asked = map[string]int{}
	c.Server = httptest.NewServer(http.HandlerFunc(c.judge))
	t.Cleanup(c.Close)
	return c
}

func (c *court) judge(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	text := string(body)
	if name := caseRule.FindString(text); name != "" {
		c.mu.Lock()
		c.mu.asked[name]++
		first := c.mu.asked[name] == 1
		c.mu.Unlock()
		if first {
			c.held <- name
			<-r.Context().Done()
			return
		}
	}
	if strings.Contains(text, "hangs") {
		<-r.Context().Done()
		return
	}
	risk := "0.1"
	if strings.Contains(text, "trap") {
		risk = "0.95"
	}
	c.mu.Lock()
	c.mu.told++
	c.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"id":"c","object":"chat.completion","created":1,"model":"court","choices":[{"index":0,"message":{"role":"assistant","content":"{\"risk\":%s,\"reason\":\"so it seems\"}"},"finish_reason":"stop"}],
		"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10}}`, risk) // who has left does not read it
}

// books is how many verdicts were told, and how often a case was brought.
func (c *court) books(name string) (told, asked int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.told, c.mu.asked[name]
}

// judged is three nodes with shields that ask the court about what comes in ("hear") and goes out ("say"), which block without a verdict
// ("-closed") or do not ("-open"), and agents that are named for their shields.
type judged struct {
	*cluster

	t       *testing.T
	court   *court
	shop    *workshop
	owner   *visitor // at n1
	doors   []apiCaller
	names   []string
	shields map[string]string
	agents  map[string]string
}

// judgeTakes is how long a judge may take: a quarter of gateway.request_timeout.
const judgeTakes = 2 * time.Second

func newJudged(t *testing.T) *judged {
	t.Helper()
	t.Helper()
	b := &judged{t: t, court: newCourt(t), shop: openWorkshop(t), shields: map[string]string{}, agents: map[string]string{}}
	file := filepath.Join(t.TempDir(), "judged.yaml")
	require.NoError(t, os.WriteFile(file, []byte(floorConfig+"provider_encryption_secret: of-all-three-nodes-0123456789\naccounts: {session_secret: of-all-three-nodes-0123456789abcdef}\ngateway: {request_timeout: 8s, breaker_threshold: 0}\n"), 0o600))
	b.cluster = newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, b.Start(t.Context()))
	require.NoError(t, b.awaitSettled(t.Context(), 3))
	nodes := b.Nodes()
	first := as(t, nodes[0])
	owner, email, _ := company(t, first)
	b.owner = owner
	in := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword})
	operate(t, first, "PATCH", "/tenants/"+in.text("tenant", "id"), object1{"tier": "ON_PREMISE"})
	token := operate(t, first, "POST", "/tokens", object1{"userId": in.text("user", "id"), "label": "bench"}).text("token")
	for _, node := range nodes {
		b.doors, b.names = append(b.doors, apiCaller{as(t, node), token}), append(b.names, node.Name)
	}
	b.furnish()
	for _, door := range b.doors { // a node that was told later knows all of it
		require.Eventually(t, func() bool {
			last := object1{"stage": "output.pre", "shieldId": b.shields["say-open"], "resource": object1{"type": "message", "name": "x", "content": "hi"}}
			return door.ask(t, "POST", "/aegis/evaluate", last).status == 200 && door.ask(t, "GET", "/agents/"+b.agents["say-open"], nil).status == 200
		}, waitLong, 20*time.Millisecond)
	}
	return b
}

func (b *judged) furnish() {
	t, at := b.t, b.doors[0]
	for key, base := range map[string]string{"court": b.court.URL + "/v1", "away": "http://127.0.0.1:1/v1", "shop": b.shop.server.URL + "/v1"} {
		at.done(t, "POST", "/models/providers", object1{"key": key, "driver": "openai", "settings": object1{"baseUrl": base}, "credentials": object1{"apiKey": "k"}})
		at.done(t, "POST", "/models", object1{
			"key": key, "name": key, "providerKey": key, "category": "llm", "modelId": key, "pricing": object1{}, "settings": object1{"maxRetries": 0},
		})
	}
	for name, stage := range map[string]string{"hear": "input.pre", "say": "output.pre"} {
		for _, mode := range []string{"closed", "open"} {
			made := b.owner.call(t, "POST", consoleAPI+"/aegis/shields", object1{"name": name + "-" + mode, "llm": object1{
				"modelKey": "court", "judge": object1{"enabled": true, "stages": []string{stage}, "failMode": mode},
			}})
			require.Equal(t, 201, made.status, made.text)
			shield := decode(t, made.text).text("shield", "id")
			b.shields[name+"-"+mode] = shield
			b.agents[name+"-"+mode] = at.done(t, "POST", "/agents", object1{
				"name": name + "-" + mode, "config": object1{"modelKey": "shop", "shieldId": shield}, "metadata": object1{"background": object1{"enabled": true}},
			}).text("agent", "key")
		}
	}
}

// session makes a session with an agent that a node owns.
func (b *judged) session(agent string, owner func(name string) bool) (id, name string) {
	b.t.Helper()
	for range 200 {
		id = b.doors[0].done(b.t, "POST", "/agents/sessions", object1{"agent": b.agents[agent]}).text("id")
		if name = b.doors[0].get(b.t, "/agents/sessions/"+id).header.Get("X-Served-By"); owner(name) {
			return id, name
		}
	}
	require.Fail(b.t, "no such owner")
	return "", ""
}

// run has an agent say something in a session, through a node.
func (b *judged) run(door apiCaller, agent, session, says string) (id string) {
	b.t.Helper()
	return door.post(b.t, "/agents/responses", object1{
		"model": b.agents[agent], "session_id": session, "background": true, "input": script(part{Text: says}),
	}).fits(202, runShape(nil)).text("id")
}

// evaluated has a node judge what is said to somebody.
func (b *judged) evaluated(door apiCaller, shield, text string) (decision string, reasons []any) {
	b.t.Helper()
	got := door.evaluated(b.t, object1{"stage": "input.pre", "shieldId": b.shields[shield], "resource": object1{"type": "message", "name": "chat", "content": text}})
	reasons, _ = got.at("reasons").v.([]any)
	return got.text("decision"), reasons
}

// booked is how often the court's model was called, and what it said, as a node adds them up.
func (b *judged) booked(door apiCaller) (calls, output float64) {
	for _, row := range door.insist(b.t, "GET", "/analytics/usage", nil).fits(200, anyObject).at("by_model").list() {
		if row.text("model_key") == "court" {
			calls, output = row.number("calls"), row.number("output_tokens")
		}
	}
	return calls, output
}

// TestJudgesOverNodes: a shield that was made through one node asks its judge wherever a call is judged, once; what a judge blocks, or
// does not answer in time, goes no further, also when the node dies that has asked.
func TestJudgesOverNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: starts and kills real processes")
	}
	b := newJudged(t)

	t.Run("whichever_node_is_asked", func(t *testing.T) {
		for _, door := range b.doors {
			before, _ := b.court.books("")
			decision, reasons := b.evaluated(door, "hear-closed", "a greeting")
			require.Equal(t, []any{"allow", "the judge sees a risk of 0.1"}, []any{decision, reasons[0]})
			decision, _ = b.evaluated(door, "hear-open", "a trap")
			require.Equal(t, "block", decision, "a verdict counts in either mode")
			told, _ := b.court.books("")
			require.Equal(t, before+2, told, "it is asked once")
		}
	})
	t.Run("agents_of_other_nodes", func(t *testing.T) {
		session, owner := b.session("say-closed", func(name string) bool { return name != b.names[1] })
		door := b.doors[1]
		require.NotEqual(t, owner, b.names[1])
		before, _ := b.court.books("")
		require.Equal(t, "All is well.", door.ends(t, b.run(door, "say-closed", session, "All is well."), "succeeded").at("result").said())
		require.Equal(t, "shield_blocked", door.ends(t, b.run(door, "say-closed", session, "This is a trap."), "failed").text("error", "type"))
		told, _ := b.court.books("")
		require.Equal(t, before+2, told)
		b.unsaid(session, "This is a")
		heard, _ := b.session("hear-closed", func(name string) bool { return name != b.names[1] })
		refused := door.ask(t, "POST", "/agents/responses", object1{"model": b.agents["hear-closed"], "session_id": heard, "input": "it is a trap"})
		require.Equal(t, 403, refused.status, refused.text)
		require.Contains(t, refused.said(), "Blocked by Aegis shield")
		require.Empty(t, b.doors[2].done(t, "GET", "/agents/sessions/"+heard+"/messages", nil).at("data").list())
	})
	t.Run("no_verdict", b.noVerdict)
	t.Run("booked_once", func(t *testing.T) {
		const hung = 4 // noVerdict's: two of callers, two of turns; who was not there is not paid
		told, _ := b.court.books("")
		for _, door := range b.doors {
			require.Eventually(t, func() bool {
				calls, output := b.booked(door)
				return calls == float64(told+hung) && output == float64(3*told)
			}, waitLong, 50*time.Millisecond, "%d verdicts of 3 tokens", told)
		}
	})
	t.Run("a_node_dies_that_has_asked", b.diesAsking)
}

// unsaid: a text that was blocked is in no event and no message of a session, whoever is asked. What the person said holds it.
func (b *judged) unsaid(session, text string) {
	b.t.Helper()
	for _, node := range b.alive() {
		door := b.doors[0].at(as(b.t, node))
		for _, path := range []string{"/events", "/messages"} {
			for _, row := range door.insist(b.t, "GET", "/agents/sessions/"+session+path, nil).fits(200, anyObject).at("data").list() {
				if row.at("type").v == "user.message" || row.at("role").v == "user" {
					continue
				}
				require.NotContains(b.t, fmt.Sprint(row.v), text)
			}
		}
	}
}

// noVerdict: a judge that is away or hangs is given up in its time, and what it was asked about goes as the shield says.
func (b *judged) noVerdict(t *testing.T) {
	for mode, want := range map[string]string{"closed": "block", "open": "allow"} {
		began := time.Now()
		decision, reasons := b.evaluated(b.doors[1], "hear-"+mode, "it hangs")
		require.Equal(t, want, decision)
		require.Contains(t, reasons[0], "it did not answer in time")
		require.GreaterOrEqual(t, time.Since(began), judgeTakes-100*time.Millisecond)
		require.Less(t, time.Since(began), 5*judgeTakes, "a busy machine")
	}
	for mode, status := range map[string]string{"closed": "failed", "open": "succeeded"} {
		session, _ := b.session("say-"+mode, func(name string) bool { return name != b.names[2] })
		ended := b.doors[2].ends(t, b.run(b.doors[2], "say-"+mode, session, "Here it hangs."), status)
		if mode == "open" {
			require.Equal(t, "Here it hangs.", ended.at("result").said())
			continue
		}
		require.Equal(t, "shield_blocked", ended.text("error", "type"))
		b.unsaid(session, "Here it")
	}
	for _, mode := range []string{"closed", "open"} {
		b.owner.done(t, "PATCH", consoleAPI+"/aegis/shields/"+b.shields["hear-"+mode], object1{"llm": object1{
			"modelKey": "away", "judge": object1{"enabled": true, "stages": []string{"input.pre"}, "failMode": mode},
		}})
	}
	for _, door := range b.doors {
		require.Eventually(t, func() bool {
			decision, reasons := b.evaluated(door, "hear-closed", "anything")
			return decision == "block" && strings.Contains(fmt.Sprint(reasons), "it could not be asked")
		}, waitLong, waitStep, "a change counts on every node")
		require.Eventually(t, func() bool {
			decision, reasons := b.evaluated(door, "hear-open", "a trap")
			return decision == "allow" && strings.Contains(fmt.Sprint(reasons), "it could not be asked")
		}, waitLong, waitStep)
	}
	b.owner.done(t, "PATCH", consoleAPI+"/aegis/shields/"+b.shields["hear-closed"], object1{"llm": object1{
		"modelKey": "court", "judge": object1{"enabled": true, "stages": []string{"input.pre"}, "failMode": "closed"},
	}})
	for _, door := range b.doors {
		require.Eventually(t, func() bool { decision, _ := b.evaluated(door, "hear-closed", "hello"); return decision == "allow" }, waitLong, waitStep)
	}
}

// diesAsking: of three questions of a node that dies, two are asked again by who owns their turns then, and their verdicts count; of the
// third, a message that was not let in yet, nothing is stored.
func (b *judged) diesAsking(t *testing.T) {
	elsewhere := func(name string) bool { return name != b.names[0] } // the visitor's node stays
	good, victim := b.session("say-closed", elsewhere)
	bad, _ := b.session("say-open", func(name string) bool { return name == victim })
	heard, _ := b.session("hear-closed", func(name string) bool { return name != victim })
	var doomed apiCaller
	for i, name := range b.names {
		if name == victim {
			doomed = b.doors[i]
		}
	}
	door := b.doors[0]
	runs := map[string]string{
		"succeeded": b.run(door, "say-closed", good, "The case-1 is good."), "failed": b.run(door, "say-open", bad, "The case-2 is a trap."),
	}
	request := doomed.p.newRequest(t, "POST", doomed.url("/agents/responses"), object1{"model": b.agents["hear-closed"], "session_id": heard, "input": "case-3"},
		[]string{"Authorization", "Bearer " + doomed.token})
	lost := make(chan int, 1)
	go func() {
		response, err := client().Do(request)
		if err != nil {
			lost <- 0
			return
		}
		_ = response.Body.Close() // the status is enough
		lost <- response.StatusCode
	}()
	for range 3 {
		select {
		case <-b.court.held:
		case <-time.After(waitLong):
			require.Fail(t, "the judge is not asked")
		}
	}
	require.NoError(t, b.Node(victim).Kill())
	require.NotEqual(t, 200, <-lost)
	for _, node := range b.alive() {
		other := door.at(as(t, node))
		require.Equal(t, "The case-1 is good.", other.ends(t, runs["succeeded"], "succeeded").at("result").said())
		require.Equal(t, "shield_blocked", other.ends(t, runs["failed"], "failed").text("error", "type"))
		require.Empty(t, other.insist(t, "GET", "/agents/sessions/"+heard+"/messages", nil).fits(200, anyObject).at("data").list())
	}
	b.unsaid(bad, "The case-2")
	for _, name := range []string{"case-1", "case-2"} {
		_, asked := b.court.books(name)
		require.Equal(t, 2, asked, "of the first it is not known whether it was answered")
	}
	_, asked := b.court.books("case-3")
	require.Equal(t, 1, asked)
}
