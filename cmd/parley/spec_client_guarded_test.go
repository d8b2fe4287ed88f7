package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// guardedMail is what only a person says, and the shield takes out.
const guardedMail = "zoe.quill@secret-input.example.org"

// guardedAgent makes an agent with the default shield, whose model calls a tool that needs a person by the shield alone.
func (n *floor) guardedAgent(t *testing.T) {
	t.Helper()
	n.done(t, "POST", "/models", object1{
		"key": "leaky", "name": "leaky", "providerKey": "shop", "category": "llm", "modelId": "leaky", "pricing": object1{}, "settings": object1{"maxRetries": 0},
	})
	n.agent(t, "guarded", object1{
		"modelKey": "leaky", "shieldId": "default", "tools": []any{object1{"name": "wipe", "url": n.shop.server.URL + "/tools/wipe"}},
	}, object1{"background": object1{"enabled": true}})
}

// verdicts are what the default shield has decided about the agent's calls, as far as it is told.
func (b apiCaller) verdicts(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, event := range b.insist(t, "GET", "/aegis/shields/default/audit", nil).fits(200, anyObject).at("events").list() {
		all = append(all, event.text("stage")+" "+event.text("decision"))
	}
	return all
}

// TestClientGuardedAgents: what an agent with a shield reads, calls and says passes it; what the shield takes out is nowhere; a call that
// it wants approved waits for a person, over the end of the node that owned it.
func TestClientGuardedAgents(t *testing.T) {
	t.Parallel()
	shop := openWorkshop(t)
	file := filepath.Join(t.TempDir(), "guarded.yaml")
	require.NoError(t, os.WriteFile(file, []byte(floorConfig+`provider_encryption_secret: of-all-three-nodes-0123456789
agents: [{id: kept, shield: default, model: {provider: scripted, script: {text: "Your card is 4111 1111 1111 1111, I think."}}}]
`), 0o600))
	c := newCluster(t, 3, false, "--config", file, "--cluster-election-timeout", "3s") // a busy machine is no failure
	require.NoError(t, c.Start(t.Context()))
	require.NoError(t, c.awaitSettled(t.Context(), 3))
	doors, names := map[string]apiCaller{}, []string(nil)
	for _, node := range c.Nodes() {
		doors[node.Name] = apiCaller{p: &process{t: t, listen: node.Listen, ops: node.Ops}}
		names = append(names, node.Name)
	}
	n := newFloor(t, shop, doors[names[0]].p)
	for name, door := range doors {
		doors[name] = n.at(door.p)
	}
	n.ask(t, "POST", "/agents", object1{"name": "x", "config": object1{"modelKey": "quick", "shieldId": "shd_none"}}).
		denied(400, "invalid_request", `The agent's shield "shd_none" does not exist`)
	n.guardedAgent(t)

	t.Run("of_the_configuration", func(t *testing.T) {
		p := doors[names[1]].p
		id := p.newConversation(t, "kept", "zoe")
		turn := p.say(t, id, "I am "+guardedMail)
		require.Equal(t, "Your card is [REDACTED:creditCard], I think.", turn.text("response", "content"))
		require.NotContains(t, p.ask(t, "GET", "/conversations/"+id, nil).text, guardedMail)
		require.Equal(t, turn.text("response", "content"), p.sayStreamed(t, id).text, "streamed alike")
	})
	t.Run("over_the_loss_of_a_node", func(t *testing.T) {
		var session, victim string
		for victim == "" || victim == names[0] { // newFloor's door stays
			session = n.session(t, "guarded", nil)
			victim = n.get(t, "/agents/sessions/"+session).header.Get("X-Served-By")
		}
		order := n.order("guarded", script(part{Text: "Wiping for " + guardedMail, Calls: []wanted{use("wipe", object1{"disk": "gd-1"})}}, part{Text: "Wiped."}), object1{"session_id": session, "background": true})
		run := doors[victim].post(t, "/agents/responses", order).fits(202, runShape(nil)).text("id")
		n.ends(t, run, "requires_action")
		read := n.read(t, session)
		action := read.at("pending_actions").list()[0]
		require.Equal(t, "tool wipe has an effect: destructive", action.text("details", "shield"))
		require.Empty(t, shop.uses("wipe", "gd-1"))
		require.Eventually(t, func() bool { return slices.Contains(n.verdicts(t), "tool.pre require_approval") }, waitLong, waitStep, "a crash loses the verdicts of a moment")
		require.NoError(t, c.Node(victim).Kill())
		left := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == victim })
		one, two := doors[left[0]], doors[left[1]]
		one.insist(t, "POST", "/agents/sessions/"+session+"/actions/"+action.text("id"), object1{"resolution": allow}).fits(202, runShape(nil))
		require.Equal(t, "Wiping for [REDACTED:email]\n\nWiped.", two.ends(t, run, "succeeded").at("result").said())
		require.Len(t, shop.uses("wipe", "gd-1"), 1)
		log := two.insist(t, "GET", "/agents/sessions/"+session+"/events", nil)
		require.NotContains(t, log.text, guardedMail)
		require.Contains(t, log.text, "[REDACTED:email]")
		for _, want := range []string{"input.pre redact", "tool.pre allow", "tool.post allow", "output.pre allow"} {
			require.Eventually(t, func() bool { return slices.Contains(one.verdicts(t), want) }, waitLong, waitStep, want)
		}
	})
	t.Run("nowhere_on_disk", func(t *testing.T) {
		for _, node := range c.Nodes() {
			require.NoError(t, filepath.WalkDir(node.Dir, func(path string, entry fs.DirEntry, err error) error {
				if err != nil || entry.IsDir() {
					return err
				}
				content, err := os.ReadFile(path)
				require.False(t, bytes.Contains(content, []byte(guardedMail)), path)
				return err
			}))
		}
	})
}
