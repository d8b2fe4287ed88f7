package balance

import (
	"log/slog"
	"maps"
	"slices"
	"time"

	"parley/cluster/shard"
)

const (
	// slowFactor and slowLeast say when a log is slow: it takes that many times as long as another node's in the middle, and that long.
	slowFactor = 4
	slowLeast  = 200 * time.Millisecond
	// slowHold is how long a node whose log was slow gets no leaderships; it doubles each time it is slow again, up to slowHoldMost, and
	// begins anew after slowForgotten.
	slowHold      = time.Minute
	slowHoldMost  = 16 * time.Minute
	slowForgotten = time.Hour
)

// slowLog is what the loop remembers of a log that is slow, or was: a node with few leaderships writes less, and seems well.
type slowLog struct {
	since time.Time // by all reports since then; zero = not by the last one
	until time.Time // the node gets no leaderships till then
	times int
}

// judgeLogs marks the nodes whose logs are so slow that others should lead. A log is judged by those of the others: where all are slow,
// moving helps nobody. It must be slow for as long as Settle.
func (l *Loop) judgeLogs(seen *observation, now time.Time) {
	for i := range seen.view.Nodes {
		n := &seen.view.Nodes[i]
		log := l.logs[n.ID]
		switch {
		case !seen.slow(n.ID):
			log.since = time.Time{}
		case log.since.IsZero():
			log.since = now
		case now.Sub(log.since) >= l.config.Settle:
			if now.After(log.until) {
				log.times++
				l.config.Logger.Warn("the log of a node is slow, others should lead", slog.String("node", n.Name),
					slog.Duration("delay", seen.delays[n.ID]), slog.Int("times", log.times))
			}
			log.until = now.Add(min(slowHold<<min(log.times-1, 10), slowHoldMost))
		}
		l.logs[n.ID] = log
		n.Slow = now.Before(log.until)
	}
	maps.DeleteFunc(l.logs, func(_ shard.NodeID, log slowLog) bool {
		return now.Sub(log.since) > slowForgotten && now.Sub(log.until) > slowForgotten // well for long, or gone
	})
}

// slow reports whether a node's log takes much longer than those of the other live nodes that say.
func (o *observation) slow(id shard.NodeID) bool {
	var others []time.Duration
	for i := range o.view.Nodes {
		if n := &o.view.Nodes[i]; n.Live && n.ID != id {
			others = append(others, o.delays[n.ID])
		}
	}
	return Slow(o.delays[id], others)
}

// Slow reports whether a log that takes delay is slow beside others. Logs that take 0 do not say.
func Slow(delay time.Duration, others []time.Duration) bool {
	others = slices.DeleteFunc(slices.Clone(others), func(other time.Duration) bool { return other == 0 })
	if len(others) == 0 || delay < slowLeast {
		return false
	}
	slices.Sort(others)
	return delay >= slowFactor*others[(len(others)-1)/2]
}
