package subscription

import (
	"context"
	"errors"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// Bounds of one RedeliverFailed.
const (
	// MostRedelivered is how many deliveries it has made again.
	MostRedelivered = 1000
	// redeliverBatch is how many of them go into one command, and so into one append.
	redeliverBatch = 100
	// redeliverReads is how often it reads, each time some thousands.
	redeliverReads = 50
)

// Failed selects the deliveries that failed from From on to before To, in Unix milliseconds. To is past: what is made again and fails
// anew is not among them, so that a repeat is harmless. After is the number after which to go on.
type Failed struct {
	From, To int64
	After    uint64
	// Only counts what would be made again.
	Only bool
}

// Again is what came of a RedeliverFailed: how many deliveries, whether there are others, and the number after which to go on then.
type Again struct {
	Count int
	More  bool
	Next  uint64
}

// RedeliverFailed has the deliveries made again that an endpoint did not take, tests left out. Each batch is made again as a whole or not
// at all; who repeats the same after an error, also after the death of a node, goes on with the rest. Of two who do it at once each
// delivery is made again by one.
func (d *Webhooks) RedeliverFailed(ctx context.Context, reach Reach, id string, of Failed) (done Again, err error) {
	record, err := d.record(ctx, reach, id)
	switch {
	case err != nil:
		return done, err
	case !of.Only && !Active(record):
		return done, failure.New(failurepb.Code_ENDPOINT_DISABLED, failure.EndpointDisabled)
	case d.env.ReadyForMany != nil && !d.env.ReadyForMany():
		return done, failure.New(failurepb.Code_UNAVAILABLE, failure.TemporarilyUnavailable)
	}
	done.More, done.Next = true, of.After
	for tries, reads := 0, 0; ; reads++ {
		found, failed := entity.Read[*webhookpb.FailedReply](ctx, d.env.Entities, &webhookpb.FailedQuery{
			Id: id, From: of.From, To: of.To, After: done.Next, Limit: uint32(min(redeliverBatch, MostRedelivered-done.Count)),
		})
		if isMissing(failed) {
			return Again{Count: done.Count}, nil // it was told nothing yet, or is gone
		}
		if failed != nil {
			return done, failed
		}
		count := len(found.GetDeliveries())
		if count > 0 && !of.Only {
			count, failed = d.again(ctx, id, found)
			refused, is := errors.AsType[*machine.Failure](failed)
			switch {
			case is && refused.Code == failurepb.Code_CONFLICT && tries < redeliverTries:
				tries++ // somebody else does the same: what they took is not found again
				continue
			case failed != nil:
				return done, failed
			}
			tries = 0
		}
		done.Count += count
		switch {
		case count < len(found.GetDeliveries()): // no more may wait
			if count > 0 {
				done.Next = found.GetDeliveries()[count-1].GetNumber()
			}
			return done, nil
		case found.GetNext() == 0:
			done.More, done.Next = false, 0
			return done, nil
		}
		done.Next = found.GetNext()
		if done.Count >= MostRedelivered || reads >= redeliverReads {
			return done, nil
		}
	}
}

// again gives a batch to the endpoint and says how many of it are made again.
func (d *Webhooks) again(ctx context.Context, id string, found *webhookpb.FailedReply) (int, error) {
	reply, err := entity.Ask[*webhookpb.Reply](ctx, d.env.Entities, id, &webhookpb.Command{
		Id: id, Body: &webhookpb.Command_RedeliverFailed{RedeliverFailed: &webhookpb.RedeliverFailed{
			Deliveries: found.GetDeliveries(), Revision: found.GetRevision(),
		}},
	})
	return int(reply.GetRedelivered()), err
}
