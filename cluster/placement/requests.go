package placement

import (
	"context"
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	actorcluster "github.com/asynkron/protoactor-go/cluster"
	"google.golang.org/protobuf/proto"
)

// requests is the engine's cluster.Context: a request for a virtual actor is a command to its entity, asked of the
// shard's owner once. The engine's own would repeat what timed out, and so run a command twice.
type requests struct{ system *System }

// Request implements actorcluster.Context.
func (r *requests) Request(identity, _ string, message any, _ ...actorcluster.GrainCallOption) (any, error) {
	s := r.system
	command, ok := message.(proto.Message)
	in, valid := s.config.Shards.Of(identity)
	if !ok || !valid {
		return nil, fmt.Errorf("placement: %q cannot be given a %T", identity, message)
	}
	owner, known := s.config.Owners.Owner(in)
	if !known {
		return nil, notSent("?", uint32(in), "the shard has no owner")
	}
	ctx, cancel := context.WithTimeout(s.life, s.config.CallLimit)
	defer cancel()
	if owner.Node == s.config.Name {
		return s.config.Serve.Ask(ctx, uint32(in), identity, command)
	}
	return s.Ask(ctx, owner, identity, command)
}

// RequestFuture implements actorcluster.Context.
func (r *requests) RequestFuture(string, string, any, ...actorcluster.GrainCallOption) (*actor.Future, error) {
	return nil, errors.New("placement: futures are not failed when a connection dies: use Request")
}
