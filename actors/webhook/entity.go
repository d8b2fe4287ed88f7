package webhook

import (
	"context"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/actors/machine"
	"parley/proto/webhookpb"
)

// Couriers make the attempts, one courier for each endpoint that has something to do.
type Couriers interface {
	// Look has the courier of an endpoint look what is to be done.
	Look(at kit.Ref, look Look)
	// Looks says whether an endpoint has a courier of its epoch.
	Looks(at kit.Ref) bool
	// Release ends the couriers of a shard under epochs up to this one.
	Release(shard uint32, epoch uint64)
	// Drain ends all couriers and waits for them.
	Drain(ctx context.Context)
}

// New returns the kind of endpoints' deliveries.
func New(limits Limits, couriers Couriers) kit.Entity {
	return kit.Entity{
		Machine: rules(limits),
		Unkept:  true,
		Command: (*webhookpb.Command)(nil),
		Missing: Missing,
		Queries: Queries(),
		Perform: func(at kit.Ref, effect machine.Effect) proto.Message {
			if look, is := effect.(Look); is {
				couriers.Look(at, look)
			}
			return nil
		},
		Busy:    kit.Is((*webhookpb.State).GetLooking),
		Lost:    func(at kit.Ref, _ proto.Message) bool { return !couriers.Looks(at) },
		Running: ListLooking,
		Due: kit.Due{List: ListDue, Command: func(id string) proto.Message {
			return &webhookpb.Command{Id: id, Body: &webhookpb.Command_Due{Due: &webhookpb.Due{}}}
		}},
		OnRelease: couriers.Release,
		Drain:     couriers.Drain,
	}
}
