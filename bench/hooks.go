package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
)

// hookSecret seals the secrets of endpoints on all nodes that the harness starts.
const hookSecret = "PARLEY_PROVIDER_ENCRYPTION_SECRET=of-all-nodes-of-a-benchmark-0123456789"

// hookEvent is an event as a receiver hears it.
type hookEvent struct {
	endpoint     int
	id           string
	conversation string
	end          uint64 // what a turn's end is known by, in its log too
	told, heard  time.Time
}

// turnEnd is what a turn's end is known by: when and how its conversation became idle.
func turnEnd(createdAt, stopReason string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, createdAt+" "+stopReason) // a hash takes everything
	return h.Sum64()
}

// hookReceiver is the receivers of all endpoints of a run, on this machine. Each endpoint has a path of its own.
type hookReceiver struct {
	url    string
	server *fasthttp.Server
	take   func(hookEvent) // what a scenario does with each; called at once for several
	posts  atomic.Int64
	heard  []atomic.Int64 // by endpoint, repetitions too
	silent []atomic.Bool  // takes the connection and answers nothing
	closed chan struct{}
}

// silence is how long a silent receiver holds a connection: longer than any attempt waits.
const silence = 15 * time.Second

func newHookReceiver(ctx context.Context, endpoints int, take func(hookEvent)) (*hookReceiver, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for webhooks: %w", err)
	}
	r := &hookReceiver{
		url: "http://" + listener.Addr().String() + "/", take: take, closed: make(chan struct{}),
		heard: make([]atomic.Int64, endpoints), silent: make([]atomic.Bool, endpoints),
	}
	r.server = &fasthttp.Server{Handler: r.serve, NoDefaultServerHeader: true}
	go func() { _ = r.server.Serve(listener) }() // ends with close
	return r, nil
}

func (r *hookReceiver) close() {
	close(r.closed)
	_ = r.server.Shutdown() // nobody is waited for
}

func (r *hookReceiver) serve(x *fasthttp.RequestCtx) {
	heard := time.Now()
	endpoint, err := strconv.Atoi(strings.TrimPrefix(string(x.Path()), "/"))
	if err != nil || endpoint < 0 || endpoint >= len(r.heard) {
		x.SetStatusCode(http.StatusNotFound)
		return
	}
	if r.silent[endpoint].Load() {
		timer := time.NewTimer(silence)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.closed:
		}
		x.SetStatusCode(http.StatusServiceUnavailable)
		return
	}
	body := x.PostBody()
	r.posts.Add(1)
	r.heard[endpoint].Add(1)
	if r.take != nil {
		createdAt := textOf(body, `"createdAt":"`)
		told, _ := time.Parse(time.RFC3339, createdAt) // its order is compared with the log's anyway
		r.take(hookEvent{
			endpoint: endpoint, id: textOf(body, `"id":"`), conversation: textOf(body, `"conversationId":"`),
			end: turnEnd(createdAt, textOf(body, `"stopReason":"`)), told: told, heard: heard,
		})
	}
	x.SetStatusCode(http.StatusNoContent)
}

// hookTenant is a company whose owner manages endpoints.
type hookTenant struct {
	api       *client
	endpoints []string
}

// newHookTenant makes a tenant by the first node's ops listener.
func newHookTenant(ctx context.Context, o *Options, name string) (*hookTenant, error) {
	var made struct{ OwnerID string }
	slug := fmt.Sprintf("%s-%d", name, time.Now().UnixNano())
	if err := operate(ctx, o, "/v1/tenants", map[string]string{"name": name, "slug": slug, "tier": "ON_PREMISE"}, &made); err != nil {
		return nil, err
	}
	var token struct{ Token string }
	if err := operate(ctx, o, "/v1/tokens", map[string]string{"userId": made.OwnerID, "label": "bench"}, &token); err != nil {
		return nil, err
	}
	own := *o
	own.Token = token.Token
	api, err := newClientAPI(&own)
	return &hookTenant{api: api}, err
}

// operate gives a command of operators.
func operate(ctx context.Context, o *Options, path string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, o.Ops[0]+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to its end
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s: %s", path, errorCode(response.StatusCode, answer))
	}
	return json.Unmarshal(answer, into)
}

// hear makes an endpoint at a receiver's path.
func (h *hookTenant) hear(r *hookReceiver, endpoint int, events string) error {
	body := fmt.Appendf(nil, `{"url":"%s%d","events":[%q]}`, r.url, endpoint, events)
	return h.api.call("POST", "/webhooks", body, 201, func(answer []byte) error {
		var made struct{ Endpoint struct{ ID string } }
		if err := json.Unmarshal(answer, &made); err != nil {
			return err
		}
		h.endpoints = append(h.endpoints, made.Endpoint.ID)
		return nil
	})
}

// known waits until every node knows all of the tenant's endpoints.
func (h *hookTenant) known(ctx context.Context) error {
	for host := range h.api.hosts {
		for {
			count := 0
			_, err := h.api.attempt(host, &request{method: "GET", path: "/webhooks", want: 200, read: func(answer []byte) error {
				count = bytes.Count(answer, []byte(`"id":"`))
				return nil
			}})
			if err == nil && count == len(h.endpoints) {
				break
			}
			if !sleepUntil(ctx, time.Now().Add(20*time.Millisecond)) {
				return ctx.Err()
			}
		}
	}
	return nil
}

// sessions makes conversations.
func (h *hookTenant) sessions(ctx context.Context, live *progress, n int) ([]string, error) {
	ids := make([]string, n)
	body := fmt.Appendf(nil, `{"agent":%q}`, h.api.options.Agent)
	err := prepare(ctx, live, "creating sessions", n, func(i int) error {
		return h.api.call("POST", "/agents/sessions", body, 201, func(answer []byte) error {
			id, _, ok := nextSession(answer)
			if !ok {
				return errBadPage
			}
			ids[i] = id
			return nil
		})
	})
	return ids, err
}

// turn has one turn in a conversation.
func (h *hookTenant) turn(session string) error {
	return h.api.call("POST", "/agents/responses", h.turnBody(session), 200, answered)
}

func (h *hookTenant) turnBody(session string) []byte {
	return fmt.Appendf(nil, `{"model":%q,"input":"ping","session_id":%q}`, h.api.options.Agent, session)
}

// health is an endpoint's status and since when it fails, and how many of its deliveries have failed.
func (h *hookTenant) health(endpoint string) (status, failingSince string, err error) {
	err = h.api.call("GET", "/webhooks/"+endpoint, nil, 200, func(answer []byte) error {
		status, failingSince = textOf(answer, `"status":"`), textOf(answer, `"failingSince":"`)
		return nil
	})
	return status, failingSince, err
}

// deliveries counts an endpoint's deliveries of a status, up to a number.
func (h *hookTenant) deliveries(endpoint, status string, most int) (n int, err error) {
	const page, deepest = 100, 10_000 // no page begins further on
	for more := true; more && n < min(most, deepest); {
		more = false
		path := fmt.Sprintf("/webhooks/%s/deliveries?status=%s&limit=%d&skip=%d", endpoint, status, page, n)
		err = h.api.call("GET", path, nil, 200, func(answer []byte) error {
			var found struct {
				Deliveries []struct{ ID string }
				HasMore    bool
			}
			if failed := json.Unmarshal(answer, &found); failed != nil {
				return failed
			}
			n += len(found.Deliveries)
			more = found.HasMore && len(found.Deliveries) > 0
			return nil
		})
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// awaitPosts waits until as many posts have come, and returns how many did.
func (r *hookReceiver) awaitPosts(ctx context.Context, many int64, within time.Duration) int64 {
	deadline := time.Now().Add(within)
	for r.posts.Load() < many && time.Now().Before(deadline) {
		if !sleepUntil(ctx, time.Now().Add(5*time.Millisecond)) {
			break
		}
	}
	return r.posts.Load()
}

// waits is latencies that several goroutines record.
type waits struct {
	mu    sync.Mutex
	tally *tally
}

func newWaits() *waits { return &waits{tally: newTally()} }

func (w *waits) add(took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.add(nil, took)
}

func (w *waits) latency() Latency {
	w.mu.Lock()
	defer w.mu.Unlock()
	return latency(w.tally.latency)
}
