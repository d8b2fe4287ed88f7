package balance

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"parley/cluster/shard"
)

// Loop is the placement loop. It owns one goroutine, and one more for each step while it is made.
type Loop struct {
	config  Config
	metrics *metrics
	wake    chan struct{}
	stop    context.CancelFunc
	running sync.WaitGroup

	// The rest belongs to the goroutine.
	acting  bool
	resting map[shard.ID]rest
	epochs  map[shard.ID]shard.Epoch // of leaders as last seen
	moved   time.Time                // a leader changed by itself then
	since   time.Time                // acting
	outdone time.Time                // since then another could reach more nodes than the directory's leader; zero = none could

	mu     sync.Mutex // guards what Status tells
	status Status
}

// rest is why a shard is left alone for a while.
type rest struct {
	// until is when it may be touched again after a step that failed; failures is how many did in a row.
	until    time.Time
	failures int
	// made is when its last step was: what its leader reported before that is old news.
	made time.Time
	// heir is whom its leadership was handed to, and handed when.
	heir   shard.NodeID
	handed time.Time
}

// New returns a loop that has not started.
func New(config Config) (*Loop, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	return &Loop{
		config: config, metrics: newMetrics(config.Registerer), wake: make(chan struct{}, 1),
		resting: make(map[shard.ID]rest), epochs: make(map[shard.ID]shard.Epoch),
	}, nil
}

// Start begins to look.
func (l *Loop) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop = cancel
	l.running.Go(func() { l.run(ctx) })
}

// Stop ends the loop and waits for it. Steps that are being made are given up; it may be that they come to pass. It is
// safe before Start and more than once.
func (l *Loop) Stop() {
	if l.stop != nil {
		l.stop()
	}
	l.running.Wait()
}

// Poke has the loop look soon. It never blocks.
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
			// A change seldom comes alone.
			timer.Reset(l.config.Interval / 20)
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
			}
		case <-timer.C:
		}
		l.look(ctx)
		timer.Reset(l.config.Interval)
	}
}

// look is one round: observe, plan, make the steps.
func (l *Loop) look(ctx context.Context) {
	if acting := l.config.Leading(); acting != l.acting {
		l.acting, l.since = acting, time.Now()
		l.outdone = time.Time{}
		clear(l.resting)
		clear(l.epochs)
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
	policy := l.config.Policy
	policy.Busy, policy.Unsettled = l.busy(seen, time.Now()), l.unsettled(seen, time.Now())
	policy.Outreached = l.outreached(seen, time.Now())
	steps := slices.DeleteFunc(shard.Plan(seen.view, policy), l.tooSoon)
	l.note(seen, len(steps)+len(policy.Busy))
	l.makeAll(ctx, seen, steps)
}

// busy are the shards that are left alone: their last step failed not long ago, or their leader has not reported since.
func (l *Loop) busy(seen *observation, now time.Time) map[shard.ID]bool {
	busy := make(map[shard.ID]bool)
	for in, r := range l.resting {
		unseen := !seen.heard[in].After(r.made) && now.Sub(r.made) < l.config.Silence
		if now.Before(r.until) || unseen {
			busy[in] = true
		}
	}
	return busy
}

// unsettled says that leaders changed a moment ago without this loop's doing.
func (l *Loop) unsettled(seen *observation, now time.Time) bool {
	for _, g := range seen.view.Groups {
		if l.epochs[g.Shard] == g.Epoch {
			continue
		}
		l.epochs[g.Shard] = g.Epoch
		if r := l.resting[g.Shard]; r.heir != g.Leader || now.Sub(r.handed) > l.config.Settle {
			l.moved = now
		}
	}
	return now.Sub(l.moved) < l.config.Settle
}

// outreached says that the directory would be better led by another, and was when last looked: one that dies is not
// missed by all at the same moment.
func (l *Loop) outreached(seen *observation, now time.Time) bool {
	switch {
	case !shard.Outreached(seen.view, l.config.Policy):
		l.outdone = time.Time{}
	case l.outdone.IsZero():
		l.outdone = now
	default:
		return now.Sub(l.outdone) >= l.config.Interval
	}
	return false
}

// tooSoon says of a deletion that the shard's members changed a moment ago: a copy is not deleted while its node may not
// have heard the last of its leader.
func (l *Loop) tooSoon(step shard.Step) bool {
	last := l.resting[step.Shard].made
	if last.Before(l.since) {
		last = l.since // whoever acted before may have changed them
	}
	return step.Change == shard.Drop && time.Since(last) < l.config.Interval
}

// made says how a step ended.
func (l *Loop) made(step *shard.Step, err error, now time.Time) {
	last := l.resting[step.Shard]
	r := rest{made: now, heir: last.heir, handed: last.handed}
	if step.Change == shard.Transfer {
		r.heir, r.handed = step.Node, now
	}
	if err != nil {
		r.failures = min(last.failures+1, 30)
		pause := min(l.config.Retry<<min(r.failures-1, 10), 30*l.config.Retry)
		r.until = now.Add(pause)
	}
	l.resting[step.Shard] = r
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
