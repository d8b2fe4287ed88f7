package turn

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/stranger"
	"parley/actors/turn/model"
	"parley/proto/agentpb"
	"parley/proto/conversationpb"
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
	texts   *texts
	images  atomic.Int64 // bytes of tools' images that turns keep
	mu      struct {
		sync.Mutex
		runs     map[string]*run   // by run id; abandoned ones are not in it
		tails    map[*run]struct{} // the turn has ended, its title is being made
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
	kept    []string                // images of tools, beside the journal
}

// New returns a runner.
func New(config Config) (*Runner, error) {
	config.setDefaults()
	if err := config.validate(); err != nil {
		return nil, err
	}
	r := &Runner{config: config, metrics: newMetrics(config.Registerer), texts: newTexts()}
	if config.Registerer != nil {
		config.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_turn_document_text_bytes", Help: "Texts of documents that are kept for further turns.",
		}, r.texts.bytes))
	}
	r.mu.runs = make(map[string]*run)
	r.mu.tails = make(map[*run]struct{})
	r.mu.shards = make(map[uint32]*busy)
	r.mu.idle = make(chan struct{})
	return r, nil
}

// Start runs a turn. The run's stream has begun when it returns. A present run with the same id is abandoned first: an
// attempt of an earlier epoch, or the part before a pause that has not learned of the pause yet. One of a later epoch is
// kept.
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
	life, abandon := context.WithCancelCause(stranger.Of(context.Background(), job.TenantID))
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

// Meter notifies a run that its conversation now has a budget, or a higher one. It does nothing if the run is not here.
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

// Running is how many turns of a shard are under way.
func (r *Runner) Running(shard uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if busy := r.mu.shards[shard]; busy != nil {
		return busy.runs
	}
	return 0
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
	for t := range r.mu.tails {
		if t.job.Shard == shard && t.job.Epoch <= epoch {
			t.abandon(errAbandoned)
		}
	}
}

// removeLocked removes a run from the runs that are waited for.
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
	for t := range r.mu.tails {
		t.abandon(errAbandoned)
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
	finish, title := r.answer(life, calls, t)
	cancel()
	t.stop(nil)
	defer title.cancel()
	if life.Err() != nil {
		return
	}
	if finish != nil {
		finish.RunId, finish.Epoch = t.job.RunID, t.job.Epoch
		r.metrics.ended.WithLabelValues(finish.GetStopReason().String()).Inc()
		r.report(life, t, finish)
		r.forget(life, t)
	}
	if title.pending() && life.Err() == nil {
		r.retire(t)
		title.tell(life)
	}
}

// retire removes a run whose turn has ended while its title is still being generated, so that nobody waits for it.
func (r *Runner) retire(t *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.runs[t.job.RunID] == t {
		r.removeLocked(t)
		r.mu.tails[t] = struct{}{}
	}
}

func (r *Runner) ended(t *run) {
	t.abandon(nil)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.runs[t.job.RunID] == t {
		r.removeLocked(t)
	}
	delete(r.mu.tails, t)
	r.mu.count--
	r.metrics.running.Dec()
	if r.mu.draining && r.mu.count == 0 {
		close(r.mu.idle)
	}
}

// answer runs the turn and returns its report, nil when there is nothing to report. A panic in a provider ends the turn, not
// the process.
func (r *Runner) answer(life, ctx context.Context, t *run) (finish *conversationpb.Finish, title *title) {
	loop := &modelLoop{runner: r, run: t}
	defer loop.dropImages()
	defer func() {
		if fault := recover(); fault != nil {
			r.config.Logger.Error("turn panicked", slog.String("run", t.job.RunID),
				slog.String("conversation", t.job.ConversationID), slog.String("fault", fmt.Sprint(fault)),
				slog.String("stack", string(debug.Stack())))
			finish, title = loop.broken(), loop.title
		}
	}()
	agent, found := r.config.Agents.Agent(t.job.ProjectID, t.job.AgentID, t.job.AgentVersion)
	if !found {
		t.output.Seal()
		return failedWith("agent_not_found", "The agent of this conversation does not exist any more."), nil
	}
	provider := r.config.Providers[agent.GetModel().GetProvider()]
	if provider == nil {
		t.output.Seal()
		return noProvider(agent), nil
	}
	loop.agent, loop.provider = agent, provider
	end := loop.execute(life, ctx)
	switch {
	case end.paused:
		// What waits to be published goes out with the event of the pause.
		t.output.Seal()
		r.metrics.ended.WithLabelValues(conversationpb.StopReason_REQUIRES_ACTION.String()).Inc()
		return nil, loop.title
	case errors.Is(end.err, ErrFenced):
		t.output.Release()
		return nil, loop.title
	}
	return loop.finish(ctx, end), loop.title
}

// noProvider is the report when the agent's model was deleted or its provider is not configured.
func noProvider(agent *agentpb.Agent) *conversationpb.Finish {
	if key := agent.GetModel().GetKey(); key != "" {
		return failedWith("model_not_found", fmt.Sprintf("The agent's model %q does not exist, or cannot be called.", key))
	}
	return failedWith("provider_error", "The agent's model provider is not configured.")
}

var _ model.Overhearer = (*modelLoop)(nil)
