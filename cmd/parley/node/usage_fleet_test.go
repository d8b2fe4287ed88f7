package node

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/feature"
	"parley/actors/core/identity"
	"parley/actors/machine"
	"parley/actors/meter"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/ids"
	"parley/proto/logpb"
	"parley/proto/meterpb"
)

// usedDays is how many days of usage there are.
const usedDays = 90

// TestUsageIsPackedTogether: no shard has packs before every node can read them, and none of a day that may still go on.
func TestUsageIsPackedTogether(t *testing.T) {
	n := &Node{features: feature.NewGate(feature.PackedUsage - 1)}
	now := time.Date(2026, 11, 28, 1, 0, 0, 0, time.UTC)
	require.Empty(t, n.packUsage(now).Before)
	n.features.Raise(feature.PackedUsage)
	require.Equal(t, machine.UsageHour(now.AddDate(0, 0, -1).UnixMilli()-3_600_000), n.packUsage(now).Before)
	require.Equal(t, machine.UsageHour(now.UnixMilli()-3_600_000), n.packUsage(now.Add(time.Hour)).Before)
}

// TestUsageOfAllNodes: every node adds up the same usage of 90 days over HTTP, before it is packed and afterwards, wherever a span begins
// and ends, and with what came late. PARLEY_USAGE_ROWS=1000000 measures what that costs among so many rows, of each group (issue 15: p99 <= 100 ms).
func TestUsageOfAllNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	count, times, measures := 2*usedDays*24, 1, false
	if n, err := strconv.Atoi(os.Getenv("PARLEY_USAGE_ROWS")); err == nil {
		count, times, measures = n, 40, true
	}
	secret := "tok_" + strings.Repeat("u", 40)
	f := newFleetWith(t, func(_ string, c *config.Config) {
		if c.BootstrapToken = config.Secret(secret); measures {
			c.Storage = config.Default().Storage
		}
	}, "n1", "n2", "n3")
	f.grown()
	f.eventually("meters can be given usage, and packed", 60*time.Second, func() bool {
		for _, n := range f.nodes {
			if !n.features.On(feature.PackedUsage) {
				return false
			}
		}
		return true
	})
	until := time.Now().UTC().Add(-2 * time.Hour).Truncate(24 * time.Hour)
	began := time.Now()
	rows := f.use(count, until)
	t.Logf("%d rows in %v", rows, time.Since(began).Round(time.Millisecond))
	from := until.AddDate(0, 0, -usedDays)
	whole := "from=" + from.Format(time.DateOnly) + "&to=" + until.AddDate(0, 0, -1).Format(time.DateOnly)
	part := "from=" + from.Add(5*time.Hour).Format(time.RFC3339) + "&to=" + from.Add(53*time.Hour).Format(time.RFC3339)
	groups := map[string]string{
		"group_by=model&interval=day": "calls", "group_by=model&interval=hour": "calls", "group_by=user": "requests", "group_by=agent": "requests",
	}
	answers := map[string]string{}
	for query, total := range groups {
		answers[query] = f.measured(secret, whole+"&"+query, rows, 3)
		answers[part+query] = f.measured(secret, part+"&"+query, rows, 1)
		totals := usageTotals(t, answers[query])
		require.InDelta(t, 3*rows, totals[total], 0, query)
		require.InDelta(t, 3300*rows, totals["total_tokens"], 0, query)
	}
	began = time.Now()
	f.packed()
	t.Logf("packed in %v", time.Since(began).Round(time.Millisecond))
	for query := range groups {
		require.Equal(t, answers[query], f.measured(secret, whole+"&"+query, rows, 3*times), query)
		require.Equal(t, answers[part+query], f.measured(secret, part+"&"+query, rows, 3), query)
	}
	if measures {
		return
	}
	rows += f.use(count, until) // the same again, late: beside the packs, and in them
	for range 2 {
		for query, total := range groups {
			require.InDelta(t, 3*rows, usageTotals(t, f.measured(secret, whole+"&"+query, rows, 3))[total], 0, query)
		}
		f.packed()
	}
}

// packed has the owners of all shards pack usage, as their sweeps do.
func (f *fleet) packed() {
	f.t.Helper()
	var packing sync.WaitGroup
	for in := 1; in <= f.nodes["n1"].shards.Count(); in++ {
		packing.Go(func() {
			for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); <-time.After(100 * time.Millisecond) {
				for _, n := range f.nodes {
					if n.store.PackSums(f.t.Context(), uint32(in), n.packUsage(time.Now())) == nil {
						return
					}
				}
			}
			f.t.Errorf("shard %d was not packed", in)
		})
	}
	packing.Wait()
}

// measured asks the nodes in turn, so many times, and returns the answer, which is the same of all.
func (f *fleet) measured(secret, query string, rows, times int) (answer string) {
	f.t.Helper()
	var took []time.Duration
	for i := range times {
		n := f.nodes[fmt.Sprint("n", i%3+1)]
		f.eventually(query+" is answered", 60*time.Second, func() bool {
			start := time.Now()
			status, body := usageOf(f.t, n, secret, query)
			if status != http.StatusOK {
				return false // the token may not be known everywhere yet
			}
			took = append(took, time.Since(start))
			if answer == "" {
				answer = body
			}
			require.Equal(f.t, answer, body, query)
			return true
		})
	}
	slices.Sort(took)
	f.t.Logf("%s: %d queries over %d rows, p50 %v, p99 %v, max %v", query, len(took), rows, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	return answer
}

// usageOf asks a node for usage.
func usageOf(tb testing.TB, n *Node, secret, query string) (status int, body string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr().String()+"/api/client/v1/analytics/usage?"+query, nil)
	require.NoError(tb, err)
	request.Header.Set("Authorization", "Bearer "+secret)
	response, err := http.DefaultClient.Do(request)
	require.NoError(tb, err)
	defer func() { _ = response.Body.Close() }() // it was read
	read, err := io.ReadAll(response.Body)
	require.NoError(tb, err)
	return response.StatusCode, string(read)
}

func usageTotals(t *testing.T, answer string) map[string]float64 {
	t.Helper()
	var usage struct {
		Totals map[string]float64 `json:"totals"`
	}
	require.NoError(t, json.Unmarshal([]byte(answer), &usage))
	return usage.Totals
}

// use has meters of every shard count rows of the days before a time, as nodes give them theirs: batch after batch. It returns how many.
// An hour has as many users, each with a token of their own, as make up the rows.
func (f *fleet) use(rows int, until time.Time) int {
	f.t.Helper()
	const hours = usedDays * 24
	users := max(rows/hours, 1)
	n := f.nodes["n1"]
	sums := make(chan *logpb.Sum)
	var counting sync.WaitGroup
	for in := 1; in <= n.shards.Count(); in++ {
		counting.Go(func() {
			id, batch := ids.NewForShards(n.shards).NewID(meter.Prefix, uint32(in)), []*logpb.Sum(nil)
			for number := uint64(1); ; number++ {
				for batch = batch[:0]; len(batch) < meter.MaxRows; {
					sum, more := <-sums
					if !more {
						break
					}
					batch = append(batch, sum)
				}
				if len(batch) == 0 {
					return
				}
				for tries := 1; ; tries++ { // a batch that is given again is not counted again
					_, err := entity.Ask[proto.Message](f.t.Context(), &client{n}, id, &meterpb.Command{
						Id: id, Body: &meterpb.Command_Count{Count: &meterpb.Count{Batch: number, Sums: batch}},
					})
					if err == nil {
						break
					}
					if tries == 20 {
						f.t.Errorf("count: %v", err)
						return
					}
					<-time.After(100 * time.Millisecond)
				}
			}
		})
	}
	for i := range hours * users {
		at, user := until.Add(time.Duration(i/users-hours)*time.Hour), i%users
		sums <- machine.UsageSum(identity.DefaultTenant, identity.DefaultProject, at.UnixMilli(), machine.UsageKey{
			Model: fmt.Sprint("model-", user%5), User: fmt.Sprintf("usr_%016d", user), Token: fmt.Sprintf("tok_%016d", user), Service: "agents", Agent: "helper",
		}, machine.UsageNumbers{machine.UsageRequests: 3, machine.UsageInputTokens: 3000, machine.UsageOutputTokens: 300, machine.UsageCostNanoUSD: 15_000_000})
	}
	close(sums)
	counting.Wait()
	return hours * users
}
