package membership

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"
	"google.golang.org/protobuf/proto"

	"parley/proto/nodepb"
)

// memberlist calls the following methods with its lock held. They must not call it, and only wake watch.

// NodeMeta implements memberlist.Delegate.
func (m *Membership) NodeMeta(limit int) []byte {
	meta, err := proto.Marshal(m.meta())
	if err != nil || len(meta) > limit {
		return nil
	}
	return meta
}

// NotifyMsg implements memberlist.Delegate.
func (m *Membership) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (m *Membership) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (m *Membership) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (m *Membership) MergeRemoteState([]byte, bool) {}

// NotifyJoin implements memberlist.EventDelegate.
func (m *Membership) NotifyJoin(node *memberlist.Node) { m.table.set(node); m.poke() }

// NotifyLeave implements memberlist.EventDelegate.
func (m *Membership) NotifyLeave(node *memberlist.Node) { m.table.remove(node.Name); m.poke() }

// NotifyUpdate implements memberlist.EventDelegate.
func (m *Membership) NotifyUpdate(node *memberlist.Node) { m.table.set(node); m.poke() }

// table is a copy of memberlist's live members. Its own list cannot be read safely while it changes.
type table struct {
	mu    sync.Mutex
	nodes map[string]memberlist.Node
}

func (t *table) set(node *memberlist.Node) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.nodes[node.Name] = *node
}

func (t *table) remove(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.nodes, name)
}

func (t *table) all() map[string]memberlist.Node {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.nodes)
}

// NotifyAlive implements memberlist.AliveDelegate: it refuses nodes that must not be members.
func (m *Membership) NotifyAlive(node *memberlist.Node) error {
	member, err := decode(node)
	if err != nil {
		return err
	}
	if member.Cluster != m.config.Self.Cluster {
		return fmt.Errorf("it belongs to cluster %q", member.Cluster)
	}
	return m.config.Refuse(member)
}

// rival is another process with this node's name.
type rival struct {
	address *memberlist.Node
	node    uint64
	started int64
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (m *Membership) NotifyConflict(existing, other *memberlist.Node) {
	if existing.Name != m.config.Self.Name {
		m.log.Debug("two processes go by one name", slog.String("node", existing.Name),
			slog.String("first", existing.Address()), slog.String("second", other.Address()))
		return
	}
	meta := &nodepb.Member{}
	if proto.Unmarshal(other.Meta, meta) != nil || meta.GetBoot() == m.config.Self.Boot {
		return
	}
	select {
	case m.rivals <- rival{address: other, node: meta.GetNode(), started: meta.GetStarted()}:
	default: // one is being judged already
	}
}

// judgePause is the pause between two judgements, since gossip reports a conflict again and again; judgeLimit bounds one.
const (
	judgePause = 200 * time.Millisecond
	judgeLimit = 5 * time.Second
)

// judgeAll judges name conflicts, one at a time.
func (m *Membership) judgeAll() {
	for {
		select {
		case r := <-m.rivals:
			if m.judge(r) {
				return
			}
		case <-m.life.Done():
			return
		}
		timer := time.NewTimer(judgePause)
		select {
		case <-timer.C:
		case <-m.life.Done():
		}
		timer.Stop()
	}
}

// judge decides which of two processes with one name must end, and reports whether it is this one. The rival may be nothing but
// the other members' memory of this node's previous start, so it is pinged first. If it does not answer, the others accept this
// process once they have found the previous one dead, provided that it announces itself then: so it joins them again soon.
//
// The name belongs to the node that the cluster has on record under it, because that node votes in its logs. A node that was
// stopped until another one took its place must not come back beside it, however old it is. If the record names neither process,
// or both, the younger one ends.
func (m *Membership) judge(r rival) (ends bool) {
	ctx, cancel := context.WithTimeout(m.life, judgeLimit)
	defer cancel()
	if _, err := m.list.Ping(m.config.Self.Name, udpAddress(r.address)); err != nil {
		select {
		case m.disputed <- struct{}{}:
		default:
		}
		return false
	}
	self, named := m.config.Self.Node, m.config.Named(ctx)
	ends = m.started >= r.started
	if r.node != self && (named == self || named == r.node) {
		ends = named == r.node
	}
	m.log.Warn("another process goes by this node's name", slog.String("node", m.config.Self.Name),
		slog.String("address", r.address.Address()), slog.Bool("ends", ends))
	if ends && m.life.Err() == nil {
		m.silent.Store(true)
		m.config.OnConflict(fmt.Errorf("another process goes by the name %q, at %s, and keeps it: names must be unique",
			m.config.Self.Name, r.address.Address()))
	}
	return ends
}

// decode reads the metadata of a member.
func decode(node *memberlist.Node) (Member, error) {
	meta := &nodepb.Member{}
	if err := proto.Unmarshal(node.Meta, meta); err != nil {
		return Member{}, fmt.Errorf("decode member: %w", err)
	}
	if meta.GetBoot() == "" {
		return Member{}, errors.New("member does not name its start")
	}
	return Member{
		Name: node.Name, Node: meta.GetNode(), Boot: meta.GetBoot(), Cluster: meta.GetCluster(),
		PeerAddr: meta.GetPeerAddr(), ActorAddr: meta.GetActorAddr(), HTTPAddr: meta.GetHttpAddr(), OpsAddr: meta.GetOpsAddr(),
		Leaving: meta.GetLeaving(), Version: meta.GetVersion(), Level: meta.GetLevel(),
	}, nil
}
