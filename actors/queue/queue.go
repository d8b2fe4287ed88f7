package queue

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/runpb"
)

// ListDue is the list of the queues by the time at which the first of what they gave lapses.
const ListDue = "queue/due"

const maxRunID = 256 // bytes

// Limits bounds a queue. They must be alike on all nodes.
type Limits struct {
	// Concurrency is how many runs of a project run at the same time. Default 32.
	Concurrency int
	// MaxQueued is how many wait. Each stands in the queue's head record (about 40 bytes), which is written with every
	// change. Default 1000.
	MaxQueued int
	// Lease is how long a place is kept without a word, and half of it how long an owner of the queue waits for a word
	// before it takes anything back. Default 10m.
	Lease time.Duration
}

// DefaultLimits returns the limits in force unless configured otherwise.
func DefaultLimits() Limits { return Limits{Concurrency: 32, MaxQueued: 1000, Lease: 10 * time.Minute} }

// Validate says which limit makes no sense.
func (l Limits) Validate() error {
	if l.Concurrency <= 0 || l.MaxQueued <= 0 || l.Lease <= 0 {
		return errors.New("queue limits concurrency, max queued and lease must be positive")
	}
	return nil
}

// Grant tells a run that waited that it may run.
type Grant struct {
	RunID string
}

// New returns the kind of queues under the given limits, which must be valid. The client reaches the runs, which live in other
// shards, and the pool makes the calls.
func New(limits Limits, client entity.Client, pool kit.Pool) kit.Entity {
	return kit.Entity{
		Machine: limits.rules().Machine(),
		Command: (*runpb.QueueCommand)(nil),
		Missing: func() *machine.Failure {
			return failure.New(failurepb.Code_NOT_FOUND, failure.RecordMissing).Param("noun", "queue").Param("key", "")
		},
		Queries: []kit.Query{kit.Peek(func(state *runpb.Queue, _ *runpb.QueueQuery) (*runpb.Queue, error) { return state, nil })},
		Perform: func(at kit.Ref, effect machine.Effect) proto.Message {
			if grant, is := effect.(Grant); is {
				pool.Call(at, "grant", func(ctx context.Context) error { return tell(ctx, client, at, grant) })
			}
			return nil
		},
		Due: kit.Due{List: ListDue, Command: func(id string) proto.Message {
			return &runpb.QueueCommand{QueueId: id, Body: &runpb.QueueCommand_Due{Due: &runpb.QueueDue{}}}
		}},
	}
}

// grantTimeout bounds the call of a run. One that it does not reach asks the queue by itself.
const grantTimeout = 10 * time.Second

// tell tells a run that it may run. One that is over, or not there any more, has no use for its place.
func tell(ctx context.Context, client entity.Client, at kit.Ref, grant Grant) error {
	ctx, cancel := context.WithTimeout(ctx, grantTimeout)
	defer cancel()
	reply, err := entity.Ask[*runpb.Reply](ctx, client, grant.RunID, &runpb.Command{
		RunId: grant.RunID, Body: &runpb.Command_Placed{Placed: &runpb.Placed{}},
	})
	if kit.IsCode(err, failurepb.Code_RUN_NOT_FOUND) || err == nil && reply.GetRun().Over() {
		_, err = at.Ask(ctx, &runpb.QueueCommand{
			QueueId: at.ID, Body: &runpb.QueueCommand_Leave{Leave: &runpb.Leave{RunId: grant.RunID}},
		})
	}
	return err
}
