package aegis_test

import (
	"context"
	"encoding/json"
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
