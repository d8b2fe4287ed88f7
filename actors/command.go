package actors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/follow"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/logpb"
)

const (
	// maxAttempts bounds how often a command is decided anew because the journal had moved on.
	maxAttempts = 3
	// maxNext bounds the commands that effects may append to one command.
	maxNext = 16
	// maxLosses bounds how often work that was lost is begun again from the same state: what is lost each time, say in a
	// fault, is not paid for without end.
	maxLosses = 3
)

// serve runs one command and those that its effects bring up, and returns how the first one ended.
func (g *grain) serve(command proto.Message) error {
	err := g.execute(command)
	for range maxNext {
		if len(g.next) == 0 {
			return err
		}
		next := g.next[0]
		g.next = g.next[1:]
		if nextErr := g.execute(next); worthRetry(nextErr) {
			g.retry(next, 0)
		}
	}
	g.next = nil
	return err
}

// execute runs a command against the current state, again when the journal turned out to be ahead of it.
func (g *grain) execute(command proto.Message) error {
	g.fresh = false
	if g.tenure.over.Load() {
		return g.answer(nil, g.host.refusal())
	}
	if command == nil && g.loaded && (g.doubtful || !g.busy() || g.lost()) {
		g.drop() // whoever asks for nothing knows of something open
	}
	for attempt := 1; ; attempt++ {
		assumed := attempt == 1 && g.assumeAbsent(command)
		if err := g.activate(); err != nil {
			return g.answer(nil, err)
		}
		if command == nil {
			return g.answer(nil, nil)
		}
		err := g.step(command)
		if assumed && g.state == nil {
			g.drop() // nothing was written that would have told
		}
		if !errors.Is(err, errBehind) {
			return err
		}
		if attempt == maxAttempts {
			return g.answer(nil, unavailable(failure.EntityChanged))
		}
	}
}

// lost says that nobody is at work on a busy entity any more, and that it is worth to begin again. What it will do by
// itself, at a time or in a further attempt, is not lost.
func (g *grain) lost() bool {
	if g.kind.Lost == nil || len(g.alarms) > 0 || !g.kind.Lost(g.entity(), g.state) {
		return false
	}
	if seq := g.kind.Machine.Seq(g.state); g.losses == 0 || seq != g.lostAt {
		g.losses, g.lostAt = 0, seq
	}
	if g.losses == maxLosses {
		return false
	}
	g.losses++
	g.host.system.log.Warn("what was open is not worked on: it is begun again", slog.String("entity", g.id),
		slog.Uint64("epoch", g.tenure.epoch), slog.Int("times", g.losses))
	return true
}

// assumeAbsent spares the read of a head record that cannot be there: the journal refuses to create what exists, and
// then the command is decided anew on what does.
func (g *grain) assumeAbsent(command proto.Message) bool {
	if g.loaded || command == nil || g.kind.Creates == nil || !g.kind.Creates(command) {
		return false
	}
	g.state, g.loaded = nil, true
	return true
}

// activate reads the head record, and lets the machine begin with its recovery.
func (g *grain) activate() error {
	if g.loaded && g.packed == nil {
		return nil
	}
	if g.loaded {
		state := g.kind.Machine.NewState()
		if err := proto.Unmarshal(g.packed, state); err == nil {
			g.state, g.packed = state, nil
			return nil
		}
		g.drop() // cannot be, and what is stored is right
	}
	s := g.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(g.tenure.ctx, s.config.LoadTimeout)
	head, found, err := s.config.Journal.Load(ctx, g.host.shard, g.id)
	cancel()
	if err != nil {
		return g.unread(err)
	}
	if !g.host.prove(g.tenure, start) {
		return g.host.notOwner()
	}
	g.fresh = true
	g.doubtful = g.doubtful && found && head.Seq == g.doubt
	if g.waiting > 0 && (!found || head.Seq != g.heard) {
		g.settleAll(&UnknownOutcomeError{Shard: g.host.shard, Epoch: g.tenure.epoch, Moved: true})
	}
	if !found {
		g.state, g.loaded = nil, true
		return nil
	}
	if head.Epoch > g.tenure.epoch {
		g.host.fenced(g.tenure)
		return g.host.notOwner()
	}
	state := g.kind.Machine.NewState()
	if err := proto.Unmarshal(head.State, state); err != nil {
		s.log.Error("head record is unreadable", slog.String("entity", g.id), slog.Any("err", err))
		return failure.New(failurepb.Code_INTERNAL, failure.StateUnreadable)
	}
	g.state, g.loaded = state, true
	if g.kind.OnLoad != nil {
		g.kind.OnLoad(g.entity(), state)
	}
	return g.revive()
}

// revive runs the machine's recovery command. A refusal by the rules is theirs to make; when storage refuses, the
// activation has not happened.
func (g *grain) revive() error {
	command := g.kind.Machine.OnActivate(g.state, g.env())
	if command == nil {
		return nil
	}
	if err := g.host.learn(g.tenure); err != nil {
		g.loaded = false
		return g.unread(err)
	}
	err := g.unsent(command)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBehind):
		g.loaded = false
		return unavailable(failure.EntityChanged)
	case worthRetry(err), follow.IsNotOwner(err):
		g.loaded = false
		return err
	}
	g.host.system.log.Warn("recovery refused", slog.String("entity", g.id), slog.Any("err", err))
	return nil
}

// unsent carries out a command in the middle of another: the sender of that one stays unanswered, also in a panic.
func (g *grain) unsent(command proto.Message) error {
	sender := g.sender
	g.sender = nil
	defer func() { g.sender = sender }()
	return g.step(command)
}

func (g *grain) env() machine.Env {
	return machine.Env{
		Now:        time.Now(),
		Node:       g.host.system.config.Node,
		Epoch:      g.tenure.epoch,
		EpochSince: g.tenure.since,
		Survived:   g.tenure.survived,
		NewID:      func(kind string) string { return g.host.system.config.IDs.NewID(kind, g.host.shard) },
	}
}

// step decides a command and carries the decision out. errBehind: nothing was done, the state must be read again.
func (g *grain) step(command proto.Message) error {
	rules := g.kind.Machine
	decision, refused := rules.Decide(g.state, command, g.env())
	if refused != nil {
		if err := g.confirm(); err != nil {
			return g.answer(nil, err)
		}
		return g.answer(nil, refused)
	}
	if decision.Wait != "" && g.sender != nil && !g.roomToWait() {
		return g.answer(nil, unavailable(failure.TooManyWaiters))
	}
	g.perform(decision.Urgent)
	before := g.state
	if len(decision.Events) == 0 && !decision.Create && !decision.Delete {
		if err := g.confirm(); err != nil {
			return g.answer(nil, err)
		}
		return g.conclude(&decision, nil)
	}
	var after proto.Message
	if !decision.Delete {
		after = rules.Evolve(before, decision.Events)
	}
	entry, err := g.entry(&decision, after)
	if err != nil {
		g.host.system.log.Error("entry cannot be encoded", slog.String("entity", g.id), slog.Any("err", err))
		return g.answer(nil, failure.New(failurepb.Code_INTERNAL, failure.ChangeNotEncoded))
	}
	switch err := g.write(entry); {
	case err == nil:
	case errors.Is(err, errBehind):
		return err
	case decision.IfUnwritten != nil && surelyUnwritten(err):
		_ = g.answer(decision.IfUnwritten, nil)
		return err
	default:
		return g.answer(nil, err)
	}
	g.state = after
	return g.conclude(&decision, &Commit{Ref: g.entity(), Before: before, After: after, Events: decision.Events})
}

// entry builds what the log carries.
func (g *grain) entry(decision *machine.Decision, after proto.Message) (*logpb.Append, error) {
	rules := g.kind.Machine
	entry := &logpb.Append{
		Id: g.id, Epoch: g.tenure.epoch, Create: decision.Create, DeleteEntity: decision.Delete,
		Events: make([][]byte, len(decision.Events)),
	}
	if g.state != nil {
		entry.ExpectedSeq = rules.Seq(g.state)
	}
	var err error
	for i, event := range decision.Events {
		if entry.Events[i], err = proto.Marshal(event); err != nil {
			return nil, fmt.Errorf("encode event: %w", err)
		}
	}
	if after != nil {
		if entry.Head, err = proto.Marshal(after); err != nil {
			return nil, fmt.Errorf("encode head: %w", err)
		}
	}
	rules.Project(g.state, after, decision.Events, entry)
	return entry, nil
}

var errBehind = errors.New("the journal is ahead of the state")

// write appends and says what became of it: nil is durable, and nothing else is.
func (g *grain) write(entry *logpb.Append) error {
	s := g.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(g.tenure.ctx, s.config.AppendTimeout)
	result, err := s.config.Journal.Append(ctx, g.host.shard, entry)
	cancel()
	s.metrics.appends.Observe(time.Since(start).Seconds())
	if err != nil {
		return g.unwritten(entry, err)
	}
	switch result.GetOutcome() {
	case logpb.Outcome_APPLIED:
		g.host.prove(g.tenure, start)
		g.doubtful = false
		return nil
	case logpb.Outcome_SEQ_MISMATCH, logpb.Outcome_EXISTS:
		g.drop()
		return errBehind
	case logpb.Outcome_FENCED:
		g.drop()
		g.host.fenced(g.tenure)
		return g.host.notOwner()
	default:
		return g.unwritten(entry, fmt.Errorf("append said %s", result.GetOutcome()))
	}
}

// unwritten turns a fault of the append into an answer. Where it is sure that nothing was written the state stands;
// else it is read again soon, and as long as it might still be written, for a turn may hang on it and followers may
// have missed events.
func (g *grain) unwritten(entry *logpb.Append, err error) error {
	s := g.host.system
	count := func(reason string) { s.metrics.refused.WithLabelValues(reason).Inc() }
	switch {
	case errors.Is(err, ErrNotOwner):
		count("not_owner")
		g.drop()
		return g.host.notOwner()
	case errors.Is(err, ErrFull):
		count("full")
		return failure.New(failurepb.Code_STORAGE_FULL, failure.DiskFull)
	case errors.Is(err, ErrFailed):
		count("failed")
		return failure.New(failurepb.Code_STORAGE_FAILED, failure.StoreFailed)
	case errors.Is(err, ErrTooLarge):
		count("too_large")
		return failure.New(failurepb.Code_TOO_LARGE, failure.ChangeTooLarge)
	case errors.Is(err, ErrBusy):
		count("busy")
		return unavailable(failure.StorageBusy)
	}
	count("unknown")
	g.drop()
	unknown := &UnknownOutcomeError{Shard: g.host.shard, Epoch: g.tenure.epoch, Moved: true}
	if g.tenure.over.Load() {
		return unknown
	}
	s.log.Warn("outcome of an append is not known", slog.String("entity", g.id), slog.Uint64("epoch", g.tenure.epoch),
		slog.Any("err", err))
	g.doubtful, g.doubt = !entry.GetCreate(), entry.GetExpectedSeq()
	g.wake()
	// A journal that gave up by itself has lost the shard, and this node is about to hear it.
	unknown.Moved = errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded)
	return unknown
}

// confirm makes sure, before an answer that no append stands behind, that it is not the past: another node may own the
// shard by now, and this one not have heard of it. Nobody to answer, nothing to confirm.
func (g *grain) confirm() error {
	if g.fresh || g.sender == nil {
		return nil
	}
	s := g.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(g.tenure.ctx, s.config.LoadTimeout)
	err := s.config.Journal.Confirm(ctx, g.host.shard)
	cancel()
	if err != nil {
		return g.unread(err)
	}
	if !g.host.prove(g.tenure, start) {
		return g.host.notOwner()
	}
	g.fresh = true
	return nil
}

// unread turns a fault of a read into an answer. Nothing was done.
func (g *grain) unread(err error) error {
	switch {
	case g.tenure.over.Load():
		return g.host.refusal()
	case errors.Is(err, ErrNotOwner):
		return g.host.notOwner()
	case errors.Is(err, ErrFailed):
		return failure.New(failurepb.Code_STORAGE_FAILED, failure.StoreBroken)
	}
	g.host.system.log.Warn("shard could not be read", slog.String("entity", g.id), slog.Any("err", err))
	return unavailable(failure.StateNotRead)
}

// conclude does all that waits for durability: answer, settle, tell followers, run effects.
func (g *grain) conclude(decision *machine.Decision, commit *Commit) error {
	if decision.Wait != "" && g.sender != nil {
		g.wait(decision.Wait)
	} else {
		_ = g.answer(decision.Reply, nil)
	}
	for _, settlement := range decision.Settle {
		g.settle(settlement)
	}
	if decision.Delete {
		g.settleAll(failure.New(failurepb.Code_NOT_FOUND, failure.EntityDeleted))
	}
	if commit != nil && g.kind.OnCommit != nil {
		g.kind.OnCommit(*commit)
	}
	if !g.tenure.over.Load() { // else the next owner does what is to be done
		g.perform(decision.Effects)
	}
	return nil
}

// perform runs effects. What they bring up is queued behind the current command.
func (g *grain) perform(effects []machine.Effect) {
	for _, effect := range effects {
		if timer, isTimer := effect.(machine.Timer); isTimer {
			g.arm(timer.After, &alarm{command: timer.Command, key: timer.Key})
			continue
		}
		if g.kind.Perform == nil {
			continue
		}
		if next := g.kind.Perform(g.entity(), effect); next != nil {
			g.next = append(g.next, next)
		}
	}
}

func (g *grain) entity() Entity {
	return kit.NewRef(g.host.shard, g.tenure.epoch, g.id, commander{g.host.system})
}

// answer answers the sender, if there is one and it has not been, and passes the error on.
func (g *grain) answer(reply proto.Message, err error) error {
	if a := g.sender; a != nil {
		g.sender = nil
		a.answer(reply, err)
	}
	return err
}

// drop forgets the state: it is read again before the next command. Should it have moved on by then, an append has
// happened whose settlements nobody was told: who still waits is sent to ask again.
func (g *grain) drop() {
	if g.loaded && g.state != nil {
		g.heard = g.kind.Machine.Seq(g.state)
	}
	g.loaded, g.state, g.packed = false, nil, nil
}

// worthRetry says that a command was not carried out for a reason that may pass.
func worthRetry(err error) bool { return kit.WorthRetry(err) }

// surelyUnwritten says of a fault of an append that this node still owns the shard and that nothing was written.
func surelyUnwritten(err error) bool {
	var unknown *UnknownOutcomeError
	return !follow.IsNotOwner(err) && !errors.As(err, &unknown)
}
