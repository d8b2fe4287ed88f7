package node

import (
	"context"
	"log/slog"
	"slices"
	"sync"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/peer"
	"parley/cmd/parley/node/report"
	"parley/proto/nodepb"
)

// startReports starts sending reports and watching this node's fitness.
func (n *Node) startReports() {
	l := n.links
	r := report.New(report.Config{
		Name: n.config.Node.Name, Boot: l.boot, Node: n.links.origin.node, Store: n.store, Owners: &n.owners, Board: l.board,
		Members: n.othersAlive, Send: l.peers.Send, Cut: n.othersUnreached, Level: n.acceptedLevel, Turns: n.shell.system.Underway, Logger: n.log,
	})
	l.reporter.Store(r)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx) })
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
		told := &nodepb.Report{}
		if err := proto.Unmarshal(frame, told); err != nil {
			n.log.Warn("report cannot be read", slog.Any("err", err))
			continue
		}
		n.links.board.Report(told)
		if told.GetNode() != from {
			continue // a forwarded report is not forwarded again
		}
		for _, to := range n.links.board.Missing(told) {
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
	names := p.Unreached(0)
	for _, m := range n.links.membersAlive() {
		if slices.Contains(names, m.Name) {
			nodes = append(nodes, m.Node)
		}
	}
	return nodes
}

// reaches reports whether another node can be called, or could within the time that calls wait for it, directly or through a third one.
func (n *Node) reaches(name string) bool {
	if n.links == nil || name == n.config.Node.Name {
		return true
	}
	p := n.links.placement.Load()
	if p == nil {
		return false
	}
	unreached := p.Unreached(n.config.Cluster.OwnerWait)
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
