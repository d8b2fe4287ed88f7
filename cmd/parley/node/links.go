package node

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"

	"parley/actors/core/feature"
	"parley/cluster"
	"parley/cluster/balance"
	"parley/cluster/membership"
	"parley/cluster/peer"
	"parley/cluster/placement"
	"parley/cmd/parley/config"
	"parley/cmd/parley/node/fault"
	"parley/cmd/parley/node/report"
)

// links are a node's connections to the others: transport, gossip, reports, placement.
type links struct {
	boot      string
	origin    origin
	key       []byte // of the gossip
	peers     *peer.Transport
	gossip    atomic.Pointer[membership.Membership] // nil until started
	placement atomic.Pointer[placement.System]      // the same
	reporter  atomic.Pointer[report.Reporter]       // the same
	board     *cluster.Board
	loop      atomic.Pointer[balance.Loop] // the same

	mu    sync.Mutex
	known map[uint64]string // peer addresses by node
}

// membersKnown are all nodes seen since the start, also those that are gone, with their last addresses.
func (l *links) membersKnown() []membership.Member {
	if m := l.gossip.Load(); m != nil {
		return m.Known()
	}
	return nil
}

// membersAlive are the live nodes according to the gossip, including this one.
func (l *links) membersAlive() []membership.Member {
	if m := l.gossip.Load(); m != nil {
		return m.Members()
	}
	return nil
}

// joinCluster opens the transport to the other nodes and determines the cluster of this one.
func (n *Node) joinCluster(ctx context.Context) error {
	if !n.config.Cluster.Enabled() {
		return nil
	}
	l := &links{boot: rand.Text()[:12], known: make(map[uint64]string)}
	l.board = cluster.NewBoard(cluster.BoardConfig{Self: n.config.Node.Name, Owners: &n.owners, OnChange: l.boardChanged})
	var err error
	if l.key, err = n.network.loadSecrets(&n.config.Cluster); err != nil {
		return err
	}
	listener, err := n.listenBeside(ctx, config.PeerPort)
	if err != nil {
		return err
	}
	l.peers, err = peer.New(peer.Config{ //nolint:contextcheck // it lives until Stop, not as long as the start
		Hello: n.hello(origin{}), Listener: listener, Dial: n.network.dial, ServerTLS: n.network.serverTLS, ClientTLS: n.network.clientTLS,
		Address:       l.address,
		Named:         n.recordedNode,
		OnFrames:      n.takeFrames,
		OnUnreachable: n.peerUnreachable,
		OnDown:        n.peerDown,
		OnReachable:   func(uint64) { l.poke() },
		OnSnapshot: func(ctx context.Context, _ uint64, header []byte, r io.Reader) error {
			if store := n.storeIfOpen(); store != nil {
				return store.ReceiveSnapshot(ctx, header, r)
			}
			return errors.New("the node is starting")
		},
		OnFetch: n.serveFetch,
		Logger:  n.log, Registerer: n.metrics,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	l.peers.Start()
	n.later(func(context.Context) { l.peers.Stop() })
	n.links = l
	if n.links.origin, err = n.beginnings(ctx); err != nil {
		return err
	}
	l.peers.SetIdentity(n.hello(n.links.origin))
	return nil
}

func (n *Node) listenBeside(ctx context.Context, offset int) (net.Listener, error) {
	at, err := config.Beside(n.config.Cluster.Listen, offset)
	if err != nil {
		return nil, err
	}
	var network net.ListenConfig
	return network.Listen(ctx, "tcp", at)
}

func (l *links) address(node uint64) (string, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, known := l.known[node]
	return at, known
}

// takeFrames dispatches messages of another node.
func (n *Node) takeFrames(from uint64, kind peer.Kind, frames [][]byte) {
	store := n.storeIfOpen()
	switch {
	case kind == peer.KindReport:
		n.heard(from, frames)
	case store == nil: // raft sends it again
	default:
		if err := store.Deliver(frames); err != nil {
			n.log.Warn("message of another node cannot be read", slog.Any("err", err))
		}
	}
}

func (n *Node) peerUnreachable(node uint64) {
	if store := n.storeIfOpen(); store != nil {
		store.ReportUnreachable(node)
	}
}

func (n *Node) peerDown(node uint64) {
	if store := n.storeIfOpen(); store != nil {
		store.ReportDown(node)
	}
}

// logTransport implements persistence.Transport over the peers.
type logTransport struct{ peers *peer.Transport }

// Send implements persistence.Transport.
func (t logTransport) Send(to uint64, frames [][]byte) { t.peers.Send(to, peer.KindRaft, frames) }

// SendSnapshot implements persistence.Transport.
func (t logTransport) SendSnapshot(ctx context.Context, to uint64, header []byte, write func(io.Writer) error) error {
	return t.peers.SendSnapshot(ctx, to, header, write)
}

// messageBytes bounds an answer between nodes. The largest is a full page of messages.
const messageBytes = 64 << 20

// startLinks starts calls, reports and gossip between the nodes.
func (n *Node) startLinks(ctx context.Context) error {
	l := n.links
	if l == nil {
		return n.newRouter(nil)
	}
	addresses, err := n.addresses()
	if err != nil {
		return err
	}
	listen, err := config.Beside(n.config.Cluster.Listen, config.ActorPort)
	if err != nil {
		return err
	}
	remote, err := placement.New(placement.Config{
		Name: n.config.Node.Name, Boot: l.boot, Cluster: n.links.origin.cluster, Listen: listen,
		ServerTLS: n.network.serverTLS, ClientTLS: n.network.clientTLS, Shards: n.shards,
		Members: l.actorMembers, Owners: &n.owners, Serve: n.local(), Encode: fault.Encode, Decode: fault.Decode,
		Dial: n.network.dial, OnLinks: l.poke, MessageBytes: messageBytes, QueueBytes: messageBytes,
		Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	if err := n.newRouter(remote); err != nil {
		return err
	}
	if err := remote.Start(ctx); err != nil {
		return err
	}
	l.placement.Store(remote)
	n.later(func(ctx context.Context) {
		if err := remote.Stop(ctx); err != nil {
			n.log.Warn("stop connections to other nodes", slog.Any("err", err))
		}
	})
	n.startReports() //nolint:contextcheck // the same
	return n.startGossip(ctx, addresses)
}

// addresses returns this node as a member, with the addresses at which others reach it.
func (n *Node) addresses() (self membership.Member, err error) {
	at := n.config.Cluster.AdvertisedAddress()
	self = membership.Member{
		Name: n.config.Node.Name, Node: n.links.origin.node, Boot: n.links.boot, Cluster: n.links.origin.cluster,
		HTTPAddr: n.Addr().String(), OpsAddr: n.OpsAddr().String(), Version: peer.WireMax,
		Level: uint32(feature.Newest),
	}
	if self.PeerAddr, err = config.Beside(at, config.PeerPort); err != nil {
		return self, err
	}
	self.ActorAddr, err = config.Beside(at, config.ActorPort)
	return self, err
}

func (n *Node) startGossip(ctx context.Context, self membership.Member) error {
	l, c := n.links, &n.config.Cluster
	gossip, err := membership.Start(ctx, membership.Config{
		Self: self, Bind: c.Listen, Advertise: c.AdvertisedAddress(), Seeds: n.config.Join, Key: l.key,
		OnChange: n.membersChanged, OnConflict: n.fail, Named: n.nodeOfThisName, Refuse: n.refuseMember,
		Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return err
	}
	l.gossip.Store(gossip)
	n.later(func(ctx context.Context) {
		if err := gossip.Stop(ctx); err != nil {
			n.log.Warn("leave the cluster", slog.Any("err", err))
		}
	})
	n.membersChanged()
	return nil
}

// recordedNode returns the node id recorded under a name in this node's copy of the directory, and the record's version; 0 = none.
func (n *Node) recordedNode(name string) (node, version uint64) {
	if n.storeIfOpen() == nil {
		return 0, 0
	}
	record, version, err := n.nodeRecord(name)
	if err != nil {
		n.log.Warn("node record cannot be read", slog.Any("err", err))
		return 0, 0
	}
	return record.Node, version
}

// nodeOfThisName asks the other nodes for the node id recorded under this node's name. The newest record counts, since this node
// may have been stopped or cut off while another took its name.
func (n *Node) nodeOfThisName(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, greetWait)
	defer cancel()
	node, version := n.recordedNode(n.config.Node.Name)
	var (
		mu     sync.Mutex
		asking sync.WaitGroup
	)
	for _, m := range n.links.membersAlive() {
		if m.Name == n.config.Node.Name {
			continue
		}
		asking.Go(func() {
			answer, err := peer.Greet(ctx, n.network.dial, n.network.clientTLS, m.PeerAddr, n.hello(n.links.origin))
			if err != nil {
				n.log.Debug("no greeting", slog.String("node", m.Name), slog.Any("err", err))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if answer.GetNameVersion() > version {
				node, version = answer.GetNameNode(), answer.GetNameVersion()
			}
		})
	}
	asking.Wait()
	return node
}

func (l *links) actorMembers() []placement.Member {
	alive := l.membersAlive()
	members := make([]placement.Member, len(alive))
	for i, m := range alive {
		members[i] = placement.Member{Name: m.Name, Boot: m.Boot, Address: m.ActorAddr}
	}
	return members
}

// membersChanged passes the gossip's members on to every part that addresses nodes.
func (n *Node) membersChanged() {
	l := n.links
	l.mu.Lock()
	for _, m := range l.membersKnown() {
		l.known[m.Node] = m.PeerAddr
	}
	l.mu.Unlock()
	l.peers.AddressesChanged()
	if p := l.placement.Load(); p != nil {
		p.MembersChanged()
	}
	n.boardMembers()
	l.poke()
}

// boardMembers passes the live members to the board.
func (n *Node) boardMembers() {
	alive := n.links.membersAlive()
	members := make([]cluster.Member, len(alive))
	for i, m := range alive {
		members[i] = cluster.Member{Name: m.Name, Node: m.Node, Boot: m.Boot, Leaving: m.Leaving}
	}
	n.links.board.Members(members)
}

func (l *links) boardChanged() {
	if loop := l.loop.Load(); loop != nil {
		loop.Poke()
	}
}

func (l *links) poke() {
	if r := l.reporter.Load(); r != nil {
		r.Poke()
	}
}

// announce reports at once that this node owns a shard.
func (l *links) announce() {
	if r := l.reporter.Load(); r != nil {
		r.Announce()
	}
}

// otherNames are the names of the other live nodes.
func (n *Node) otherNames() (names []string) {
	if n.links == nil {
		return nil
	}
	for _, m := range n.links.membersAlive() {
		if m.Name != n.config.Node.Name {
			names = append(names, m.Name)
		}
	}
	return names
}

// othersAlive are the other live nodes.
func (n *Node) othersAlive() []uint64 {
	var nodes []uint64
	for _, m := range n.links.membersAlive() {
		if m.Node != n.links.origin.node {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}
