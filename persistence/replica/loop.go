package replica

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// maxProposalBatch bounds the bytes that are proposed in one step, so that raft, when it is near its limit, refuses
// only what does not fit.
const maxProposalBatch = 1 << 20

// runLoop steps the raft nodes until Stop or failure.
func (d *Driver) runLoop() {
	defer d.loop.ticks.disable()
	for _, g := range d.loop.order {
		g.role.leaderSeen = d.loop.now
		d.campaignAlone(g)
	}
	d.finishRound()
	for {
		select {
		case <-d.life.stopping:
			return
		case <-d.inbox.wake:
		case <-d.loop.ticks.channel():
			d.tick()
		}
		if d.Err() != nil {
			return
		}
		d.loop.now = time.Since(d.start)
		d.inbox.take(&d.loop.round)
		d.step()
		d.finishRound()
		d.loop.round.reset()
	}
}

// step passes one round of mail to raft. Proposals come last, so that leadership cannot be lost between their step and
// the Ready that gives them positions.
func (d *Driver) step() {
	for _, a := range d.loop.round.appended {
		d.stepAppended(a)
	}
	for _, a := range d.loop.round.applied {
		d.stepApplied(a)
	}
	for _, m := range d.loop.round.messages {
		d.stepMessage(m)
	}
	for _, node := range d.loop.round.unreachable {
		d.stepUnreachable(node)
	}
	for _, call := range d.loop.round.calls {
		call()
	}
	for i, r := range d.loop.round.reads {
		d.loop.round.reads[i] = nil
		if r.group.gone {
			r.done <- r.group.notLeader()
			continue
		}
		d.touch(r.group)
		r.group.reads.asking = append(r.group.reads.asking, r)
	}
	for i, p := range d.loop.round.proposals {
		d.loop.round.proposals[i] = nil
		if p.group.gone {
			d.answer(p, nil, p.group.notLeader())
			continue
		}
		d.touch(p.group)
		p.group.proposals.incoming = append(p.group.proposals.incoming, p)
	}
}

// touch marks a group as having something to do in this round.
func (d *Driver) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		d.loop.dirty = append(d.loop.dirty, g)
	}
}

// finishRound lets every touched group propose, handles what its raft node has ready, and sends messages to other
// nodes.
func (d *Driver) finishRound() {
	for _, g := range d.loop.dirty {
		g.dirty = false
		if g.gone {
			continue
		}
		d.stepReads(g)
		d.stepProposals(g)
		for g.node.HasReady() {
			d.handleReady(g, g.node.Ready())
		}
		d.dropSpool(g)
		d.announce(g)
		d.checkTrials(g)
		g.reads.answer(g.applied.index)
		d.cutLog(g)
		d.loop.changed = d.loop.changed || g.changed
		g.changed = false
	}
	clear(d.loop.dirty)
	d.loop.dirty = d.loop.dirty[:0]
	for to, msgs := range d.loop.outgoing {
		delete(d.loop.outgoing, to)
		d.cfg.Transport.Send(to, msgs)
	}
	if slices.ContainsFunc(d.loop.order, (*group).needsTicks) {
		d.loop.ticks.enable(d.cfg.TickInterval)
	} else {
		d.loop.ticks.disable()
	}
	if d.loop.changed {
		d.loop.changed = false
		d.cfg.OnChange()
	}
}

func (d *Driver) tick() {
	d.loop.now = time.Since(d.start)
	d.leaveStuckDisk()
	ticks, dropped := d.loop.ticks.due(time.Now(), d.cfg.TickInterval)
	if dropped > 0 {
		d.metrics.lateTicks.Add(float64(dropped))
	}
	for _, g := range d.loop.order {
		if !g.needsTicks() {
			continue
		}
		for range ticks {
			g.node.Tick()
		}
		d.standIn(g)
		d.checkTransfers(g)
		d.checkTrials(g)
		if g.node.HasReady() {
			d.touch(g)
		}
	}
}

func (d *Driver) stepAppended(a appended) {
	g := a.group
	if g.gone {
		return
	}
	d.touch(g)
	if a.snapshot != nil {
		g.shared.replacing.Store(false)
		meta := a.snapshot.GetMetadata()
		g.applied = position{index: meta.GetIndex(), term: meta.GetTerm()}
		g.log.reset(g.applied)
		g.setConf(meta.GetConfState())
	}
	if err := g.log.committed(a.entries); err != nil {
		d.Fail(err)
		return
	}
	d.stepLocal(g, a.responses)
}

func (d *Driver) stepApplied(a applied) {
	g := a.group
	if g.gone {
		return
	}
	d.touch(g)
	if a.at.index > g.applied.index {
		g.applied = a.at
	}
	g.conf.pending -= a.confs
	d.stepLocal(g, a.responses)
	if g.conf.alone {
		g.log.trimApplied(a.at.index)
		d.campaignAlone(g)
	}
	if !g.shared.settled.Load() {
		g.publish()
	}
}

func (d *Driver) stepLocal(g *group, msgs []*raftpb.Message) {
	for _, m := range msgs {
		if err := g.node.Step(m); err != nil {
			d.logger.Debug("raft refused a storage response", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
		}
	}
}

// campaignAlone elects the only member without waiting for an election timeout.
func (d *Driver) campaignAlone(g *group) {
	if !g.conf.alone || g.role.state != raft.StateFollower {
		return
	}
	d.touch(g)
	if err := g.node.Campaign(); err != nil {
		d.logger.Warn("cannot campaign", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
	}
}

func (d *Driver) stepMessage(m Message) {
	g := d.table.get(m.Group)
	if g == nil {
		g = d.createFor(m.Group, m.raft)
	}
	if g == nil {
		if m.raft.GetType() == raftpb.MsgSnap {
			d.discardSpool(string(m.raft.GetSnapshot().GetData()))
		}
		return
	}
	if !g.shared.initialised.Load() && !fromLeader(m.raft) {
		// Without a log it cannot judge a candidate. A voter that dropped its log and has been added again would elect
		// one that lacks entries it once helped to commit.
		return
	}
	d.touch(g)
	switch {
	case m.raft.GetType() == raftpb.MsgSnap:
		g.shared.receiving.Store(false)
		g.snapshots.spool = string(m.raft.GetSnapshot().GetData())
		g.role.leaderSeen = d.loop.now
	case fromLeader(m.raft) && m.raft.GetTerm() >= g.role.term:
		g.role.leaderSeen = d.loop.now
	case g.role.state == raft.StateLeader:
		g.notePeer(m.From(), d.loop.now)
	}
	if err := g.node.Step(m.raft); err != nil {
		d.logger.Debug("raft refused a message", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
	}
}

// stepProposals proposes what came in for a group, in as few steps as its size allows.
func (d *Driver) stepProposals(g *group) {
	for len(g.proposals.incoming) > 0 {
		n, size := 0, 0
		for n < len(g.proposals.incoming) && (n == 0 || size+len(g.proposals.incoming[n].data) <= maxProposalBatch) {
			size += len(g.proposals.incoming[n].data)
			n++
		}
		d.stepBatch(g, g.proposals.incoming[:n])
		g.proposals.incoming = g.proposals.incoming[n:]
	}
	g.proposals.incoming = nil
}

func (d *Driver) stepBatch(g *group, batch []*proposal) {
	if !g.shared.leading.Load() {
		d.answerAll(batch, g.notLeader())
		return
	}
	entries := make([]*raftpb.Entry, 0, len(batch))
	before := len(g.proposals.stepped)
	for i, p := range batch {
		batch[i] = nil
		if p.check != nil {
			if err := p.check(); err != nil {
				d.answer(p, nil, err)
				continue
			}
		}
		g.proposals.stepped = append(g.proposals.stepped, p)
		e := &raftpb.Entry{Data: p.data}
		if p.kind != raftpb.EntryNormal {
			e.Type = p.kind.Enum()
		}
		entries = append(entries, e)
	}
	if len(entries) == 0 {
		return
	}
	err := g.node.Step(&raftpb.Message{Type: raftpb.MsgProp.Enum(), From: new(uint64(g.self)), Entries: entries})
	if err == nil {
		return
	}
	// The whole batch was dropped: too much is uncommitted, or leadership is being transferred.
	cause := ErrBusy
	if status := g.node.BasicStatus(); status.RaftState != raft.StateLeader || status.LeadTransferee != raft.None {
		cause = &NotLeaderError{Group: g.id, Leader: NodeID(status.LeadTransferee)}
	}
	d.answerAll(g.proposals.stepped[before:], cause)
	g.proposals.stepped = g.proposals.stepped[:before]
}

// closeLoop answers everything the loop holds. A node that is alone continues to serve reads after the store has
// failed.
func (d *Driver) closeLoop() {
	d.inbox.close()
	var rest mail
	d.inbox.take(&rest)
	d.answerAll(d.loop.round.proposals, d.closedErr())
	d.answerAll(rest.proposals, d.closedErr())
	answerReads(d.loop.round.reads, d.closedErr())
	answerReads(rest.reads, d.closedErr())
	for _, g := range d.loop.order {
		d.answerAll(g.proposals.incoming, d.closedErr())
		d.answerAll(g.proposals.stepped, d.unknownErr())
		d.answerAll(g.proposals.waiting, d.unknownErr())
		g.reads.fail(d.closedErr())
	}
	d.standDown(func(g *group) bool { return !g.conf.alone || d.Err() == nil })
}

// standDown ends the leadership of the groups that match.
func (d *Driver) standDown(match func(*group) bool) {
	defer d.cfg.OnChange()
	for _, g := range d.loop.order {
		if !match(g) {
			continue
		}
		if g.shared.leading.Swap(false) {
			d.cfg.OnLeader(g.id, g.role.term, false)
		}
		g.role.leader = 0
		g.publish()
	}
}
