package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/peer"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/proto/nodepb"
)

// reportEvery is the longest time between two reports; reportPause the shortest, so that a burst of changes is one.
const (
	reportEvery = time.Second
	reportPause = 5 * time.Millisecond
)

// reporter sends what this node holds and leads to all nodes and to its own board.
type reporter struct {
	name     string
	boot     string
	node     uint64
	store    *persistence.Store
	owners   *cluster.Owners
	board    *cluster.Board
	members  func() []uint64 // the other live nodes
	send     func(to uint64, kind peer.Kind, frames [][]byte)
	cut      func() []uint64 // the other live nodes that this one has no connection to
	log      *slog.Logger
	level    func() uint32 // feature level that this node accepts
	leaving  atomic.Bool   // it stops
	unfit    atomic.Bool   // it cannot write
	sequence uint64
	wake     chan struct{}
}

// poke requests a report soon. It never blocks.
func (r *reporter) poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// leave makes all further reports say that this node stops.
func (r *reporter) leave() {
	r.leaving.Store(true)
	r.poke()
}

func (r *reporter) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-timer.C:
		}
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.log.Warn("no report", slog.Any("err", err))
		}
		pause := time.NewTimer(reportPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
		timer.Reset(reportEvery)
	}
}

func (r *reporter) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	held, err := r.store.Replicas(ctx)
	if err != nil {
		return err
	}
	r.sequence++
	made := &nodepb.Report{
		Node: r.node, Name: r.name, Boot: r.boot, Sequence: r.sequence, Leaving: r.leaving.Load() || r.unfit.Load(), DiskFree: r.store.FreeBytes(),
		Unreached: r.cut(), Level: r.level(), Replicas: make([]*nodepb.Replica, 0, len(held)),
	}
	for i := range held {
		made.Replicas = append(made.Replicas, r.replica(&held[i]))
	}
	r.board.Report(made)
	frame, err := proto.Marshal(made)
	if err != nil {
		return err
	}
	for _, to := range r.members() {
		r.send(to, peer.KindReport, [][]byte{frame})
	}
	return nil
}

// replica reports a shard as led only once this node serves its entities.
func (r *reporter) replica(s *persistence.ReplicaStatus) *nodepb.Replica {
	made := &nodepb.Replica{
		Shard: s.Group, Epoch: s.Term, Applied: s.Applied, Bytes: s.StateBytes, Initialised: s.Initialised,
	}
	owner, known := r.owners.Owner(shard.ID(s.Group))
	if !s.Leading || !known || owner.Node != r.name || uint64(owner.Epoch) != s.Term {
		return made
	}
	made.Leading, made.Voters, made.Learners = true, s.Members.Voters, s.Members.Learners
	for _, lag := range s.Lags {
		made.Lags = append(made.Lags, &nodepb.Lag{Node: lag.Node, Entries: lag.Entries, Active: lag.Active})
	}
	return made
}

// startReports starts sending reports and watching this node's fitness.
func (n *Node) startReports() {
	l := n.links
	r := &reporter{
		name: n.config.Node.Name, boot: l.boot, node: n.links.origin.node, store: n.store, owners: &n.owners, board: l.board,
		members: n.othersAlive, send: l.peers.Send, cut: n.othersUnreached, level: n.acceptedLevel, log: n.log, wake: make(chan struct{}, 1),
	}
	l.reporter.Store(r)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.run(ctx) })
	running.Go(func() { n.watchFitness(ctx) })
	n.later(func(context.Context) {
		cancel()
		running.Wait()
	})
}

// heard handles reports that arrive from another node. It forwards that node's own report to nodes that are not connected to it,
// which would otherwise not know what it owns.
func (n *Node) heard(from uint64, frames [][]byte) {
	for _, frame := range frames {
		report := &nodepb.Report{}
		if err := proto.Unmarshal(frame, report); err != nil {
			n.log.Warn("report cannot be read", slog.Any("err", err))
			continue
		}
		n.links.board.Report(report)
		if report.GetNode() != from {
			continue // a forwarded report is not forwarded again
		}
		for _, to := range n.links.board.Missing(report) {
			n.links.peers.Send(to, peer.KindReport, [][]byte{frame})
		}
	}
}

// othersUnreached are the other live nodes that this one has no connection to.
func (n *Node) othersUnreached() []uint64 {
	p := n.links.placement.Load()
	if p == nil {
		return nil
	}
	var nodes []uint64
	names := p.Unreached()
	for _, m := range n.links.membersAlive() {
		if slices.Contains(names, m.Name) {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// reaches reports whether another node can be called, directly or through a third one.
func (n *Node) reaches(name string) bool {
	if n.links == nil || name == n.config.Node.Name {
		return true
	}
	p := n.links.placement.Load()
	if p == nil {
		return false
	}
	unreached := p.Unreached()
	if !slices.Contains(unreached, name) {
		return true
	}
	board := n.links.board.Snapshot()
	i := slices.IndexFunc(board.Nodes, func(v cluster.NodeView) bool { return v.Name == name })
	return i >= 0 && slices.ContainsFunc(board.Nodes, func(v cluster.NodeView) bool {
		return !v.Gone && v.Name != name && v.Name != n.config.Node.Name && v.Report != nil &&
			!slices.Contains(unreached, v.Name) && !slices.Contains(v.Report.GetUnreached(), board.Nodes[i].Node)
	})
}
