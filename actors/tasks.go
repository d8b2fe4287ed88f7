package actors

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/machine"
	"parley/actors/task"
	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/taskpb"
)

// TaskRecords reads what the turns of a task have left in its conversation.
type TaskRecords interface {
	// Turn returns how an ended turn ended, with its answer. A NOT_FOUND failure says that nothing is known of it.
	Turn(ctx context.Context, conversationID, runID string) (*conversationpb.TurnResult, error)
}

// TasksConfig is what the kind of tasks needs. Agents, Records and Poster are required; the other zero values mean the
// defaults.
type TasksConfig struct {
	Agents  turn.Agents
	Records TaskRecords
	Poster  *deliver.Poster
	// Secret signs callbacks; empty = they are not signed.
	Secret string
	// MaxDriven bounds the tasks of this node whose runs are driven at one time, each a goroutine that waits for a turn.
	// Others wait until one is over. Default 10,000.
	MaxDriven int
	// MaxPosts bounds the callbacks under way at one time. One above it counts as lost and is tried again later.
	// Default 128.
	MaxPosts int

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// Tasks is the kind of tasks. It must come after the kind of conversations, which it needs: a task runs in a conversation
// of its shard, so that both have the same owner.
func Tasks(rules machine.Machine, config TasksConfig) (Kind, error) {
	if config.Agents == nil || config.Records == nil || config.Poster == nil {
		return Kind{}, errors.New("actors: tasks need Agents, Records and a Poster")
	}
	if config.MaxDriven < 0 || config.MaxPosts < 0 {
		return Kind{}, errors.New("actors: MaxDriven and MaxPosts must not be negative")
	}
	orDefault(&config.MaxDriven, 10_000)
	orDefault(&config.MaxPosts, 128)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	t := newTasks(config)
	return Kind{
		Machine:   rules,
		Perform:   t.perform,
		OnRelease: t.release,
		Creates: func(command proto.Message) bool {
			c, ok := command.(*taskpb.Command)
			return ok && c.GetCreate() != nil
		},
		Busy: func(state proto.Message) bool {
			s, ok := state.(*taskpb.State)
			return ok && s.GetRun() != nil
		},
		Running: task.ListRunning,
		Due: Due{List: task.ListDue, Command: func(id string) proto.Message {
			return &taskpb.Command{TaskId: id, Body: &taskpb.Command_Due{Due: &taskpb.Due{}}}
		}},
		Drain: t.drain,
	}, nil
}

// tasks drives the runs of the tasks whose shards this node owns, one driver for each task at a time.
type tasks struct {
	config TasksConfig
	posts  chan struct{}   // places of callbacks under way
	life   context.Context //nolint:containedctx // of everything that runs here, until drained
	end    context.CancelFunc
	wg     sync.WaitGroup

	driven    prometheus.Gauge
	callbacks *prometheus.CounterVec

	mu struct {
		sync.Mutex
		drivers map[string]*driver // newest of each task, by task id
		queue   []*driver          // wait for room, oldest first
		running int
		over    bool
	}
}

func newTasks(config TasksConfig) *tasks {
	t := &tasks{
		config: config, posts: make(chan struct{}, config.MaxPosts),
		driven: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "parley_actors_driven_tasks", Help: "Background tasks whose runs are driven on this node.",
		}),
		callbacks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_actors_task_callbacks_total", Help: "Attempts to call back for a task, by outcome.",
		}, []string{"outcome"}),
	}
	t.life, t.end = context.WithCancel(context.Background())
	t.mu.drivers = make(map[string]*driver)
	if config.Registerer != nil {
		config.Registerer.MustRegister(t.driven, t.callbacks)
	}
	return t
}

func (t *tasks) perform(at Entity, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case task.Drive:
		t.drive(at, e.Task)
	case task.Post:
		t.post(at, e)
	}
	return nil
}

// drive has the open run of a task worked on, behind what still drives an earlier one.
func (t *tasks) drive(at Entity, state *taskpb.State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.over {
		return
	}
	d := &driver{tasks: t, at: at, task: state, done: make(chan struct{})}
	if former := t.mu.drivers[state.GetId()]; former != nil {
		if former.sameAs(d) {
			return
		}
		t.dismissLocked(former)
		d.former = former.done
	}
	d.ctx, d.cancel = context.WithCancel(t.life)
	t.mu.drivers[state.GetId()] = d
	t.mu.queue = append(t.mu.queue, d)
	t.startLocked()
}

// startLocked starts drivers that wait, as far as there is room.
func (t *tasks) startLocked() {
	for len(t.mu.queue) > 0 && t.mu.running < t.config.MaxDriven {
		d := t.mu.queue[0]
		t.mu.queue[0] = nil
		t.mu.queue = t.mu.queue[1:]
		t.mu.running++
		t.driven.Inc()
		d.started = true
		t.wg.Go(func() {
			defer t.ended(d)
			d.run()
		})
	}
}

// dismissLocked takes a driver off the books and makes it end.
func (t *tasks) dismissLocked(d *driver) {
	d.cancel()
	delete(t.mu.drivers, d.task.GetId())
	if d.started {
		return
	}
	t.mu.queue = slices.DeleteFunc(t.mu.queue, func(other *driver) bool { return other == d })
	close(d.done)
}

func (t *tasks) ended(d *driver) {
	d.cancel()
	t.mu.Lock()
	defer t.mu.Unlock()
	close(d.done)
	if t.mu.drivers[d.task.GetId()] == d {
		delete(t.mu.drivers, d.task.GetId())
	}
	t.mu.running--
	t.driven.Dec()
	t.startLocked()
}

// release gives up the tasks of a shard that were driven under epochs up to the given one.
func (t *tasks) release(shard uint32, epoch uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, d := range t.mu.drivers {
		if d.at.Shard == shard && d.at.Epoch <= epoch {
			t.dismissLocked(d)
		}
	}
}

// drain gives up everything: open runs stay open, and whoever owns them next goes on with them. It returns when nothing
// runs any more; a driver gives up what it waits for at once.
func (t *tasks) drain(context.Context) {
	t.mu.Lock()
	t.mu.over = true
	for _, d := range t.mu.drivers {
		t.dismissLocked(d)
	}
	t.mu.Unlock()
	t.end()
	t.wg.Wait()
}
