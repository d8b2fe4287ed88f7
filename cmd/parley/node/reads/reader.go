package reads

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/machine"
	"parley/cluster/shard"
	"parley/persistence"
	"parley/proto/conversationpb"
)

// Reader reads entities from this node's store. Reads do not activate an entity: a snapshot of its head and rows includes
// everything that was acknowledged.
type Reader struct {
	store  *persistence.Store
	shards shard.Map
}

// NewReader returns the reader of a store with that many shards.
func NewReader(store *persistence.Store, shards shard.Map) *Reader {
	return &Reader{store: store, shards: shards}
}

// NotFound says that there is no such conversation.
func NotFound() *machine.Failure { return conversation.Missing() }

// OtherKind reports whether an id is not a conversation's: the records of other entities have other formats.
func OtherKind(id string) bool { return !strings.HasPrefix(id, "conv_") }

func (r *Reader) group(id string) (uint32, *machine.Failure) {
	in, ok := r.shards.Of(id)
	if !ok || OtherKind(id) {
		return 0, NotFound()
	}
	return uint32(in), nil
}

// State returns a conversation's head.
func (r *Reader) State(ctx context.Context, id string) (*conversationpb.State, error) {
	group, refused := r.group(id)
	if refused != nil {
		return nil, refused
	}
	head, found, err := r.store.Head(ctx, group, id)
	if err != nil {
		return nil, readFault("read head", err)
	}
	if !found {
		return nil, NotFound()
	}
	return decodeState(head.Value)
}

// view opens a snapshot of an existing conversation. The head's value is valid until the next call on the view.
func (r *Reader) view(ctx context.Context, id string) (*persistence.View, persistence.Head, error) {
	group, refused := r.group(id)
	if refused != nil {
		return nil, persistence.Head{}, refused
	}
	return r.viewOf(ctx, group, id, NotFound)
}

// viewOf opens a snapshot of an existing entity of any kind; missing makes the failure if it does not exist.
func (r *Reader) viewOf(ctx context.Context, group uint32, id string, missing func() *machine.Failure) (*persistence.View, persistence.Head, error) {
	view, err := r.store.View(ctx, group)
	if err != nil {
		return nil, persistence.Head{}, readFault("open view", err)
	}
	head, found, err := view.Head(id)
	switch {
	case err != nil:
		err = readFault("read head", err)
	case !found:
		err = missing()
	default:
		return view, head, nil
	}
	return nil, persistence.Head{}, errors.Join(err, view.Close())
}

func decodeState(value []byte) (*conversationpb.State, error) {
	state := &conversationpb.State{}
	if err := proto.Unmarshal(value, state); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	return state, nil
}

// Before visits a conversation's messages older than a number, newest first: the turn runner's history.
func (r *Reader) Before(ctx context.Context, conversationID string, number uint64, visit func(*conversationpb.Message) (more bool)) error {
	group, refused := r.group(conversationID)
	if refused != nil {
		return refused
	}
	view, err := r.store.View(ctx, group)
	if err != nil {
		return readFault("open view", err)
	}
	defer func() { _ = view.Close() }() // closing a snapshot loses nothing
	var fault error
	err = view.Items(conversationID, persistence.ItemQuery{
		Table: conversation.TableMessages, To: binary.BigEndian.AppendUint64(nil, number), Descending: true,
	}, func(_, value []byte) bool {
		message := &conversationpb.Message{}
		if fault = proto.Unmarshal(value, message); fault != nil {
			return false
		}
		return visit(message)
	})
	if err = errors.Join(err, fault); err != nil {
		return readFault("read messages", err)
	}
	return nil
}

// Steps returns the journalled steps of a running turn in order; a runner that takes it over does not repeat them.
func (r *Reader) Steps(ctx context.Context, conversationID, runID string) ([]*conversationpb.Step, error) {
	group, failure := r.group(conversationID)
	if failure != nil {
		return nil, failure
	}
	view, err := r.store.View(ctx, group)
	if err != nil {
		return nil, readFault("open view", err)
	}
	defer func() { _ = view.Close() }() // the same
	var steps []*conversationpb.Step
	var fault error
	err = view.Items(conversationID, persistence.ItemQuery{
		Table: conversation.TableSteps, From: conversation.StepKey(runID, 0), To: conversation.StepKey(runID, math.MaxUint32),
	}, func(_, value []byte) bool {
		step := &conversationpb.Step{}
		if fault = proto.Unmarshal(value, step); fault != nil {
			return false
		}
		steps = append(steps, step)
		return true
	})
	if err = errors.Join(err, fault); err != nil {
		return nil, readFault("read steps", err)
	}
	return steps, nil
}
