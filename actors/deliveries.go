package actors

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"parley/actors/deliver"
	"parley/actors/delivery"
	"parley/proto/deliverypb"
)

// defaultRoomWait is how long an attempt waits for room by default.
const defaultRoomWait = 20 * time.Second

// DeliveriesConfig bounds the attempts that are under way on this node; the zero values mean the defaults.
type DeliveriesConfig struct {
	// Lanes bounds how many are made at a time, in all and for each tenant and target.
	Lanes deliver.LanesConfig
	// RoomWait is how long an attempt may wait for room before it is put off. With the time that an attempt takes it must
	// be below the time after which an attempt counts as lost (delivery.Policy.Timeout). Default 20s.
	RoomWait time.Duration
	// Elsewhere gives an entity a command at whichever node owns it; nil = there are no other nodes.
	Elsewhere func(ctx context.Context, id string, command proto.Message) error

	// Logger; nil = silent.
	Logger *slog.Logger
	// Registerer for metrics; nil = none.
	Registerer prometheus.Registerer
}

// Deliveries makes the attempts of all deliveries of this node (package delivery), whatever entity they are part of.
type Deliveries struct {
	lanes     *deliver.Lanes
	roomWait  time.Duration
	elsewhere func(ctx context.Context, id string, command proto.Message) error
	log       *slog.Logger

	mu struct {
		sync.Mutex
		released map[uint32]uint64 // by shard: the newest epoch under which it is not owned any more
	}
}

// NewDeliveries makes Deliveries.
func NewDeliveries(config DeliveriesConfig) (*Deliveries, error) {
	if config.RoomWait < 0 {
		return nil, errors.New("actors: RoomWait must not be negative")
	}
	lanes, err := deliver.NewLanes(config.Lanes)
	if err != nil {
		return nil, err
	}
	d := &Deliveries{lanes: lanes, roomWait: cmp.Or(config.RoomWait, defaultRoomWait), elsewhere: config.Elsewhere, log: config.Logger}
	if d.log == nil {
		d.log = slog.New(slog.DiscardHandler)
	}
	d.mu.released = make(map[uint32]uint64)
	if config.Registerer != nil {
		config.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_actors_waiting_deliveries", Help: "Attempts to deliver that wait for room on this node.",
		}, func() float64 { return float64(lanes.Waiting()) }), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "parley_actors_running_deliveries",
			Help: "Attempts to deliver that this node makes now. An attempt ends when what came of it is stored.",
		}, func() float64 { return float64(lanes.Running()) }))
	}
	return d, nil
}

// newOutcomes counts the attempts of one kind of owners.
func newOutcomes(name, help string, registerer prometheus.Registerer) *prometheus.CounterVec {
	outcomes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"outcome"})
	if registerer != nil {
		registerer.MustRegister(outcomes)
	}
	return outcomes
}

// CallbacksConfig is how the callbacks of one kind of entities are made: by Poster, counted by outcome in a metric with this name and
// help. Registerer nil = no metric.
type CallbacksConfig struct {
	Poster     *deliver.Poster
	Name, Help string
	Registerer prometheus.Registerer
}

// Callbacks returns the sender of one kind of entities.
func (d *Deliveries) Callbacks(config CallbacksConfig) delivery.Sender {
	return &callbacks{Deliveries: d, poster: config.Poster, outcomes: newOutcomes(config.Name, config.Help, config.Registerer)}
}

// callbacks is a delivery.Sender.
type callbacks struct {
	*Deliveries

	poster   *deliver.Poster
	outcomes *prometheus.CounterVec
}

// Send implements delivery.Sender: the attempt is made as soon as there is room. For want of room it is put off.
func (c *callbacks) Send(owner Entity, one delivery.Attempt) {
	job := deliver.Job{
		Place: deliver.Place{Tenant: one.Tenant, Target: deliver.TargetOf(one.URL)}, Wait: c.roomWait,
		Run: func(ctx context.Context) {
			if c.owns(owner) { // else the next owner makes it
				c.send(ctx, owner, one)
			}
		},
		Late: func(ctx context.Context) {
			if c.owns(owner) {
				c.report(ctx, owner, one, &deliverypb.Report{Unsent: true}, "crowded")
			}
		},
	}
	if !c.lanes.Add(job) { // it counts as lost
		c.outcomes.WithLabelValues("crowded").Inc()
	}
}

// Release implements delivery.Sender.
func (c *callbacks) Release(shard uint32, epoch uint64) { c.release(shard, epoch) }

// Stop implements delivery.Sender.
func (c *callbacks) Stop() { c.lanes.Stop() }

func (c *callbacks) send(ctx context.Context, owner Entity, one delivery.Attempt) {
	if one.Do != nil {
		if report, label := one.Do(ctx); ctx.Err() == nil {
			c.report(ctx, owner, one, report, label)
		}
		return
	}
	var answer *deliver.Answer
	message, err := one.Compose()
	if err == nil {
		answer, err = c.poster.Post(ctx, deliver.Post{URL: one.URL, Body: message.Body, Secret: message.Secret, Header: message.Header})
	}
	if ctx.Err() != nil {
		return // nobody knows: the next owner tries again
	}
	report, label := reportOf(answer, err)
	if !report.GetOk() {
		status := 0
		if answer != nil {
			status = answer.Status
		}
		c.log.Info("a callback was not taken", slog.String("entity", owner.ID), slog.Int("status", status),
			slog.Uint64("attempt", uint64(one.Delivery.GetAttempt())), slog.Any("err", err))
	}
	c.report(ctx, owner, one, report, label)
}

// report tells the owner what came of an attempt, also one that took the shard over meanwhile: it would make the attempt again.
func (c *callbacks) report(ctx context.Context, owner Entity, one delivery.Attempt, report *deliverypb.Report, label string) {
	c.outcomes.WithLabelValues(label).Inc()
	report.Id, report.Attempt = one.Delivery.GetId(), one.Delivery.GetAttempt()
	command := one.Report(report)
	_, err := owner.Ask(ctx, command)
	if _, moved := errors.AsType[*NotOwnerError](err); moved && c.elsewhere != nil {
		err = c.elsewhere(ctx, owner.ID, command)
	}
	if err != nil && ctx.Err() == nil {
		c.log.Warn("what came of a callback is not stored", slog.String("entity", owner.ID), slog.Any("err", err))
	}
}

func (d *Deliveries) owns(owner Entity) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return owner.Epoch > d.mu.released[owner.Shard]
}

// release says that this node does not own a shard under epochs up to this one: attempts that wait are the next owner's.
func (d *Deliveries) release(shard uint32, epoch uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.mu.released[shard] = max(d.mu.released[shard], epoch)
}

// reportOf words what came of an attempt, and labels it. An error's own text may name hosts behind the address.
func reportOf(answer *deliver.Answer, err error) (report *deliverypb.Report, label string) {
	switch {
	case err == nil && answer.OK():
		return &deliverypb.Report{Ok: true}, "delivered"
	case err == nil:
		return &deliverypb.Report{
			Error: "answered with status " + strconv.Itoa(answer.Status), Hopeless: answer.Status == http.StatusGone,
			RetryAfter: answer.RetryAfter.Milliseconds(),
		}, "failed"
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return &deliverypb.Report{Hopeless: true, Error: "leads to an address that is not allowed"}, "forbidden"
	case errors.Is(err, deliver.ErrRedirect):
		return &deliverypb.Report{Error: "a redirect was not followed"}, "failed"
	case errors.Is(err, context.DeadlineExceeded):
		return &deliverypb.Report{Error: "timed out"}, "failed"
	}
	return &deliverypb.Report{Error: "could not be reached"}, "failed"
}
