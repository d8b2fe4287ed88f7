package node

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/core/entity"
	"parley/proto/conversationpb"
	"parley/proto/logpb"
)

// TestSessionsOfAllNodes: every node pages through the sessions of all. PARLEY_SESSIONS=100000 measures what a page of 100
// costs among so many.
func TestSessionsOfAllNodes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	count := 1000
	if n, err := strconv.Atoi(os.Getenv("PARLEY_SESSIONS")); err == nil {
		count = n
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	f.fill(count)
	for name, n := range f.nodes {
		took := make([]time.Duration, 0, count/100+1)
		next := count
		query := &conversationpb.SessionsQuery{TenantId: "t", ProjectId: "p", Anybody: true, Limit: 100}
		for {
			start := time.Now()
			page, err := entity.Read[*conversationpb.SessionsReply](t.Context(), &client{n}, query)
			took = append(took, time.Since(start))
			require.NoError(t, err)
			for _, s := range page.Sessions {
				next--
				require.EqualValues(t, next, s.GetCreatedAt())
			}
			if query.After = page.Next; page.Next == nil {
				break
			}
		}
		require.Zero(t, next)
		slices.Sort(took)
		t.Logf("%s: %d pages of %d sessions, p50 %v, p99 %v, max %v", name, len(took), count,
			took[len(took)/2], took[len(took)*99/100], took[len(took)-1])
	}
}

// fill makes sessions of a project, at all nodes at once.
func (f *fleet) fill(sessions int) {
	f.t.Helper()
	list := conversation.SessionList{TenantID: "t", ProjectID: "p"}.Name()
	next := make(chan int)
	var filling sync.WaitGroup
	for range 64 {
		filling.Go(func() {
			for i := range next {
				s := &conversationpb.State{
					Id: fmt.Sprintf("conv_%06d", i), TenantId: "t", ProjectId: "p", AgentId: "assistant", UserId: "ada", CreatedAt: int64(i),
					Title: "A session of the test", Metadata: []byte(`{"customer":"4711","channel":"web","locale":"de"}`),
				}
				head, err := proto.Marshal(s)
				if err != nil {
					f.t.Errorf("encode: %v", err)
				}
				f.appendTo(uint32(i%4+1), &logpb.Append{Id: s.GetId(), Create: true, Head: head, Events: [][]byte{make([]byte, 200)}, Listings: []*logpb.Listing{
					{List: list, Score: s.GetCreatedAt(), Member: s.GetId()},
				}})
			}
		})
	}
	for i := range sessions {
		next <- i
	}
	close(next)
	filling.Wait()
}
