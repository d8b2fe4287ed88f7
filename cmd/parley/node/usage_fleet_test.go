package node

import (
	"context"
	"encoding/json"
	"fmt"
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

// TestUsageOfAllNodes: every node adds up the same usage of 90 days over HTTP. PARLEY_USAGE_ROWS=1000000 measures what that costs among
// so many rows, of each group (issue 15: p99 <= 100 ms).
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
	f.eventually("meters can be given usage", 60*time.Second, func() bool {
		for _, n := range f.nodes {
			if !n.features.On(feature.Meters) {
				return false
			}
		}
		return true
	})
	until := time.Now().UTC().Truncate(24 * time.Hour)
	began := time.Now()
	rows := f.use(count, until)
	t.Logf("%d rows in %v", rows, time.Since(began).Round(time.Millisecond))
	span := "from=" + until.AddDate(0, 0, -usedDays).Format(time.DateOnly) + "&to=" + until.AddDate(0, 0, -1).Format(time.DateOnly)
	for query, total := range map[string]string{
		"group_by=model&interval=day": "calls", "group_by=model&interval=hour": "calls", "group_by=user": "requests", "group_by=agent": "requests",
	} {
		var took []time.Duration
		for i := range 3 * times {
			n := f.nodes[fmt.Sprint("n", i%3+1)]
			var totals map[string]float64
			f.eventually(query+" is answered", 60*time.Second, func() bool {
				start := time.Now()
				var status int
				status, totals = usageTotalsOf(t, n, secret, span+"&"+query)
				if status == http.StatusOK {
					took = append(took, time.Since(start))
				}
				return status == http.StatusOK // the token may not be known everywhere yet
			})
			require.InDelta(t, 3*rows, totals[total], 0, query)
			require.InDelta(t, 3300*rows, totals["total_tokens"], 0, query)
		}
		slices.Sort(took)
		t.Logf("%s: %d queries over %d rows, p50 %v, p99 %v, max %v", query, len(took), rows, took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	}
}

// usageTotalsOf asks a node for usage.
func usageTotalsOf(t *testing.T, n *Node, secret, query string) (status int, totals map[string]float64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+n.Addr().String()+"/api/client/v1/analytics/usage?"+query, nil)
	require.NoError(t, err)
	request.Header.Set("Authorization", "Bearer "+secret)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer func() { _ = response.Body.Close() }() // it was read
	var answer struct {
		Totals map[string]float64 `json:"totals"`
	}
	require.NoError(t, json.NewDecoder(response.Body).Decode(&answer))
	return response.StatusCode, answer.Totals
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
