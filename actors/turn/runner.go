package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"parley/actors/turn/model"
	"parley/proto/conversationpb"
)

// Place is where a run belongs, and the epoch under which it was started.
type Place struct {
	Shard          uint32
	Epoch          uint64
	ConversationID string
}

// Job is one turn to run. What it points to is only read.
type Job struct {
	Place
	RunID, AgentID string
	UserMessage    *conversationpb.Message
	// TenantID, ProjectID and UserID are whose conversation it is.
	TenantID, ProjectID, UserID string
	Mode                        conversationpb.Mode
	// HistoryBefore is the number below which the messages before UserMessage are.
	HistoryBefore uint64
	// Attempt is above 1 when an earlier runner of the turn was lost since it was last started or resumed.
	Attempt uint32
	// Steps are journalled already; those above ResumedAt since the turn was last resumed after a pause.
	Steps, ResumedAt uint32
	// Usage is of the model calls that are journalled, nil = none.
	Usage *conversationpb.Usage
	// Answer is the message that the turn stored when it paused, nil = none.
	Answer *conversationpb.Message
	// Budget says that the conversation has one: money is asked for before it is spent.
	Budget bool
	// Untitled says that this is the first message of a conversation without a title.
	Untitled bool
	// RuntimeContext is the conversation's, a JSON object or nothing.
	RuntimeContext []byte
	// Progress journals a step, or asks for money, and returns what the rules say. ErrFenced and ErrRefused are final,
	// other errors may be tried again.
	Progress func(ctx context.Context, progress *conversationpb.Progress) (*conversationpb.Progressed, error)
	// SetTitle stores a title that came after the turn's report; errors as those of Progress.
	SetTitle func(ctx context.Context, title *conversationpb.SetTitle) error
	// Report tells the conversation how the turn ended. ErrFenced and ErrRefused are final, other errors are tried
	// again.
	Report func(ctx context.Context, finish *conversationpb.Finish) error
}

// What Start and Job.Report return.
var (
	// ErrOverloaded: the node runs as many turns as it may.
	ErrOverloaded = errors.New("too many turns are running")
	// ErrStopping: the runner is draining.
	ErrStopping = errors.New("the runner is stopping")
	// ErrFenced: the run is not the conversation's any more. Nobody wants its report.
	ErrFenced = errors.New("the run was fenced")
	// ErrRefused: the conversation will never take this report.
	ErrRefused = errors.New("the report was refused")
)

// Causes with which a run's contexts end.
var (
	errStopped   = errors.New("stopped")
	errAbandoned = errors.New("abandoned")
	errTimeout   = errors.New("the turn took too long")
	errTooLong   = errors.New("the text is too long")
)

const (
	firstPause = 50 * time.Millisecond
	lastPause  = 5 * time.Second
	// drainGrace is how long Drain waits for abandoned turns to notice.
	drainGrace = 5 * time.Second
)

// Runner runs turns. Make it with New, end it with Drain.
type Runner struct {
	config  Config
	metrics *metrics
	mu      struct {
		sync.Mutex
		runs     map[string]*run // by run id; abandoned ones are not in it
		shards   map[uint32]*busy
		count    int // goroutines, abandoned ones included
		draining bool
		idle     chan struct{} // closed when draining and count is 0
	}
}

// busy counts the runs of a shard, abandoned ones excluded.
type busy struct {
	runs int
	idle chan struct{} // closed when there is none; nil when nobody waits for it
}

// run is one turn under way.
type run struct {
	job     Job
	started time.Time
	output  Output
	metered atomic.Bool             // a budget was set while it ran
	stop    context.CancelCauseFunc // ends the model call
	abandon context.CancelCauseFunc // ends everything
}

// New returns a runner.
func New(config Config) (*Runner, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	r := &Runner{config: config, metrics: newMetrics(config.Registerer)}
	r.mu.runs = make(map[string]*run)
	r.mu.shards = make(map[uint32]*busy)
	r.mu.idle = make(chan struct{})
	return r, nil
}

// Start runs a turn. The stream of the run has begun when it returns. What is still there of the same run is abandoned
// first: an attempt of an earlier epoch, or the part before a pause, which has yet to hear that the turn paused. One of a
// later epoch is left alone.
func (r *Runner) Start(job Job) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.draining {
		return ErrStopping
	}
	if former := r.mu.runs[job.RunID]; former != nil {
		if former.job.Epoch > job.Epoch {
			return nil
		}
		r.abandonLocked(former)
	}
	if r.mu.count >= r.config.MaxConcurrent {
		return ErrOverloaded
	}
	life, abandon := context.WithCancelCause(context.Background())
	calls, stop := context.WithCancelCause(life)
	t := &run{
		job: job, started: time.Now(), stop: stop, abandon: abandon,
		output: r.config.Publisher.Begin(job.Place, job.RunID, job.UserMessage),
	}
	r.mu.runs[job.RunID] = t
	if r.mu.shards[job.Shard] == nil {
		r.mu.shards[job.Shard] = &busy{}
	}
	r.mu.shards[job.Shard].runs++
	r.mu.count++
	r.metrics.started.Inc()
	r.metrics.running.Inc()
	go r.run(life, calls, t)
	return nil
}

// Active says whether a run of this epoch is under way, reporting included.
func (r *Runner) Active(runID string, epoch uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.mu.runs[runID]
	return t != nil && t.job.Epoch == epoch
}

// Meter tells a run that its conversation has a budget from now on, or a higher one. Where the run is not here it does
// nothing.
func (r *Runner) Meter(runID string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.mu.runs[runID]; t != nil {
		t.metered.Store(true)
	}
}

// Stop ends a run's model call and its stream; the run then reports that it was cancelled, with the text so far. When
// Stop returns, nothing of the run is published any more. Stopping what does not run does nothing.
func (r *Runner) Stop(runID string) {
	r.mu.Lock()
	t := r.mu.runs[runID]
	r.mu.Unlock()
	if t != nil {
		t.output.Cut()
		t.stop(errStopped)
	}
}

// Wait returns when no turn of a shard is under way, reports included, or when ctx ends. Others may start meanwhile.
func (r *Runner) Wait(ctx context.Context, shard uint32) {
	for {
		r.mu.Lock()
		busy := r.mu.shards[shard]
		var idle chan struct{}
		if busy != nil {
			if busy.idle == nil {
				busy.idle = make(chan struct{})
			}
			idle = busy.idle
		}
		r.mu.Unlock()
		if idle == nil {
			return
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return
		}
	}
}

// Release abandons the runs of a shard that were started under epochs up to the given one.
func (r *Runner) Release(shard uint32, epoch uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, t := range r.mu.runs {
		if t.job.Shard == shard && t.job.Epoch <= epoch {
			r.abandonLocked(t)
		}
	}
}

// removeLocked takes a run off the books.
func (r *Runner) removeLocked(t *run) {
	delete(r.mu.runs, t.job.RunID)
	shard := r.mu.shards[t.job.Shard]
	if shard.runs--; shard.runs > 0 {
		return
	}
	delete(r.mu.shards, t.job.Shard)
	if shard.idle != nil {
		close(shard.idle)
	}
}

func (r *Runner) abandonLocked(t *run) {
	r.removeLocked(t)
	t.abandon(errAbandoned)
	t.output.Release()
	r.metrics.abandoned.Inc()
}

// Drain starts no more turns and waits for those under way. When ctx ends first, they are abandoned without a report:
// their conversations stay open, and whoever owns them next repeats them. Safe to call twice.
func (r *Runner) Drain(ctx context.Context) {
	r.mu.Lock()
	if !r.mu.draining {
		r.mu.draining = true
		if r.mu.count == 0 {
			close(r.mu.idle)
		}
	}
	r.mu.Unlock()
	select {
	case <-r.mu.idle:
		return
	case <-ctx.Done():
	}
	r.mu.Lock()
	left := len(r.mu.runs)
	for _, t := range r.mu.runs {
		r.abandonLocked(t)
	}
	r.mu.Unlock()
	if left > 0 {
		r.config.Logger.Info("turns left to recovery", slog.Int("count", left))
	}
	grace := time.NewTimer(drainGrace)
	defer grace.Stop()
	select {
	case <-r.mu.idle:
	case <-grace.C:
		r.config.Logger.Warn("abandoned turns do not end")
	}
}

// run is the goroutine of a turn.
func (r *Runner) run(life, calls context.Context, t *run) {
	defer r.ended(t)
	calls, cancel := context.WithTimeoutCause(calls, r.config.Timeout, errTimeout)
	finish := r.answer(calls, t)
	cancel()
	t.stop(nil)
	if life.Err() != nil {
		return
	}
	finish.RunId, finish.Epoch = t.job.RunID, t.job.Epoch
	r.metrics.ended.WithLabelValues(finish.GetStopReason().String()).Inc()
	r.report(life, t, finish)
}

func (r *Runner) ended(t *run) {
	t.abandon(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.runs[t.job.RunID] == t {
		r.removeLocked(t)
	}
	r.mu.count--
	r.metrics.running.Dec()
	if r.mu.draining && r.mu.count == 0 {
		close(r.mu.idle)
	}
}

// answer asks the model and returns how that ended. A fault of a provider ends the turn, not the process.
func (r *Runner) answer(ctx context.Context, t *run) (finish *conversationpb.Finish) {
	defer func() {
		if fault := recover(); fault != nil {
			r.config.Logger.Error("turn panicked", slog.String("run", t.job.RunID),
				slog.String("conversation", t.job.ConversationID), slog.String("fault", fmt.Sprint(fault)),
				slog.String("stack", string(debug.Stack())))
			finish = failedWith("internal_error", "The turn ended by a fault of the server.")
			finish.Content = t.output.Seal()
		}
	}()
	agent, found := r.config.Agents.Agent(t.job.AgentID)
	if !found {
		t.output.Seal()
		return failedWith("agent_not_found", "The agent of this conversation does not exist any more.")
	}
	provider := r.config.Providers[agent.GetModel().GetProvider()]
	if provider == nil {
		t.output.Seal()
		return failedWith("provider_error", "The agent's model provider is not configured.")
	}
	talk := &talk{runner: r, run: t, agent: agent, provider: provider}
	end := talk.hold(ctx)
	finish = talk.finish(ctx, end)
	finish.Content = t.output.Seal()
	return finish
}

// report repeats the report until it is taken, final, or the run is abandoned. One that can never be taken as it is
// gives way to a bare one, so that the conversation does not stay open.
func (r *Runner) report(ctx context.Context, t *run, finish *conversationpb.Finish) {
	log := r.config.Logger
	about := func(err error) []slog.Attr {
		return []slog.Attr{
			slog.String("run", t.job.RunID), slog.String("conversation", t.job.ConversationID), slog.Any("err", err),
		}
	}
	bare := false
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		try, cancel := context.WithTimeout(ctx, r.config.ReportTimeout)
		err := t.job.Report(try, finish)
		cancel()
		switch {
		case err == nil:
			return
		case errors.Is(err, ErrFenced):
			log.LogAttrs(ctx, slog.LevelDebug, "report not wanted", about(err)...)
			return
		case errors.Is(err, ErrRefused) && bare:
			log.LogAttrs(ctx, slog.LevelError, "report refused", about(err)...)
			return
		case errors.Is(err, ErrRefused):
			log.LogAttrs(ctx, slog.LevelError, "report refused, sending a bare one", about(err)...)
			usage := finish.GetUsage()
			finish = failedWith("internal_error", "The answer could not be stored.")
			finish.RunId, finish.Epoch, finish.Usage = t.job.RunID, t.job.Epoch, usage
			bare = true
			continue
		case ctx.Err() != nil:
			return
		}
		r.metrics.reports.Inc()
		timer := time.NewTimer(pause/2 + rand.N(pause/2)) // jitter: a full disk holds up many turns at once
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

func failedWith(code, message string) *conversationpb.Finish {
	return &conversationpb.Finish{
		StopReason: conversationpb.StopReason_ERROR,
		Error:      &conversationpb.TurnError{Code: code, Message: message},
	}
}

var _ model.Stream = (*talk)(nil)
