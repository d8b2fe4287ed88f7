package actors

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/background"
	"parley/actors/deliver"
	"parley/actors/delivery"
	"parley/actors/machine"
	"parley/actors/run"
	"parley/actors/task"
	"parley/actors/turn"
	"parley/proto/taskpb"
)

// TasksConfig is what the kind of tasks needs. Agents, Records, Poster and Deliveries are required; the other zero values mean the
// defaults.
type TasksConfig struct {
	Agents  turn.Agents
	Records background.Records
	Poster  *deliver.Poster
	// Deliveries makes the attempts of callbacks, for all kinds of this node.
	Deliveries *Deliveries
	// Secret signs callbacks; empty = they are not signed.
	Secret string
	// MaxDriven bounds the tasks of this node whose runs are driven at one time, each a goroutine that waits for a turn.
	// Others wait until one is over. Default 10,000.
	MaxDriven int

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// Tasks is the kind of tasks. It must come after the kind of conversations, which it needs: a task runs in a conversation
// of its shard, so that both have the same owner.
func Tasks(rules machine.Machine, config TasksConfig) (Kind, error) {
	if config.Agents == nil || config.Records == nil || config.Poster == nil || config.Deliveries == nil {
		return Kind{}, errors.New("actors: tasks need Agents, Records, a Poster and Deliveries")
	}
	if config.MaxDriven < 0 {
		return Kind{}, errors.New("actors: MaxDriven must not be negative")
	}
	t, err := newTasks(config)
	if err != nil {
		return Kind{}, err
	}
	return Kind{
		Machine:   rules,
		Perform:   t.perform,
		OnRelease: t.giveUp,
		Creates: func(command proto.Message) bool {
			c, ok := command.(*taskpb.Command)
			return ok && c.GetCreate() != nil
		},
		Busy: func(state proto.Message) bool {
			s, ok := state.(*taskpb.State)
			return ok && s.GetRun() != nil
		},
		Lost:    func(at Entity, _ proto.Message) bool { return !t.pool.Working(at) },
		Running: task.ListRunning,
		Due: Due{List: task.ListDue, Command: func(id string) proto.Message {
			return &taskpb.Command{TaskId: id, Body: &taskpb.Command_Due{Due: &taskpb.Due{}}}
		}},
		Drain: t.stop,
	}, nil
}

// tasks drives the runs of the tasks whose shards this node owns, one worker for each task at a time.
type tasks struct {
	pool      *Pool
	callbacks delivery.Sender
	secret    string     // signs callbacks
	runs      run.Config // what the worker of runs needs
}

func newTasks(config TasksConfig) (*tasks, error) {
	pool, err := NewPool(PoolConfig{
		Gauge: "parley_actors_driven_tasks", Help: "Background tasks whose runs are driven on this node.",
		MaxWorkers: config.MaxDriven, Logger: config.Logger, Registerer: config.Registerer,
	})
	if err != nil {
		return nil, err
	}
	return &tasks{
		pool: pool, secret: config.Secret, runs: run.Config{Agents: config.Agents, Records: config.Records, Pool: pool},
		callbacks: config.Deliveries.Callbacks(CallbacksConfig{
			Poster: config.Poster, Name: "parley_actors_task_callbacks_total", Help: "Attempts to call back for a task, by outcome.",
			Registerer: config.Registerer,
		}),
	}, nil
}

func (t *tasks) giveUp(shard uint32, epoch uint64) {
	t.pool.Release(shard, epoch)
	t.callbacks.Release(shard, epoch)
}

func (t *tasks) stop(ctx context.Context) {
	t.pool.Drain(ctx)
	t.callbacks.Stop()
}

func (t *tasks) perform(at Entity, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case task.Drive:
		run.WorkOnTask(t.runs, at, e.Task)
	case task.Post:
		t.post(at, e)
	}
	return nil
}
