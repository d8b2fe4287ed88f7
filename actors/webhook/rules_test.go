package webhook_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"parley/actors/core/subscription"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/machine/machinetest"
	"parley/actors/webhook"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

const endpoint = "wh_AAAAAAAAAAAAAAAAAAAAA"

// nobody makes no attempts.
type nobody struct{}

func (nobody) Look(kit.Ref, webhook.Look) {}
func (nobody) Looks(kit.Ref) bool         { return true }
func (nobody) Release(uint32, uint64)     {}
func (nobody) Drain(context.Context)      {}

func limits() webhook.Limits {
	l := webhook.DefaultLimits()
	l.Waits, l.FailAfter, l.Keep, l.Pending = []time.Duration{time.Second, 5 * time.Second}, 20*time.Second, time.Hour, 8
	return l
}

func prepare(message proto.Message) {
	if command, _ := message.(*webhookpb.Command); command.Id == "" {
		command.Id = endpoint
	}
}

func suite() machinetest.Suite {
	return machinetest.Suite{
		Machine: webhook.New(limits(), nobody{}).Machine,
		Command: func() proto.Message { return new(webhookpb.Command) },
		Event:   func() proto.Message { return new(webhookpb.Event) },
		Prepare: prepare,
	}
}

func TestScripts(t *testing.T) { suite().Scripts(t, "testdata") }

func TestTable(t *testing.T) { suite().Table(t, "states.md") }

// world is an endpoint, the outbox of a shard, and what has arrived.
type world struct {
	entity  *machinetest.Entity
	now     int64
	held    map[uint64]*webhookpb.Delivery // all deliveries, as the newest events have them
	outbox  []*webhookpb.Message
	epoch   uint64
	batch   uint64
	fresh   bool                 // the outbox worker knows that what it has given is removed
	delayed []*webhookpb.Command // of former outbox workers, still on their way
	sent    map[string]bool      // events that were told
}

func newWorld() *world {
	return &world{
		entity: machinetest.NewEntity(webhook.New(limits(), nobody{}).Machine), now: 1000, epoch: 1, held: map[uint64]*webhookpb.Delivery{},
		sent: map[string]bool{},
	}
}

func (w *world) state() *webhookpb.State {
	s, _ := w.entity.State.(*webhookpb.State)
	return s
}

func (w *world) do(t require.TestingT, command *webhookpb.Command) (*webhookpb.Reply, *machine.Failure) {
	prepare(command)
	decision, refused, err := w.entity.Do(command, machine.Env{Now: time.UnixMilli(w.now), Epoch: w.epoch, NewID: w.entity.NewID})
	require.NoError(t, err)
	for _, message := range decision.Events {
		event, _ := message.(*webhookpb.Event)
		for _, d := range event.GetAccepted().GetDeliveries() {
			w.held[d.GetNumber()] = d
		}
		for _, move := range event.GetMoved().GetMoves() {
			w.held[move.GetDelivery().GetNumber()] = move.GetDelivery()
		}
		for _, mark := range event.GetTrimmed().GetMarks() {
			delete(w.held, mark.GetNumber())
		}
	}
	w.check(t)
	reply, _ := decision.Reply.(*webhookpb.Reply)
	return reply, refused
}

// check compares the head with the deliveries that there are.
func (w *world) check(t require.TestingT) {
	s := w.state()
	var pending, settled uint64
	events := map[string]int{}
	for _, d := range w.held {
		events[d.GetCall().GetId()]++
		if d.GetStatus() == webhookpb.Status_PENDING {
			pending++
			require.Zero(t, d.GetSettledAt())
			require.NotZero(t, d.GetCall().GetNextAt())
		} else {
			settled++
			require.NotZero(t, d.GetSettledAt())
		}
		require.LessOrEqual(t, subscription.Attempts(d), uint32(3))
	}
	require.Equal(t, pending, s.GetPending())
	require.Equal(t, settled, s.GetSettled())
	require.LessOrEqual(t, pending, limits().Pending)
	for id, times := range events {
		require.Equalf(t, 1, times, "event %s is one delivery", id)
	}
}

// give is a outbox worker that gives away what is in the outbox.
func (w *world) give() *webhookpb.Command {
	w.batch++
	return &webhookpb.Command{Body: &webhookpb.Command_Accept{Accept: &webhookpb.Accept{
		Shard: 3, Epoch: w.epoch, Batch: w.batch, Fresh: w.fresh, Messages: slices.Clone(w.outbox),
	}}}
}

func message(number int) *webhookpb.Message {
	return &webhookpb.Message{Id: fmt.Sprint("evt_", number), Type: "session.idled", About: "conv_1", Body: []byte(`{}`)}
}

// TestNothingIsTakenTwiceNorLost: outbox workers die between any two steps, their batches come late and again.
func TestNothingIsTakenTwiceNorLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		made := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.IntRange(0, 6).Draw(t, "step") {
			case 0, 1:
				made++
				w.outbox = append(w.outbox, message(made))
			case 2: // accepted and removed
				if len(w.outbox) > 0 {
					_, refused := w.do(t, w.give())
					require.Nil(t, refused)
					w.outbox, w.fresh = nil, true
				}
			case 3: // accepted, and the answer is lost
				if len(w.outbox) > 0 {
					_, refused := w.do(t, w.give())
					require.Nil(t, refused)
					w.fresh = false
				}
			case 4: // on its way, and overtaken
				if len(w.outbox) > 0 {
					w.delayed = append(w.delayed, w.give())
					w.fresh = false
				}
			case 5:
				w.epoch++ // the outbox worker of the next owner, which knows nothing
				w.batch, w.fresh = 0, false
			case 6:
				for _, late := range w.delayed {
					if late.GetAccept().GetEpoch() < w.epoch || late.GetAccept().GetBatch() <= w.batch {
						_, _ = w.do(t, proto.CloneOf(late))
					}
				}
			}
		}
		if len(w.outbox) > 0 {
			_, refused := w.do(t, w.give())
			require.Nil(t, refused)
		}
		require.Len(t, w.held, made, "each event is a delivery, those without room as well")
	})
}

// TestAttempts lets a courier report anything, and people redeliver.
func TestAttempts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for i := range rapid.IntRange(1, 8).Draw(t, "events") {
			w.outbox = append(w.outbox, message(i))
		}
		_, _ = w.do(t, w.give())
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			w.now += rapid.SampledFrom([]int64{1, 1000, 5000, 30_000}).Draw(t, "pause")
			numbers := make([]uint64, 0, len(w.held))
			for number := range w.held {
				numbers = append(numbers, number)
			}
			slices.Sort(numbers)
			d := w.held[rapid.SampledFrom(numbers).Draw(t, "delivery")]
			if rapid.IntRange(0, 3).Draw(t, "again") == 0 {
				_, refused := w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Redeliver{Redeliver: &webhookpb.Redeliver{
					Delivery: d, Revision: w.state().GetRevision(),
				}}})
				require.Equal(t, d.GetStatus() == webhookpb.Status_PENDING, refused != nil)
				continue
			}
			report := &deliverypb.Report{Error: "no"}
			switch rapid.IntRange(0, 4).Draw(t, "report") {
			case 0:
				report = &deliverypb.Report{Ok: true, Status: 200}
			case 1:
				report.Fault = deliverypb.Fault_REDIRECTED
			case 2:
				report.Hopeless = true
			}
			_, refused := w.do(t, reported(w, d, report))
			if d.GetStatus() != webhookpb.Status_PENDING {
				require.Equal(t, failurepb.Code_VALIDATION, refused.Code)
				continue
			}
			require.Nil(t, refused)
			is, s := w.held[d.GetNumber()], w.state()
			if report.GetOk() {
				require.Equal(t, webhookpb.Status_DELIVERED, is.GetStatus())
				require.Zero(t, s.GetFailingSince())
			} else {
				require.NotZero(t, s.GetFailingSince())
				over := report.GetHopeless() || report.GetFault() != deliverypb.Fault_NONE || subscription.Attempts(is) == 3
				require.Equal(t, over, is.GetStatus() == webhookpb.Status_FAILED)
			}
			if report.GetFault() == deliverypb.Fault_REDIRECTED {
				require.Equal(t, subscription.Redirect, s.GetWish().GetDisabledReason())
			}
		}
	})
}

func reported(w *world, d *webhookpb.Delivery, report *deliverypb.Report) *webhookpb.Command {
	return reportedOf(w, 1, &webhookpb.Attempt{Delivery: d, Report: report, Generation: 1})
}

// reportedOf is a report whose newest record has a generation.
func reportedOf(w *world, newest uint64, attempts ...*webhookpb.Attempt) *webhookpb.Command {
	return &webhookpb.Command{Body: &webhookpb.Command_Report{Report: &webhookpb.Report{
		Reports: w.state().GetReports(), Record: &webhookpb.Changed{Generation: newest}, Attempts: attempts,
	}}}
}

// TestOnlyTheNewestGenerationIsJudged: a report has attempts of before and after a change of the endpoint, of which it is the first to say.
func TestOnlyTheNewestGenerationIsJudged(t *testing.T) {
	w := newWorld()
	for i := range 4 {
		w.outbox = append(w.outbox, message(i))
	}
	_, _ = w.do(t, w.give())
	fail := &deliverypb.Report{Error: "Timed out after 10 ms"}
	moved := &deliverypb.Report{Status: 301, Error: "Endpoint answered HTTP 301", Fault: deliverypb.Fault_REDIRECTED}
	_, _ = w.do(t, reported(w, w.held[1], fail))
	since := w.state().GetFailingSince()
	_, _ = w.do(t, reported(w, w.held[2], moved))
	require.Equal(t, subscription.Redirect, w.state().GetWish().GetDisabledReason(), "not carried out yet")

	w.now += 20_001 // a person gives it another URL and switches it on
	_, refused := w.do(t, reportedOf(w, 3,
		&webhookpb.Attempt{Delivery: w.held[3], Report: moved, Generation: 2}, &webhookpb.Attempt{Delivery: w.held[4], Report: fail, Generation: 3}))
	require.Nil(t, refused)
	require.EqualValues(t, 3, w.state().GetGeneration())
	require.Equal(t, w.now, w.state().GetFailingSince(), "it fails anew, not since %d", since)
	require.Empty(t, w.state().GetWish().GetDisabledReason())
	require.EqualValues(t, 3, w.state().GetWish().GetGeneration())
	require.Equal(t, webhookpb.Status_FAILED, w.held[3].GetStatus())

	_, _ = w.do(t, reportedOf(w, 2, &webhookpb.Attempt{Delivery: w.held[1], Report: &deliverypb.Report{Ok: true}, Generation: 2}))
	require.Equal(t, w.now, w.state().GetFailingSince(), "nor does one that was taken then")
	require.Equal(t, webhookpb.Status_DELIVERED, w.held[1].GetStatus())
	_, _ = w.do(t, reportedOf(w, 3, &webhookpb.Attempt{Delivery: w.held[4], Report: moved, Generation: 3}))
	require.Equal(t, subscription.Redirect, w.state().GetWish().GetDisabledReason())
}

func TestRetriesAndTheirEnd(t *testing.T) {
	w := newWorld()
	w.outbox = []*webhookpb.Message{message(1)}
	_, _ = w.do(t, w.give())
	fail := &deliverypb.Report{Status: 500, Error: "Endpoint answered HTTP 500", Took: 7}
	_, _ = w.do(t, reported(w, w.held[1], fail))
	require.Equal(t, w.now+1000, w.held[1].GetCall().GetNextAt())
	require.Equal(t, "Endpoint answered HTTP 500", w.held[1].GetLastError())
	w.now += 1000
	fail.RetryAfter = 9000
	_, _ = w.do(t, reported(w, w.held[1], fail))
	require.Equal(t, w.now+9000, w.held[1].GetCall().GetNextAt(), "the endpoint asked to be left alone")
	w.now += 9000
	_, _ = w.do(t, reported(w, w.held[1], fail))
	require.Equal(t, webhookpb.Status_FAILED, w.held[1].GetStatus())
	require.Equal(t, "Gave up after 3 attempts", w.held[1].GetLastError())
	require.EqualValues(t, 500, w.held[1].GetLastStatus())

	reply, refused := w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Redeliver{Redeliver: &webhookpb.Redeliver{
		Delivery: w.held[1], Revision: w.state().GetRevision(),
	}}})
	require.Nil(t, refused)
	require.Equal(t, "evt_1", reply.GetDelivery().GetCall().GetId())
	require.Zero(t, subscription.Attempts(reply.GetDelivery()))
	stale := proto.CloneOf(w.held[1])
	stale.Status = webhookpb.Status_FAILED
	_, refused = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Redeliver{Redeliver: &webhookpb.Redeliver{Delivery: stale}}})
	require.Equal(t, failurepb.Code_CONFLICT, refused.Code, "read before the redelivery")
	_, refused = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Report{Report: &webhookpb.Report{
		Attempts: []*webhookpb.Attempt{{Delivery: w.held[1], Report: fail}},
	}}})
	require.Equal(t, failurepb.Code_CONFLICT, refused.Code, "a report was taken since")
}

func TestSustainedFailure(t *testing.T) {
	w := newWorld()
	for i := range 3 {
		w.outbox = append(w.outbox, message(i))
	}
	_, _ = w.do(t, w.give())
	fail := &deliverypb.Report{Error: "Timed out after 10 ms"}
	_, _ = w.do(t, reported(w, w.held[1], fail))
	since := w.state().GetFailingSince()
	require.Equal(t, w.now, since)
	require.Empty(t, w.state().GetWish().GetDisabledReason())
	w.now += 20_001
	_, _ = w.do(t, reported(w, w.held[1], fail))
	require.Equal(t, subscription.SustainedFailure, w.state().GetWish().GetDisabledReason())
	require.Equal(t, since, w.state().GetWish().GetFailingSince())

	// A person switches it on again: what was found out of the endpoint as it was does not count any more.
	_, _ = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Changed{Changed: &webhookpb.Changed{Generation: 2}}})
	require.Zero(t, w.state().GetFailingSince())
	require.Nil(t, w.state().GetWish())
	_, _ = w.do(t, reported(w, w.held[2], fail))
	require.Zero(t, w.state().GetFailingSince(), "an attempt of the generation before")
}

func TestRoom(t *testing.T) {
	w := newWorld()
	for i := range 11 {
		w.outbox = append(w.outbox, message(i))
	}
	_, _ = w.do(t, w.give())
	require.EqualValues(t, 8, w.state().GetPending())
	require.Equal(t, webhookpb.Status_FAILED, w.held[9].GetStatus())
	require.Equal(t, "Too many deliveries are waiting", w.held[11].GetLastError())
	require.NotZero(t, w.state().GetFailingSince(), "its health says so")
	require.NotNil(t, w.state().GetWish())
}

func TestRestOnlyWhenNothingHappened(t *testing.T) {
	w := newWorld()
	w.outbox = []*webhookpb.Message{message(1)}
	_, _ = w.do(t, w.give())
	seq := w.state().GetLastSeq()
	_, _ = w.do(t, reported(w, w.held[1], &deliverypb.Report{Ok: true}))
	rest := func(seq uint64) {
		_, _ = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Rest{Rest: &webhookpb.Rest{Seq: seq}}})
	}
	rest(seq)
	require.True(t, w.state().GetLooking())
	rest(w.state().GetLastSeq())
	require.False(t, w.state().GetLooking())
	require.Contains(t, w.entity.Rows.String(), "webhook/due", "old deliveries are removed some day")
	_, _ = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_Due{Due: &webhookpb.Due{}}})
	require.True(t, w.state().GetLooking())
}

// TestRedeliverFailed: many that failed are made again at once, once, and no more than may wait.
func TestRedeliverFailed(t *testing.T) {
	w := newWorld()
	for i := range 10 {
		w.outbox = append(w.outbox, message(i))
	}
	_, _ = w.do(t, w.give()) // eight may wait: two have failed at once
	for number := uint64(1); number <= 8; number++ {
		_, refused := w.do(t, reported(w, w.held[number], &deliverypb.Report{Error: "no", Hopeless: true}))
		require.Nil(t, refused)
	}
	all := make([]*webhookpb.Delivery, 0, len(w.held))
	for number := uint64(1); number <= 10; number++ {
		all = append(all, w.held[number])
	}
	asked := &webhookpb.RedeliverFailed{Deliveries: all, Revision: w.state().GetRevision()}
	command := &webhookpb.Command{Body: &webhookpb.Command_RedeliverFailed{RedeliverFailed: asked}}
	reply, refused := w.do(t, command)
	require.Nil(t, refused)
	require.EqualValues(t, 8, reply.GetRedelivered())
	require.EqualValues(t, 8, w.state().GetPending())
	require.True(t, w.state().GetLooking())
	require.Equal(t, webhookpb.Status_FAILED, w.held[9].GetStatus())
	require.Equal(t, all[0].GetCall().GetId(), w.held[1].GetCall().GetId(), "the same event")
	_, refused = w.do(t, command)
	require.Equal(t, failurepb.Code_CONFLICT, refused.Code, "read before")
	full := &webhookpb.RedeliverFailed{Deliveries: []*webhookpb.Delivery{w.held[9]}, Revision: w.state().GetRevision()}
	reply, refused = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_RedeliverFailed{RedeliverFailed: full}})
	require.Nil(t, refused)
	require.Zero(t, reply.GetRedelivered())
	for name, wrong := range map[string][]*webhookpb.Delivery{
		"none": nil, "pending": {w.held[1]}, "twice": {w.held[9], w.held[9]}, "not in order": {w.held[10], w.held[9]}, "too many": make([]*webhookpb.Delivery, webhook.MaxRedelivered+1),
	} {
		_, refused = w.do(t, &webhookpb.Command{Body: &webhookpb.Command_RedeliverFailed{
			RedeliverFailed: &webhookpb.RedeliverFailed{Deliveries: wrong, Revision: w.state().GetRevision()},
		}})
		require.Equal(t, failurepb.Code_VALIDATION, refused.Code, name)
	}
}
