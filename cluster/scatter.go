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

// Part is one node's answer to a query of several shards.
type Part struct {
	Node   string
	Shards []shard.ID
	Answer proto.Message
}

// ReadAll queries the owners of all given shards concurrently, each node once for the shards that it owns. query builds the
// query for a subset of the shards. The parts cover every shard exactly once, in no particular order. A node may answer several
// parts if shards moved meanwhile. Any error other than a changed or lost owner ends the read.
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
		// Shards without an owner, or whose owner was lost, are tried again.
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
		// Waiting for one of them is enough: the next round looks at all.
		if err := p.Wait(ctx, r.config.Owners.term(missing[0]).over.Done(), again != nil); err != nil {
			return nil, err
		}
	}
}

// byOwner groups shards by owner and leaves out those without one.
func (r *Router) byOwner(shards []shard.ID) map[string][]shard.ID {
	groups := make(map[string][]shard.ID)
	for _, in := range shards {
		if owner, known := r.config.Owners.Owner(in); known && r.reachable(owner.Node) {
			groups[owner.Node] = append(groups[owner.Node], in)
		}
	}
	return groups
}

// readEach queries all owners concurrently. retry is the error of an owner that must be asked again, nil if there is none.
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
				cancel() // the other answers are no longer needed
			}
		})
	}
	calls.Wait()
	return answered, retry, err
}

func (r *Router) readPart(ctx context.Context, of []shard.ID, query proto.Message) (Part, error) {
	part := Part{Shards: of}
	now := r.config.Owners.term(of[0])
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
