package actors

import (
	"context"
	"errors"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/machine"
	"parley/actors/task"
	"parley/actors/turn"
	"parley/proto/taskpb"
)

// TasksConfig is what the kind of tasks needs. Agents, Records, Poster and Deliveries are required; the other zero values mean the
// defaults.
type TasksConfig struct {
	Agents  turn.Agents
	Records RunRecords
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
	orDefault(&config.MaxDriven, 10_000)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	t := newTasks(config)
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
		Lost:    func(at Entity, _ proto.Message) bool { return !t.drives(at) },
		Running: task.ListRunning,
		Due: Due{List: task.ListDue, Command: func(id string) proto.Message {
			return &taskpb.Command{TaskId: id, Body: &taskpb.Command_Due{Due: &taskpb.Due{}}}
		}},
		Drain: t.stop,
	}, nil
}

// tasks drives the runs of the tasks whose shards this node owns, one driver for each task at a time.
type tasks struct {
	*drivers

	config   TasksConfig
	runs     RunsConfig             // what the driver of runs needs
	outcomes *prometheus.CounterVec // of callbacks
}

func newTasks(config TasksConfig) *tasks {
	driven := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_actors_driven_tasks", Help: "Background tasks whose runs are driven on this node.",
	})
	if config.Registerer != nil {
		config.Registerer.MustRegister(driven)
	}
	drivers := newDrivers(config.MaxDriven, driven, config.Logger)
	return &tasks{drivers: drivers, config: config, runs: RunsConfig{
		Agents: config.Agents, Records: config.Records, Renew: renewEvery, Logger: config.Logger,
	}, outcomes: newOutcomes("parley_actors_task_callbacks_total", "Attempts to call back for a task, by outcome.", config.Registerer)}
}

func (t *tasks) giveUp(shard uint32, epoch uint64) {
	t.release(shard, epoch)
	t.config.Deliveries.release(shard, epoch)
}

func (t *tasks) stop(ctx context.Context) {
	t.drain(ctx)
	t.config.Deliveries.lanes.Stop()
}

func (t *tasks) perform(at Entity, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case task.Drive:
		t.work(at, e.Task)
	case task.Post:
		t.post(at, e)
	}
	return nil
}
