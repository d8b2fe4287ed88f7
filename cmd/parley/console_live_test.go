package main

import (
	"bufio"
	"context"
	"maps"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// held are somebody's cookies as a browser sends them.
func (b *visitor) held() string {
	var held []string
	for _, cookie := range b.jar.Cookies(b.root()) {
		held = append(held, cookie.Name+"="+cookie.Value)
	}
	return strings.Join(held, "; ")
}

// watch follows the lists of somebody's project, and returns the stream behind its marker.
func (b *visitor) watch(t *testing.T, headers ...string) *sse {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	at := "http://" + b.listen + "/api" + consoleAPI + "/live"
	request := b.newRequest(t, "GET", at, nil, append([]string{"Cookie", b.held()}, headers...)).WithContext(ctx)
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // sse.close does
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, response.StatusCode)
	s := &sse{t: t, body: response.Body, lines: bufio.NewReader(response.Body), cancel: cancel}
	t.Cleanup(s.close)
	first, ok := s.next()
	require.True(t, ok)
	require.Equal(t, "ready", first.Event)
	return s
}

// row reads up to a row for which wanted is true, and returns those before it, too.
func (s *sse) row(wanted func(f sseFrame) bool) (all []sseFrame) {
	s.t.Helper()
	for {
		f, ok := s.next()
		require.Truef(s.t, ok, "stream ended after %v", all)
		all = append(all, f)
		if wanted(f) {
			return all
		}
	}
}

func is(kind, id string, more ...any) func(f sseFrame) bool {
	return func(f sseFrame) bool {
		for i := 0; i < len(more); i += 2 {
			if name, ok := more[i].(string); !ok || f.Data[name] != more[i+1] {
				return false
			}
		}
		return f.Event == kind && (id == "" || f.Data["id"] == id)
	}
}

// TestConsoleLive: what happens in a project is seen at once by those who may see it, and by nobody else.
func TestConsoleLive(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, _, slug := company(t, p)
	agent := furnish(t, owner)
	id, invited := owner.invite(t, "lia@"+slug+".test", "user")
	lia := accept(t, p, invited)
	stranger, _, _ := company(t, p)
	all, own, others := owner.watch(t), lia.watch(t), stranger.watch(t)
	require.Equal(t, 401, newVisitor(t, p).call(t, "GET", consoleAPI+"/live", nil).status)

	session := turnOf(t, owner, agent)
	seen := all.row(is("session", session, "runtime_status", "idle", "stop_reason", "end_turn"))
	require.LessOrEqual(t, len(seen), 4, "rows wait for each other: %v", seen)
	last := seen[len(seen)-1].Data
	require.Equal(t, agent, last["agent"])
	require.Positive(t, last["spent_usd"])
	require.Equal(t, owner.done(t, "GET", consoleAPI+"/agents/sessions/"+session, nil).at("updated_at").v, last["updated_at"])

	hers := turnOf(t, lia, agent)
	for _, f := range own.row(is("session", hers, "runtime_status", "idle", "stop_reason", "end_turn")) {
		require.Equal(t, hers, f.Data["id"], "a user hears of their own only")
		require.Equal(t, id, f.Data["user"])
	}
	all.row(is("session", hers, "runtime_status", "idle", "stop_reason", "end_turn"))

	run := owner.call(t, "POST", consoleAPI+"/agents/responses", object1{"model": agent, "input": "later", "background": true})
	require.Less(t, run.status, 300, run.text)
	all.row(is("run", decode(t, run.text).text("id"), "status", "succeeded"))

	require.Equal(t, 200, owner.call(t, "DELETE", consoleAPI+"/agents/sessions/"+session, nil).status)
	all.row(is("session", session, "deleted", true))
	theirs := turnOf(t, stranger, furnish(t, stranger))
	for _, f := range others.row(is("session", theirs, "stop_reason", "end_turn")) {
		require.Equal(t, theirs, f.Data["id"], "another company's")
	}
	owner.done(t, "POST", "/auth/sessions/end", object1{"userId": id})
	ended := time.Now()
	_, more := own.next()
	require.False(t, more)
	require.Less(t, time.Since(ended), 50*time.Second, "the server ended it, and not the test, which gives up after a minute")
}

// TestConsoleLiveOfACluster: streams at two nodes see what a third one does; when a node dies they say reset, and go on.
func TestConsoleLiveOfACluster(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("k", 32)
	c := newCluster(t, 3, false, "--accounts-session-secret="+secret, "--provider-encryption-secret="+secret)
	require.NoError(t, c.Start(t.Context()))
	var at []*visitor
	for _, n := range c.Nodes() {
		at = append(at, newVisitor(t, &process{t: t, listen: n.Listen}))
	}
	require.Eventually(t, func() bool { // the feature level rises once all nodes have told theirs
		return at[0].call(t, "POST", "/auth/login", object1{"email": "a@b.test", "password": "x"}).status == http.StatusUnauthorized
	}, waitLong, waitStep)
	at[0].done(t, "POST", "/auth/register", object1{"companyName": "Lively", "name": "Ann", "email": "ann@lively.test", "password": goodPassword})
	for _, b := range at[1:] {
		b.jar.SetCookies(b.root(), at[0].jar.Cookies(at[0].root()))
	}
	agent := furnish(t, at[0])
	streams := []*sse{at[0].watch(t), at[1].watch(t)}
	// said has an agent answer through a node. The streams tell of it, or say reset, after which it is in the list.
	said := func(b *visitor) (told int) {
		t.Helper()
		var session string
		require.Eventually(t, func() bool {
			a := b.call(t, "POST", consoleAPI+"/agents/responses", object1{"model": agent, "input": "hi"})
			if a.status == http.StatusOK {
				session = decode(t, a.text).text("session_id")
			}
			return session != ""
		}, waitLong, waitStep)
		for i, s := range streams {
			done := is("session", session, "stop_reason", "end_turn")
			all := s.row(func(f sseFrame) bool { return f.Event == "reset" || done(f) })
			if all[len(all)-1].Event != "reset" {
				told++
				continue
			}
			require.Eventually(t, func() bool {
				list := at[i].call(t, "GET", consoleAPI+"/agents/sessions", nil)
				return list.status == http.StatusOK && slices.Contains(texts(decode(t, list.text).at("data").list(), "id"), session)
			}, waitLong, waitStep)
		}
		return told
	}
	// settled goes on until streams have told of several in a row, in several shards.
	settled := func(b *visitor) {
		t.Helper()
		for tries, inARow := 0, 0; inARow < 6; tries++ {
			require.Less(t, tries, 100)
			if inARow++; said(b) < len(streams) {
				inARow = 0
			}
		}
	}
	settled(at[2])
	require.NoError(t, c.Nodes()[2].Kill())
	for _, s := range streams {
		s.row(is("reset", ""))
	}
	settled(at[1])
	require.NoError(t, c.Nodes()[2].Start(t.Context()))
	settled(at[0])
}

// consolePages are the addresses that the console's table of pages has.
func consolePages(t *testing.T) (pages []*regexp.Regexp) {
	t.Helper()
	table, err := os.ReadFile("../../httpedge/web/page/dashboard/routes.js")
	require.NoError(t, err)
	for _, row := range regexp.MustCompile(`path: '([^']+)'`).FindAllStringSubmatch(string(table), -1) {
		pages = append(pages, regexp.MustCompile("^"+regexp.MustCompile(`:\w+`).ReplaceAllString(row[1], "[^/]+")+"$"))
	}
	require.Greater(t, len(pages), 20)
	return pages
}

// TestConsoleOverview: what runs, waits and cost, of what one may see; and what an id is.
func TestConsoleOverview(t *testing.T) {
	t.Parallel()
	p := shared.of(t, accountsConfig)
	owner, email, slug := company(t, p)
	agent := furnish(t, owner)
	id, invited := owner.invite(t, "ola@"+slug+".test", "user")
	ola := accept(t, p, invited)
	stranger, _, _ := company(t, p)
	empty := owner.done(t, "GET", consoleAPI+"/overview", nil)
	require.Zero(t, empty.number("sessions", "running", "count"))
	require.Zero(t, empty.number("runs", "queued"))
	require.Empty(t, empty.at("waiting").list())

	mine, hers := turnOf(t, owner, agent), turnOf(t, ola, agent)
	run := owner.done(t, "POST", consoleAPI+"/agents/responses", object1{"model": agent, "input": "later", "background": true}).text("id")
	token := owner.done(t, "POST", consoleAPI+"/users/"+id+"/tokens", object1{"label": "of ola"}).text("id")
	hook := owner.done(t, "POST", consoleAPI+"/webhooks", object1{"url": newHookListener(t).URL + "/in", "events": []string{"session.idled"}}).text("endpoint", "id")
	delivery := owner.done(t, "POST", consoleAPI+"/webhooks/"+hook+"/test", nil).text("delivery", "id")
	project := owner.done(t, "GET", consoleAPI+"/projects", nil).at("projects").list()[0].text("id")
	asking := scriptedModel("asking")
	asking["settings"] = object1{"script": object1{"steps": []any{object1{"toolCalls": []any{object1{"name": "clock", "arguments": "{}"}}}}}}
	owner.done(t, "POST", consoleAPI+"/models", asking)
	owner.done(t, "POST", consoleAPI+"/models/providers", object1{"key": "other", "driver": "scripted"})
	asks := owner.done(t, "POST", consoleAPI+"/agents", object1{"name": "Asks", "config": object1{
		"modelKey": "asking", "tools": []any{object1{"name": "clock", "builtin": "current_time", "approval": "always"}},
	}}).text("agent", "key")
	waits := owner.done(t, "POST", consoleAPI+"/agents/responses", object1{"model": asks, "input": "hi"})
	action := waits.at("pending_actions").list()[0].text("id")

	tenant := owner.done(t, "POST", "/auth/login", object1{"email": email, "password": goodPassword}).text("tenant", "id")
	operate(t, p, "PATCH", "/tenants/"+tenant, object1{"tier": "ON_PREMISE"}) // shields take a licence
	shield := owner.done(t, "POST", consoleAPI+"/aegis/shields", object1{"name": "Care", "mode": "enforce", "rules": object1{"sideEffects": object1{"wipe": "destructive"}}}).text("shield", "id")
	approval := owner.done(t, "POST", "/aegis/evaluate", object1{
		"stage": "tool.pre", "shieldId": shield, "resource": object1{"type": "tool", "name": "wipe"},
	}).text("approval", "approvalId")
	owner.done(t, "POST", consoleAPI+"/guardrails", object1{"key": "rail", "name": "Rail", "rules": object1{"pii": object1{}}})
	budget := owner.done(t, "POST", consoleAPI+"/budgets", object1{"daily_limit_usd": 100}).text("id")
	limit := owner.done(t, "POST", "/quota/policies", object1{"domain": "llm", "limits": object1{"rateLimit": object1{"requests": object1{"perDay": 100}}}}).text("policy", "_id")
	owner.done(t, "POST", consoleAPI+"/tracing/sessions", object1{"sessionId": "told 1", "threadId": "told", "events": []any{object1{"type": "llm_call"}}})

	require.Eventually(t, func() bool { // sums are kept for a while
		return owner.done(t, "GET", consoleAPI+"/overview", nil).number("usage", "today_usd") > 0
	}, waitLong, waitStep)
	all, own := owner.done(t, "GET", consoleAPI+"/overview", nil), ola.done(t, "GET", consoleAPI+"/overview", nil)
	require.GreaterOrEqual(t, all.number("usage", "seven_days_usd"), all.number("usage", "today_usd"))
	require.Less(t, own.number("usage", "today_usd"), all.number("usage", "today_usd"), "a user has their own")
	require.Nil(t, own.at("runs").v)
	require.Nil(t, own.at("cluster").v)
	require.Len(t, all.at("cluster", "nodes").list(), 1)
	require.NotEmpty(t, all.at("cluster", "shards").list())

	pages, kinds := consolePages(t), map[string]bool{}
	for _, c := range []struct {
		id, kind, page string
		user           bool // a plain user finds it, too
	}{
		{"task_" + mine + "_1", "task", "/dashboard/sessions/" + mine, false},
		{mine, "session", "/dashboard/sessions/" + mine, false},
		{hers, "session", "/dashboard/sessions/" + hers, true},
		{action, "action", "/dashboard/sessions/" + waits.text("session_id") + "?action=" + action, false},
		{run, "run", "/dashboard/runs/" + run, false},
		{agent, "agent", "/dashboard/agents/" + agent, true},
		{"scripted", "model", "/dashboard/models/scripted", true},
		{"other", "provider", "/dashboard/models/providers/other", true},
		{id, "user", "/dashboard/members/" + id, false},
		{token, "token", "/dashboard/tokens/" + token, false},
		{project, "project", "/dashboard/projects/" + project, true},
		{hook, "webhook", "/dashboard/webhooks/" + hook, false},
		{delivery, "delivery", "/dashboard/webhooks/" + hook + "?delivery=" + delivery, false},
		{shield, "shield", "/dashboard/shields/" + shield, true},
		{approval, "approval", "/dashboard/approvals/" + approval, true},
		{"rail", "guardrail", "/dashboard/guardrails/rail", true},
		{budget, "budget", "/dashboard/budgets/" + budget, true},
		{limit, "limit", "/dashboard/limits/" + limit, true},
		{"told%201", "trace", "/dashboard/tracing/told?session=told+1", true},
	} {
		found := owner.done(t, "GET", consoleAPI+"/find/"+c.id, nil)
		require.Equal(t, []string{c.kind, c.page}, []string{found.text("kind"), found.text("page")})
		path, _, _ := strings.Cut(c.page, "?")
		require.True(t, slices.ContainsFunc(pages, func(page *regexp.Regexp) bool { return page.MatchString(path) }), "no page is at %s", path)
		kinds[c.kind] = true
		want := http.StatusNotFound
		if c.user {
			want = http.StatusOK
		}
		a := ola.call(t, "GET", consoleAPI+"/find/"+c.id, nil)
		require.Equal(t, want, a.status, "%s: %s", c.id, a.text)
		a = stranger.call(t, "GET", consoleAPI+"/find/"+c.id, nil)
		require.Equal(t, http.StatusNotFound, a.status, "%s: %s", c.id, a.text)
	}
	var every []string
	for _, kind := range owner.done(t, "GET", "/openapi.json", nil).at("components", "schemas", "Found", "properties", "kind", "enum").list() {
		every = append(every, kind.text())
	}
	require.ElementsMatch(t, every, slices.Collect(maps.Keys(kinds)), "one of each kind was found")
	for _, none := range []string{"conv_none", "whd_zzz", "x", strings.Repeat("x", 300), "act_none", "task_none", "usr_none"} {
		require.Equal(t, 404, owner.call(t, "GET", consoleAPI+"/find/"+none, nil).status, none)
	}

	t.Run("background_tasks", func(t *testing.T) {
		root := newVisitor(t, p)
		root.done(t, "POST", "/auth/login", object1{"email": "root@first.test", "password": goodPassword})
		task := p.ask(t, "POST", "/tasks", object1{"agentId": "demo", "input": "Dig"})
		require.Equal(t, 201, task.status, task.text)
		made := decode(t, task.text).text("task", "id")
		require.Equal(t, "/dashboard/tasks/"+made, root.done(t, "GET", consoleAPI+"/find/"+made, nil).text("page"))
		require.Equal(t, "Dig", root.done(t, "GET", consoleAPI+"/tasks/"+made, nil).text("input"))
		for _, path := range []string{"/find/" + made, "/tasks/" + made} {
			require.Equal(t, http.StatusNotFound, owner.call(t, "GET", consoleAPI+path, nil).status, path)
		}
		require.True(t, slices.ContainsFunc(pages, func(page *regexp.Regexp) bool { return page.MatchString("/dashboard/tasks/" + made) }))
	})
	t.Run("filters", func(t *testing.T) {
		require.Equal(t, []string{hers}, sessionIDs(t, owner, "?user="+id))
		require.Equal(t, []string{hers}, sessionIDs(t, owner, "?status=idle&agent="+agent+"&user="+id))
		require.Empty(t, sessionIDs(t, ola, "?user="+owner.done(t, "GET", "/auth/session", nil).text("userId")))
		require.Empty(t, sessionIDs(t, owner, "?q=nothing+has+this"))
		title := owner.done(t, "GET", consoleAPI+"/agents/sessions/"+mine, nil).text("title")
		require.Contains(t, sessionIDs(t, owner, "?q="+strings.ToUpper(title[:2])), mine)
		require.NotContains(t, sessionIDs(t, ola, "?q="+title), mine)
		require.Equal(t, 400, owner.call(t, "GET", consoleAPI+"/agents/sessions?q="+strings.Repeat("x", 101), nil).status)
	})
}
