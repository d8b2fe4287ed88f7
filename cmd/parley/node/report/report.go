// Package report tells the other nodes what this one holds and leads, and whether it stops or cannot write.
package report

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/cluster"
	"parley/cluster/peer"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/proto/nodepb"
)

// reportEvery is the longest time between two reports; reportPause the shortest, so that a burst of changes is one, but for Announce.
const (
	reportEvery = time.Second
	reportPause = 5 * time.Millisecond
)

// Config is what a node reports about itself with.
type Config struct {
	Name    string
	Boot    string
	Node    uint64
	Store   *persistence.Store
	Owners  *cluster.Owners
	Board   *cluster.Board
	Members func() []uint64 // the other live nodes
	Send    func(to uint64, kind peer.Kind, frames [][]byte)
	Cut     func() []uint64 // the other live nodes that this one has no connection to
	Level   func() uint32   // feature level that this node accepts
	Turns   func(shard uint32) int
	Logger  *slog.Logger
}

// Reporter sends what this node holds and leads to all nodes and to its own board.
type Reporter struct {
	Config

	leaving  atomic.Bool // it stops
	unfit    atomic.Bool // it cannot write
	sequence uint64
	wake     chan struct{}
	announce chan struct{}
}

// New returns a reporter that has not reported anything yet.
func New(c Config) *Reporter {
	return &Reporter{Config: c, wake: make(chan struct{}, 1), announce: make(chan struct{}, 1)}
}

// SetUnfit says whether this node cannot write, and reports a change of that. It returns what was said before.
func (r *Reporter) SetUnfit(unfit bool) (before bool) {
	if before = r.unfit.Swap(unfit); before != unfit {
		r.Poke()
	}
	return before
}

// Poke requests a report soon. It never blocks.
func (r *Reporter) Poke() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// Announce requests a report at once, for what calls on all nodes wait for: that this node owns a shard. It never blocks.
func (r *Reporter) Announce() {
	select {
	case r.announce <- struct{}{}:
	default:
	}
}

// Leave makes all further reports say that this node stops.
func (r *Reporter) Leave() {
	r.leaving.Store(true)
	r.Poke()
}

// Run reports until ctx ends: at each poke, and at least every reportEvery.
func (r *Reporter) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.wake:
		case <-r.announce:
		case <-timer.C:
		}
		if err := r.report(ctx); err != nil && ctx.Err() == nil {
			r.Logger.Warn("no report", slog.Any("err", err))
		}
		pause := time.NewTimer(reportPause)
		select {
		case <-ctx.Done():
		case <-pause.C:
		case <-r.announce:
			r.Poke()
		}
		pause.Stop()
		timer.Reset(reportEvery)
	}
}

func (r *Reporter) report(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reportEvery)
	defer cancel()
	held, err := r.Store.Replicas(ctx)
	if err != nil {
		return err
	}
	r.sequence++
	made := &nodepb.Report{
		Node: r.Node, Name: r.Name, Boot: r.Boot, Sequence: r.sequence, Leaving: r.leaving.Load() || r.unfit.Load(), DiskFree: r.Store.FreeBytes(),
		Unreached: r.Cut(), Level: r.Level(), LogDelayMs: uint32(r.Store.LogDelay().Milliseconds()), Replicas: make([]*nodepb.Replica, 0, len(held)),
	}
	for i := range held {
		made.Replicas = append(made.Replicas, r.replica(&held[i]))
	}
	r.Board.Report(made)
	frame, err := proto.Marshal(made)
	if err != nil {
		return err
	}
	for _, to := range r.Members() {
		r.Send(to, peer.KindReport, [][]byte{frame})
	}
	return nil
}

// replica reports a shard as led only once this node serves its entities.
func (r *Reporter) replica(s *persistence.ReplicaStatus) *nodepb.Replica {
	made := &nodepb.Replica{
		Shard: s.Group, Epoch: s.Term, Applied: s.Applied, Bytes: s.StateBytes, Initialised: s.Initialised,
	}
	owner, known := r.Owners.Owner(shard.ID(s.Group))
	if !s.Leading || !known || owner.Node != r.Name || uint64(owner.Epoch) != s.Term {
		return made
	}
	made.Leading, made.Voters, made.Learners, made.Turns = true, s.Members.Voters, s.Members.Learners, uint32(r.Turns(s.Group))
	for _, lag := range s.Lags {
		made.Lags = append(made.Lags, &nodepb.Lag{Node: lag.Node, Entries: lag.Entries, Active: lag.Active})
	}
	return made
}
