package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// host is a connected agent of somebody's, and who has called it with what.
type host struct {
	*httptest.Server

	mu   sync.Mutex
	keys []string
}

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.keys = append(h.keys, r.Header.Get("Authorization")+r.Header.Get("X-Key"))
		h.mu.Unlock()
		if strings.HasPrefix(r.URL.Path, "/away/") {
			http.Redirect(w, r, r.Header.Get("X-Away"), http.StatusTemporaryRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"Hello"}}]}`) // who has left does not read it
	}))
	t.Cleanup(h.Close)
	return h
}

// heard is what the host was called with since it was asked last.
func (h *host) heard() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	heard := h.keys
	h.keys = nil
	return heard
}

// TestClientSecretsStayWithTheirHost: who may write agents cannot have anybody's secret sent to a host of his.
func TestClientSecretsStayWithTheirHost(t *testing.T) {
	t.Parallel()
	n := newTenant(t, house(t).p, "ON_PREMISE")
	n.scripted(t)
	own, stranger := newHost(t), newHost(t)
	connection := func(url string, over object1) object1 {
		c := object1{"protocol": "openai-chat", "url": url, "model": "m"}
		for name, value := range over {
			c[name] = value
		}
		return object1{"kind": "external", "connection": c}
	}
	refused := func(t *testing.T, method, path string, body object1, text string) {
		t.Helper()
		n.ask(t, method, path, body).denied(400, "invalid_request", text)
	}
	const again = ": the stored value was given for another host and is not sent to this one: give it again"

	t.Run("key_and_headers_of_a_connection", func(t *testing.T) {
		agent := n.newAgent(t, object1{"name": "Moves", "config": connection(own.URL, object1{"apiKey": "K1", "headers": object1{"X-Key": "H1"}})})
		refused(t, "PATCH", "/agents/"+agent, object1{"config": connection(stranger.URL, nil)}, "connection.apiKey"+again)
		refused(t, "PATCH", "/agents/"+agent, object1{"config": connection(strings.Replace(own.URL, "http:", "https:", 1), nil)}, "connection.apiKey"+again)
		refused(t, "PATCH", "/agents/"+agent, object1{"config": connection(stranger.URL, object1{
			"apiKey": nil, "headers": object1{"X-Key": "********"},
		})}, "connection.headers.X-Key"+again)
		n.done(t, "PATCH", "/agents/"+agent, object1{"config": connection(own.URL+"/other", object1{"headers": object1{"X-Key": "********"}})})
		n.reply(t, "/agents/responses", object1{"model": agent, "input": "hi"})
		require.Equal(t, []string{"Bearer K1H1"}, own.heard())

		// Neither version has the other's.
		n.done(t, "POST", "/agents/"+agent+"/publish", nil)
		n.done(t, "PATCH", "/agents/"+agent, object1{"config": connection(stranger.URL, object1{"apiKey": "K2"})})
		n.done(t, "POST", "/agents/"+agent+"/publish", nil)
		n.reply(t, "/agents/responses", object1{"model": agent, "input": "hi", "version": 1})
		n.reply(t, "/agents/responses", object1{"model": agent, "input": "hi"})
		require.Equal(t, [][]string{{"Bearer K1H1"}, {"Bearer K2"}}, [][]string{own.heard(), stranger.heard()})

		// Nor does a redirect carry them away.
		away := n.newAgent(t, object1{"name": "Sent away", "config": connection(own.URL+"/away/", object1{
			"apiKey": "K1", "headers": object1{"X-Key": "H1", "X-Away": stranger.URL + "/chat/completions"},
		})})
		n.reply(t, "/agents/responses", object1{"model": away, "input": "hi"})
		require.Equal(t, [][]string{{"Bearer K1H1"}, {""}}, [][]string{own.heard(), stranger.heard()})
	})
	t.Run("headers_of_tools_and_servers", func(t *testing.T) {
		config := func(tool, server, value string) object1 {
			headers := object1{"X-Key": value}
			return object1{"config": object1{
				"modelKey": "scripted", "tools": []any{object1{"name": "t", "url": tool, "headers": headers}},
				"mcpServers": []any{object1{"name": "s", "url": server, "headers": headers}},
			}}
		}
		first := config(own.URL+"/t", own.URL+"/s", "H1")
		first["name"] = "Equipped"
		agent := n.newAgent(t, first)
		refused(t, "PATCH", "/agents/"+agent, config(stranger.URL, own.URL, "********"), "tools.t.headers.X-Key"+again)
		refused(t, "PATCH", "/agents/"+agent, config(own.URL, stranger.URL, "********"), "mcpServers.s.headers.X-Key"+again)
		n.done(t, "PATCH", "/agents/"+agent, config(own.URL, own.URL+"/x", "********"))
		n.done(t, "PATCH", "/agents/"+agent, config(stranger.URL, stranger.URL, "H2"))
	})
	t.Run("credential_of_a_provider", func(t *testing.T) {
		n.done(t, "POST", "/models/providers", object1{
			"key": "vault", "driver": "openai", "settings": object1{"baseUrl": own.URL + "/v1"}, "credentials": object1{"apiKey": "K3"},
		})
		with := object1{"credentialProviderKey": "vault"}
		const elsewhere = `config: connection.url is not on the host of provider "vault", whose credential is sent nowhere else`
		refused(t, "POST", "/agents", object1{"name": "Thief", "config": connection(stranger.URL, with)}, elsewhere)
		agent := n.newAgent(t, object1{"name": "Keyed", "config": connection(own.URL+"/agent", with)})
		refused(t, "PATCH", "/agents/"+agent, object1{"config": connection(stranger.URL, with)}, elsewhere)
		n.reply(t, "/agents/responses", object1{"model": agent, "input": "hi"})
		require.Equal(t, []string{"Bearer K3"}, own.heard())

		// The provider moves: its new key is nothing for the old host.
		n.done(t, "POST", "/agents/"+agent+"/publish", nil)
		n.done(t, "PATCH", "/models/providers/vault", object1{"settings": object1{"baseUrl": stranger.URL}, "credentials": object1{"apiKey": "K4"}})
		failed := n.ask(t, "POST", "/agents/responses", object1{"model": agent, "input": "hi"})
		require.Contains(t, failed.text, `model \"vault\"`)
		require.NotContains(t, failed.text, "completed")
		require.Empty(t, own.heard())
		require.Empty(t, stranger.heard())
	})
}
