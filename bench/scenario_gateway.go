package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/valyala/fasthttp"
)

// quickAnswer is the model server's response to every request.
const quickAnswer = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"quick","choices":[{"index":0,"finish_reason":"stop",` +
	`"message":{"role":"assistant","content":"pong"}}],"usage":{"prompt_tokens":50,"completion_tokens":1,"total_tokens":51}}`

// quickModel is a model server that answers as quickly as possible, so that it does not dominate the measurement.
type quickModel struct {
	url    string
	server *fasthttp.Server
	busy   sync.WaitGroup
}

func startQuickModel(ctx context.Context) (*quickModel, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	m := &quickModel{url: "http://" + listener.Addr().String(), server: &fasthttp.Server{
		CloseOnShutdown: true,
		Handler: func(rc *fasthttp.RequestCtx) {
			rc.SetContentType("application/json")
			rc.SetBodyString(quickAnswer)
		},
	}}
	m.busy.Go(func() {
		_ = m.server.Serve(listener) // ends with close, which says no more than that
	})
	return m, nil
}

func (m *quickModel) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = m.server.ShutdownWithContext(ctx) // connections that idle are cut with the process
	m.busy.Wait()
}

// recordModel creates the records of a provider at a base URL and of its model, of a category and with prices, and returns the model's key.
func recordModel(c *client, url, category string, pricing map[string]any) (string, error) {
	key := "bench-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, r := range []struct {
		path string
		body map[string]any
	}{
		{"/models/providers", map[string]any{"key": key, "driver": "openai", "settings": map[string]any{"baseUrl": url}}},
		{"/models", map[string]any{
			"key": key, "name": "Bench", "providerKey": key, "category": category, "modelId": "quick", "pricing": pricing, "settings": map[string]any{},
		}},
	} {
		body, err := json.Marshal(r.body)
		if err == nil {
			err = c.call("POST", r.path, body, 201, nil)
		}
		if err != nil {
			return "", fmt.Errorf("POST %s: %w", r.path, err)
		}
	}
	return key, nil
}

// runGateway calls a model server through the gateway and directly, in turns, at the same rate and with the same body.
func runGateway(ctx context.Context, o *Options, live *progress) (*Report, error) {
	model, err := startQuickModel(ctx)
	if err != nil {
		return nil, err
	}
	defer model.close() //nolint:contextcheck // cleaning up must not end with the caller
	through, err := newClientAPI(o)
	if err != nil {
		return nil, err
	}
	defer through.close()
	direct, err := newClientAt(o, []string{model.url}, "/v1")
	if err != nil {
		return nil, err
	}
	defer direct.close()
	key, err := recordModel(through, model.url+"/v1", "llm", map[string]any{"inputTokenPer1M": 1, "outputTokenPer1M": 2})
	if err != nil {
		return nil, err
	}
	body := fmt.Appendf(nil, `{"model":%q,"messages":[{"role":"user","content":"ping%s"}]}`, key, strings.Repeat(" ping", o.MessageBytes/len(" ping")))
	pong := []byte(`"pong"`)
	calls := func(c *client) operation {
		return func(int, int) error {
			return c.call("POST", "/chat/completions", body, 200, func(answer []byte) error {
				if !bytes.Contains(answer, pong) {
					return &callError{Status: 200, Code: "bad answer"}
				}
				return nil
			})
		}
	}
	straight, gateway := &rival{name: "direct", op: calls(direct)}, &rival{name: "gateway", op: calls(through)}
	if err = contest(ctx, o, live, []*rival{straight, gateway}); err != nil {
		return nil, err
	}
	report := contestReport(o, []*rival{straight, gateway})
	d, g := report.Latencies[straight.name], report.Latencies[gateway.name]
	report.Numbers["added by the gateway, p50 ms"] = g.P50 - d.P50
	report.Numbers["added by the gateway, p99 ms"] = g.P99 - d.P99
	added := make([]float64, len(gateway.p99s))
	for i, p99 := range gateway.p99s {
		added[i] = p99 - straight.p99s[i]
	}
	slices.Sort(added)
	report.Numbers["added by the gateway, p99 ms, median of slices"] = added[len(added)/2]
	return report, nil
}
