package peer

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"parley/cluster/certs"
	"parley/cluster/peer/peertest"
	"parley/proto/nodepb"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(childEnv); addr != "" {
		if err := runChild(addr); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

const (
	// patience bounds every wait of a test for something that must happen.
	patience = 30 * time.Second
	poll     = 2 * time.Millisecond
)

// world is the nodes of a test and the network between them.
type world struct {
	t       *testing.T
	network *peertest.Network

	mu        sync.Mutex
	addresses map[uint64]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, network: peertest.NewNetwork(), addresses: make(map[uint64]string)}
	t.Cleanup(w.network.Close)
	return w
}

func (w *world) address(node uint64) (string, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	addr, known := w.addresses[node]
	return addr, known
}

func (w *world) setAddress(node uint64, addr string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.addresses[node] = addr
}

// testNode is a transport that remembers what it was told.
type testNode struct {
	*Transport
	id   uint64
	addr string

	mu          sync.Mutex
	got         map[uint64][]string
	unreachable map[uint64]int
	reachable   map[uint64]int
}

func name(id uint64) string { return fmt.Sprintf("n%d", id) }

func testHello(id uint64) *nodepb.Hello {
	return &nodepb.Hello{ClusterId: "test", Name: name(id), Node: id, Shards: 16, DiskFormat: 2}
}

// start starts node id, at its former address if it has one. change may be nil.
func (w *world) start(id uint64, change func(*Config)) *testNode {
	w.t.Helper()
	addr, known := w.address(id)
	if !known {
		addr = peertest.Address()
	}
	listener, err := (&net.ListenConfig{}).Listen(w.t.Context(), "tcp", addr)
	require.NoError(w.t, err)
	n := &testNode{
		id: id, addr: listener.Addr().String(),
		got: make(map[uint64][]string), unreachable: make(map[uint64]int), reachable: make(map[uint64]int),
	}
	w.network.Register(name(id), n.addr)
	w.setAddress(id, n.addr)
	cfg := Config{
		Hello: testHello(id), Listener: listener, Dial: w.network.Dialer(name(id)), Address: w.address,
		OnFrames: n.take, Timeout: 600 * time.Millisecond,
		OnUnreachable: func(node uint64) { n.count(n.unreachable, node) },
		OnReachable:   func(node uint64) { n.count(n.reachable, node) },
	}
	if change != nil {
		change(&cfg)
	}
	n.Transport, err = New(cfg)
	require.NoError(w.t, err)
	n.Start()
	w.t.Cleanup(n.Stop)
	return n
}

func (n *testNode) take(from uint64, kind Kind, frames [][]byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, f := range frames {
		n.got[from] = append(n.got[from], fmt.Sprintf("%d:%s", kind, f))
	}
}

func (n *testNode) count(in map[uint64]int, node uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	in[node]++
}

func (n *testNode) counted(in map[uint64]int, node uint64) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return in[node]
}

func (n *testNode) from(node uint64) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.got[node])
}

func (n *testNode) say(to uint64, texts ...string) {
	frames := make([][]byte, len(texts))
	for i, text := range texts {
		frames[i] = []byte(text)
	}
	n.Send(to, KindRaft, frames)
}

func value(tb testing.TB, metric prometheus.Metric) float64 {
	tb.Helper()
	var m dto.Metric
	require.NoError(tb, metric.Write(&m))
	return m.GetCounter().GetValue()
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, patience, poll, what)
}

// reach says something until it arrives, and returns how long that took.
func (n *testNode) reach(t *testing.T, to *testNode) time.Duration {
	t.Helper()
	before := len(to.from(n.id))
	begin := time.Now()
	eventually(t, "reached", func() bool {
		n.say(to.id, "reach")
		return len(to.from(n.id)) > before
	})
	return time.Since(begin)
}

func (n *testNode) connected(to uint64) bool {
	return slices.ContainsFunc(n.Peers(), func(p Peer) bool { return p.Node == to && p.Connected })
}

func (n *testNode) trouble(to uint64) string {
	for _, p := range n.Peers() {
		if p.Node == to && !p.Connected {
			return p.Err
		}
	}
	return ""
}

// secure is the configs of a node of an authority of its own for each dir.
func secure(tb testing.TB, dir, node string, validity time.Duration) (server, client *tls.Config) {
	tb.Helper()
	require.NoError(tb, certs.Write(dir, []string{node}, []string{"127.0.0.1"}, validity))
	server, client, err := certs.Load(filepath.Join(dir, node+".pem"), filepath.Join(dir, node+"-key.pem"), filepath.Join(dir, certs.AuthorityFile))
	require.NoError(tb, err)
	return server, client
}
