package placement

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"parley/actors/core/follow"
	"parley/proto/nodepb"
)

// A node that cannot be reached directly is called through another one, since the network may be broken between two nodes only.
// The request names its destination; the node that receives it forwards it over its own connection, or answers that it has none.
// A request is forwarded once, so it cannot loop.

// carry makes an exchange with a node over the connection to it or, without one, over that to another node, which forwards it to
// passTo. Nothing was done if the error is "not the owner".
func (s *System) carry(
	ctx context.Context, node string, in uint32, exchange func(on *session, passTo string) (*nodepb.Response, error),
) (*nodepb.Response, error) {
	on, unreached := s.reach(ctx, node, in)
	if unreached == nil {
		return exchange(on, "")
	}
	l := s.links.Load().byName[node]
	if !follow.IsNotOwner(unreached) || l == nil || l.unrelayable() { // without a link the node is not a member any more
		return nil, unreached
	}
	for _, through := range s.relays(node) {
		response, err := exchange(through, node)
		var lost *lostError
		switch {
		case follow.IsNotOwner(err), response.GetNotOwner().GetNotPassed():
			continue
		case errors.As(err, &lost):
			return nil, &lostError{node: node, why: "asked through " + lost.Error(), silent: unknownSilence}
		case err == nil:
			s.metrics.relayed.Inc()
		}
		return response, err
	}
	l.markUnrelayable()
	return nil, unreached
}

// relays are the connections to other nodes that can forward requests, rotated so that requests spread over them.
func (s *System) relays(besides string) []*session {
	var links []*link
	for name, l := range s.links.Load().byName {
		if name != besides {
			links = append(links, l)
		}
	}
	slices.SortFunc(links, func(a, b *link) int { return strings.Compare(a.name, b.name) })
	var found []*session
	for _, l := range links {
		if on := l.connected(); on != nil && l.speaks(wirePasses) {
			found = append(found, on)
		}
	}
	if len(found) > 1 {
		first := int(s.ids.Load() % uint64(len(found)))
		found = append(found[first:], found[:first]...)
	}
	return found
}

// passOn forwards a request of another node to a third. It returns nil if there will be no answer.
func (s *System) passOn(ctx context.Context, request *nodepb.Request) *nodepb.Response {
	to, in := request.GetPassTo(), request.GetShard()
	request.PassTo = ""
	on, err := s.reach(ctx, to, in)
	if err != nil {
		return notPassed(in)
	}
	response, err := s.exchange(ctx, on, request)
	switch {
	case follow.IsNotOwner(err):
		return notPassed(in)
	case err != nil:
		return nil
	}
	s.metrics.passedOn.Inc()
	return response
}

func notPassed(in uint32) *nodepb.Response {
	return &nodepb.Response{Outcome: &nodepb.Response_NotOwner{NotOwner: &nodepb.NotOwner{Shard: in, NotPassed: true}}}
}

// passFollowOn follows a conversation of a third node for another one. cancel is nil if the follow has not started, the response
// is nil if it is lost.
func (s *System) passFollowOn(ctx context.Context, question *nodepb.Follow, sink follow.Sink) (*nodepb.Response, func()) {
	on, err := s.reach(ctx, question.GetPassTo(), question.GetShard())
	if err != nil {
		return notPassed(question.GetShard()), nil
	}
	question.PassTo = ""
	sub := &subscription{sink: sink}
	response, err := s.followOver(ctx, on, question, sub)
	switch {
	case follow.IsNotOwner(err):
		return notPassed(question.GetShard()), nil
	case err != nil:
		return nil, nil
	}
	s.metrics.passedOn.Inc()
	return response, sub.cancel
}

// Unreached returns the names of the members that this node has had no connection to for longer than some time; 0 = that it has none to
// right now.
func (s *System) Unreached(longer time.Duration) []string {
	var names []string
	for name, l := range s.links.Load().byName {
		if l.connected() == nil && l.downFor() >= longer {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
