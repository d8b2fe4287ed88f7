package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/valyala/fasthttp"
)

// BenchmarkOverhead measures what the gateway adds to a call of a local model server: the same body, 500 a second, directly
// and through, in turns. It reports both p50s and p99s; the difference is the overhead.
func BenchmarkOverhead(b *testing.B) {
	for _, size := range []int{200, 10_000} {
		b.Run(fmt.Sprintf("body=%d", size), func(b *testing.B) {
			k := serve(b, says(200, answer))
			// The yardstick is as quick as a server can be, so that it is the gateway that shows.
			listener, err := new(net.ListenConfig).Listen(b.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			server := &fasthttp.Server{IdleTimeout: 5 * time.Second, Handler: func(rc *fasthttp.RequestCtx) {
				rc.SetContentType("application/json")
				rc.SetBodyString(answer)
			}}
			go func() { _ = server.Serve(listener) }()
			defer func() { _ = listener.Close() }() // its connections end when they are idle
			k.moved("http://" + listener.Addr().String())
			k.client.Transport = &http.Transport{MaxIdleConnsPerHost: 64}
			body := `{"model":"relayed","messages":[{"role":"user","content":"` + strings.Repeat("hello ", size/6) + `"}]}`
			direct := "http://" + listener.Addr().String() + "/v1/chat/completions"
			var waits [2][]time.Duration
			for b.Loop() {
				for i, address := range []string{direct, k.url + "/chat/completions"} {
					waits[i] = append(waits[i], k.paced(address, body, 500)...)
				}
			}
			for i, name := range []string{"direct", "through"} {
				slices.Sort(waits[i])
				at := func(share float64) float64 {
					return float64(waits[i][int(share*float64(len(waits[i])-1))].Microseconds()) / 1000
				}
				b.ReportMetric(at(0.5), name+"-p50-ms")
				b.ReportMetric(at(0.99), name+"-p99-ms")
			}
		})
	}
}

// paced makes one second of calls at a fixed rate and returns how long each took.
func (k *kit) paced(address, body string, rate int) []time.Duration {
	waits := make([]time.Duration, rate)
	var calls sync.WaitGroup
	start := time.Now()
	for i := range rate {
		due := start.Add(time.Duration(i) * time.Second / time.Duration(rate))
		<-time.After(time.Until(due))
		calls.Go(func() {
			began := time.Now()
			request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, address, bytes.NewBufferString(body))
			if err != nil {
				k.t.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer me")
			response, err := k.client.Do(request)
			if err != nil {
				k.t.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
			if response.StatusCode != http.StatusOK {
				k.t.Error(response.Status)
			}
			waits[i] = time.Since(began)
		})
	}
	calls.Wait()
	return waits
}

// BenchmarkStream is the cost of one chunk on its way through.
func BenchmarkStream(b *testing.B) {
	const chunks = 1000
	events := make([]string, chunks)
	for i := range events {
		events[i] = fmt.Sprintf(`{"id":"c","created":5,"choices":[{"index":0,"delta":{"content":"word %d "},"finish_reason":null}]}`, i)
	}
	raw := "data: " + strings.Join(events, "\n\ndata: ") + "\n\ndata: [DONE]\n\n"
	k := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, raw)
	})
	b.ReportAllocs()
	for b.Loop() {
		status, _, body := k.post("/chat/completions", streamedHello)
		if status != 200 || strings.Count(body, "word") != chunks {
			b.Fatal(status, len(body))
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/chunks, "ns/chunk")
}
