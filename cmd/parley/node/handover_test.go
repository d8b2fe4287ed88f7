package node

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/cmd/parley/config"
)

// TestTransferAtRest: a transfer that is to wait for turns is refused while one runs, which then ends where it began.
func TestTransferAtRest(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleetWith(t, func(_ string, c *config.Config) { c.Cluster.HandoverWait = time.Millisecond }, "n1", "n2", "n3")
	f.grown()
	id, _ := f.conversation("n1")
	in, valid := f.nodes["n1"].shards.Of(id)
	require.True(t, valid)
	type answer struct {
		status int
		by     string
		body   map[string]any
		err    error
	}
	came := make(chan answer, 1)
	go func() {
		var a answer
		a.status, a.by, a.body, a.err = f.call("n1", http.MethodPost, "/conversations/"+id+"/messages", map[string]any{"message": "How do I start?"})
		came <- a
	}()
	var owner string // shards may still move to be even, before the turn
	f.eventually("the turn runs", 30*time.Second, func() bool {
		for name, n := range f.nodes {
			if n.shell.system.Underway(uint32(in)) > 0 {
				owner = name
			}
		}
		return owner != ""
	})
	node := f.nodes[owner]
	var to uint64
	for _, m := range node.links.board.Snapshot().Nodes {
		if m.Name != owner {
			to = m.Node
		}
	}
	require.ErrorIs(t, node.handOver(t.Context(), uint32(in), to, true), errTurnsRun)
	a := <-came
	require.NoError(t, a.err)
	require.Equal(t, http.StatusOK, a.status, a.body)
	require.Equal(t, owner, a.by)
	require.Equal(t, "end_turn", a.body["stopReason"])
	status, _, page, err := f.call(owner, http.MethodGet, "/conversations/"+id+"/events?types=session.recovered", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status, page)
	require.Empty(t, page["events"])
}
