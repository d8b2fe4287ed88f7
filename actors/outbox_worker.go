package actors

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"parley/actors/kit"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/webhookpb"
)

const (
	// outboxWindow is how many rows, from the first, are being given away at a time, not counting those that only wait for endpoints
	// that cannot be reached.
	outboxWindow = 1024
	// outboxMost is how many there are with those: no more than an endpoint remembers events (package webhook), or it could be told
	// twice of one after a change of owner.
	outboxMost = 4096
	// outboxBatch is how many of them an endpoint gets at once.
	outboxBatch = 256
	// outboxTimeout bounds one batch's acceptance, after which its outcome is not known.
	outboxTimeout = 15 * time.Second
	// outboxSweep is how often an outbox is looked at that nobody has woken.
	outboxSweep = 5 * time.Second
	// outboxParallel bounds the batches of a shard that are under way.
	outboxParallel = 64
	// outboxPace is how long after a batch the next ones are given: what comes meanwhile shares them, since each is an append where the
	// endpoint is. The first row after a pause waits for nothing, and nothing waits while a whole batch does.
	outboxPace = 50 * time.Millisecond
	// removePace is the same for the removal of rows, for which nobody waits.
	removePace = 250 * time.Millisecond
)

// outboxWorker empties the outbox of a shard for one term of its ownership. It gives each endpoint its rows in order, one batch at a
// time, and removes rows when all of their endpoints have accepted them. An endpoint that cannot be reached delays nobody else
// until outboxMost rows wait for it.
//
// Rows are handed over by those who have written them, and read only when that may not be all: the list begins with what was
// removed from it, and reading over that costs more than all else.
type outboxWorker struct {
	system *System
	host   *host
	term   *term

	former int64          // positions up to this one were given away before the term; their rows may have been accepted
	exists bool           // the entity under which the outbox is written
	rows   []*outgoingRow // by position
	done   int            // of them that all of their endpoints have accepted
	open   int            // of them that wait for an endpoint that can be reached
	behind bool           // there may be others in storage
	readAt time.Time      // when storage was read last
	paced
	// early are positions that were read, and are yet to be handed over: they are not new then.
	early     map[int64]bool
	endpoints map[string]*addressee
	answers   chan givenOut
	underWay  int
	batches   uint64 // that were given away
}

// paced is when a worker has done last what it does not do for each row.
type paced struct{ gave, removed time.Time }

// outgoingRow is a row of the window.
type outgoingRow struct {
	position int64
	message  *webhookpb.Message
	open     []string // endpoints that have not accepted it
}

// addressee is what the outbox worker knows of an endpoint.
type addressee struct {
	busy    bool           // a batch is under way
	alone   int            // rows that are given one by one: it has refused them together
	given   map[int64]bool // positions that may have been accepted and are not removed
	after   time.Time      // when to try again
	failing int
}

// givenOut says what came of a batch.
type givenOut struct {
	endpoint string
	rows     []*outgoingRow
	err      error
}

func newOutboxWorker(s *System, h *host, t *term) *outboxWorker {
	return &outboxWorker{
		system: s, host: h, term: t, endpoints: map[string]*addressee{}, early: map[int64]bool{}, answers: make(chan givenOut, outboxParallel),
	}
}

// outboxID is the entity under which the outbox of a shard is emptied. No kind has its prefix.
func outboxID(shard uint32) string { return fmt.Sprintf("outbox_%d", shard) }

// keep works until the term ends.
func (k *outboxWorker) keep() {
	ctx, cancel := k.term.within(k.system.work)
	defer cancel()
	defer k.settle()
	if !k.begin(ctx) {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case answer := <-k.answers:
			k.take(answer)
			k.gather(ctx, k.open < outboxBatch)
		case <-k.host.outbox.woken:
			k.gather(ctx, true)
		case <-timer.C:
			k.gather(ctx, true)
		}
		timer.Reset(k.pass(ctx))
	}
}

// gather takes the answers that have come. If a batch was given a moment ago, and no whole one waits, it lets more come together.
func (k *outboxWorker) gather(ctx context.Context, more bool) {
	if wait := outboxPace - time.Since(k.gave); more && wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		for more {
			select {
			case <-ctx.Done():
				return
			case <-timer.C:
				more = false
			case answer := <-k.answers:
				k.take(answer)
				more = k.open < outboxBatch
			}
		}
	}
	for {
		select {
		case answer := <-k.answers:
			k.take(answer)
		default:
			return
		}
	}
}

// settle waits for what is under way: its context has ended.
func (k *outboxWorker) settle() {
	for ; k.underWay > 0; k.underWay-- {
		<-k.answers
	}
	k.host.outbox.waiting.Store(0)
	k.host.outbox.oldest.Store(0)
}

// begin learns what former owners have left.
func (k *outboxWorker) begin(ctx context.Context) bool {
	for try := 1; ctx.Err() == nil; try++ {
		err := k.host.outbox.follow(ctx, k.system, k.host.shard, k.term)
		if err == nil {
			k.former = k.host.outbox.position.Load()
			_, k.exists, err = k.system.config.Journal.Load(ctx, k.host.shard, outboxID(k.host.shard))
		}
		if err == nil {
			k.host.outbox.inbox.open(k.term.epoch)
			return true
		}
		kit.Pause(ctx, try)
	}
	return false
}

// pass removes what is accepted, reads on, and gives away what can be. It returns when to look again, if nobody wakes it.
func (k *outboxWorker) pass(ctx context.Context) time.Duration {
	next, err := k.remove(ctx)
	if err == nil {
		err = k.fill(ctx)
	}
	if err != nil {
		if ctx.Err() == nil {
			k.system.log.Warn("the outbox is emptied later", slog.Uint64("shard", uint64(k.host.shard)), slog.Any("err", err))
		}
		return time.Second
	}
	now := time.Now()
	for endpoint, rows := range k.toGive() {
		to := k.addressee(endpoint)
		switch {
		case to.busy:
		case now.Before(to.after):
			next = min(next, to.after.Sub(now))
		case k.underWay < outboxParallel:
			k.give(ctx, endpoint, to, rows)
		}
	}
	for endpoint, to := range k.endpoints { // it has one only while there is something to know
		if !to.busy && to.alone == 0 && len(to.given) == 0 && to.failing == 0 {
			delete(k.endpoints, endpoint)
		}
	}
	return next
}

// remove removes the rows that all of their endpoints have accepted, or says when to.
func (k *outboxWorker) remove(ctx context.Context) (next time.Duration, err error) {
	if k.done == 0 {
		return outboxSweep, nil
	}
	if wait := removePace - time.Since(k.removed); wait > 0 && k.done < outboxBatch {
		return wait, nil
	}
	return outboxSweep, k.removeDone(ctx)
}

func (k *outboxWorker) removeDone(ctx context.Context) error {
	entry := &logpb.Append{Id: outboxID(k.host.shard), Create: !k.exists, Epoch: k.term.epoch}
	var done []int64
	for _, row := range k.rows {
		if len(row.open) == 0 {
			done = append(done, row.position)
			entry.Listings = append(entry.Listings, &logpb.Listing{List: listOutbox, Score: row.position, Member: row.message.GetId(), Delete: true})
		}
	}
	if len(done) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, k.system.config.AppendTimeout)
	defer cancel()
	result, err := k.system.config.Journal.Append(bounded, k.host.shard, entry)
	switch {
	case err != nil:
		return err
	case result.GetOutcome() == logpb.Outcome_EXISTS:
		k.exists = true // an append whose outcome was not known was applied
		return k.removeDone(ctx)
	case result.GetOutcome() != logpb.Outcome_APPLIED:
		return fmt.Errorf("append said %s", result.GetOutcome())
	}
	k.exists = true
	k.rows = slices.DeleteFunc(k.rows, func(row *outgoingRow) bool { return len(row.open) == 0 })
	k.done, k.removed = 0, time.Now()
	for _, to := range k.endpoints {
		for _, position := range done {
			delete(to.given, position)
		}
	}
	return nil
}

// fill fills the window with what was handed over, or by reading.
func (k *outboxWorker) fill(ctx context.Context) error {
	rows, unread := k.host.outbox.inbox.take(k.term.epoch)
	unread = unread || time.Since(k.readAt) >= outboxSweep
	k.behind = k.behind || unread
	k.count()
	if unread || k.behind && len(k.rows) < outboxMost && k.open+k.done <= outboxWindow/2 {
		return k.read(ctx, rows)
	}
	for _, row := range rows {
		switch {
		case k.early[row.position]:
			delete(k.early, row.position)
		case k.behind: // there are others before it
		case len(k.rows) >= outboxMost || k.open+k.done >= outboxWindow:
			k.behind = true
		default:
			k.rows = append(k.rows, row)
			if !k.stuck(row) {
				k.open++
			}
		}
	}
	if len(rows) > 0 {
		slices.SortFunc(k.rows, func(a, b *outgoingRow) int { return cmp.Compare(a.position, b.position) })
	}
	k.show()
	return nil
}

// count counts the rows that are done, and those that wait for an endpoint that can be reached.
func (k *outboxWorker) count() {
	k.open, k.done = 0, 0
	for _, row := range k.rows {
		switch {
		case len(row.open) == 0:
			k.done++
		case !k.stuck(row):
			k.open++
		}
	}
}

// stuck says that a row waits only for endpoints that cannot be reached.
func (k *outboxWorker) stuck(row *outgoingRow) bool {
	return !slices.ContainsFunc(row.open, func(endpoint string) bool {
		to := k.endpoints[endpoint]
		return to == nil || to.failing == 0
	})
}

func (k *outboxWorker) show() {
	k.host.outbox.waiting.Store(int64(len(k.rows) - k.done))
	oldest := int64(0)
	for _, row := range k.rows {
		if len(row.open) > 0 {
			oldest = row.position
			break
		}
	}
	k.host.outbox.oldest.Store(oldest)
}

// read fills the window from storage, where handed rows are, too. Rows that are in it keep what is known of them.
func (k *outboxWorker) read(ctx context.Context, handed []*outgoingRow) error {
	known := make(map[int64]*outgoingRow, len(k.rows))
	for _, row := range k.rows {
		known[row.position] = row
	}
	var rows []*outgoingRow
	bounded, cancel := context.WithTimeout(ctx, k.system.config.LoadTimeout)
	defer cancel()
	limit := min(outboxMost, len(k.rows)-k.open-k.done+outboxWindow)
	query := ListedQuery{List: listOutbox, Limit: limit, Stale: true}
	err := k.system.config.Journal.Listed(bounded, k.host.shard, query, func(listed ListedRow) {
		if row := known[listed.Score]; row != nil {
			rows = append(rows, row)
			return
		}
		outgoing := &webhookpb.Outgoing{}
		if fault := proto.Unmarshal(listed.Value, outgoing); fault != nil || outgoing.GetMessage() == nil {
			k.system.log.Error("row of the outbox is unreadable: it is dropped", slog.String("event", listed.Member), slog.Any("err", fault))
			outgoing = &webhookpb.Outgoing{Message: &webhookpb.Message{Id: listed.Member}}
		}
		rows = append(rows, &outgoingRow{position: listed.Score, message: outgoing.GetMessage(), open: outgoing.GetEndpoints()})
	})
	if err != nil {
		return err
	}
	k.rows, k.behind, k.readAt = rows, len(rows) >= limit, time.Now()
	forgotten := k.readAt.Add(-outboxDoubt).UnixMicro()
	maps.DeleteFunc(k.early, func(position int64, _ bool) bool { return position < forgotten })
	for _, row := range rows {
		if row.position > max(k.former, forgotten) && known[row.position] == nil {
			k.early[row.position] = true
		}
	}
	for _, row := range handed {
		delete(k.early, row.position)
	}
	k.count()
	k.show()
	return nil
}

// toGive are the first rows of the window that each endpoint has not accepted.
func (k *outboxWorker) toGive() map[string][]*outgoingRow {
	byEndpoint := map[string][]*outgoingRow{}
	for _, row := range k.rows {
		for _, endpoint := range row.open {
			if len(byEndpoint[endpoint]) < outboxBatch {
				byEndpoint[endpoint] = append(byEndpoint[endpoint], row)
			}
		}
	}
	return byEndpoint
}

func (k *outboxWorker) addressee(endpoint string) *addressee {
	to := k.endpoints[endpoint]
	if to == nil {
		to = &addressee{given: map[int64]bool{}}
		k.endpoints[endpoint] = to
	}
	return to
}

// give gives an endpoint a batch.
func (k *outboxWorker) give(ctx context.Context, endpoint string, to *addressee, rows []*outgoingRow) {
	if to.alone > 0 {
		rows = rows[:1]
	}
	k.batches++
	accept := &webhookpb.Accept{
		Shard: k.host.shard, Epoch: k.term.epoch, Batch: k.batches,
		Fresh: len(to.given) == 0 && k.rows[0].position > k.former,
	}
	for _, row := range rows {
		accept.Messages = append(accept.Messages, row.message)
		to.given[row.position] = true
	}
	to.busy = true
	k.underWay++
	k.gave = time.Now()
	command := &webhookpb.Command{Id: endpoint, Body: &webhookpb.Command_Accept{Accept: accept}}
	k.system.tasks.Go(func() {
		bounded, cancel := context.WithTimeout(ctx, outboxTimeout)
		defer cancel()
		_, err := k.system.config.Outbox.Client.Ask(bounded, endpoint, command)
		k.answers <- givenOut{endpoint: endpoint, rows: rows, err: err}
	})
}

// take takes what came of a batch.
func (k *outboxWorker) take(answer givenOut) {
	k.underWay--
	to := k.endpoints[answer.endpoint]
	to.busy = false
	if refused := kit.FailureOf(answer.err); refused != nil && refused.Code != failurepb.Code_CONFLICT {
		if len(answer.rows) > 1 { // one of them
			to.alone = len(answer.rows)
			return
		}
		k.system.log.Error("an endpoint refuses what it is told: it is not told", slog.String("endpoint", answer.endpoint),
			slog.String("event", answer.rows[0].message.GetId()), slog.Any("err", answer.err))
		answer.err = nil
	}
	if answer.err != nil {
		to.failing = min(to.failing+1, 8)
		to.after = time.Now().Add(min(25*time.Millisecond<<to.failing, 5*time.Second))
		return
	}
	to.failing, to.after, to.alone = 0, time.Time{}, max(0, to.alone-len(answer.rows))
	for _, row := range answer.rows {
		row.open = slices.DeleteFunc(slices.Clone(row.open), func(id string) bool { return id == answer.endpoint })
		if len(row.open) == 0 {
			k.done++
		}
	}
}
