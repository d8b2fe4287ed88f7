package balance

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/cluster/shard"
)

// Loop is the placement loop. It runs one goroutine, and one more for each step while that is carried out.
type Loop struct {
	config  Config
	metrics *metrics
	wake    chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	// The following fields belong to the goroutine.
	acting     bool
	last       map[shard.ID]lastStep
	epochs     map[shard.ID]shard.Epoch // of the leaders at the last round
	moved      time.Time                // when a leader last changed without the loop's doing
	since      time.Time                // when the loop began to act
	uneven     time.Time                // since when leaders could be spread more evenly; zero = they could not
	outreached time.Time                // since when another node reaches more nodes than the directory's leader; zero = none does
	logs       map[shard.NodeID]slowLog // of nodes whose log is slow, or was

	mu     sync.Mutex // guards status
	status Status
}

// lastStep is what the loop remembers of the last steps of a shard.
type lastStep struct {
	// until is when the shard may get another step after failed ones; failures is how many failed in a row.
	until    time.Time
	failures int
	// at is when the last step ended: earlier reports of the leader are out of date.
	at time.Time
	// successor is the node that the leadership was last transferred to, at transferred.
	successor   shard.NodeID
	transferred time.Time
}

// New returns a loop that has not started.
func New(config Config) (*Loop, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Loop{
		config: config, metrics: newMetrics(config.Registerer), wake: make(chan struct{}, 1),
		last: make(map[shard.ID]lastStep), epochs: make(map[shard.ID]shard.Epoch), logs: make(map[shard.NodeID]slowLog),
	}, nil
}

// Start starts the loop.
func (l *Loop) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.running.Go(func() { l.run(ctx) })
}

// Stop ends the loop and waits for it. Steps under way are abandoned, but may still take effect. Stop may be called before Start
// and more than once.
func (l *Loop) Stop() {
	if l.stop != nil {
		l.stop()
	}
	l.running.Wait()
}

// Poke makes the loop run a round soon. It never blocks.
func (l *Loop) Poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Loop) run(ctx context.Context) {
	timer := time.NewTimer(l.config.Interval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
			// Changes come in bursts.
			timer.Reset(l.config.Interval / 20)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		case <-timer.C:
		}
		l.round(ctx)
		timer.Reset(l.config.Interval)
	}
}

// round observes the cluster, plans, and carries out the steps.
func (l *Loop) round(ctx context.Context) {
	if acting := l.config.Leading(); acting != l.acting {
		l.acting, l.since = acting, time.Now()
		l.outreached, l.uneven = time.Time{}, time.Time{}
		clear(l.last)
		clear(l.epochs)
		clear(l.logs)
		l.metrics.acting.Set(float64(btoi(acting)))
		l.config.Logger.Info("placement", slog.Bool("acting", acting))
	}
	if !l.acting {
		l.note(nil, 0)
		return
	}
	records, err := l.config.Nodes.Records(ctx)
	if err != nil {
		l.config.Logger.Warn("read node records", slog.Any("err", err))
		return
	}
	board := l.config.Board.Snapshot()
	records = l.register(ctx, records, &board)
	seen := observe(records, &board, l.config.Shards, l.config.Silence)
	l.judgeLogs(seen, time.Now())
	policy := l.config.Policy
	policy.Busy, policy.Unsettled = l.busy(seen, time.Now()), l.unsettled(seen, time.Now())
	policy.Outreached = l.outreachedLong(seen, time.Now())
	policy.AtRest = l.patient(seen, policy, time.Now())
	steps := slices.DeleteFunc(shard.Plan(seen.view, policy), l.tooSoon)
	l.note(seen, len(steps)+len(policy.Busy))
	l.carryOut(ctx, seen, steps)
}

// busy returns the shards that get no step in this round: their last step failed recently, or their leader has not reported since.
func (l *Loop) busy(seen *observation, now time.Time) map[shard.ID]bool {
	busy := make(map[shard.ID]bool)
	for in, last := range l.last {
		unreported := !seen.heard[in].After(last.at) && now.Sub(last.at) < l.config.Silence
		if now.Before(last.until) || unreported {
			busy[in] = true
		}
	}
	return busy
}

// unsettled reports whether a leader changed recently without this loop's doing.
func (l *Loop) unsettled(seen *observation, now time.Time) bool {
	for _, g := range seen.view.Groups {
		if l.epochs[g.Shard] == g.Epoch {
			continue
		}
		l.epochs[g.Shard] = g.Epoch
		if last := l.last[g.Shard]; last.successor != g.Leader || now.Sub(last.transferred) > l.config.Settle {
			l.moved = now
		}
	}
	return now.Sub(l.moved) < l.config.Settle
}

// outreachedLong reports whether another node would lead the directory better, now and in an earlier round: nodes do not notice
// the death of one at the same moment.
func (l *Loop) outreachedLong(seen *observation, now time.Time) bool {
	switch {
	case !shard.Outreached(seen.view, l.config.Policy):
		l.outreached = time.Time{}
	case l.outreached.IsZero():
		l.outreached = now
	default:
		return now.Sub(l.outreached) >= l.config.Interval
	}
	return false
}

// patient reports whether shards with running turns may still stay where they are, although leaders are not spread evenly.
func (l *Loop) patient(seen *observation, policy shard.Policy, now time.Time) bool {
	switch {
	case !shard.Uneven(seen.view, policy):
		l.uneven = time.Time{}
	case l.uneven.IsZero():
		l.uneven = now
	default:
		return now.Sub(l.uneven) < l.config.Patience
	}
	return true
}

// tooSoon reports whether a step deletes a replica of a shard whose members changed recently: its node may not have received all
// that its leader sent.
func (l *Loop) tooSoon(step shard.Step) bool {
	changed := l.last[step.Shard].at
	if changed.Before(l.since) {
		changed = l.since // the loop that acted before may have changed them
	}
	return step.Change == shard.Drop && time.Since(changed) < l.config.Interval
}

// ended notes the end of a step.
func (l *Loop) ended(step *shard.Step, err error, now time.Time) {
	before := l.last[step.Shard]
	last := lastStep{at: now, successor: before.successor, transferred: before.transferred}
	if step.Change == shard.Transfer {
		last.successor, last.transferred = step.Node, now
	}
	if err != nil {
		last.failures = min(before.failures+1, 30)
		pause := min(l.config.Retry<<min(last.failures-1, 10), 30*l.config.Retry)
		last.until = now.Add(pause)
	}
	l.last[step.Shard] = last
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
