package actors

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/conversation"
	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/actors/machine"
	"parley/actors/mail"
	"parley/actors/run"
	"parley/actors/task"
	"parley/proto/deliverypb"
	"parley/proto/directorypb"
	"parley/proto/mailpb"
	"parley/proto/runpb"
	"parley/proto/taskpb"
)

// TestSilentTenantDelaysNobody: all endpoints that a tenant may have never answer. Others hear within half a second, each time.
func TestSilentTenantDelaysNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ids []string
		for number := range 50 {
			ids = append(ids, endpointID(number))
		}
		other := endpointID(999)
		j, r := newJournal(), newReceivers(1, ids...)
		r.silent = "t"
		r.records[other] = &directorypb.Webhook{Id: other, TenantId: "u", ProjectId: "p", Generation: 1}
		r.events[other] = map[string]int{}
		node := newMailer(t, j, 1, r)
		for i := range 20 {
			id := "conv_" + strconv.Itoa(i%3)
			_, err := node.tellTo(t.Context(), id, "add:"+id)
			require.NoError(t, err)
			time.Sleep(500 * time.Millisecond)
			synctest.Wait()
			r.mu.Lock()
			require.Len(t, r.got[other], i+1)
			r.mu.Unlock()
		}
		r.inOrder(t, other, j, 3)
		node.Disown(testShard)
	})
}

// obedient takes all commands.
type obedient struct{}

func (obedient) AskInside(context.Context, uint32, string, proto.Message) (proto.Message, error) {
	return &runpb.Reply{}, nil
}

func (obedient) AskOutside(context.Context, uint32, string, proto.Message) (proto.Message, error) {
	return &runpb.Reply{}, nil
}

// TestCallbacksOfATenantDelayNobody: a tenant has 500 hosts that hold what they get. The first callbacks of others begin at once, of
// whichever kind they are.
func TestCallbacksOfATenantDelayNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deliveries, err := NewDeliveries(DeliveriesConfig{})
		require.NoError(t, err)
		runs, tasks := deliveries.Callbacks(CallbacksConfig{Name: "runs"}), deliveries.Callbacks(CallbacksConfig{Name: "tasks"})
		defer runs.Stop()
		var mu sync.Mutex
		began, started := map[string][]time.Duration{}, time.Now()
		send := func(by delivery.Sender, tenant string, number int, holds time.Duration) {
			by.Send(kit.NewRef(0, 1, "run_"+tenant, obedient{}), delivery.Attempt{
				Delivery: &deliverypb.Delivery{Id: "evt", Attempt: 1}, URL: fmt.Sprintf("http://%s-%d.example/", tenant, number), Tenant: tenant,
				Report: func(*deliverypb.Report) proto.Message { return &runpb.Command{} },
				Do: func(ctx context.Context) (*deliverypb.Report, string) {
					mu.Lock()
					began[tenant] = append(began[tenant], time.Since(started))
					mu.Unlock()
					sleep(ctx, ctx, holds)
					return &deliverypb.Report{Ok: true}, "delivered"
				},
			})
		}
		for number := range 500 {
			send(runs, "holds", number, 10*time.Second)
		}
		for round := range 60 {
			tenant := fmt.Sprint("other", round)
			send([]delivery.Sender{runs, tasks}[round%2], tenant, 0, 100*time.Millisecond)
			synctest.Wait()
			mu.Lock()
			require.Equal(t, []time.Duration{time.Since(started)}, began[tenant])
			mu.Unlock()
			time.Sleep(500 * time.Millisecond)
		}
		require.Greater(t, len(began["holds"]), 2*96, "the first one goes on meanwhile")
	})
}

// sent is a sender that notes the attempts.
type sent struct{ attempts []delivery.Attempt }

func (s *sent) Send(_ Entity, one delivery.Attempt) { s.attempts = append(s.attempts, one) }
func (*sent) Release(uint32, uint64)                {}
func (*sent) Stop()                                 {}

// TestAttemptsSayWhose: of whichever kind, or all would share what one tenant has.
func TestAttemptsSayWhose(t *testing.T) {
	t.Parallel()
	var s sent
	conversations := Kind{
		Perform: func(Entity, machine.Effect) proto.Message { return nil }, OnRelease: func(uint32, uint64) {}, Drain: func(context.Context) {},
	}
	TellPushes(&conversations, Pushes{Sender: &s, Attempt: func(conversation.TellPush) delivery.Attempt { return delivery.Attempt{} }})
	mails := mail.New(&s, func(*mailpb.Letter, string) delivery.Do { return nil })
	runs := run.New(run.DefaultLimits(), run.Config{Callbacks: &s})
	tasks := task.New(task.DefaultLimits(), task.Config{Callbacks: &s})
	for _, kind := range []struct {
		perform func(Entity, machine.Effect) proto.Message
		effect  machine.Effect
	}{
		{conversations.Perform, conversation.TellPush{TenantID: "t"}},
		{mails.Perform, mail.Try{Letter: &mailpb.Letter{TenantId: "t"}}},
		{runs.Perform, run.Post{Run: &runpb.State{TenantId: "t"}}},
		{tasks.Perform, task.Post{TenantID: "t", Callback: &taskpb.Callback{}}},
	} {
		kind.perform(Entity{}, kind.effect)
		require.NotEmpty(t, s.attempts)
		require.Equal(t, "t", s.attempts[len(s.attempts)-1].Tenant)
	}
	require.Len(t, s.attempts, 4)
}
