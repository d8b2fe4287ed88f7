package replica

import (
	"slices"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// handleReady distributes the work that the raft node of a group has ready.
func (d *Driver) handleReady(g *group, rd raft.Ready) {
	newTerm := !raft.IsEmptyHardState(rd.HardState) && rd.GetTerm() != g.role.term
	if newTerm {
		g.role.term = rd.GetTerm()
	}
	switch {
	case rd.SoftState != nil:
		d.changeRole(g, rd)
	case newTerm:
		g.publish()
	}
	if !raft.IsEmptySnap(rd.Snapshot) && string(rd.Snapshot.GetData()) == g.snapshots.spool {
		g.snapshots.spool = ""
	}
	for _, rs := range rd.ReadStates {
		g.reads.confirm(rs)
	}
	d.place(g, rd.Entries)
	g.placeTrials(rd.Entries)
	for _, m := range rd.Messages {
		switch {
		case m.GetTo() == raft.LocalAppendThread:
			d.appends.push(appendItem{group: g, msg: m})
		case m.GetTo() == raft.LocalApplyThread:
			d.handOut(g, m)
		case d.cfg.Transport == nil:
		case m.GetType() == raftpb.MsgSnap:
			d.startSend(g, m)
		default:
			d.loop.outgoing[NodeID(m.GetTo())] = append(d.loop.outgoing[NodeID(m.GetTo())], Message{Group: g.id, raft: m})
		}
	}
}

func (d *Driver) changeRole(g *group, rd raft.Ready) {
	was := g.role.state
	g.role.state, g.role.leader = rd.RaftState, NodeID(rd.Lead)
	if was == raft.StateLeader && g.role.state != raft.StateLeader {
		d.loseLeadership(g, ErrOutcomeUnknown)
	}
	if g.role.state == raft.StateLeader && was != raft.StateLeader {
		own := slices.IndexFunc(rd.Entries, func(e *raftpb.Entry) bool { return e.GetTerm() == g.role.term })
		if own < 0 {
			d.Fail(inconsistent("leader of group %d has no entry of its term", g.id))
			return
		}
		g.role.ownFirst = rd.Entries[own].GetIndex()
		g.peers = g.peers[:0]
	}
	g.publish()
	d.checkTransfers(g)
}

// place assigns the proposals of this round the positions of their entries, which are the newest ones.
func (d *Driver) place(g *group, entries []*raftpb.Entry) {
	if len(g.proposals.stepped) == 0 {
		return
	}
	n := len(entries) - len(g.proposals.stepped)
	if n < 0 || g.role.state != raft.StateLeader || entries[n].GetTerm() != g.role.term {
		d.answerAll(g.proposals.stepped, ErrOutcomeUnknown)
		g.proposals.stepped = g.proposals.stepped[:0]
		return
	}
	for i, p := range g.proposals.stepped {
		g.proposals.stepped[i] = nil
		e := entries[n+i]
		if p.kind != e.GetType() {
			// Raft replaced a membership change that came too early by an empty entry.
			d.answer(p, nil, ErrBusy)
			continue
		}
		p.at = position{index: e.GetIndex(), term: e.GetTerm()}
		p.data = nil
		g.proposals.waiting = append(g.proposals.waiting, p)
	}
	g.proposals.stepped = g.proposals.stepped[:0]
}

// handOut passes committed entries, and the proposals that wait for them, to the apply goroutine. Membership changes
// take effect in raft here, and become durable there, in the batch with the applied index.
func (d *Driver) handOut(g *group, m *raftpb.Message) {
	entries := m.GetEntries()
	item := applyItem{group: g, entries: entries, responses: m.GetResponses()}
	for _, e := range entries {
		if e.GetType() == raftpb.EntryNormal {
			continue
		}
		cs, err := applyConfEntry(g.node, e)
		if err != nil {
			d.Fail(err)
			return
		}
		item.conf, item.confs = cs, item.confs+1
		g.conf.pending++
		g.conf.newest = e.GetIndex()
		g.setConf(cs)
		g.cancelSends(g.holds)
	}
	last := entries[len(entries)-1].GetIndex()
	n := 0
	for n < len(g.proposals.waiting) && g.proposals.waiting[n].at.index <= last {
		n++
	}
	item.waiters, g.proposals.waiting = g.proposals.waiting[:n:n], g.proposals.waiting[n:]
	if len(g.proposals.waiting) == 0 {
		g.proposals.waiting = nil
	}
	if !d.applies.push(item) {
		d.answerAll(item.waiters, d.unknownErr())
	}
}

func applyConfEntry(node *raft.RawNode, e *raftpb.Entry) (*raftpb.ConfState, error) {
	var change raftpb.ConfChangeI
	var err error
	if e.GetType() == raftpb.EntryConfChange {
		v1 := &raftpb.ConfChange{}
		change, err = v1, proto.Unmarshal(e.GetData(), v1)
	} else {
		v2 := &raftpb.ConfChangeV2{}
		change, err = v2, proto.Unmarshal(e.GetData(), v2)
	}
	if err != nil {
		return nil, inconsistent("membership entry %d: %v", e.GetIndex(), err)
	}
	return node.ApplyConfChange(change), nil
}

// cutLog shortens a log that has grown past its bounds. The cut is written after the state it depends on.
func (d *Driver) cutLog(g *group) {
	to := d.cutTo(g)
	if to == 0 {
		return
	}
	term, err := g.log.Term(to)
	if err != nil {
		d.Fail(inconsistent("cut log of group %d at %d: %v", g.id, to, err))
		return
	}
	at := position{index: to, term: term}
	g.log.cut(at)
	d.metrics.cuts.Inc()
	d.appends.push(appendItem{group: g, cut: at})
}
