package actors

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/machine"
	"parley/actors/run"
	"parley/actors/turn"
	"parley/proto/conversationpb"
	"parley/proto/runpb"
)

// RunRecords reads what is stored of the conversation of a run, or of a task.
type RunRecords interface {
	// Turn returns how an ended turn ended, with its answer. A NOT_FOUND failure says that nothing is known of it.
	Turn(ctx context.Context, conversationID, runID string) (*conversationpb.TurnResult, error)
	// State returns the conversation's head, or a NOT_FOUND failure.
	State(ctx context.Context, conversationID string) (*conversationpb.State, error)
}

// Queues reaches what lives in other shards: the queue of a project, and the runs that stand in it. A refusal is a
// *machine.Failure; any other error says that it could not be reached in time.
type Queues interface {
	// Queue gives a command to the queue of a project. It fills in the queue's id.
	Queue(ctx context.Context, tenantID, projectID string, command *runpb.QueueCommand) (*runpb.QueueReply, error)
	// Run gives a command to a run.
	Run(ctx context.Context, command *runpb.Command) (*runpb.Reply, error)
}

// RunsConfig is what the kind of runs needs. Agents, Records, Queues, Poster and Deliveries are required; the other
// zero values mean the defaults.
type RunsConfig struct {
	Agents  turn.Agents
	Records RunRecords
	Queues  Queues
	Poster  *deliver.Poster
	// Deliveries makes the attempts of callbacks, for all kinds of this node.
	Deliveries *Deliveries
	// OpenSecret decrypts the secret of a callback; about is runpb.SecretAbout of the run. Nil: none can be opened, and
	// what should be signed is not sent.
	OpenSecret func(sealed []byte, about string) ([]byte, error)
	// Renew is how often the place of a run that runs is asked for again. It must be well below queue.Limits.Lease.
	// Default 3m.
	Renew time.Duration
	// MaxDriven bounds the runs of this node that are driven at one time, each a goroutine that waits for a turn. Others
	// wait until one is over. Default 10,000.
	MaxDriven int
	// MaxNotices bounds the notices from queues and conversations to runs under way at one time. One above it is not
	// given: the run finds out by itself, later. Default 1024.
	MaxNotices int

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// renewEvery is how often the place of a run that runs is asked for again by default.
const renewEvery = 3 * time.Minute

// Runs is the kind of background runs.
type Runs struct {
	*drivers

	config   RunsConfig
	rules    machine.Machine
	notices  chan struct{}          // places of notices under way
	outcomes *prometheus.CounterVec // of callbacks
}

// NewRuns returns the kind under the given rules.
func NewRuns(rules machine.Machine, config RunsConfig) (*Runs, error) {
	if config.Agents == nil || config.Records == nil || config.Queues == nil || config.Poster == nil || config.Deliveries == nil {
		return nil, errors.New("actors: runs need Agents, Records, Queues and a Poster")
	}
	if config.MaxDriven < 0 || config.MaxNotices < 0 || config.Renew < 0 {
		return nil, errors.New("actors: MaxDriven, MaxNotices and Renew must not be negative")
	}
	orDefault(&config.MaxDriven, 10_000)
	orDefault(&config.MaxNotices, 1024)
	orDefault(&config.Renew, renewEvery)
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.OpenSecret == nil {
		config.OpenSecret = func([]byte, string) ([]byte, error) { return nil, errors.New("secrets cannot be opened here") }
	}
	driven := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "parley_actors_driven_runs", Help: "Background runs that are driven on this node.",
	})
	if config.Registerer != nil {
		config.Registerer.MustRegister(driven)
	}
	drivers := newDrivers(config.MaxDriven, driven, config.Logger)
	return &Runs{
		drivers: drivers, config: config, rules: rules, notices: make(chan struct{}, config.MaxNotices),
		outcomes: newOutcomes("parley_actors_run_callbacks_total", "Attempts to call back for a run, by outcome.", config.Registerer),
	}, nil
}

// Kind is the kind of runs. It must come after the kind of conversations, which it needs: a run works in a conversation of its
// shard, so that both have the same owner.
func (r *Runs) Kind() Kind {
	return Kind{
		Machine:   r.rules,
		Perform:   r.perform,
		OnRelease: r.giveUp,
		Creates: func(command proto.Message) bool {
			c, ok := command.(*runpb.Command)
			return ok && c.GetCreate() != nil
		},
		Busy: func(state proto.Message) bool {
			s, ok := state.(*runpb.State)
			return ok && run.Driven(s)
		},
		Lost:    func(at Entity, _ proto.Message) bool { return !r.drives(at) },
		Running: run.ListRunning,
		Due: Due{List: run.ListDue, Command: func(id string) proto.Message {
			return &runpb.Command{RunId: id, Body: &runpb.Command_Due{Due: &runpb.Due{}}}
		}},
		Drain: r.stop,
	}
}

func (r *Runs) giveUp(shard uint32, epoch uint64) {
	r.release(shard, epoch)
	r.config.Deliveries.release(shard, epoch)
}

func (r *Runs) stop(ctx context.Context) {
	r.drain(ctx)
	r.config.Deliveries.lanes.Stop()
}

func (r *Runs) perform(at Entity, effect machine.Effect) proto.Message {
	switch e := effect.(type) {
	case run.Drive:
		d := &runDriver{config: &r.config, at: at, run: e.Run}
		r.drive(at, nil, d.drive) // the one before may have looked already, and be about to end
	case run.Post:
		r.post(at, e)
	}
	return nil
}

// Watch has the conversations of a kind tell the run that holds one when what it waits for has happened: a person has
// acted, or the conversation is gone.
func (r *Runs) Watch(conversations *Kind) {
	before := conversations.OnCommit
	conversations.OnCommit = func(commit Commit) {
		if before != nil {
			before(commit)
		}
		was, _ := commit.Before.(*conversationpb.State)
		holder := was.GetBackgroundRun()
		if holder == "" {
			return
		}
		is, _ := commit.After.(*conversationpb.State)
		acted := was.GetStatus() == conversationpb.Status_WAITING && is.GetStatus() != conversationpb.Status_WAITING
		if is == nil || acted {
			r.notice(commit.Ref, holder)
		}
	}
}

// noticeTimeout bounds a notice. A run that has not got it looks by itself.
const noticeTimeout = 10 * time.Second

func (r *Runs) notice(at Entity, holder string) {
	r.spare(r.notices, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, noticeTimeout)
		defer cancel()
		look := &runpb.Command{RunId: holder, Body: &runpb.Command_Look{Look: &runpb.Look{}}}
		if _, err := at.Tell(ctx, holder, look); err != nil {
			r.config.Logger.Debug("a run was not told of its conversation", slog.String("run", holder), slog.Any("err", err))
		}
	})
}
