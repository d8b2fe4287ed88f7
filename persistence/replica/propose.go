package replica

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"go.etcd.io/raft/v3/raftpb"
)

// proposal is one call waiting for its entry to be applied. It is answered exactly once, by whoever holds it when its
// outcome is known.
type proposal struct {
	group *group
	data  []byte
	kind  raftpb.EntryType
	// check runs in the raft loop just before a membership change is proposed.
	check func() error
	// at is the position of the entry, once it has one.
	at position

	result any
	err    error
	state  atomic.Int32
	done   chan struct{}
}

const (
	proposalWaiting int32 = iota
	proposalAnswered
	proposalAbandoned
)

type proposalPool struct{ pool sync.Pool }

func (pp *proposalPool) get() *proposal {
	if p, ok := pp.pool.Get().(*proposal); ok {
		return p
	}
	return &proposal{done: make(chan struct{}, 1)}
}

func (pp *proposalPool) put(p *proposal) {
	done := p.done
	*p = proposal{done: done}
	pp.pool.Put(p)
}

// Propose replicates data in the log of a group and returns what the StateMachine made of it here. data must not change after the call. Errors:
// ErrNotLeader, ErrBusy, ErrTooLarge, ErrFailed, ErrStopped, ErrUnknownGroup or that of Writable mean nothing was written;
// ErrOutcomeUnknown (which may also match ErrFailed, ErrStopped or the context's error) means it may have been.
func (d *Driver) Propose(ctx context.Context, group GroupID, data []byte) (any, error) {
	g, err := d.admit(ctx, group, len(data))
	if err != nil {
		d.metrics.refused.Inc()
		return nil, err
	}
	p := d.pool.get()
	p.group, p.data = g, data
	return d.await(ctx, p)
}

// admit decides, outside the loop, whether a proposal is accepted.
func (d *Driver) admit(ctx context.Context, id GroupID, size int) (*group, error) {
	g := d.table.get(id)
	switch {
	case g == nil:
		return nil, fmt.Errorf("%w %d", ErrUnknownGroup, id)
	case d.Err() != nil:
		return nil, d.Err()
	case size == 0:
		return nil, errEmptyProposal
	case size > d.cfg.MaxProposalBytes:
		return nil, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, size, d.cfg.MaxProposalBytes)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case !d.running.Load():
		return nil, ErrStopped
	case !g.shared.leading.Load():
		return nil, g.notLeader()
	}
	if err := d.cfg.Writable(); err != nil {
		return nil, err
	}
	if g.shared.pendingProposals.Load() >= int64(d.cfg.MaxPending) {
		return nil, ErrBusy
	}
	return g, nil
}

var errEmptyProposal = errors.New("empty proposal")

// await passes the proposal to the loop and waits for its answer.
func (d *Driver) await(ctx context.Context, p *proposal) (any, error) {
	g := p.group
	g.shared.pendingProposals.Add(1)
	if !d.inbox.propose(p) {
		g.shared.pendingProposals.Add(-1)
		d.pool.put(p)
		d.metrics.refused.Inc()
		return nil, d.closedErr()
	}
	select {
	case <-p.done:
	case <-ctx.Done():
		if p.abandon() {
			d.metrics.unknown.Inc()
			return nil, fmt.Errorf("%w: %w", ErrOutcomeUnknown, ctx.Err())
		}
	case <-d.failed:
		// The goroutine that holds the proposal may be stuck in a commit.
		if p.abandon() {
			d.metrics.unknown.Inc()
			return nil, d.unknownErr()
		}
	}
	result, err := p.result, p.err
	d.pool.put(p)
	switch {
	case err == nil:
		d.metrics.applied.Inc()
	case errors.Is(err, ErrOutcomeUnknown):
		d.metrics.unknown.Inc()
	default:
		d.metrics.refused.Inc()
	}
	return result, err
}

// abandon gives the proposal up and is true, unless the answer is coming; then it waits for the answer.
func (p *proposal) abandon() bool {
	if p.state.CompareAndSwap(proposalWaiting, proposalAbandoned) {
		return true
	}
	<-p.done
	return false
}

// answer ends a proposal. The caller must not touch it afterwards.
func (d *Driver) answer(p *proposal, result any, err error) {
	p.group.shared.pendingProposals.Add(-1)
	p.result, p.err = result, err
	if p.state.CompareAndSwap(proposalWaiting, proposalAnswered) {
		p.done <- struct{}{}
		return
	}
	d.pool.put(p)
}

func (d *Driver) answerAll(ps []*proposal, err error) {
	for i, p := range ps {
		if p != nil {
			ps[i] = nil
			d.answer(p, nil, err)
		}
	}
}
