package kit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"parley/proto/nodepb"
)

// View is what is stored of a shard's entities at one moment. Values are valid until the next call on the view.
type View interface {
	// Head returns an entity's head.
	Head(id string) (head Head, found bool, err error)
	// Item returns a row of an entity.
	Item(id string, table uint8, key []byte) (value []byte, found bool, err error)
	// Items visits rows of an entity by key, until visit says no more.
	Items(id string, query ItemQuery, visit func(key, value []byte) (more bool)) error
	// Events visits an entity's events with a number above after, until visit says no more.
	Events(id string, after uint64, visit func(seq uint64, value []byte) (more bool)) error
}

// Head is an entity's newest state.
type Head struct {
	State []byte // as its message's bytes
	Seq   uint64 // number of its newest event
}

// ItemQuery selects rows of one table by key.
type ItemQuery struct {
	Table      uint8
	From, To   []byte // From inclusive, To exclusive; nil is open
	Descending bool
	Limit      int // 0 = all
}

// Lists is where lists and counters over all shards are read.
type Lists interface {
	// Counts sums each counter over all shards.
	Counts(ctx context.Context, names ...string) ([]int64, error)
	// Page reads a page of a list, merged over all shards.
	Page(ctx context.Context, query ListQuery) ([]Row, error)
	// Heads returns the state of each row's entity, as its message's bytes; nil for those that are gone.
	Heads(ctx context.Context, page []Row) ([][]byte, error)
	// Usage adds up rows of usage over all shards, where they are.
	Usage(ctx context.Context, query *nodepb.UsageQuery) (*nodepb.UsageReply, error)
	// Spread counts the rows of a list by score over all shards, where they are.
	Spread(ctx context.Context, query *nodepb.SpreadQuery) (map[int64]int64, error)
}

// ListQuery selects a page of a list: by offset, or behind a row.
type ListQuery struct {
	List       string
	Descending bool
	Offset     int
	Limit      int
	After      *Cursor // nil = from the beginning
}

// Cursor names a row of a list, which may be gone.
type Cursor struct {
	Score  int64
	Member string
}

// Row is a row of a list: the entity Member, in its shard.
type Row struct {
	Shard  uint32
	Score  int64
	Member string
}

// Query answers one type of query. Read, Peek and Scan make them.
type Query struct {
	// Message is the full name of the query's message.
	Message protoreflect.FullName
	// ID is the entity that a query is about; nil for one over all shards.
	ID func(query proto.Message) string
	// FromHead answers from the state alone, as its message's bytes.
	FromHead func(head []byte, query proto.Message) (proto.Message, error)
	// FromView answers from the rows of one moment.
	FromView func(view View, head Head, query proto.Message) (proto.Message, error)
	// FromLists answers a query over all shards.
	FromLists func(ctx context.Context, from Lists, query proto.Message) (proto.Message, error)
}

// About is a query about one entity.
type About interface {
	proto.Message
	GetId() string
}

// Peek is a query that is answered from an entity's state alone.
func Peek[S, Q, R any, PS message[S], PQ about[Q], PR message[R]](answer func(state PS, query PQ) (PR, error)) Query {
	return Query{
		Message: nameOf[Q, PQ](), ID: idOf,
		FromHead: func(head []byte, query proto.Message) (proto.Message, error) {
			state, err := decode[S, PS](head)
			if err != nil {
				return nil, err
			}
			q, _ := query.(PQ)
			return reply(answer(state, q))
		},
	}
}

// Read is a query that is answered from an entity's state and rows of its shard, all of one moment.
func Read[S, Q, R any, PS message[S], PQ about[Q], PR message[R]](answer func(view View, state PS, query PQ) (PR, error)) Query {
	return Query{
		Message: nameOf[Q, PQ](), ID: idOf,
		FromView: func(view View, head Head, query proto.Message) (proto.Message, error) {
			state, err := decode[S, PS](head.State)
			if err != nil {
				return nil, err
			}
			q, _ := query.(PQ)
			return reply(answer(view, state, q))
		},
	}
}

// ReadRows is a query of an entity that exists, answered from rows alone: its state is not decoded. seq is the number of its
// newest event.
func ReadRows[Q, R any, PQ about[Q], PR message[R]](answer func(view View, seq uint64, query PQ) (PR, error)) Query {
	return Query{
		Message: nameOf[Q, PQ](), ID: idOf,
		FromView: func(view View, head Head, query proto.Message) (proto.Message, error) {
			q, _ := query.(PQ)
			return reply(answer(view, head.Seq, q))
		},
	}
}

// Scan is a query over all shards. It is answered by the node that is asked for it, which reads the lists where they are: its
// messages never cross nodes.
func Scan[Q, R any, PQ message[Q], PR message[R]](answer func(ctx context.Context, from Lists, query PQ) (PR, error)) Query {
	return Query{
		Message: nameOf[Q, PQ](),
		FromLists: func(ctx context.Context, from Lists, query proto.Message) (proto.Message, error) {
			q, _ := query.(PQ)
			return reply(answer(ctx, from, q))
		},
	}
}

// message is a pointer to a protobuf message's struct, about one that names an entity.
type message[T any] interface {
	*T
	proto.Message
}

type about[T any] interface {
	*T
	About
}

func nameOf[T any, M message[T]]() protoreflect.FullName {
	return M(nil).ProtoReflect().Descriptor().FullName()
}

func idOf(query proto.Message) string {
	q, _ := query.(About)
	return q.GetId()
}

func decode[T any, M message[T]](head []byte) (M, error) {
	state := M(new(T))
	if err := proto.Unmarshal(head, state); err != nil {
		return nil, fmt.Errorf("decode head: %w", err)
	}
	return state, nil
}

// reply is an answer without a typed nil beside an error.
func reply[R any, PR message[R]](answer PR, err error) (proto.Message, error) {
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// States reads the states of a page's entities, without those that are gone.
func States[S any, PS message[S]](ctx context.Context, from Lists, page []Row) ([]*S, error) {
	heads, err := from.Heads(ctx, page)
	if err != nil {
		return nil, err
	}
	all := make([]*S, 0, len(heads))
	for _, head := range heads {
		if head == nil {
			continue // deleted since the list was read
		}
		state, err := decode[S, PS](head)
		if err != nil {
			return nil, err
		}
		all = append(all, state)
	}
	return all, nil
}

// Item decodes a row of an entity; nil when there is none.
func Item[T any, M message[T]](view View, id string, table uint8, key string) (M, error) {
	value, found, err := view.Item(id, table, []byte(key))
	if err != nil || !found {
		return nil, err
	}
	return decode[T, M](value)
}

// Merge sorts rows of several sorted lists into one.
func Merge(all []Row, descending bool) []Row {
	slices.SortStableFunc(all, func(x, y Row) int {
		order := cmp.Or(cmp.Compare(x.Score, y.Score), cmp.Compare(x.Member, y.Member))
		if descending {
			return -order
		}
		return order
	})
	return all
}

// Cut is a page of sorted rows.
func Cut(all []Row, offset, limit int) []Row {
	return all[min(offset, len(all)):min(offset+limit, len(all))]
}
