package actors

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/proto/logpb"
	"parley/proto/webhookpb"
)

// What others are to be told of is a row in the shard's outbox, written by the append that makes it true; the shard's outbox worker
// (outbox_worker.go) empties it. Nothing is written where nobody listens.

// listOutbox is the list of what has yet to be given to endpoints, in order: the score is a position of the shard.
const listOutbox = "outbox"

// Listeners says who is told of what. It is asked in the middle of commands: it answers from memory.
type Listeners interface {
	// Listening says whether anybody of a tenant is told of anything.
	Listening(tenantID string) bool
	// Listeners are the endpoints that are told of a type of event of a project.
	Listeners(tenantID, projectID, kind string) []string
	// CatchUp waits until the memory has all that was acknowledged before the call.
	CatchUp(ctx context.Context) error
}

const (
	// catchUpTimeout bounds how long a term's first event waits until it is known who listens.
	catchUpTimeout = time.Second
	// catchUpAgain is when it is tried again. Meanwhile those are told who are known.
	catchUpAgain = 5 * time.Second
)

// OutboxConfig is what outboxes need. Both or neither.
type OutboxConfig struct {
	Listeners Listeners
	// Client reaches the endpoints' deliveries.
	Client interface {
		Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error)
	}
}

// outbox is what a shard's commands know of its outbox, and what its outbox worker shows.
type outbox struct {
	woken chan struct{}
	// position is the newest that was given away, by a microsecond's clock that never falls while the shard is owned here; epoch is
	// that under which it was compared with what former owners have left.
	position atomic.Int64
	epoch    atomic.Uint64
	// caughtUp is the epoch under which all listeners are known that there were when it began; catchUpAt is when to try again.
	caughtUp  atomic.Uint64
	catchUpAt atomic.Int64

	waiting atomic.Int64 // rows, as far as the outbox worker has looked
	oldest  atomic.Int64 // position of the first, 0 = there is none

	inbox outboxInbox
}

// outboxInbox hands rows that were written to the outbox worker: it need not read them, over all that it has removed before.
type outboxInbox struct {
	mu       sync.Mutex
	epoch    uint64 // of the worker that takes them
	rows     []*outgoingRow
	unread   bool      // there may be rows that were not handed over
	doubtful time.Time // until when rows may turn out to be written that were not handed over: what follows them must be read, too
}

// outboxDoubt is longer than the outcome of an append can remain open in a term.
const outboxDoubt = time.Minute

// open begins a worker's term, which begins by reading.
func (i *outboxInbox) open(epoch uint64) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.epoch, i.rows, i.unread = epoch, nil, true
}

func (i *outboxInbox) add(epoch uint64, rows []*outgoingRow) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.unread || epoch != i.epoch || len(i.rows)+len(rows) > outboxWindow || time.Now().Before(i.doubtful) {
		i.rows, i.unread = nil, true
		return
	}
	i.rows = append(i.rows, rows...)
}

func (i *outboxInbox) doubt() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.rows, i.unread, i.doubtful = nil, true, time.Now().Add(outboxDoubt)
}

// take returns the rows, and whether others have to be read. A worker of a former term leaves them alone.
func (i *outboxInbox) take(epoch uint64) (rows []*outgoingRow, unread bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if epoch != i.epoch {
		return nil, true
	}
	rows, unread = i.rows, i.unread
	i.rows, i.unread = nil, false
	return rows, unread
}

// appended says what came of an append with rows: they are written, or not, or it is not known.
func (o *outbox) appended(epoch uint64, rows []*outgoingRow, err error) {
	switch {
	case len(rows) == 0:
		return
	case err == nil:
		o.inbox.add(epoch, rows)
	case surelyUnwritten(err):
		return
	default:
		o.inbox.doubt()
	}
	select {
	case o.woken <- struct{}{}:
	default:
	}
}

// next gives away a position.
func (o *outbox) next() int64 {
	for {
		last := o.position.Load()
		position := max(time.Now().UnixMicro(), last+1)
		if o.position.CompareAndSwap(last, position) {
			return position
		}
	}
}

// follow makes sure that positions are behind those that former owners of the shard have given away, whatever their clocks said.
func (o *outbox) follow(ctx context.Context, s *System, shard uint32, t *term) error {
	if o.epoch.Load() == t.epoch {
		return nil
	}
	ctx, cancel := t.bound(ctx, s.config.LoadTimeout)
	defer cancel()
	var last int64
	err := s.config.Journal.Listed(ctx, shard, ListedQuery{List: listOutbox, Last: true, Limit: 1}, func(row ListedRow) { last = row.Score })
	if err != nil {
		return err
	}
	for {
		known := o.position.Load()
		if known >= last || o.position.CompareAndSwap(known, last) {
			break
		}
	}
	o.epoch.Store(t.epoch)
	return nil
}

// catchUp makes sure that all who listened before the term are known here: the memory of a node that was away may be old. It is done
// once a term, so that a change of hands costs a round trip and nothing else does. Conversations go on while it fails.
func (o *outbox) catchUp(ctx context.Context, s *System, shard uint32, t *term) {
	if o.caughtUp.Load() == t.epoch || time.Now().UnixMicro() < o.catchUpAt.Load() {
		return
	}
	ctx, cancel := t.bound(ctx, catchUpTimeout)
	defer cancel()
	if err := s.config.Outbox.Listeners.CatchUp(ctx); err != nil {
		o.catchUpAt.Store(time.Now().Add(catchUpAgain).UnixMicro())
		s.log.Warn("it is not known whether all webhook endpoints are known", slog.Uint64("shard", uint64(shard)), slog.Any("err", err))
		return
	}
	o.caughtUp.Store(t.epoch)
}

// tell adds rows to the outbox for what is to be told of a change, and returns them.
func (act *activation) tell(entry *logpb.Append, before, after proto.Message, events []proto.Message) (told []*outgoingRow, err error) {
	s := act.host.system
	listeners := s.config.Outbox.Listeners
	if listeners == nil || act.kind.Tells == nil {
		return nil, nil
	}
	notices := act.kind.Tells(before, after, events)
	if len(notices) > 0 {
		act.host.outbox.catchUp(s.life, s, act.host.shard, act.term)
	}
	for i, notice := range notices {
		if !listeners.Listening(notice.TenantID) {
			continue
		}
		endpoints := listeners.Listeners(notice.TenantID, notice.ProjectID, notice.Type)
		if len(endpoints) == 0 {
			continue
		}
		if err = act.host.outbox.follow(s.life, s, act.host.shard, act.term); err != nil {
			return nil, err
		}
		row := &outgoingRow{position: act.host.outbox.next(), message: outgoing(act.id, eventSeq(entry), i, notice), open: endpoints}
		value, err := proto.Marshal(&webhookpb.Outgoing{Message: row.message, Endpoints: endpoints})
		if err != nil {
			return nil, err
		}
		entry.Listings = append(entry.Listings, &logpb.Listing{
			List: listOutbox, Score: row.position, Member: row.message.GetId(), Value: value,
		})
		told = append(told, row)
	}
	return told, nil
}

// eventSeq is the number of an entry's first event.
func eventSeq(entry *logpb.Append) uint64 {
	if entry.GetCreate() {
		return 0
	}
	return entry.GetExpectedSeq() + 1
}

// outgoing makes the message of a notice. The event's id follows from what it tells of.
func outgoing(id string, seq uint64, index int, notice kit.Notice) *webhookpb.Message {
	sum := sha256.Sum256([]byte(id + "/" + strconv.FormatUint(seq, 10) + "/" + strconv.Itoa(index) + "/" + notice.Type))
	message := subscription.NewMessage("evt_"+hex.EncodeToString(sum[:16]), subscription.Event{
		Type: notice.Type, ProjectID: notice.ProjectID, At: time.UnixMilli(notice.At), Data: notice.Data,
	})
	message.About = notice.About
	return message
}
