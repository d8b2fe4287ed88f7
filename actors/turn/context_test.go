package turn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"parley/actors/deliver"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
)

// opened is an Opener of what this test sealed: the text behind what it is about.
func opened(sealed []byte, about string) ([]byte, error) {
	text, ours := strings.CutPrefix(string(sealed), about+"\n")
	if !ours {
		return nil, errors.New("encrypted with another secret")
	}
	return []byte(text), nil
}

func sealed(text string) []byte {
	if text == "" {
		return nil
	}
	return []byte(conversationpb.ContextAbout("conv_1") + "\n" + text)
}

// withContext starts a turn of the bench with runtime contexts.
func (b *bench) withContext(t *testing.T, conversation, turn []byte) *conversationpb.Finish {
	t.Helper()
	job := b.book.on(b.job())
	job.RunID, job.RuntimeContext, job.TurnContext, job.ByUser, job.ByToken = b.runID, conversation, turn, "ada", "tok_1"
	require.NoError(t, b.Start(job))
	return <-b.reports
}

// A tool is sent what the turn's caller hands to it, the turn's own over the conversation's, at every model call.
func TestContextReachesTools(t *testing.T) {
	b := newBench(t, asks("", "c1 read {}"), asks("", "c2 read {}", "c3 write {}"), says("done"))
	b.agent.Tools[0].Http.RuntimeHeaders = &agentpb.RuntimeHeaders{Allow: true}
	b.renew(t, func(c *Config) { c.Open = opened })
	seen := make(chan string, 10)
	b.shop.hook = func(name string, request *http.Request) (int, string) {
		seen <- name + " " + request.Header.Get("X-A") + request.Header.Get("X-B") + request.Header.Get("X-C")
		return http.StatusOK, "ok"
	}
	finish := b.withContext(t, sealed(`{"headers":{"X-A":"a","X-B":"b"},"connections":{"tool:read":{"headers":{"X-C":"c"}}}}`),
		sealed(`{"headers":{"x-b":"B"}}`))
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.Equal(t, "read aBc", <-seen)
	require.ElementsMatch(t, []string{"read aBc", "write "}, []string{<-seen, <-seen})
}

// A context that cannot be opened ends the turn: without it the tools would be asked on nobody's behalf.
func TestContextThatCannotBeOpened(t *testing.T) {
	const secret = "header-value-0815"
	for name, row := range map[string]struct {
		conversation, turn []byte
		open               Opener
	}{
		"other secret of the conversation": {[]byte("elsewhere\n{}"), nil, opened},
		"other secret of the turn":         {sealed(`{}`), []byte("elsewhere\n{}"), opened},
		"damaged":                          {sealed(`{"headers":{"X-A":["` + secret + `"]}}`), nil, opened},
		"no opener":                        {sealed(`{}`), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var log bytes.Buffer
			b := newBench(t, says("never said"))
			b.renew(t, func(c *Config) { c.Open, c.Logger = row.open, slog.New(slog.NewTextHandler(&log, nil)) })
			finish := b.withContext(t, row.conversation, row.turn)
			require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
			require.Equal(t, "runtime_context_unavailable", finish.GetError().GetCode())
			require.Contains(t, finish.GetError().GetMessage(), "another encryption secret")
			require.Empty(t, finish.GetContent())
			require.Empty(t, b.talks.requests)
			require.Contains(t, log.String(), "runtime context")
			require.NotContains(t, log.String()+finish.GetError().GetMessage(), secret)
		})
	}
	b := newBench(t, says("no context, no opener"))
	finish := b.withContext(t, nil, []byte{})
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
}

// A turn of a connected agent: its history, the caller's header fields, its usage, its title, its failure.
func TestConnectedTurn(t *testing.T) {
	var got []string
	status := http.StatusOK
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Header.Get("Authorization")+" "+r.Header.Get("X-Tenant")+" "+string(body))
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"as `+r.Header.Get("X-Tenant")+`"}}],"usage":{"prompt_tokens":3,"completion_tokens":2}}`)
	}))
	t.Cleanup(far.Close)
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	providers := model.New(model.Config{Guard: guard})
	t.Cleanup(providers.Close)
	agent := &agentpb.Agent{Id: "far", Experience: &agentpb.Experience{Titles: true}, Model: &agentpb.Model{
		Provider: agentpb.Provider_CONNECTED, Name: "m", Connection: &agentpb.Connection{
			Protocol: "openai-chat", Url: far.URL, Model: "m", ApiKey: "own",
			RuntimeHeaders: &agentpb.RuntimeHeaders{Allow: true, AllowedNames: []string{"x-tenant"}},
		},
	}}
	d := newDesk(t, nil, func(c *Config) {
		c.Providers, c.Open, c.Agents = providers, opened, agents{"a": agent}
		c.History = messages{
			{Number: 7, Role: conversationpb.Role_USER, Content: "first"},
			{Number: 8, Role: conversationpb.Role_ASSISTANT, Content: "second"},
		}
	})
	job := d.job()
	job.Untitled = true
	job.RuntimeContext = sealed(`{"headers":{"X-Tenant":"all","Authorization":"Bearer stolen"},"connections":{"agent:far":{"headers":{"X-Tenant":"acme"}}}}`)
	require.NoError(t, d.Start(job))
	finish := <-d.reports
	require.Equal(t, conversationpb.StopReason_END_TURN, finish.GetStopReason())
	require.Equal(t, "as acme", finish.GetContent())
	require.Equal(t, "hello", finish.GetTitle())
	require.Len(t, got, 1, "no other call is made")
	require.Equal(t, `Bearer own acme {"model":"m","messages":[{"role":"user","content":"first"},`+
		`{"role":"assistant","content":"second"},{"role":"user","content":"hello"}]}`, got[0])
	require.EqualValues(t, 3, finish.GetUsage().GetInputTokens())
	require.EqualValues(t, 1, finish.GetUsage().GetModelCalls())
	require.Equal(t, "m", finish.GetUsage().GetModel())

	status = http.StatusBadGateway
	job.RunID = "run_2"
	require.NoError(t, d.Start(job))
	finish = <-d.reports
	require.Equal(t, conversationpb.StopReason_ERROR, finish.GetStopReason())
	require.Contains(t, finish.GetError().GetMessage(), "External agent returned 502: ")
	require.NotContains(t, finish.GetError().GetMessage(), "Bearer")
}

// A turn that is cancelled stops waiting for its connected agent.
func TestConnectedTurnIsCancelled(t *testing.T) {
	asked, over := make(chan struct{}), make(chan struct{})
	far := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		select {
		case <-r.Context().Done():
		case <-over:
		}
	}))
	t.Cleanup(far.Close)
	t.Cleanup(func() { close(over) })
	guard := deliver.NewGuard(deliver.GuardConfig{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(guard.Close)
	providers := model.New(model.Config{Guard: guard})
	t.Cleanup(providers.Close)
	d := newDesk(t, nil, func(c *Config) {
		c.Providers = providers
		c.Agents = agents{"a": {Id: "a", Model: &agentpb.Model{
			Provider: agentpb.Provider_CONNECTED, Connection: &agentpb.Connection{Protocol: "a2a", Url: far.URL},
		}}}
	})
	require.NoError(t, d.Start(d.job()))
	<-asked
	d.Stop("run_1")
	require.Equal(t, conversationpb.StopReason_CANCELLED, (<-d.reports).GetStopReason())
	d.Drain(context.Background())
}
