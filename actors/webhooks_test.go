package actors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/actors/courier"
	"parley/actors/kit"
	"parley/actors/webhook"
	"parley/proto/deliverypb"
	"parley/proto/directorypb"
	"parley/proto/failurepb"
	"parley/proto/logpb"
	"parley/proto/webhookpb"
)

// receivers are endpoints as couriers and outboxes see them: their records, and who answers there.
type receivers struct {
	mu      sync.Mutex
	random  *rand.Rand
	records map[string]*directorypb.Webhook
	got     map[string][]said         // that were answered with 2xx, by endpoint, in order
	events  map[string]map[string]int // attempts by endpoint and event
	fail    func(endpoint string) *deliverypb.Report
	slow    time.Duration        // of an answer, at most
	dead    string               // the endpoint that never answers
	silent  string               // the tenant of more such
	absent  bool                 // the node has been away: it knows of no endpoint before it has caught up
	ahead   error                // why it cannot
	former  *directorypb.Webhook // of an endpoint, as the node has it before it has caught up
	under   []uint64             // generations of the records under which attempts were made
}

// said is what a receiver read in an event: which conversation, which of its events.
type said struct {
	ID   string `json:"id"`
	Data struct {
		Conversation string `json:"conversation"`
		Seq          uint64 `json:"seq"`
	} `json:"data"`
}

func newReceivers(seed uint64, ids ...string) *receivers {
	r := &receivers{
		random: rand.New(rand.NewPCG(seed, 5)), records: map[string]*directorypb.Webhook{}, got: map[string][]said{},
		events: map[string]map[string]int{}, slow: 20 * time.Millisecond,
	}
	for _, id := range ids {
		r.records[id] = &directorypb.Webhook{Id: id, TenantId: "t", ProjectId: "p", Generation: 1}
		r.events[id] = map[string]int{}
	}
	return r
}

// Listening implements Listeners.
func (r *receivers) Listening(string) bool { return true }

// Listeners implements Listeners.
func (r *receivers) Listeners(string, string, string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, record := range r.records {
		if subscription.Active(record) && !r.absent {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return all
}

// CatchUp implements Listeners.
func (r *receivers) CatchUp(ctx context.Context) error {
	sleep(ctx, ctx, time.Millisecond)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.absent, r.former = r.absent && r.ahead != nil, nil
	return r.ahead
}

// Open implements courier.Records.
func (r *receivers) Open(_ context.Context, id string) (*subscription.Endpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.former.GetId() == id && id != "" {
		return &subscription.Endpoint{Webhook: proto.CloneOf(r.former)}, nil
	}
	if record := r.records[id]; record != nil {
		return &subscription.Endpoint{Webhook: proto.CloneOf(record)}, nil
	}
	return nil, nil //nolint:nilnil // as the interface says
}

// Tenant implements courier.Records.
func (r *receivers) Tenant(_ context.Context, id string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.records[id].GetTenantId()
}

// Settle implements courier.Records.
func (r *receivers) Settle(_ context.Context, id string, wish *webhookpb.Wish) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if record := r.records[id]; record != nil && (wish.GetGeneration() == 0 || wish.GetGeneration() == record.GetGeneration()) {
		record.FailingSince, record.DisabledReason = wish.GetFailingSince(), wish.GetDisabledReason()
	}
	return nil
}

func (r *receivers) try(ctx context.Context, to *subscription.Endpoint, message *webhookpb.Message) *deliverypb.Report {
	r.mu.Lock()
	wait := time.Duration(r.random.Int64N(int64(r.slow)))
	r.mu.Unlock()
	dead := to.GetId() == r.dead || to.GetTenantId() == r.silent
	if dead {
		wait = 10 * time.Second
	}
	sleep(ctx, ctx, wait)
	if dead {
		return &deliverypb.Report{Error: "Timed out after 10000 ms", Took: 10_000}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events[to.GetId()][message.GetId()]++
	r.under = append(r.under, to.GetGeneration())
	if r.fail != nil {
		if report := r.fail(to.GetId()); report != nil {
			return report
		}
	}
	var body said
	if json.Unmarshal(message.GetBody(), &body) != nil {
		return &deliverypb.Report{Error: "no JSON"}
	}
	r.got[to.GetId()] = append(r.got[to.GetId()], body)
	return &deliverypb.Report{Ok: true, Status: 204}
}

// mailer is a shell whose conversations tell of each message, with endpoints.
type mailer struct {
	*shell

	away atomic.Pointer[string] // the endpoint that nobody leads
}

// Ask implements OutboxConfig.Client and entity.Client.
func (m *mailer) Ask(ctx context.Context, id string, command proto.Message) (proto.Message, error) {
	if away := m.away.Load(); away != nil && *away == id {
		sleep(ctx, ctx, 2*time.Second)
		return nil, unavailable(failure.StorageBusy)
	}
	return m.System.Ask(ctx, testShard, id, command)
}

// Read implements entity.Client: a query is answered from the journal's rows.
func (m *mailer) Read(ctx context.Context, query proto.Message) (proto.Message, error) {
	for _, own := range webhook.Queries() {
		if own.Message != query.ProtoReflect().Descriptor().FullName() {
			continue
		}
		head, found, err := m.journal.Load(ctx, testShard, own.ID(query))
		switch {
		case err != nil:
			return nil, err
		case !found:
			return nil, webhook.Missing()
		}
		return own.FromView(rowsOf{m.journal}, kit.Head{State: head.State, Seq: head.Seq}, query)
	}
	return nil, errors.New("no such query")
}

// rowsOf is a kit.View over what the journal has now.
type rowsOf struct{ journal *journal }

func (v rowsOf) Head(string) (kit.Head, bool, error) { return kit.Head{}, false, nil }

func (v rowsOf) Item(id string, table uint8, key []byte) ([]byte, bool, error) {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	if v.journal.entities[id] == nil {
		return nil, false, nil
	}
	value, found := v.journal.entities[id].items[string(append([]byte{table}, key...))]
	return value, found, nil
}

func (v rowsOf) Items(id string, query kit.ItemQuery, visit func(key, value []byte) bool) error {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	if v.journal.entities[id] == nil {
		return nil
	}
	var keys []string
	for key := range v.journal.entities[id].items {
		if key[0] == query.Table {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	if query.Descending {
		slices.Reverse(keys)
	}
	for i, key := range keys {
		if query.Limit > 0 && i == query.Limit || !visit(bytes.Clone([]byte(key[1:])), v.journal.entities[id].items[key]) {
			break
		}
	}
	return nil
}

func (v rowsOf) Events(string, uint64, func(uint64, []byte) bool) error { return nil }

func newMailer(t *testing.T, j *journal, epoch uint64, r *receivers, change ...func(*webhook.Limits)) *mailer {
	t.Helper()
	m := &mailer{}
	limits := webhook.DefaultLimits()
	for _, c := range change {
		c(&limits)
	}
	couriers, err := courier.New(courier.Config{
		Records: func() courier.Records { return r }, Client: m, Try: r.try, Places: 8, Keep: 24 * time.Hour,
	})
	require.NoError(t, err)
	m.shell = newShell(t, j, 0, func(c *Config) {
		c.Kinds[0].Tells = tellAll
		c.Kinds = append(c.Kinds, webhook.New(limits, couriers))
		c.Outbox = OutboxConfig{Listeners: r, Client: m}
	})
	m.Own(testShard, epoch)
	return m
}

// tellAll tells of each message that was added.
func tellAll(_, after proto.Message, events []proto.Message) (notices []kit.Notice) {
	for _, event := range eventsOf(events) {
		if message := event.GetUserMessage(); message != nil {
			about := message.GetMessage().GetContent()
			notices = append(notices, kit.Notice{
				TenantID: "t", ProjectID: "p", Type: subscription.SessionIdled, About: about, At: event.GetCreatedAt(),
				Data: map[string]any{"conversation": about, "seq": event.GetSeq()},
			})
		}
	}
	return notices
}

func endpointID(number int) string { return fmt.Sprintf("wh_%021d", number) }

// inOrder checks that an endpoint heard of each event of each conversation, the first time in their order.
func (r *receivers) inOrder(t *testing.T, endpoint string, journal *journal, conversations int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	heard := map[string][]uint64{}
	for _, one := range r.got[endpoint] {
		if list := heard[one.Data.Conversation]; !slices.Contains(list, one.Data.Seq) {
			heard[one.Data.Conversation] = append(list, one.Data.Seq)
		}
	}
	for i := range conversations {
		id := "conv_" + strconv.Itoa(i)
		var stored []uint64
		if journal.entities[id] != nil {
			for _, event := range journal.log(t, id) {
				stored = append(stored, event.GetSeq())
			}
		}
		require.Equalf(t, stored, heard[id], "%s as %s heard of it", id, endpoint)
	}
}

// TestEventsReachTheirEndpoints has conversations tell of themselves while storage fails and the shard changes hands between any two
// steps: endpoints that answer hear of each event, in the order of each conversation, and the log knows of each that they heard of.
func TestEventsReachTheirEndpoints(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const conversations = 4
				random := rand.New(rand.NewPCG(seed, 1))
				j := newJournal()
				j.slow(time.Millisecond)
				r := newReceivers(seed, endpointID(1), endpointID(2))
				flaky := 0
				r.fail = func(endpoint string) *deliverypb.Report {
					if flaky++; endpoint == endpointID(2) && flaky%3 == 0 {
						return &deliverypb.Report{Status: 500, Error: "Endpoint answered HTTP 500"}
					}
					return nil
				}
				epoch := uint64(1)
				node := newMailer(t, j, epoch, r)
				for range 60 {
					switch random.IntN(12) {
					case 0:
						j.fail([]fault{lost, lostAck, late}[random.IntN(3)])
					case 1:
						j.fail(busy)
					case 2:
						node.Disown(testShard)
						epoch++
						if random.IntN(2) == 0 {
							node = newMailer(t, j, epoch, r)
						} else {
							node.Own(testShard, epoch)
						}
					default:
						id := "conv_" + strconv.Itoa(random.IntN(conversations))
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						_, _ = node.tellTo(ctx, id, "add:"+id) // what was refused, or is not known, is not in the log, or is
						cancel()
					}
					sleep(t.Context(), t.Context(), time.Duration(random.IntN(30))*time.Millisecond)
				}
				time.Sleep(10 * time.Minute)
				synctest.Wait()
				r.inOrder(t, endpointID(1), j, conversations)
				for endpoint, events := range r.events {
					stored := 0
					for i := range conversations {
						if id := "conv_" + strconv.Itoa(i); j.entities[id] != nil {
							stored += len(j.log(t, id))
						}
					}
					require.Lenf(t, events, stored, "%s heard of events that the log knows", endpoint)
				}
				require.Empty(t, j.listed(listOutbox))
			})
		})
	}
}

// listed returns the members of a list.
func (j *journal) listed(list string) (members []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for at := range j.rows {
		if at.list == list {
			members = append(members, at.member)
		}
	}
	return members
}

// TestDisabledByWhatItAnswers: a redirect disables an endpoint, what waits fails, and nobody is told of what follows.
func TestDisabledByWhatItAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1))
		r.fail = func(string) *deliverypb.Report {
			return &deliverypb.Report{Status: 302, Error: "Endpoint answered HTTP 302", Fault: deliverypb.Fault_REDIRECTED}
		}
		node := newMailer(t, j, 1, r)
		for range 3 {
			node.must("add:" + testID)
		}
		idle(t)
		r.mu.Lock()
		require.Equal(t, subscription.Redirect, r.records[endpointID(1)].GetDisabledReason())
		require.NotZero(t, r.records[endpointID(1)].GetFailingSince())
		r.mu.Unlock()
		node.must("add:" + testID)
		idle(t)
		answer, err := node.Read(t.Context(), &webhookpb.DeliveriesQuery{Id: endpointID(1), Limit: 10})
		require.NoError(t, err)
		page, _ := answer.(*webhookpb.DeliveriesReply)
		require.Len(t, page.GetDeliveries(), 3)
		for _, d := range page.GetDeliveries() {
			require.Equal(t, webhookpb.Status_FAILED, d.GetStatus())
		}
		require.Len(t, r.events[endpointID(1)], 1, "the others were not tried")
		require.EqualValues(t, 3, page.GetDeliveries()[0].GetNumber(), "newest first")
	})
}

// TestReportIsKeptUntilItIsStored: storage refuses what came of attempts, or does not say whether it has it. Nothing is sent again for
// that, nor anything new before it is stored.
func TestReportIsKeptUntilItIsStored(t *testing.T) {
	for what, refusal := range map[string]fault{"full": full, "broken": broken, "busy": busy, "not_stored": lost, "stored_unheard": lostAck} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, r := newJournal(), newReceivers(1, endpointID(1))
				r.slow = time.Nanosecond
				tries := 0
				j.judge = func(entry *logpb.Append) fault {
					settles := func(item *logpb.Item) bool { return item.GetTable() == webhook.TableDelivered }
					if entry.GetId() != endpointID(1) || !slices.ContainsFunc(entry.GetItems(), settles) || tries == 6 {
						return none
					}
					tries++
					return refusal
				}
				node := newMailer(t, j, 1, r)
				for range 3 { // one after another: they are about the same
					node.must("add:" + testID)
				}
				time.Sleep(200 * time.Millisecond)
				synctest.Wait()
				if refusal != lostAck {
					r.mu.Lock()
					require.Len(t, r.events[endpointID(1)], 1, "the others wait")
					r.mu.Unlock()
					j.mu.Lock()
					require.Less(t, tries, 6, "ever more slowly")
					j.mu.Unlock()
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				require.Len(t, r.events[endpointID(1)], 3)
				for event, times := range r.events[endpointID(1)] {
					require.Equalf(t, 1, times, "attempts for %s", event)
				}
				answer, err := node.Read(t.Context(), &webhookpb.DeliveriesQuery{Id: endpointID(1), Limit: 10, Status: webhookpb.Status_DELIVERED})
				require.NoError(t, err)
				page, _ := answer.(*webhookpb.DeliveriesReply)
				require.Len(t, page.GetDeliveries(), 3)
			})
		})
	}
}

// TestRefusedEventTakesNoOthersAlong: an endpoint cannot take one event of a batch; it is told of the others, in their order.
func TestRefusedEventTakesNoOthersAlong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1))
		j.slow(time.Millisecond)
		wasBusy := false // so that all come together
		j.judge = func(entry *logpb.Append) fault {
			if entry.GetId() != endpointID(1) || wasBusy {
				return none
			}
			wasBusy = true
			return busy
		}
		node := newMailer(t, j, 1, r)
		tooLong := "add:" + strings.Repeat("x", 300) // it is what the event is about
		for i, text := range []string{"add:conv_0", "add:conv_0", tooLong, "add:conv_0", tooLong, "add:conv_0"} {
			id := "conv_0"
			if text == tooLong {
				id = fmt.Sprint("conv_", i)
			}
			go func() { _, _ = node.tellTo(t.Context(), id, text) }()
		}
		idle(t)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.inOrder(t, endpointID(1), j, 1)
		require.Len(t, r.got[endpointID(1)], 4)
		require.Empty(t, j.listed(listOutbox))
	})
}

// TestAttemptsAreMadeUnderTheNewestRecord: a person has changed an endpoint, and the node that owns it has not heard of that from the
// directory yet.
func TestAttemptsAreMadeUnderTheNewestRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1))
		node := newMailer(t, j, 1, r)
		node.must("add:" + testID)
		idle(t)
		time.Sleep(time.Minute)
		r.mu.Lock()
		r.former = proto.CloneOf(r.records[endpointID(1)])
		r.records[endpointID(1)].Generation = 2
		changed := subscription.Changed(r.records[endpointID(1)])
		r.mu.Unlock()
		_, err := node.Ask(t.Context(), endpointID(1), changed)
		require.NoError(t, err)
		node.must("add:" + testID)
		idle(t)
		r.mu.Lock()
		require.Equal(t, []uint64{1, 2}, r.under)
		r.mu.Unlock()
	})
}

// TestDeadEndpointDelaysNobody: one never answers, the other hears at once; what the dead one is told stays within its bounds.
func TestDeadEndpointDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1), endpointID(2))
		r.dead = endpointID(1)
		node := newMailer(t, j, 1, r, func(l *webhook.Limits) { l.Pending = 50 })
		for i := range 200 {
			id := "conv_" + strconv.Itoa(i)
			_, err := node.tellTo(t.Context(), id, "add:"+id)
			require.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.mu.Lock()
		require.Len(t, r.events[endpointID(2)], 200)
		r.mu.Unlock()
		require.Empty(t, j.listed(listOutbox), "a dead endpoint holds nothing up")
		answer, err := node.Read(t.Context(), &webhookpb.DeliveriesQuery{Id: endpointID(1), Limit: 200, Status: webhookpb.Status_PENDING})
		require.NoError(t, err)
		page, _ := answer.(*webhookpb.DeliveriesReply)
		require.Len(t, page.GetDeliveries(), 50)
		time.Sleep(15 * time.Second) // its first attempt has timed out
		synctest.Wait()
		r.mu.Lock()
		require.NotZero(t, r.records[endpointID(1)].GetFailingSince(), "its health says so")
		r.mu.Unlock()
		node.Disown(testShard)
	})
}

// TestUnledEndpointDelaysNobody: more events than a window holds wait for an endpoint whose shard nobody leads; the other hears at
// once, and the first of all, in order and once, when it is led again.
func TestUnledEndpointDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1), endpointID(2))
		r.slow = time.Millisecond
		node := newMailer(t, j, 1, r)
		id := endpointID(1)
		node.away.Store(&id)
		const many = outboxWindow + outboxWindow/2
		for i := range many {
			conversation := "conv_" + strconv.Itoa(i%7)
			_, err := node.tellTo(t.Context(), conversation, "add:"+conversation)
			require.NoError(t, err)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		r.mu.Lock()
		require.Len(t, r.got[endpointID(2)], many)
		r.mu.Unlock()
		require.Len(t, j.listed(listOutbox), many, "they wait for the other")
		node.away.Store(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Empty(t, j.listed(listOutbox))
		for _, endpoint := range []string{endpointID(1), endpointID(2)} {
			require.Len(t, r.got[endpoint], many)
			next := map[string]uint64{}
			for _, one := range r.got[endpoint] {
				require.GreaterOrEqual(t, one.Data.Seq, next[one.Data.Conversation])
				next[one.Data.Conversation] = one.Data.Seq + 1
			}
		}
		node.Disown(testShard)
	})
}

// TestOutboxInbox: rows are handed over only where nothing can be missing before them.
func TestOutboxInbox(t *testing.T) {
	t.Parallel()
	row := func(position int64) []*outgoingRow { return []*outgoingRow{{position: position}} }
	var o outbox
	o.woken = make(chan struct{}, 1)
	rows, unread := func() ([]*outgoingRow, bool) {
		o.inbox.open(2)
		return o.inbox.take(2)
	}()
	require.True(t, unread && rows == nil, "a term begins by reading")
	o.appended(2, row(1), nil)
	o.appended(2, row(2), nil)
	rows, unread = o.inbox.take(1)
	require.True(t, unread && rows == nil, "a former worker takes nothing")
	rows, unread = o.inbox.take(2)
	require.False(t, unread)
	require.Len(t, rows, 2)
	o.appended(1, row(3), nil)
	_, unread = o.inbox.take(2)
	require.True(t, unread, "written under a former epoch")
	o.appended(2, row(4), failure.New(failurepb.Code_UNAVAILABLE, failure.StorageBusy))
	rows, unread = o.inbox.take(2)
	require.False(t, unread || rows != nil, "not written")
	for position := range int64(outboxWindow + 1) {
		o.appended(2, row(position), nil)
	}
	rows, unread = o.inbox.take(2)
	require.True(t, unread && rows == nil, "more than a window")
	o.appended(2, row(5), &UnknownOutcomeError{})
	o.appended(2, row(6), nil)
	rows, unread = o.inbox.take(2)
	require.True(t, unread && rows == nil, "the row before it may have been written")
	o.appended(2, row(7), nil)
	_, unread = o.inbox.take(2)
	require.True(t, unread, "and still be")
}

// TestNewOwnerKnowsWhoListens: an endpoint that was made while a node was away is told of the first event after it has come back.
// While the node cannot find out, conversations go on, and it tries again.
func TestNewOwnerKnowsWhoListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, r := newJournal(), newReceivers(1, endpointID(1))
		r.absent = true
		node := newMailer(t, j, 1, r)
		node.must("add:" + testID)
		idle(t)
		require.Len(t, r.events[endpointID(1)], 1, "the first event")

		node.Disown(testShard)
		r.mu.Lock()
		r.absent, r.ahead = true, errors.New("the directory has no owner")
		r.mu.Unlock()
		node.Own(testShard, 2)
		node.must("add:" + testID)
		idle(t)
		require.Len(t, r.events[endpointID(1)], 1)
		r.mu.Lock()
		r.ahead = nil
		r.mu.Unlock()
		time.Sleep(catchUpAgain)
		node.must("add:" + testID)
		idle(t)
		require.Len(t, r.events[endpointID(1)], 2, "known again")
	})
}
