package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// agentShape is an agent as those who write it see it.
func agentShape(n *tenant, over fields) shape {
	return object(fields{
		"_id": nonEmpty, "tenantId": exactly(n.id), "projectId": exactly(n.project), "key": nonEmpty, "name": nonEmpty, "description": exactly(nil),
		"config": anyObject, "status": exactly("active"), "publishedVersion": exactly(nil), "latestVersion": exactly(0.0), "metadata": anyObject,
		"createdBy": exactly(n.owner), "updatedBy": exactly(n.owner), "createdAt": moment, "updatedAt": moment,
	}.with(over))
}

// newAgent creates an agent and returns its key.
func (b apiCaller) newAgent(t *testing.T, body object1) string {
	t.Helper()
	return b.done(t, "POST", "/agents", body).text("agent", "key")
}

// reply runs an agent once and returns what it says.
func (b apiCaller) reply(t *testing.T, route string, body object1) (text string, response tree) {
	t.Helper()
	response = b.done(t, "POST", route, body)
	require.Equal(t, "completed", response.text("status"), "%v", response.v)
	return response.at("output").list()[0].at("content").list()[0].text("text"), response
}

func TestClientAgents(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	speaks := func(prompt string) object1 {
		return object1{"modelKey": "scripted", "systemPrompt": prompt, "temperature": 0.5}
	}

	t.Run("created_read_listed", func(t *testing.T) {
		made := n.ask(t, "POST", "/agents", object1{"name": "Help Desk", "description": "Helps", "config": speaks("Be kind."), "key": "mine", "_id": "mine"}).
			fits(201, object(fields{"agent": agentShape(n, fields{
				"name": exactly("Help Desk"), "description": exactly("Helps"), "config": exactly(speaks("Be kind.")),
			})}))
		key := made.text("agent", "key")
		require.Regexp(t, "^help-desk-[0-9a-z]{6}$", key)
		summary := fields{
			"key": exactly(key), "name": exactly("Help Desk"), "description": exactly("Helps"), "status": exactly("active"), "createdAt": moment,
			"config": exactly(object1{"modelKey": "scripted", "temperature": 0.5}), "publishedVersion": exactly(nil), "latestVersion": exactly(0.0),
		}
		n.ask(t, "GET", "/agents/"+key, nil).fits(200, object(fields{"agent": object(summary)}))
		first := n.done(t, "GET", "/agents", nil).at("agents").list()[0]
		require.NoError(t, object(summary)(first.v), "newest first")
	})
	t.Run("refusals", func(t *testing.T) {
		external := func(connection object1) object1 {
			return object1{"name": "x", "config": object1{"kind": "external", "connection": connection}}
		}
		for _, c := range []struct {
			body any
			text string
		}{
			{object1{"config": speaks("x")}, "Agent name is required"},
			{object1{"name": " ", "config": speaks("x")}, "Agent name is required"},
			{object1{"name": "x"}, "Agent config is required"},
			{object1{"name": "x", "config": object1{}}, "Model configuration is required"},
			{object1{"name": "x", "config": object1{"kind": "external"}}, "Connection settings are required for a connected agent"},
			{external(object1{"protocol": "smtp", "url": "https://a.test"}), "Unsupported connected agent protocol: smtp"},
			{external(object1{"protocol": "a2a"}), "Connected agent endpoint URL is required"},
			{external(object1{"protocol": "openai-chat", "url": "https://a.test"}), "Model id is required for OpenAI-compatible connected agents"},
		} {
			n.ask(t, "POST", "/agents", c.body).denied(400, "invalid_request", c.text)
		}
		for _, method := range []string{"GET", "PATCH", "DELETE"} {
			n.ask(t, method, "/agents/nobody", object1{}).denied(404, "agent_not_found", "Agent not found")
		}
		n.ask(t, "POST", "/agents/nobody/publish", nil).denied(404, "agent_not_found", "Agent not found")
	})
	t.Run("updated_within_bounds", func(t *testing.T) {
		key := n.newAgent(t, object1{"name": "Before", "config": speaks("x"), "metadata": object1{"team": "blue"}})
		n.ask(t, "PATCH", "/agents/"+key, object1{
			"name": "After", "key": "stolen", "publishedVersion": 7, "latestVersion": 7, "projectId": "elsewhere", "tenantId": "elsewhere", "createdBy": "me",
		}).fits(200, object(fields{"agent": agentShape(n, fields{"key": exactly(key), "name": exactly("After"), "metadata": exactly(object1{"team": "blue"})})}))
		whole := n.done(t, "PATCH", "/agents/"+key, object1{"config": object1{"modelKey": "scripted"}, "metadata": object1{}}).at("agent")
		require.Equal(t, object1{"modelKey": "scripted"}, whole.at("config").v, "replaced, not merged")
		require.Equal(t, object1{}, whole.at("metadata").v)
	})
	t.Run("status_filter", func(t *testing.T) {
		keys := map[string]string{}
		for _, status := range []string{"active", "inactive", "draft"} {
			keys[status] = n.newAgent(t, object1{"name": "Status " + status, "config": speaks("x"), "status": status})
		}
		for _, status := range []string{"active", "inactive", "draft"} {
			listed := texts(n.done(t, "GET", "/agents?status="+status+"&limit=500", nil).at("agents").list(), "key")
			require.Contains(t, listed, keys[status])
			for other, key := range keys {
				require.Equal(t, other == status, strings.Contains(strings.Join(listed, " "), key), "%s among %s", other, status)
			}
		}
		n.ask(t, "POST", "/agents/responses", object1{"model": keys["inactive"], "input": "hi"}).denied(400, "agent_not_active", "Agent is not active")
		n.ask(t, "POST", "/agents/sessions", object1{"agent": keys["draft"]}).denied(400, "agent_not_active", "Agent is not active")
	})
	t.Run("versions_are_snapshots", func(t *testing.T) {
		key := n.newAgent(t, object1{"name": "Versions", "config": speaks("one")})
		_, response := n.reply(t, "/agents/responses", object1{"model": key, "input": "hi"})
		require.Nil(t, response.at("version").v, "the draft, while nothing is published")
		version := n.ask(t, "POST", "/agents/"+key+"/publish", object1{"changelog": "first"}).fits(201, object(fields{"version": object(fields{
			"_id": nonEmpty, "tenantId": exactly(n.id), "projectId": exactly(n.project), "agentId": nonEmpty, "agentKey": exactly(key), "version": exactly(1.0),
			"snapshot":  exactly(object1{"name": "Versions", "description": nil, "config": speaks("one"), "status": "active"}),
			"changelog": exactly("first"), "publishedBy": exactly(n.owner), "createdAt": moment,
		})}))
		n.done(t, "PATCH", "/agents/"+key, object1{"config": speaks("two")})
		second := n.ask(t, "POST", "/agents/"+key+"/publish", "").fits(201, anyObject)
		require.InDelta(t, 2, second.number("version", "version"), 0, "an empty body will do")
		require.Equal(t, version.at("version").v, n.done(t, "GET", "/agents/"+key+"/versions/1", nil).at("version").v, "immutable")
		list := n.done(t, "GET", "/agents/"+key+"/versions", nil)
		require.InDelta(t, 2, list.number("total"), 0)
		require.InDelta(t, 2, list.at("versions").list()[0].number("version"), 0, "newest first")
		require.InDelta(t, 2, n.done(t, "GET", "/agents/"+key, nil).number("agent", "publishedVersion"), 0)
		n.ask(t, "GET", "/agents/"+key+"/versions/3", nil).denied(404, "agent_version_not_found", "Agent version not found")
		n.ask(t, "POST", "/agents/responses", object1{"model": key, "input": "hi", "version": 3}).denied(404, "agent_version_not_found", "Agent version not found")
	})
	t.Run("which_config_runs", func(t *testing.T) {
		u := newModel(t, n.apiCaller, "llm", hello)
		prompt := func() string {
			asked := u.asked()
			messages := asked[len(asked)-1].body
			return messages.at("messages").v.([]any)[0].(map[string]any)["content"].(string) //nolint:errcheck,forcetypeassert // it fails the test
		}
		config := func(prompt string) object1 { return object1{"modelKey": u.key, "systemPrompt": prompt} }
		key := n.newAgent(t, object1{"name": "Runs", "config": config("one")})
		n.done(t, "POST", "/agents/"+key+"/publish", nil)
		n.done(t, "PATCH", "/agents/"+key, object1{"config": config("two")})
		n.done(t, "POST", "/agents/"+key+"/publish", nil)
		n.done(t, "PATCH", "/agents/"+key, object1{"config": config("draft")})
		for _, c := range []struct {
			route   string
			version any
			prompt  string
			ran     any
		}{
			{"/agents/responses", nil, "two", 2.0},
			{"/agents/responses", 1, "one", 1.0},
			{"/responses", nil, "draft", nil},
		} {
			_, response := n.reply(t, c.route, object1{"model": key, "input": "hi", "version": c.version})
			require.Contains(t, prompt(), c.prompt)
			require.NoError(t, exactly(c.ran)(response.at("version").v))
		}
	})
	t.Run("a_slug_is_made_once", func(t *testing.T) {
		key := n.newAgent(t, object1{"name": "Exposed", "config": speaks("x")})
		a2a := func(metadata any) tree {
			return n.done(t, "PATCH", "/agents/"+key, object1{"metadata": metadata}).at("agent", "metadata", "a2a")
		}
		require.Nil(t, a2a(object1{"a2a": nil}).v)
		first := a2a(object1{"a2a": object1{"enabled": true, "accessMode": "anybody", "endpointSlug": "0123456789abcdef"}})
		require.Regexp(t, "^[0-9a-f]{16}$", first.text("endpointSlug"))
		require.NotEqual(t, "0123456789abcdef", first.text("endpointSlug"))
		require.Equal(t, "token", first.text("accessMode"))
		again := a2a(object1{"a2a": object1{"enabled": true, "accessMode": "public", "endpointSlug": "fedcba9876543210"}})
		require.Equal(t, []string{first.text("endpointSlug"), "public"}, []string{again.text("endpointSlug"), again.text("accessMode")})
		gone := a2a(object1{})
		require.Equal(t, first.text("endpointSlug"), gone.text("endpointSlug"))
		require.False(t, gone.flag("enabled"))
	})
	t.Run("deleted_and_its_sessions_stay", func(t *testing.T) {
		key := n.newAgent(t, object1{"name": "Gone", "config": speaks("x")})
		_, response := n.reply(t, "/agents/responses", object1{"model": key, "input": "hi"})
		n.done(t, "POST", "/agents/"+key+"/publish", nil)
		require.Equal(t, object1{"success": true}, n.done(t, "DELETE", "/agents/"+key, nil).v)
		n.ask(t, "GET", "/agents/"+key, nil).denied(404, "agent_not_found", "Agent not found")
		n.ask(t, "GET", "/agents/"+key+"/versions", nil).denied(404, "agent_not_found", "Agent not found")
		n.done(t, "GET", "/agents/sessions/"+response.text("session_id"), nil)
		n.ask(t, "POST", "/agents/responses", object1{"model": key, "input": "hi", "session_id": response.text("session_id")}).
			denied(404, "agent_not_found", "Agent not found")
	})
	t.Run("configured_ones_are_read_only", func(t *testing.T) {
		fixed := n.done(t, "GET", "/agents/fixed", nil)
		require.Equal(t, "Fixed Agent", fixed.text("agent", "name"))
		require.Nil(t, fixed.at("agent", "createdAt").v)
		const text = "The agent is defined in the server's configuration"
		n.ask(t, "PATCH", "/agents/fixed", object1{"name": "x"}).denied(403, "forbidden", text)
		n.ask(t, "DELETE", "/agents/fixed", nil).denied(403, "forbidden", text)
		n.ask(t, "POST", "/agents/fixed/publish", nil).denied(403, "forbidden", text)
		n.reply(t, "/agents/responses", object1{"model": "fixed", "input": "hi"})
	})
	t.Run("of_another_tenant", func(t *testing.T) {
		key := n.newAgent(t, object1{"name": "Ours", "config": speaks("x")})
		other := newTenant(t, n.p, "ON_PREMISE")
		require.NotContains(t, other.ask(t, "GET", "/agents?limit=500", nil).text, key)
		other.ask(t, "GET", "/agents/"+key, nil).denied(404, "agent_not_found", "Agent not found")
		other.ask(t, "POST", "/agents/sessions", object1{"agent": key}).denied(404, "agent_not_found", "Agent not found")
	})
}

// TestClientConfiguredAgents: an agent of the file may run in the background and bind its callers to its budget, as those of
// the API do.
func TestClientConfiguredAgents(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: builds the binary and runs processes")
	}
	p := newProcess(t, houseConfig+`
  - id: kept
    model: {provider: scripted, price: {input: 1, output: 1}, script: {tokens: 5}}
    default_budget: {max_cost: 0.5, binding: true}
    background: true
`)
	p.start()
	n := apiCaller{p, houseToken}
	const code = "budget_override_forbidden"
	budget := func(usd float64) object1 { return object1{"max_cost_usd": usd, "on_reach": "pause"} }
	for _, more := range []any{nil, budget(0.6)} {
		n.ask(t, "POST", "/agents/sessions", object1{"agent": "kept", "budget": more}).coded(403, code)
		n.ask(t, "POST", "/agents/responses", object1{"model": "kept", "input": "hi", "budget": more}).coded(403, code)
	}
	id := n.done(t, "POST", "/agents/sessions", object1{"agent": "kept", "budget": budget(0.4)}).text("id")
	n.ask(t, "PATCH", "/agents/sessions/"+id, object1{"budget": nil}).coded(403, code)
	n.ask(t, "PATCH", "/agents/sessions/"+id, object1{"budget": budget(0.6)}).coded(403, code)
	n.done(t, "PATCH", "/agents/sessions/"+id, object1{"budget": budget(0.3)})
	order := object1{"model": "kept", "input": "hi", "background": true}
	run := decode(t, n.ask(t, "POST", "/agents/responses", order).text)
	require.Equal(t, "succeeded", n.wait(t, run.text("id")).text("status"))
	order["model"] = "fixed"
	n.ask(t, "POST", "/agents/responses", order).coded(400, "agent_background_disabled")
}

// TestClientAgentOnTheConversationServer: agents made here are the default project's callers' there.
func TestClientAgentOnTheConversationServer(t *testing.T) {
	t.Parallel()
	h := house(t)
	key := h.newAgent(t, object1{"name": "Both", "config": object1{"modelKey": "scripted"}})
	require.Contains(t, texts(h.p.ask(t, "GET", "/agents", nil).fits(200, anyObject).at("agents").list(), "id"), key)
	id := h.p.newConversation(t, key, "both")
	h.p.say(t, id, "hi")
	require.Equal(t, key, h.done(t, "GET", "/agents/sessions/"+id, nil).text("agent"), "a conversation there is a session here")
	h.done(t, "PATCH", "/agents/"+key, object1{"status": "inactive"})
	require.NotContains(t, h.p.ask(t, "GET", "/agents", nil).text, key)
	h.p.ask(t, "POST", "/conversations", map[string]string{"agentId": key, "userId": "both"}).refused(404, "NOT_FOUND")
}

// TestClientConnectedAgent: what a connected agent's config keeps to itself.
func TestClientConnectedAgent(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	const key, header = "sk-inline-key-of-the-agent", "header-value-of-the-agent"
	connection := func(over object1) object1 {
		c := object1{"protocol": "openai-chat", "url": "https://agent.test/v1", "model": "m"}
		for name, value := range over {
			c[name] = value
		}
		return object1{"kind": "external", "connection": c}
	}
	agent := n.newAgent(t, object1{"name": "Connected", "config": connection(object1{"apiKey": key, "headers": object1{"X-Key": header}, "apiKeyEnc": "planted"})})
	patch := func(body object1) tree {
		t.Helper()
		a := n.ask(t, "PATCH", "/agents/"+agent, body)
		require.Equal(t, 200, a.status, a.text)
		for _, secret := range []string{key, header, "apiKeyEnc"} {
			require.NotContains(t, a.text, secret)
		}
		require.NotContains(t, a.text, `"apiKey"`)
		return decode(t, a.text).at("agent", "config", "connection")
	}
	t.Run("omitted_key_stays", func(t *testing.T) {
		kept := patch(object1{"config": connection(object1{"headers": object1{"X-Key": "********"}})})
		require.True(t, kept.flag("hasApiKey"))
		require.Equal(t, "********", kept.text("headers", "X-Key"))
	})
	t.Run("native_config_is_ignored", func(t *testing.T) {
		a := n.done(t, "PATCH", "/agents/"+agent, object1{"name": "Renamed", "config": object1{"modelKey": "scripted"}}).at("agent")
		require.Equal(t, []string{"Renamed", "external"}, []string{a.text("name"), a.text("config", "kind")})
		require.True(t, a.flag("config", "connection", "hasApiKey"))
	})
	t.Run("native_becomes_connected", func(t *testing.T) {
		native := n.newAgent(t, object1{"name": "Native", "config": object1{"modelKey": "scripted"}})
		a := n.done(t, "PATCH", "/agents/"+native, object1{"config": connection(nil)}).at("agent", "config")
		require.Equal(t, "external", a.text("kind"))
		require.False(t, a.flag("connection", "hasApiKey"))
	})
	t.Run("versions_are_redacted", func(t *testing.T) {
		for _, a := range []answer{
			n.ask(t, "POST", "/agents/"+agent+"/publish", nil), n.ask(t, "GET", "/agents/"+agent+"/versions/1", nil),
			n.ask(t, "GET", "/agents/"+agent+"/versions", nil), n.ask(t, "GET", "/agents/"+agent, nil), n.ask(t, "GET", "/agents", nil),
		} {
			require.Equal(t, 2, a.status/100, a.text)
			for _, secret := range []string{key, header, "apiKeyEnc", `"apiKey"`} {
				require.NotContains(t, a.text, secret, a.what)
			}
		}
	})
	t.Run("null_takes_the_key_away", func(t *testing.T) {
		require.False(t, patch(object1{"config": connection(object1{"apiKey": nil})}).flag("hasApiKey"))
		require.True(t, n.done(t, "GET", "/agents/"+agent+"/versions/1", nil).flag("version", "snapshot", "config", "connection", "hasApiKey"), "a snapshot keeps its own")
	})
	t.Run("stored_key_is_sent", func(t *testing.T) {
		p := atProvider()
		p.mu.Lock()
		p.mu.models["connected"] = hello
		p.mu.Unlock()
		here := n.newAgent(t, object1{"name": "Here", "config": connection(object1{"url": p.server.URL + "/v1", "model": "connected", "apiKey": key})})
		n.done(t, "PATCH", "/agents/"+here, object1{"config": connection(object1{"url": p.server.URL + "/v1", "model": "connected"})})
		text, _ := n.reply(t, "/agents/responses", object1{"model": here, "input": "hi"})
		require.Equal(t, "Hello", text)
		asked := (&upstream{p: p, id: "connected"}).asked()
		require.Equal(t, "Bearer "+key, asked[len(asked)-1].header.Get("Authorization"))
	})
}
