package deliver

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"time"
)

// LanesConfig bounds what Lanes run; zero values mean the defaults.
type LanesConfig struct {
	// Max is how many jobs run at a time. Default 128.
	Max int
	// PerTarget is how many of them may have the same target: below Max, so that no target can use all of it. Default 16.
	PerTarget int
	// MaxWaiting is how many jobs wait at a time. Default 10,000.
	MaxWaiting int
}

// Job is one attempt that waits for room. Exactly one of Run and Late is called; neither if the lanes are stopped first.
type Job struct {
	Target string                    // see TargetOf
	Wait   time.Duration             // how long it may wait for room
	Run    func(ctx context.Context) // makes the attempt
	Late   func(ctx context.Context) // instead of Run, if there was no room in time
}

// Lanes run jobs side by side. Jobs of one target begin in the order in which they came, PerTarget at a time; targets with
// waiting jobs take turns, so a slow or dead target delays only its own jobs. Safe for concurrent use.
type Lanes struct {
	config LanesConfig
	life   context.Context //nolint:containedctx // of all jobs, until Stop
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		lanes   map[string]*lane
		turns   []*lane // that have a job which may run, each once, the next one first
		running int
		waiting int
		over    bool
	}
}

// lane is the jobs of one target.
type lane struct {
	target  string
	waiting []*waitingJob // oldest first
	running int
	queued  bool // it is in turns
}

type waitingJob struct {
	Job

	timer *time.Timer
	taken bool // it runs, or is late
}

// NewLanes makes Lanes.
func NewLanes(config LanesConfig) (*Lanes, error) {
	if config.Max < 0 || config.PerTarget < 0 || config.MaxWaiting < 0 {
		return nil, errors.New("deliver: Max, PerTarget and MaxWaiting must not be negative")
	}
	config.Max, config.PerTarget = cmp.Or(config.Max, 128), cmp.Or(config.PerTarget, 16)
	config.MaxWaiting = cmp.Or(config.MaxWaiting, 10_000)
	l := &Lanes{config: config}
	l.life, l.end = context.WithCancel(context.Background())
	l.mu.lanes = make(map[string]*lane)
	return l, nil
}

// TargetOf returns the target of a URL: its host and port. A URL that cannot be parsed is a target of its own.
func TargetOf(text string) string {
	target, err := url.Parse(text)
	if err != nil || target.Host == "" {
		return text
	}
	return strings.ToLower(target.Host)
}

// Add runs a job as soon as there is room. It returns false, and calls nothing, if too many jobs wait or the lanes are stopped.
func (l *Lanes) Add(job Job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.over || l.mu.waiting >= l.config.MaxWaiting {
		return false
	}
	of := l.mu.lanes[job.Target]
	if of == nil {
		of = &lane{target: job.Target}
		l.mu.lanes[job.Target] = of
	}
	one := &waitingJob{Job: job}
	of.waiting = append(of.waiting, one)
	l.mu.waiting++
	l.queueLocked(of)
	l.startLocked()
	if !one.taken {
		one.timer = time.AfterFunc(job.Wait, func() { l.late(of, one) })
	}
	return true
}

// Waiting is how many jobs wait for room.
func (l *Lanes) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.waiting
}

// Stop forgets the jobs that wait, ends the context of those that run, and waits for them.
func (l *Lanes) Stop() {
	l.mu.Lock()
	l.mu.over = true
	for _, of := range l.mu.lanes {
		for _, one := range of.waiting {
			one.taken = true
			one.timer.Stop()
		}
	}
	clear(l.mu.lanes)
	l.mu.turns, l.mu.waiting = nil, 0
	l.mu.Unlock()
	l.end()
	l.wg.Wait()
}

// queueLocked gives a lane its turn when it has a job that may run.
func (l *Lanes) queueLocked(of *lane) {
	for len(of.waiting) > 0 && of.waiting[0].taken { // late
		of.waiting = of.waiting[1:]
	}
	if !of.queued && len(of.waiting) > 0 && of.running < l.config.PerTarget {
		of.queued = true
		l.mu.turns = append(l.mu.turns, of)
	}
	if len(of.waiting) == 0 && of.running == 0 {
		delete(l.mu.lanes, of.target)
	}
}

// startLocked starts jobs, as far as there is room.
func (l *Lanes) startLocked() {
	for len(l.mu.turns) > 0 && l.mu.running < l.config.Max {
		of := l.mu.turns[0]
		l.mu.turns = l.mu.turns[1:]
		of.queued = false
		one := l.firstLocked(of)
		if one != nil {
			of.running++
			l.mu.running++
			l.wg.Go(func() {
				defer l.ended(of)
				one.Run(l.life)
			})
		}
		l.queueLocked(of)
	}
}

// firstLocked takes the oldest job of a lane that is not late, nil = there is none.
func (l *Lanes) firstLocked(of *lane) *waitingJob {
	for len(of.waiting) > 0 {
		one := of.waiting[0]
		of.waiting = of.waiting[1:]
		if !one.taken {
			l.takeLocked(one)
			return one
		}
	}
	return nil
}

func (l *Lanes) takeLocked(one *waitingJob) {
	one.taken = true
	l.mu.waiting--
	if one.timer != nil {
		one.timer.Stop()
	}
}

func (l *Lanes) ended(of *lane) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of.running--
	l.mu.running--
	if l.mu.over {
		return
	}
	l.queueLocked(of)
	l.startLocked()
}

// late gives up a job that has waited too long.
func (l *Lanes) late(of *lane, one *waitingJob) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.taken || l.mu.over {
		return
	}
	l.takeLocked(one)
	l.queueLocked(of)
	l.wg.Go(func() { one.Late(l.life) })
}
