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
	// maxLosses bounds how often lost work is restarted from the same state, so that work that panics each time does not
	// cost model calls without end.
	maxLosses = 3
)

// serve runs a command and then the commands that its effects returned. It returns the first command's error.
func (act *activation) serve(command proto.Message) error {
	err := act.execute(command)
	for range maxNext {
		if len(act.next) == 0 {
			return err
		}
		next := act.next[0]
		act.next = act.next[1:]
		if nextErr := act.execute(next); worthRetry(nextErr) {
			act.retry(next, 0)
		}
	}
	act.next = nil
	return err
}

// execute runs a command against the current state, and again if the journal turns out to be ahead of that state.
func (act *activation) execute(command proto.Message) error {
	act.fresh = false
	if act.term.over.Load() {
		return act.answer(nil, act.host.refusal())
	}
	if command == nil && act.loaded && (act.doubt.open || !act.busy() || act.lost()) {
		act.drop() // an activation without a command: the caller found open work in storage
	}
	for attempt := 1; ; attempt++ {
		assumed := attempt == 1 && act.assumeAbsent(command)
		if err := act.activate(); err != nil {
			return act.answer(nil, err)
		}
		if command == nil {
			return act.answer(nil, nil)
		}
		err := act.step(command)
		if assumed && act.state == nil {
			act.drop() // nothing was appended, so the assumption is unverified
		}
		if !errors.Is(err, errBehind) {
			return err
		}
		if attempt == maxAttempts {
			return act.answer(nil, unavailable(failure.EntityChanged))
		}
	}
}

// lost reports whether the work of a busy entity has stopped and should be restarted. An entity with a pending timer or
// retry is not lost.
func (act *activation) lost() bool {
	if act.kind.Lost == nil || len(act.alarms) > 0 || !act.kind.Lost(act.entity(), act.state) {
		return false
	}
	if seq := act.kind.Machine.Seq(act.state); act.losses.times == 0 || seq != act.losses.seq {
		act.losses = losses{seq: seq}
	}
	if act.losses.times == maxLosses {
		return false
	}
	act.losses.times++
	act.host.system.log.Warn("what was open is not worked on: it is begun again", slog.String("entity", act.id),
		slog.Uint64("epoch", act.term.epoch), slog.Int("times", act.losses.times))
	return true
}

// assumeAbsent saves the read of a head record for a command that creates the entity under a new id. If the entity exists
// after all, the journal rejects the create and the command is decided again on the stored state.
func (act *activation) assumeAbsent(command proto.Message) bool {
	if act.loaded || command == nil || act.kind.Creates == nil || !act.kind.Creates(command) {
		return false
	}
	act.state, act.loaded = nil, true
	return true
}

// activate loads the head record and runs the machine's recovery command.
func (act *activation) activate() error {
	if act.loaded && act.packed == nil {
		return nil
	}
	if act.loaded {
		state := act.kind.Machine.NewState()
		if err := proto.Unmarshal(act.packed, state); err == nil {
			act.state, act.packed = state, nil
			return nil
		}
		act.drop() // should not happen; the stored state is right
	}
	s := act.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(act.term.ctx, s.config.LoadTimeout)
	head, found, err := s.config.Journal.Load(ctx, act.host.shard, act.id)
	cancel()
	if err != nil {
		return act.readFailure(err)
	}
	if !act.host.prove(act.term, start) {
		return act.host.notOwner()
	}
	act.fresh = true
	act.doubt.open = act.doubt.open && found && head.Seq == act.doubt.seq
	if act.waiting > 0 && (!found || head.Seq != act.settledSeq) {
		act.settleAll(&UnknownOutcomeError{Shard: act.host.shard, Epoch: act.term.epoch, Moved: true})
	}
	if !found {
		act.state, act.loaded = nil, true
		return nil
	}
	if head.Epoch > act.term.epoch {
		act.host.fenced(act.term)
		return act.host.notOwner()
	}
	state := act.kind.Machine.NewState()
	if err := proto.Unmarshal(head.State, state); err != nil {
		s.log.Error("head record is unreadable", slog.String("entity", act.id), slog.Any("err", err))
		return failure.New(failurepb.Code_INTERNAL, failure.StateUnreadable)
	}
	act.state, act.loaded = state, true
	if act.kind.OnLoad != nil {
		act.kind.OnLoad(act.entity(), state)
	}
	return act.recoverOpen()
}

// recoverOpen runs the machine's recovery command. If the rules refuse it, the activation goes on; if storage fails, the
// state is unloaded and the activation is tried again later.
func (act *activation) recoverOpen() error {
	command := act.kind.Machine.OnActivate(act.state, act.env())
	if command == nil {
		return nil
	}
	if err := act.host.readHandOver(act.term); err != nil {
		act.loaded = false
		return act.readFailure(err)
	}
	err := act.stepUnanswered(command)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errBehind):
		act.loaded = false
		return unavailable(failure.EntityChanged)
	case worthRetry(err), follow.IsNotOwner(err):
		act.loaded = false
		return err
	}
	act.host.system.log.Warn("recovery refused", slog.String("entity", act.id), slog.Any("err", err))
	return nil
}

// stepUnanswered carries out a command in the middle of another, whose sender is not answered by it, even on a panic.
func (act *activation) stepUnanswered(command proto.Message) error {
	sender := act.sender
	act.sender = nil
	defer func() { act.sender = sender }()
	return act.step(command)
}

func (act *activation) env() machine.Env {
	return machine.Env{
		Now:        time.Now(),
		Node:       act.host.system.config.Node,
		Epoch:      act.term.epoch,
		EpochSince: act.term.since,
		Survived:   act.term.survived,
		NewID:      func(kind string) string { return act.host.system.config.IDs.NewID(kind, act.host.shard) },
	}
}

// step decides a command and carries the decision out. errBehind: nothing was done, the state must be read again.
func (act *activation) step(command proto.Message) error {
	rules := act.kind.Machine
	decision, refused := rules.Decide(act.state, command, act.env())
	if refused != nil {
		if err := act.confirm(); err != nil {
			return act.answer(nil, err)
		}
		return act.answer(nil, refused)
	}
	if decision.Wait != "" && act.sender != nil && !act.roomToWait() {
		return act.answer(nil, unavailable(failure.TooManyWaiters))
	}
	act.perform(decision.Urgent)
	before := act.state
	if len(decision.Events) == 0 && !decision.Create && !decision.Delete {
		if err := act.confirm(); err != nil {
			return act.answer(nil, err)
		}
		return act.conclude(&decision, nil)
	}
	var after proto.Message
	if !decision.Delete {
		after = rules.Evolve(before, decision.Events)
	}
	entry, err := act.entry(&decision, after)
	if err != nil {
		act.host.system.log.Error("entry cannot be encoded", slog.String("entity", act.id), slog.Any("err", err))
		return act.answer(nil, failure.New(failurepb.Code_INTERNAL, failure.ChangeNotEncoded))
	}
	told, err := act.tell(entry, before, after, decision.Events)
	if err != nil {
		return act.answer(nil, act.readFailure(err))
	}
	err = act.write(entry)
	act.host.outbox.appended(act.term.epoch, told, err)
	switch {
	case err == nil:
	case errors.Is(err, errBehind):
		return err
	case decision.IfUnwritten != nil && surelyUnwritten(err):
		_ = act.answer(decision.IfUnwritten, nil)
		return err
	default:
		return act.answer(nil, err)
	}
	act.state = after
	return act.conclude(&decision, &Commit{Ref: act.entity(), Before: before, After: after, Events: decision.Events})
}

// entry builds the log entry of a decision.
func (act *activation) entry(decision *machine.Decision, after proto.Message) (*logpb.Append, error) {
	rules := act.kind.Machine
	entry := &logpb.Append{
		Id: act.id, Epoch: act.term.epoch, Create: decision.Create, DeleteEntity: decision.Delete,
		Events: make([][]byte, len(decision.Events)),
	}
	if act.state != nil {
		entry.ExpectedSeq = rules.Seq(act.state)
	}
	var err error
	if act.kind.Unkept {
		entry.Events, entry.Unkept = nil, uint32(len(decision.Events))
	}
	for i, event := range decision.Events[:len(entry.GetEvents())] {
		if entry.Events[i], err = proto.Marshal(event); err != nil {
			return nil, fmt.Errorf("encode event: %w", err)
		}
	}
	if after != nil {
		if entry.Head, err = proto.Marshal(after); err != nil {
			return nil, fmt.Errorf("encode head: %w", err)
		}
	}
	rules.Project(act.state, after, decision.Events, entry)
	return entry, nil
}

var errBehind = errors.New("the journal is ahead of the state")

// write appends an entry. Nil means that it is durable; any error means that it is not known to be.
func (act *activation) write(entry *logpb.Append) error {
	s := act.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(act.term.ctx, s.config.AppendTimeout)
	result, err := s.config.Journal.Append(ctx, act.host.shard, entry)
	cancel()
	s.metrics.appends.Observe(time.Since(start).Seconds())
	if err != nil {
		return act.appendFailure(entry, err)
	}
	switch result.GetOutcome() {
	case logpb.Outcome_APPLIED:
		act.host.prove(act.term, start)
		act.doubt.open = false
		return nil
	case logpb.Outcome_SEQ_MISMATCH, logpb.Outcome_EXISTS:
		act.drop()
		return errBehind
	case logpb.Outcome_FENCED:
		act.drop()
		act.host.fenced(act.term)
		return act.host.notOwner()
	default:
		return act.appendFailure(entry, fmt.Errorf("append said %s", result.GetOutcome()))
	}
}

// appendFailure turns a fault of the append into an answer. Where it is sure that nothing was written the state stands;
// else it is read again soon, and as long as it might still be written, for a turn may hang on it and followers may
// have missed events.
func (act *activation) appendFailure(entry *logpb.Append, err error) error {
	s := act.host.system
	count := func(reason string) { s.metrics.refused.WithLabelValues(reason).Inc() }
	switch {
	case errors.Is(err, ErrNotOwner):
		count("not_owner")
		act.drop()
		return act.host.notOwner()
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
	act.drop()
	unknown := &UnknownOutcomeError{Shard: act.host.shard, Epoch: act.term.epoch, Moved: true}
	if act.term.over.Load() {
		return unknown
	}
	s.log.Warn("outcome of an append is not known", slog.String("entity", act.id), slog.Uint64("epoch", act.term.epoch),
		slog.Any("err", err))
	act.doubt = doubt{open: !entry.GetCreate(), seq: entry.GetExpectedSeq()}
	act.wake()
	// A journal that gave up before the deadline has lost the shard; Disown is about to follow.
	unknown.Moved = errors.Is(err, ErrOutcomeUnknown) && !errors.Is(err, context.DeadlineExceeded)
	return unknown
}

// confirm verifies the ownership before an answer that is not backed by an append: another node may own the shard by now
// without this node knowing, and the answer would be stale. Without a sender there is nothing to confirm.
func (act *activation) confirm() error {
	if act.fresh || act.sender == nil {
		return nil
	}
	s := act.host.system
	start := time.Now()
	ctx, cancel := context.WithTimeout(act.term.ctx, s.config.LoadTimeout)
	err := s.config.Journal.Confirm(ctx, act.host.shard)
	cancel()
	if err != nil {
		return act.readFailure(err)
	}
	if !act.host.prove(act.term, start) {
		return act.host.notOwner()
	}
	act.fresh = true
	return nil
}

// readFailure turns a fault of a read into an answer. Nothing was done.
func (act *activation) readFailure(err error) error {
	switch {
	case act.term.over.Load():
		return act.host.refusal()
	case errors.Is(err, ErrNotOwner):
		return act.host.notOwner()
	case errors.Is(err, ErrFailed):
		return failure.New(failurepb.Code_STORAGE_FAILED, failure.StoreBroken)
	}
	act.host.system.log.Warn("shard could not be read", slog.String("entity", act.id), slog.Any("err", err))
	return unavailable(failure.StateNotRead)
}

// conclude does everything that had to wait for durability: answer, settle waiters, notify followers, run effects.
func (act *activation) conclude(decision *machine.Decision, commit *Commit) error {
	if decision.Wait != "" && act.sender != nil {
		act.wait(decision.Wait)
	} else {
		_ = act.answer(decision.Reply, nil)
	}
	for _, settlement := range decision.Settle {
		act.settle(settlement)
	}
	if decision.Delete {
		act.settleAll(failure.New(failurepb.Code_NOT_FOUND, failure.EntityDeleted))
	}
	if commit != nil && act.kind.OnCommit != nil {
		act.kind.OnCommit(*commit)
	}
	if !act.term.over.Load() { // otherwise the next owner runs them
		act.perform(decision.Effects)
	}
	return nil
}

// perform runs effects. The commands they return are queued behind the current command.
func (act *activation) perform(effects []machine.Effect) {
	for _, effect := range effects {
		if timer, isTimer := effect.(machine.Timer); isTimer {
			act.arm(timer.After, &alarm{command: timer.Command, key: timer.Key})
			continue
		}
		if act.kind.Perform == nil {
			continue
		}
		if next := act.kind.Perform(act.entity(), effect); next != nil {
			act.next = append(act.next, next)
		}
	}
}

func (act *activation) entity() Entity {
	return kit.NewRef(act.host.shard, act.term.epoch, act.id, commander{act.host.system})
}

// answer replies to the sender, if there is one that has not been answered yet, and returns err.
func (act *activation) answer(reply proto.Message, err error) error {
	if a := act.sender; a != nil {
		act.sender = nil
		a.answer(reply, err)
	}
	return err
}

// drop discards the state, which is read again before the next command. If the stored state has changed by then, an append
// was applied whose settlements were never delivered, and remaining waiters are told to ask again.
func (act *activation) drop() {
	if act.loaded && act.state != nil {
		act.settledSeq = act.kind.Machine.Seq(act.state)
	}
	act.loaded, act.state, act.packed = false, nil, nil
}

// worthRetry reports whether a command failed for a temporary reason.
func worthRetry(err error) bool { return kit.WorthRetry(err) }

// surelyUnwritten reports whether an append error means that this node still owns the shard and nothing was written.
func surelyUnwritten(err error) bool {
	var unknown *UnknownOutcomeError
	return !follow.IsNotOwner(err) && !errors.As(err, &unknown)
}
