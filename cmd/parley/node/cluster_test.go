package node

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/cluster/peer/peertest"
	"parley/cluster/shard"
	"parley/cmd/parley/config"
)

// TestMain finds goroutines that are left. Two of the HTTP library live as long as the process; one of the actor library
// sleeps after a refused connection before it looks whether it is still needed; a probe of the gossip that is under way
// outlives its shutdown by its timeout.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.updateServerDate.func1"),
		goleak.IgnoreAnyFunction("github.com/asynkron/protoactor-go/remote.(*endpointWriter).initialize"),
		goleak.IgnoreAnyFunction("github.com/hashicorp/memberlist.(*Memberlist).probeNode"),
	)
}

// fleet is whole nodes in this process, on a network that can be cut. Gossip goes its own way and is not: a node that is
// cut off is taken for alive.
type fleet struct {
	t       testing.TB
	network *peertest.Network
	nodes   map[string]*Node
	configs map[string]*config.Config
}

func newFleet(t *testing.T, names ...string) *fleet {
	t.Helper()
	return newFleetWith(t, func(string, *config.Config) {}, names...)
}

// newFleetWith is newFleet with other settings.
func newFleetWith(tb testing.TB, set func(name string, c *config.Config), names ...string) *fleet {
	tb.Helper()
	f := &fleet{t: tb, network: peertest.NewNetwork(), nodes: make(map[string]*Node), configs: make(map[string]*config.Config)}
	tb.Cleanup(f.network.Close)
	var join []string
	for _, name := range names {
		c := config.Default()
		c.Node.Name, c.DataDir = name, tb.TempDir()
		c.Listen, c.OpsListen = "127.0.0.1:0", "127.0.0.1:0"
		c.Cluster.Listen = peertest.Address()
		// With the directory's these are six shards: two each, so that every node comes to own conversations.
		c.Storage.Shards, c.Storage.Memtable, c.ShutdownGrace = 5, 4*config.MiB, 10*time.Second
		// Three nodes of one busy process may not hear each other for a second: that is no reason to change the owner.
		c.Cluster.ElectionTimeout, c.Cluster.OwnerWait = 1500*time.Millisecond, 10*time.Second
		set(name, c)
		join = append(join, c.Cluster.Listen)
		f.configs[name] = c
		for _, offset := range []int{config.PeerPort, config.ActorPort} {
			at, err := config.Beside(c.Cluster.Listen, offset)
			require.NoError(tb, err)
			f.network.Register(name, at)
		}
	}
	var starting sync.WaitGroup
	var mu sync.Mutex
	for _, name := range names {
		f.configs[name].Join = join
		require.NoError(tb, f.configs[name].Validate())
		starting.Go(func() {
			n, err := start(tb.Context(), f.configs[name], testLog(tb, name), f.network.Dialer(name))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				tb.Errorf("start %s: %v", name, err)
				return
			}
			f.nodes[name] = n
		})
	}
	starting.Wait()
	tb.Cleanup(f.stop)
	require.Len(tb, f.nodes, len(names))
	return f
}

// stop ends what is left, all at the same time.
func (f *fleet) stop() {
	var stopping sync.WaitGroup
	for _, n := range f.nodes {
		stopping.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			if err := n.Stop(ctx); err != nil {
				f.t.Errorf("stop: %v", err)
			}
		})
	}
	stopping.Wait()
	http.DefaultClient.CloseIdleConnections()
}

func testLog(tb testing.TB, name string) *slog.Logger {
	tb.Helper()
	return slog.New(slog.NewTextHandler(&testWriter{t: tb}, &slog.HandlerOptions{Level: slog.LevelWarn})).With(slog.String("node", name))
}

// testWriter writes to a test's log until the test is over.
type testWriter struct {
	t    testing.TB
	once sync.Once
	mu   sync.Mutex
	over bool
}

func (w *testWriter) Write(line []byte) (int, error) {
	w.once.Do(func() {
		w.t.Cleanup(func() { w.mu.Lock(); w.over = true; w.mu.Unlock() })
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.over {
		w.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// eventually waits for a state, looking now and then.
func (f *fleet) eventually(what string, within time.Duration, reached func() bool) {
	f.t.Helper()
	require.Eventually(f.t, reached, within, 20*time.Millisecond, what)
}

// grown waits until every shard has three voters and an owner, and every node owns some with conversations.
func (f *fleet) grown() {
	f.t.Helper()
	f.eventually("three voters everywhere", 60*time.Second, func() bool {
		for _, n := range f.nodes {
			answer, err := n.statusNow(f.t.Context())
			status, ok := answer.(*Status)
			if err != nil || !ok {
				return false
			}
			owners := map[string]bool{}
			for _, s := range status.Shards {
				if s.Owner == "" || len(s.Voters) != 3 {
					return false
				}
				if shard.ID(s.Shard) != shard.Directory {
					owners[s.Owner] = true
				}
			}
			if len(owners) != len(f.nodes) {
				return false
			}
		}
		return true
	})
}

func (f *fleet) call(node, method, path string, body any) (status int, by string, answer map[string]any, err error) {
	var text bytes.Buffer
	if body != nil {
		if err = json.NewEncoder(&text).Encode(body); err != nil {
			return 0, "", nil, err
		}
	}
	request, err := http.NewRequestWithContext(f.t.Context(), method, "http://"+f.nodes[node].Addr().String()+"/api/agents"+path, &text)
	if err != nil {
		return 0, "", nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", nil, err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	whole, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, "", nil, err
	}
	if err = json.Unmarshal(whole, &answer); err != nil {
		return response.StatusCode, "", nil, fmt.Errorf("%w in %s", err, whole)
	}
	return response.StatusCode, response.Header.Get("X-Served-By"), answer, nil
}

// conversation makes one through a node and says who owns it.
func (f *fleet) conversation(through string) (id, owner string) {
	f.t.Helper()
	status, by, answer, err := f.call(through, http.MethodPost, "/conversations", map[string]any{"agentId": "assistant", "userId": "ada"})
	require.NoError(f.t, err)
	require.Equal(f.t, http.StatusCreated, status, answer)
	made, ok := answer["conversation"].(map[string]any)
	require.True(f.t, ok, answer)
	id, ok = made["id"].(string)
	require.True(f.t, ok, answer)
	return id, by
}

// TestEveryNodeServes: a conversation reads the same wherever it is asked for, and in every list.
func TestEveryNodeServes(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	owners := map[string]bool{}
	conversations := 0
	for i := 0; i < 24 || len(owners) < 3 && i < 200; i++ { // shards are drawn: those of one node may not be among the first
		conversations++
		through := fmt.Sprintf("n%d", i%3+1)
		id, _ := f.conversation(through)
		// Leaders may still move to be even: every answer must be right, and all nodes soon name one owner.
		f.eventually("one owner wherever it is asked for", 60*time.Second, func() bool {
			named := map[string]bool{}
			for name := range f.nodes {
				status, by, _, err := f.call(name, http.MethodGet, "/conversations/"+id, nil)
				if err != nil || status != http.StatusOK {
					t.Errorf("%s through %s: %d, %v", id, name, status, err)
					return true
				}
				named[by] = true
				owners[by] = true
			}
			return len(named) == 1
		})
	}
	require.Len(t, owners, 3, "conversations are spread over all nodes")
	var pages [3]map[string]any
	for i := range pages {
		status, _, page, err := f.call(fmt.Sprintf("n%d", i+1), http.MethodGet, "/conversations?userId=ada&limit=5&offset=3", nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, page)
		require.EqualValues(t, conversations, page["total"])
		require.Len(t, page["conversations"], 5)
		pages[i] = page
	}
	require.Equal(t, pages[0], pages[1])
	require.Equal(t, pages[0], pages[2])
}

// TestSlowNetwork: with a delay between nodes everything works, only later.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: three whole nodes")
	}
	f := newFleet(t, "n1", "n2", "n3")
	f.grown()
	f.network.Delay(30 * time.Millisecond)
	id, _ := f.conversation("n2")
	for name := range f.nodes {
		status, _, answer, err := f.call(name, http.MethodPatch, "/conversations/"+id, map[string]any{"title": name})
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, status, answer)
		status, _, answer, err = f.call(name, http.MethodPost, "/conversations/"+id+"/cancel", map[string]any{})
		require.NoError(t, err)
		require.Less(t, status, 500, answer)
	}
}
