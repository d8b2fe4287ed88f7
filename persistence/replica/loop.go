package replica

import (
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
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

func (d *Driver) handleReady(g *group, rd raft.Ready) {
	newTerm := !raft.IsEmptyHardState(rd.HardState) && rd.GetTerm() != g.term
	if newTerm {
		g.term = rd.GetTerm()
	}
	switch {
	case rd.SoftState != nil:
		d.changeRole(g, rd)
	case newTerm:
		g.publish()
	}
	if !raft.IsEmptySnap(rd.Snapshot) && string(rd.Snapshot.GetData()) == g.spool {
		g.spool = ""
	}
	for _, rs := range rd.ReadStates {
		g.confirmReads(rs)
	}
	d.place(g, rd.Entries)
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
			d.outgoing[NodeID(m.GetTo())] = append(d.outgoing[NodeID(m.GetTo())], Message{Group: g.id, raft: m})
		}
	}
}

func (d *Driver) changeRole(g *group, rd raft.Ready) {
	was := g.state
	g.state, g.lead = rd.RaftState, NodeID(rd.Lead)
	if was == raft.StateLeader && g.state != raft.StateLeader {
		d.loseLeadership(g, ErrOutcomeUnknown)
	}
	if g.state == raft.StateLeader && was != raft.StateLeader {
		own := slices.IndexFunc(rd.Entries, func(e *raftpb.Entry) bool { return e.GetTerm() == g.term })
		if own < 0 {
			d.Fail(inconsistent("leader of group %d has no entry of its term", g.id))
			return
		}
		g.ownFirst = rd.Entries[own].GetIndex()
		g.peers = g.peers[:0]
	}
	g.publish()
	d.checkTransfers(g)
}

// place gives the proposals of this round the positions raft gave their entries: they are the newest ones.
func (d *Driver) place(g *group, entries []*raftpb.Entry) {
	if len(g.stepped) == 0 {
		return
	}
	n := len(entries) - len(g.stepped)
	if n < 0 || g.state != raft.StateLeader || entries[n].GetTerm() != g.term {
		d.answerAll(g.stepped, ErrOutcomeUnknown)
		g.stepped = g.stepped[:0]
		return
	}
	for i, p := range g.stepped {
		g.stepped[i] = nil
		e := entries[n+i]
		if p.kind != e.GetType() {
			// Raft put an empty entry in the place of a membership change that came too early.
			d.answer(p, nil, ErrBusy)
			continue
		}
		p.at = position{index: e.GetIndex(), term: e.GetTerm()}
		p.data = nil
		g.waiting = append(g.waiting, p)
	}
	g.stepped = g.stepped[:0]
}

// handOut gives committed entries, and the proposals that wait for them, to the apply goroutine. Membership changes among them take effect in raft here,
// and become durable there, in the batch with the applied index.
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
		g.confs++
		g.setConf(cs)
		g.cancelSends(g.holds)
	}
	last := entries[len(entries)-1].GetIndex()
	n := 0
	for n < len(g.waiting) && g.waiting[n].at.index <= last {
		n++
	}
	item.waiters, g.waiting = g.waiting[:n:n], g.waiting[n:]
	if len(g.waiting) == 0 {
		g.waiting = nil
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

// cutLog shortens a log that has grown past its bounds. The cut is written behind the state it depends on.
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
