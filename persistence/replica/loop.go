package replica

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// maxProposalBatch bounds the bytes that are appended in one step, so that a log that is nearly full refuses only what does not fit.
const maxProposalBatch = 1 << 20

// loop steps the raft nodes until Stop or failure.
func (d *Driver) loop() {
	defer d.ticks.disable()
	for _, g := range d.order {
		g.heard = d.now
		d.campaignAlone(g)
	}
	d.finishRound()
	for {
		select {
		case <-d.stopping:
			return
		case <-d.inbox.wake:
		case <-d.ticks.channel():
			d.tick()
		}
		if d.Err() != nil {
			return
		}
		d.now = time.Since(d.start)
		d.inbox.take(&d.round)
		d.step()
		d.finishRound()
		d.round.reset()
	}
}

// step feeds one round of mail to raft. Proposals come last: nothing can take leadership away between their step and the Ready that places them.
func (d *Driver) step() {
	for _, a := range d.round.appended {
		d.stepAppended(a)
	}
	for _, a := range d.round.applied {
		d.stepApplied(a)
	}
	for _, m := range d.round.messages {
		d.stepMessage(m)
	}
	for _, node := range d.round.unreachable {
		d.stepUnreachable(node)
	}
	for _, call := range d.round.calls {
		call()
	}
	for i, r := range d.round.reads {
		d.round.reads[i] = nil
		if r.group.gone {
			r.done <- r.group.notLeader()
			continue
		}
		d.touch(r.group)
		r.group.asking = append(r.group.asking, r)
	}
	for i, p := range d.round.proposals {
		d.round.proposals[i] = nil
		if p.group.gone {
			d.answer(p, nil, p.group.notLeader())
			continue
		}
		d.touch(p.group)
		p.group.incoming = append(p.group.incoming, p)
	}
}

// touch remembers that a group has something to do in this round.
func (d *Driver) touch(g *group) {
	if !g.dirty {
		g.dirty = true
		d.dirty = append(d.dirty, g)
	}
}

// finishRound lets every touched group propose, takes what its raft node has ready, and sends what goes to other nodes.
func (d *Driver) finishRound() {
	for _, g := range d.dirty {
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
		d.answerReads(g)
		d.cutLog(g)
		d.changed = d.changed || g.changed
		g.changed = false
	}
	clear(d.dirty)
	d.dirty = d.dirty[:0]
	for to, msgs := range d.outgoing {
		delete(d.outgoing, to)
		d.cfg.Transport.Send(to, msgs)
	}
	if slices.ContainsFunc(d.order, (*group).needsTicks) {
		d.ticks.enable(d.cfg.TickInterval)
	} else {
		d.ticks.disable()
	}
	if d.changed {
		d.changed = false
		d.cfg.OnChange()
	}
}

func (d *Driver) tick() {
	d.now = time.Since(d.start)
	d.leaveStuckDisk()
	ticks, dropped := d.ticks.due(time.Now(), d.cfg.TickInterval)
	if dropped > 0 {
		d.metrics.lateTicks.Add(float64(dropped))
	}
	for _, g := range d.order {
		if !g.needsTicks() {
			continue
		}
		for range ticks {
			g.node.Tick()
		}
		d.standIn(g)
		d.checkTransfers(g)
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
		g.replacing.Store(false)
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
	g.confs -= a.confs
	d.stepLocal(g, a.responses)
	if g.alone {
		g.log.trimApplied(a.at.index)
		d.campaignAlone(g)
	}
	if !g.settled.Load() {
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
	if !g.alone || g.state != raft.StateFollower {
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
	if !g.initialised.Load() && !fromLeader(m.raft) {
		// It has nothing to judge a candidate by. A voter that dropped its log and is here again would elect one that lacks what it once
		// helped to commit.
		return
	}
	d.touch(g)
	switch {
	case m.raft.GetType() == raftpb.MsgSnap:
		g.receiving.Store(false)
		g.spool = string(m.raft.GetSnapshot().GetData())
		g.heard = d.now
	case fromLeader(m.raft) && m.raft.GetTerm() >= g.term:
		g.heard = d.now
	case g.state == raft.StateLeader:
		g.hear(m.From(), d.now)
	}
	if err := g.node.Step(m.raft); err != nil {
		d.logger.Debug("raft refused a message", slog.Uint64("shard", uint64(g.id)), slog.Any("err", err))
	}
}

// stepProposals appends what came in for a group in as few steps as its size allows.
func (d *Driver) stepProposals(g *group) {
	for len(g.incoming) > 0 {
		n, size := 0, 0
		for n < len(g.incoming) && (n == 0 || size+len(g.incoming[n].data) <= maxProposalBatch) {
			size += len(g.incoming[n].data)
			n++
		}
		d.stepBatch(g, g.incoming[:n])
		g.incoming = g.incoming[n:]
	}
	g.incoming = nil
}

func (d *Driver) stepBatch(g *group, batch []*proposal) {
	if !g.leading.Load() {
		d.answerAll(batch, g.notLeader())
		return
	}
	entries := make([]*raftpb.Entry, 0, len(batch))
	before := len(g.stepped)
	for i, p := range batch {
		batch[i] = nil
		if p.check != nil {
			if err := p.check(); err != nil {
				d.answer(p, nil, err)
				continue
			}
		}
		g.stepped = append(g.stepped, p)
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
	// Dropped whole: too much uncommitted, or leadership is being handed over.
	refusal := ErrBusy
	if status := g.node.BasicStatus(); status.RaftState != raft.StateLeader || status.LeadTransferee != raft.None {
		refusal = &NotLeaderError{Group: g.id, Leader: NodeID(status.LeadTransferee)}
	}
	d.answerAll(g.stepped[before:], refusal)
	g.stepped = g.stepped[:before]
}

// closeLoop answers everything the loop holds. A node that is alone goes on answering reads of a store that failed.
func (d *Driver) closeLoop() {
	d.inbox.close()
	var rest mail
	d.inbox.take(&rest)
	d.answerAll(d.round.proposals, d.closedErr())
	d.answerAll(rest.proposals, d.closedErr())
	answerReads(d.round.reads, d.closedErr())
	answerReads(rest.reads, d.closedErr())
	for _, g := range d.order {
		d.answerAll(g.incoming, d.closedErr())
		d.answerAll(g.stepped, d.unknownErr())
		d.answerAll(g.waiting, d.unknownErr())
		g.answerAllReads(d.closedErr())
	}
	d.standDown(func(g *group) bool { return !g.alone || d.Err() == nil })
}

// standDown ends the leaderships of the groups that match.
func (d *Driver) standDown(match func(*group) bool) {
	defer d.cfg.OnChange()
	for _, g := range d.order {
		if !match(g) {
			continue
		}
		if g.leading.Swap(false) {
			d.cfg.OnLeader(g.id, g.term, false)
		}
		g.lead = 0
		g.publish()
	}
}
