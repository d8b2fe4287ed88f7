package deliver

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// LanesConfig bounds what Lanes run; zero values mean the defaults.
type LanesConfig struct {
	// Max is how many places there are. Default 128.
	Max int
	// PerTarget is how many of them may have the same target: below Max, so that no target can use all of it. Default 16.
	PerTarget int
	// MaxWaiting is how many jobs wait at a time, not counting those who wait in Take. Default 10,000.
	MaxWaiting int
}

// Place says whose a place is.
type Place struct {
	Tenant string // who has caused what is done there
	Target string // see TargetOf
	Slow   bool   // it will take long: all of these together have at most half of the places
}

// Job is one attempt that waits for a place. Exactly one of Run and Late is called; neither if the lanes are stopped first.
type Job struct {
	Place

	Wait time.Duration             // how long it may wait
	Run  func(ctx context.Context) // makes the attempt
	Late func(ctx context.Context) // instead of Run, if there was no place in time
}

// Lanes have places for what is done side by side, and give them fairly: by tenant first, then by target. A free place is for the
// tenant that has the fewest, those that have as many take turns, and so do the targets of each. Jobs of a tenant for one target begin
// in the order in which they came. What holds a place cannot be made to leave it, so nobody gets so many that others have to
// wait for it, see room. Safe for concurrent use.
type Lanes struct {
	config LanesConfig
	slow   int             // places for those that are slow
	life   context.Context //nolint:containedctx // of all jobs, until Stop
	end    context.CancelFunc
	wg     sync.WaitGroup

	mu struct {
		sync.Mutex
		tenants map[string]*tenant
		turns   []*tenant      // that wait for a place, the next one first
		targets map[string]int // places that each has
		held
		over bool
	}
}

// held is how many places somebody has, and waits for.
type held struct{ running, slow, waiting int }

// tenant is the jobs of one tenant.
type tenant struct {
	held

	name  string
	lanes map[string]*lane // by target
	turns []*lane          // that wait for a place, the next one first
}

// lane is the jobs of one tenant for one target.
type lane struct {
	tenant  *tenant
	target  string
	waiting []*waiting // oldest first
	running int
}

// waiting is somebody who waits for a place.
type waiting struct {
	lane  *lane
	slow  bool
	start func() // is called with the lock
	timer *time.Timer
	taken bool // it does not wait any more
}

// NewLanes makes Lanes.
func NewLanes(config LanesConfig) (*Lanes, error) {
	if config.Max < 0 || config.PerTarget < 0 || config.MaxWaiting < 0 {
		return nil, errors.New("deliver: Max, PerTarget and MaxWaiting must not be negative")
	}
	config.Max, config.PerTarget = cmp.Or(config.Max, 128), cmp.Or(config.PerTarget, 16)
	config.MaxWaiting = cmp.Or(config.MaxWaiting, 10_000)
	l := &Lanes{config: config, slow: max(1, config.Max/2)}
	l.life, l.end = context.WithCancel(context.Background())
	l.mu.tenants, l.mu.targets = make(map[string]*tenant), make(map[string]int)
	return l, nil
}

// room says whether one who has some of most places may have another while some are free: at most three quarters of what others
// leave, and the last eighth is for those who have none. Of less than four somebody may have all.
func room(has, free, most int) bool {
	const share, reserve = 3, 8
	return has == 0 && free > 0 || has < share*free && free > most/reserve
}

// TargetOf returns the target of a URL: its host and port. A URL that cannot be parsed is a target of its own.
func TargetOf(text string) string {
	target, err := url.Parse(text)
	if err != nil || target.Host == "" {
		return text
	}
	return strings.ToLower(target.Host)
}

// Add runs a job as soon as there is a place. It returns false, and calls nothing, if too many jobs wait, of its tenant or in all, or the
// lanes are stopped.
func (l *Lanes) Add(job Job) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	has := 0
	if of := l.mu.tenants[job.Tenant]; of != nil {
		has = of.waiting
	}
	if l.mu.over || !room(has, l.config.MaxWaiting-l.mu.waiting, l.config.MaxWaiting) {
		return false
	}
	one := l.waitLocked(job.Place)
	one.start = func() {
		l.wg.Go(func() {
			defer l.leave(one)
			job.Run(l.life)
		})
	}
	l.startLocked()
	if !one.taken {
		one.timer = time.AfterFunc(job.Wait, func() { l.late(one, job.Late) })
	}
	return true
}

// Take waits for a place, which is given back by leave. false: ctx has ended first. Stop is not for those who take.
func (l *Lanes) Take(ctx context.Context, at Place) (leave func(), ok bool) {
	got := make(chan struct{})
	l.mu.Lock()
	one := l.waitLocked(at)
	one.start = func() { close(got) }
	l.startLocked()
	l.mu.Unlock()
	select {
	case <-got:
		return func() { l.leave(one) }, true
	case <-ctx.Done():
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.taken { // at the same time
		l.leaveLocked(one)
	} else {
		l.takeLocked(one)
		l.startLocked() // what it held back
	}
	return nil, false
}

// Waiting is how many wait for a place.
func (l *Lanes) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.waiting
}

// Running is how many places are taken.
func (l *Lanes) Running() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mu.running
}

// Stop forgets the jobs that wait, ends the context of those that run, and waits for them.
func (l *Lanes) Stop() {
	l.mu.Lock()
	l.mu.over = true
	for _, by := range l.mu.tenants {
		for _, of := range by.turns {
			for _, one := range of.waiting {
				one.taken = true
				one.timer.Stop()
			}
			of.waiting = nil
		}
		by.turns = nil
	}
	l.mu.turns, l.mu.waiting = nil, 0
	l.mu.Unlock()
	l.end()
	l.wg.Wait()
}

// waitLocked begins to wait for a place.
func (l *Lanes) waitLocked(at Place) *waiting {
	by := l.mu.tenants[at.Tenant]
	if by == nil {
		by = &tenant{name: at.Tenant, lanes: make(map[string]*lane)}
		l.mu.tenants[at.Tenant] = by
	}
	of := by.lanes[at.Target]
	if of == nil {
		of = &lane{tenant: by, target: at.Target}
		by.lanes[at.Target] = of
	}
	if len(by.turns) == 0 {
		l.mu.turns = append(l.mu.turns, by)
	}
	if len(of.waiting) == 0 {
		by.turns = append(by.turns, of)
	}
	one := &waiting{lane: of, slow: at.Slow}
	of.waiting = append(of.waiting, one)
	by.waiting++
	l.mu.waiting++
	return one
}

// takeLocked ends the wait for a place.
func (l *Lanes) takeLocked(one *waiting) {
	of, by := one.lane, one.lane.tenant
	one.taken = true
	if one.timer != nil {
		one.timer.Stop()
	}
	of.waiting = without(of.waiting, one)
	by.waiting--
	l.mu.waiting--
	if len(of.waiting) == 0 {
		by.turns = without(by.turns, of)
	}
	if len(by.turns) == 0 {
		l.mu.turns = without(l.mu.turns, by)
	}
	l.forgetLocked(of)
}

// forgetLocked forgets who has nothing any more.
func (l *Lanes) forgetLocked(of *lane) {
	if len(of.waiting) == 0 && of.running == 0 {
		delete(of.tenant.lanes, of.target)
	}
	if len(of.tenant.lanes) == 0 {
		delete(l.mu.tenants, of.tenant.name)
	}
}

// without is a list without the first that is the one.
func without[T comparable](list []T, one T) []T {
	if at := slices.Index(list, one); at >= 0 {
		return slices.Delete(list, at, at+1)
	}
	return list
}

// behindLocked makes one that waits, and that others wait with, the last in its turn.
func (l *Lanes) behindLocked(of *lane) {
	by := of.tenant
	if len(of.waiting) > 0 {
		by.turns = append(without(by.turns, of), of)
	}
	if len(by.turns) > 0 {
		l.mu.turns = append(without(l.mu.turns, by), by)
	}
}

// startLocked gives places to those who may have them.
func (l *Lanes) startLocked() {
	for {
		of := l.nextLocked()
		if of == nil {
			return
		}
		one := of.waiting[0]
		l.countLocked(one, 1)
		l.takeLocked(one)
		l.behindLocked(of)
		one.start()
	}
}

// nextLocked is whose turn it is, nil = nobody waits who may have a place.
func (l *Lanes) nextLocked() (next *lane) {
	free := l.config.Max - l.mu.running
	for _, by := range l.mu.turns {
		if !room(by.running, free, l.config.Max) || next != nil && by.running >= next.tenant.running {
			continue
		}
		if of := l.nextOfLocked(by); of != nil {
			next = of
		}
	}
	return next
}

// nextOfLocked is whose turn it is among the targets of a tenant.
func (l *Lanes) nextOfLocked(by *tenant) *lane {
	for _, of := range by.turns {
		if of.waiting[0].slow && !room(by.slow, l.slow-l.mu.slow, l.slow) {
			continue
		}
		if room(of.running, l.config.PerTarget-l.mu.targets[of.target], l.config.PerTarget) {
			return of
		}
	}
	return nil
}

// countLocked counts a place that was given, or given back.
func (l *Lanes) countLocked(one *waiting, by int) {
	of := one.lane
	of.running += by
	of.tenant.running += by
	l.mu.running += by
	if one.slow {
		of.tenant.slow += by
		l.mu.slow += by
	}
	if l.mu.targets[of.target] += by; l.mu.targets[of.target] == 0 {
		delete(l.mu.targets, of.target)
	}
}

func (l *Lanes) leave(one *waiting) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leaveLocked(one)
}

// leaveLocked gives a place back.
func (l *Lanes) leaveLocked(one *waiting) {
	l.countLocked(one, -1)
	l.behindLocked(one.lane)
	l.forgetLocked(one.lane)
	if !l.mu.over {
		l.startLocked()
	}
}

// late gives up a job that has waited too long.
func (l *Lanes) late(one *waiting, instead func(context.Context)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if one.taken || l.mu.over {
		return
	}
	l.takeLocked(one)
	l.wg.Go(func() { instead(l.life) })
}
