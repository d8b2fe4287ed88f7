package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/cluster/shard"
	"parley/proto/failurepb"
)

// Part is what one node answered to a query of several shards.
type Part struct {
	Node   string
	Shards []shard.ID
	Answer proto.Message
}

// ReadAll asks the owners of all given shards, every node once for the shards that it owns and all nodes at the same
// time. query makes the query of some of the shards. The parts cover every shard exactly once, in no order; a node may
// have given several when shards moved meanwhile. Any error but a changed owner ends it.
func (r *Router) ReadAll(ctx context.Context, shards []shard.ID, query func(of []shard.ID) proto.Message) ([]Part, error) {
	p := NewPatience(r.config.OwnerWait, r.config.RetryPause)
	var parts []Part
	missing := slices.Clone(shards)
	for {
		start := time.Now()
		answered, again, err := r.readEach(ctx, r.byOwner(missing), query)
		if err != nil {
			return nil, err
		}
		if again != nil {
			p.Spend(time.Since(start), again)
		}
		parts = append(parts, answered...)
		// What has no owner, or lost it, is tried again.
		missing = slices.DeleteFunc(missing, func(in shard.ID) bool {
			return slices.ContainsFunc(answered, func(part Part) bool { return slices.Contains(part.Shards, in) })
		})
		if len(missing) == 0 {
			return parts, nil
		}
		if p.Over() {
			r.metrics.gaveUp.Inc()
			return nil, r.config.Refuse(failurepb.Code_UNAVAILABLE, failure.SomeWithoutOwner)
		}
		// One of them stands for all: without an owner it is the first to be waited for.
		if err := p.Wait(ctx, r.config.Owners.reign(missing[0]).over.Done(), again != nil); err != nil {
			return nil, err
		}
	}
}

// byOwner groups shards by their owner, leaving out those that have none.
func (r *Router) byOwner(shards []shard.ID) map[string][]shard.ID {
	groups := make(map[string][]shard.ID)
	for _, in := range shards {
		if owner, known := r.config.Owners.Owner(in); known && r.reachable(owner.Node) {
			groups[owner.Node] = append(groups[owner.Node], in)
		}
	}
	return groups
}

// readEach asks every owner at the same time, and says why one of them has to be asked again, nil if none has.
func (r *Router) readEach(
	ctx context.Context, groups map[string][]shard.ID, query func(of []shard.ID) proto.Message,
) (answered []Part, retry, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex
		calls sync.WaitGroup
	)
	for _, of := range groups {
		calls.Go(func() {
			part, failed := r.readPart(ctx, of, query(of))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case failed == nil:
				answered = append(answered, part)
			case again(failed):
				retry = failed
			case err == nil:
				err = failed
				cancel() // nobody waits for the others
			}
		})
	}
	calls.Wait()
	return answered, retry, err
}

func (r *Router) readPart(ctx context.Context, of []shard.ID, query proto.Message) (Part, error) {
	part := Part{Shards: of}
	now := r.config.Owners.reign(of[0])
	if !now.known() || !r.reachable(now.owner.Node) {
		return part, &lostError{errMoved}
	}
	part.Node = now.owner.Node
	err := r.try(ctx, now, func(ctx context.Context, to Owner) error {
		var err error
		part.Answer, err = r.read(ctx, to, query)
		return err
	})
	if err != nil {
		r.learn(err, of...)
	}
	return part, err
}
