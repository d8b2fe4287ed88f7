package aegis_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/aegis"
)

// BenchmarkEvaluate judges calls of 4 KB by rules and DLP for 64 callers at once, each of which has something else to do between two: how
// long each waits.
func BenchmarkEvaluate(b *testing.B) {
	const (
		callers = 64
		pause   = 50 * time.Millisecond
	)
	record := aegis.Default("t", "p")
	record.Rules = []byte(`{"deny":["shell"],"deniedDomains":["evil.example"],"allowedPathPrefixes":["/srv"],"limits":{"maxArgBytes":8192}}`)
	shield, wrong := aegis.Of(record)
	require.Nil(b, wrong)
	text, err := json.Marshal(map[string]string{"text": strings.Repeat("The quick brown fox, order 48151623, of https://docs.example.com/page at 10:30. ", 49) + "Card 4111 1111 1111 1111, me@corp.com."})
	require.NoError(b, err)
	ports := aegis.Ports{Approved: func(context.Context) (bool, error) { return false, nil }}
	var mu sync.Mutex
	took := make([]time.Duration, 0, b.N)
	next := make(chan struct{}, b.N)
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	b.ResetTimer()
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			var own []time.Duration
			for range next {
				<-time.After(pause/2 + rand.N(pause))
				begun := time.Now()
				if _, err := shield.Evaluate(b.Context(), &aegis.Call{Stage: aegis.ToolPre, Type: "tool", Name: "lookup", Arguments: text}, ports); err != nil {
					b.Error(err)
				}
				own = append(own, time.Since(begun))
			}
			mu.Lock()
			took = append(took, own...)
			mu.Unlock()
		})
	}
	group.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
}

// BenchmarkStream takes an answer that comes in pieces as models send them, a word or a part of one: the time is that of a piece.
func BenchmarkStream(b *testing.B) {
	record := aegis.Default("t", "p")
	shield, wrong := aegis.Of(record)
	require.Nil(b, wrong)
	for name, text := range map[string]string{
		"prose": "The order of yesterday was sent to the house at the end of the road, and nobody was there to take it. ",
		"code":  "for i := 0; i < len(items); i++ {\n\ttotal += items[i].price * 1.18 // with tax, see https://docs.example.com/tax#7\n}\n",
		"data":  "Call +90 532 123 45 67 or write to jane.doe@corp.example.com, order 48151623, card 4111 1111 1111 1111. ",
	} {
		b.Run(name, func(b *testing.B) {
			var pieces []string
			for rest := strings.Repeat(text, 10); rest != ""; {
				at := 1 + strings.IndexAny(rest[1:]+" ", " ")
				pieces, rest = append(pieces, rest[:at]), rest[at:]
			}
			b.ReportAllocs()
			for b.Loop() {
				stream := shield.Stream()
				for _, piece := range pieces {
					stream.Write(piece)
				}
				stream.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(pieces)), "ns/piece")
		})
	}
}

// BenchmarkHosts judges as many hosts as 30 KB name, by as many domains as a shield has.
func BenchmarkHosts(b *testing.B) {
	var rules aegis.Rules
	for i := range 100 {
		rules.AllowedDomains = append(rules.AllowedDomains, fmt.Sprintf("*.d%d.example.com", i))
	}
	var text strings.Builder
	for i := range 3_000 {
		fmt.Fprintf(&text, "//%x.com ", i)
	}
	judge := shield(func(s *aegis.Shield) { s.Rules = rules })
	call := tool("fetch", `{"note":"`+text.String()+`"}`)
	for b.Loop() {
		_, err := judge.Evaluate(b.Context(), &call, aegis.Ports{})
		require.NoError(b, err)
	}
}
