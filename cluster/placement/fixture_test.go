package placement

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/expected"
	"parley/actors/core/follow"
	"parley/cluster"
	"parley/cluster/peer/peertest"
	"parley/cluster/shard"
	"parley/proto/conversationpb"
	"parley/proto/failurepb"
	"parley/proto/nodepb"
)

func TestMain(m *testing.M) {
	if os.Getenv(nodeEnv) != "" {
		runNode()
		return
	}
	code := m.Run()
	// The engine's writers sleep for two seconds after they could not connect, and nothing wakes them.
	deadline := time.Now().Add(patience)
	err := goleak.Find()
	for err != nil && time.Now().Before(deadline) {
		err = goleak.Find()
	}
	if err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

const patience = 30 * time.Second

// wires are the connections of a test. They can be cut.
type wires struct {
	mu    sync.Mutex
	conns map[net.Conn]string // to an address
	cut   map[string]bool     // addresses that cannot be dialled
	deaf  map[string]bool     // addresses where nothing arrives
}

func newWires() *wires {
	return &wires{conns: map[net.Conn]string{}, cut: map[string]bool{}, deaf: map[string]bool{}}
}

func (w *wires) dial(ctx context.Context, address string) (net.Conn, error) {
	w.mu.Lock()
	cut := w.cut[address]
	w.mu.Unlock()
	if cut {
		return nil, errors.New("cut")
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[conn] = address
	return &wire{Conn: conn, wires: w, to: address}, nil
}

type wire struct {
	net.Conn
	wires *wires
	to    string
}

func (w *wire) Write(b []byte) (int, error) {
	w.wires.mu.Lock()
	deaf := w.wires.deaf[w.to]
	w.wires.mu.Unlock()
	if deaf {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// deafen has everything that is sent to an address vanish, while what it sends arrives.
func (w *wires) deafen(address string, deaf bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deaf[address] = deaf
}

func (w *wire) Close() error {
	w.wires.mu.Lock()
	delete(w.wires.conns, w.Conn)
	w.wires.mu.Unlock()
	return w.Conn.Close()
}

// drop breaks the connections to an address, and block keeps new ones from being made.
func (w *wires) drop(address string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	dropped := 0
	for conn, to := range w.conns {
		if to == address {
			_ = conn.Close()
			dropped++
		}
	}
	return dropped
}

func (w *wires) block(address string, cut bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut[address] = cut
}

// world is what the nodes of a test know together.
type world struct {
	t      *testing.T
	shards shard.Map
	wires  *wires

	mu      sync.Mutex
	owners  map[shard.ID]cluster.Owner
	members map[string]Member
	systems map[string]*System
}

func newWorld(t *testing.T) *world {
	t.Helper()
	shards, ok := shard.New(4)
	require.True(t, ok)
	return &world{
		t: t, shards: shards, wires: newWires(), owners: map[shard.ID]cluster.Owner{}, members: map[string]Member{},
		systems: map[string]*System{},
	}
}

func (w *world) Owner(in shard.ID) (cluster.Owner, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	owner, known := w.owners[in]
	return owner, known
}

func (w *world) own(in shard.ID, node string, epoch shard.Epoch) cluster.Owner {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[in] = cluster.Owner{Node: node, Shard: in, Epoch: epoch}
	return w.owners[in]
}

func (w *world) list() []Member {
	w.mu.Lock()
	defer w.mu.Unlock()
	var members []Member
	for _, member := range w.members {
		members = append(members, member)
	}
	slices.SortFunc(members, func(a, b Member) int { return strings.Compare(a.Name, b.Name) })
	return members
}

// join makes a node known to all, and leave unknown.
func (w *world) join(member Member) {
	w.mu.Lock()
	w.members[member.Name] = member
	w.mu.Unlock()
	w.changed()
}

func (w *world) leave(name string) {
	w.mu.Lock()
	delete(w.members, name)
	w.mu.Unlock()
	w.changed()
}

func (w *world) changed() {
	w.mu.Lock()
	systems := make([]*System, 0, len(w.systems))
	for _, s := range w.systems {
		systems = append(systems, s)
	}
	w.mu.Unlock()
	for _, s := range systems {
		s.MembersChanged()
	}
}

var boots atomic.Int64

// node is one started system.
type node struct {
	*System
	member Member
	shell  *shell
}

func (w *world) config(name, address string, serve cluster.Local) Config {
	return Config{
		Name: name, Boot: fmt.Sprintf("b%d", boots.Add(1)), Cluster: "c1", Listen: address,
		Shards: w.shards, Members: w.list, Owners: w, Serve: serve, Encode: encodeFault, Decode: decodeFault, Dial: w.wires.dial,
	}
}

func (w *world) start(name string, options ...func(*Config)) *node {
	w.t.Helper()
	return w.startAt(name, peertest.Address(), options...)
}

func (w *world) startAt(name, address string, options ...func(*Config)) *node {
	w.t.Helper()
	sh := newShell()
	config := w.config(name, address, sh)
	for _, option := range options {
		option(&config)
	}
	s, err := New(config)
	require.NoError(w.t, err)
	n := &node{System: s, member: Member{Name: name, Boot: config.Boot, Address: address}, shell: sh}
	require.NoError(w.t, s.Start(w.t.Context()))
	w.t.Cleanup(func() { w.stop(n) })
	w.mu.Lock()
	w.systems[name] = s
	w.mu.Unlock()
	w.join(n.member)
	return n
}

func (w *world) stop(n *node) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if err := n.Stop(ctx); err != nil {
		w.t.Error(err)
	}
	w.mu.Lock()
	if w.systems[n.member.Name] == n.System {
		delete(w.systems, n.member.Name)
	}
	w.mu.Unlock()
}

// linked waits until a node reaches another.
func linked(t *testing.T, from *System, to string) {
	t.Helper()
	require.Eventually(t, func() bool {
		l := from.links.Load().byName[to]
		return l != nil && l.connected() != nil
	}, patience, time.Millisecond, "%s reaches %s", from.config.Name, to)
}

// pair starts two nodes of which the second owns shard 1.
func pair(t *testing.T, options ...func(*Config)) (w *world, a, b *node, to cluster.Owner) {
	t.Helper()
	w = newWorld(t)
	a, b = w.start("a", options...), w.start("b", options...)
	linked(t, a.System, "b")
	linked(t, b.System, "a")
	return w, a, b, w.own(1, "b", 7)
}

type refusal struct {
	code failurepb.Code
	text string
}

func (r *refusal) Error() string { return r.text }

func encodeFault(err error) *nodepb.Fault {
	var r *refusal
	if errors.As(err, &r) {
		return &nodepb.Fault{Code: r.code, Message: r.text}
	}
	return &nodepb.Fault{Message: err.Error()}
}

func decodeFault(fault *nodepb.Fault) error {
	if fault.GetCode() == 0 {
		return errors.New(fault.GetMessage())
	}
	return &refusal{code: fault.GetCode(), text: fault.GetMessage()}
}

type notOwned struct{}

func (notOwned) Error() string              { return "not the owner" }
func (notOwned) NotOwner() (uint32, uint64) { return 1, 5 }

// shell is a cluster.Local that does what commands say.
type shell struct {
	asked   atomic.Int64
	ended   chan string // what blocked calls ended with
	mu      sync.Mutex
	follows map[string][]*feedOf
}

// feedOf is one follow at a shell.
type feedOf struct {
	expected bool
	sink     follow.Sink
	canceled atomic.Bool
}

func newShell() *shell {
	return &shell{ended: make(chan string, 1024), follows: map[string][]*feedOf{}}
}

func (s *shell) Ask(ctx context.Context, _ uint32, id string, command proto.Message) (proto.Message, error) {
	s.asked.Add(1)
	c, ok := command.(*conversationpb.Command)
	if !ok {
		return nil, fmt.Errorf("a %T", command)
	}
	switch c.GetCommandId() {
	case "block":
		<-ctx.Done()
		s.ended <- ctx.Err().Error()
		return nil, ctx.Err()
	case "refuse":
		return nil, fmt.Errorf("ask: %w", &refusal{code: failurepb.Code_CONVERSATION_BUSY, text: "busy"})
	case "garble":
		return nil, errors.New("\xff")
	case "not owner":
		return nil, fmt.Errorf("ask: %w", notOwned{})
	case "big":
		return &conversationpb.Command{CommandId: strings.Repeat("x", 20<<20)}, nil
	}
	return &conversationpb.Command{ConversationId: id, CommandId: c.GetCommandId(), Caller: c.GetCaller()}, nil
}

func (s *shell) Read(_ context.Context, in uint32, query proto.Message) (proto.Message, error) {
	q, ok := query.(*nodepb.StateQuery)
	if !ok {
		return nil, fmt.Errorf("a %T", query)
	}
	return &nodepb.StateReply{State: &conversationpb.State{Id: q.GetId(), LastSeq: uint64(in)}}, nil
}

func (s *shell) Call(_ context.Context, from string, _ proto.Message) (proto.Message, error) {
	return &nodepb.SetNodeState{Name: from}, nil
}

func (s *shell) Follow(ctx context.Context, in uint32, id string, sink follow.Sink) (*conversationpb.Snapshot, func(), error) {
	if id == "refused" {
		return nil, nil, &refusal{code: failurepb.Code_NOT_FOUND, text: "no such conversation"}
	}
	f := &feedOf{sink: sink, expected: expected.In(ctx)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.follows[id] = append(s.follows[id], f)
	return &conversationpb.Snapshot{LastSeq: uint64(in)}, func() { f.canceled.Store(true) }, nil
}

// feed returns the newest follow of a conversation.
func (s *shell) feed(id string) *feedOf {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.follows[id]
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

func command(id string) *conversationpb.Command { return &conversationpb.Command{CommandId: id} }

func secured(server, client *tls.Config) func(*Config) {
	return func(c *Config) { c.ServerTLS, c.ClientTLS = server, client }
}

// sinkOf records what a follower hears.
type sinkOf struct {
	mu      sync.Mutex
	changes []*conversationpb.Change
	closed  chan error
	over    bool
}

func newSink() *sinkOf { return &sinkOf{closed: make(chan error, 16)} }

func (s *sinkOf) Change(change *conversationpb.Change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		panic("a change after the end")
	}
	s.changes = append(s.changes, change)
}

func (s *sinkOf) Closed(reason error) {
	s.mu.Lock()
	s.over = true
	s.mu.Unlock()
	s.closed <- reason
}

func (s *sinkOf) heard() []*conversationpb.Change {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.changes)
}
