package subscription_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/collection/collectiontest"
	"parley/actors/core/failure"
	"parley/actors/core/subscription"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// kit is webhooks over records in memory, and what it asked of entities.
type kit struct {
	*subscription.Webhooks

	records collectiontest.Records
	private atomic.Bool // no address is public
	// unreadable: nothing sealed can be opened.
	unreadable atomic.Bool
	mu         sync.Mutex
	commands   []*webhookpb.Command
	read       proto.Message // answers reads
	failed     error
}

func newKit(t *testing.T) *kit {
	t.Helper()
	k := &kit{}
	var numbered atomic.Int64
	reversed := func(text []byte, about string) ([]byte, error) { return []byte(about + "|" + string(text)), nil }
	k.Webhooks = subscription.New(&k.records, subscription.Env{
		NewID:  func(kind string) string { return fmt.Sprintf("%s_%021d", kind, numbered.Add(1)) },
		Now:    func() time.Time { return time.UnixMilli(1_700_000_000_000) },
		Random: func(into []byte) { copy(into, fmt.Sprintf("%032d", numbered.Add(1))) },
		Seal:   reversed,
		Open: func(sealed []byte, about string) ([]byte, error) {
			text, ok := strings.CutPrefix(string(sealed), about+"|")
			if !ok || k.unreadable.Load() {
				return nil, errors.New("sealed for something else")
			}
			return []byte(text), nil
		},
		Public:   func(context.Context, string) bool { return !k.private.Load() },
		Entities: k, Ready: func() bool { return true },
		Try: func(_ context.Context, to *subscription.Endpoint, message *webhookpb.Message) *deliverypb.Report {
			if !strings.HasPrefix(to.Secret, "whsec_") || !json.Valid(message.GetBody()) {
				return &deliverypb.Report{Error: "bad attempt"}
			}
			return &deliverypb.Report{Ok: true, Status: 204, Took: 3}
		},
	})
	return k
}

func (k *kit) Ask(_ context.Context, id string, command proto.Message) (proto.Message, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, _ := command.(*webhookpb.Command)
	if c.GetId() != id {
		return nil, errors.New("asked of another entity")
	}
	k.commands = append(k.commands, c)
	if record := c.GetRecord(); record != nil {
		return &webhookpb.Reply{Delivery: record.GetDelivery()}, k.failed
	}
	return &webhookpb.Reply{}, k.failed
}

func (k *kit) Read(context.Context, proto.Message) (proto.Message, error) {
	return k.read, k.failed
}

func (k *kit) create(t *testing.T, by subscription.Creator, in subscription.Input) *subscription.Endpoint {
	t.Helper()
	made, err := k.Create(t.Context(), by, in)
	require.NoError(t, err)
	return made
}

func refusal(t *testing.T, err error) *failure.Failure {
	t.Helper()
	refused, ok := errors.AsType[*machine.Failure](err)
	require.Truef(t, ok, "%v", err)
	return refused
}

var mine = subscription.Creator{TenantID: "t", ProjectID: "p", UserID: "u"}

func TestRefusals(t *testing.T) {
	k := newKit(t)
	good := subscription.Input{URL: "https://a.example/x", Events: []string{"session.idled"}}
	for _, c := range []struct {
		change func(*subscription.Input)
		words  string
	}{
		{func(in *subscription.Input) { in.URL = "" }, "url is required"},
		{func(in *subscription.Input) { in.URL = "://" }, "url is not a valid URL"},
		{func(in *subscription.Input) { in.URL = "a.example/x" }, "url is not a valid URL"},
		{func(in *subscription.Input) { in.URL = "https:///x" }, "url is not a valid URL"},
		{func(in *subscription.Input) { in.URL = "ftp://a.example" }, "url must use http or https"},
		{func(in *subscription.Input) { in.URL = "https://a.example/" + strings.Repeat("x", 2048) }, "url must be at most 2048 characters"},
		{func(in *subscription.Input) { in.Events = nil }, "events must be a non-empty array of event types"},
		{func(in *subscription.Input) { in.Events = []string{"session.idled", "x.y"} }, "Unknown event type x.y"},
		{func(in *subscription.Input) { in.Events = []string{"sess.*"} }, "Unknown event type sess.*"},
		{func(in *subscription.Input) { in.Events = []string{".*"} }, "Unknown event type .*"},
		{func(in *subscription.Input) { in.Events = []string{"webhook.test"} }, "Unknown event type webhook.test"},
		{func(in *subscription.Input) { in.Description = strings.Repeat("ä", 501) }, "description must be at most 500 characters"},
	} {
		in := good
		c.change(&in)
		_, err := k.Create(t.Context(), mine, in)
		refused := refusal(t, err)
		require.Equal(t, failurepb.Code_INVALID_REQUEST, refused.Code, c.words)
		require.Equal(t, c.words, refused.DefaultText())
	}
	k.private.Store(true)
	_, err := k.Create(t.Context(), mine, good)
	require.Equal(t, "url must resolve to a public address", refusal(t, err).DefaultText())
	require.Empty(t, k.records.List(subscription.Collection, ""), "what is refused leaves nothing")
}

func TestFiftyOfATenantExactly(t *testing.T) {
	k := newKit(t)
	var made, refused atomic.Int64
	var all sync.WaitGroup
	for range 80 {
		all.Go(func() {
			_, err := k.Create(t.Context(), mine, subscription.Input{URL: "https://a.example", Events: []string{"*"}})
			if err == nil {
				made.Add(1)
			} else if f, ok := errors.AsType[*machine.Failure](err); ok && f.Code == failurepb.Code_LIMIT_REACHED {
				refused.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 50, made.Load())
	require.EqualValues(t, 30, refused.Load())
	other := mine
	other.TenantID = "other"
	k.create(t, other, subscription.Input{URL: "https://a.example", Events: []string{"*"}})
}

func TestWhoListens(t *testing.T) {
	k := newKit(t)
	require.False(t, k.Listening("t"))
	exact := k.create(t, mine, subscription.Input{URL: "https://a.example", Events: []string{"session.idled", "session.idled", "session.*"}})
	require.Equal(t, []string{"session.idled", "session.*"}, exact.GetEvents(), "each once")
	whole := k.create(t, mine, subscription.Input{URL: "https://b.example", Events: []string{"*"}, Whole: true})
	require.True(t, k.Listening("t"))
	require.ElementsMatch(t, []string{exact.GetId(), whole.GetId()}, k.Listeners("t", "p", "session.idled"))
	require.ElementsMatch(t, []string{whole.GetId()}, k.Listeners("t", "p", "agent_run.failed"))
	require.ElementsMatch(t, []string{whole.GetId()}, k.Listeners("t", "q", "session.idled"), "another project")
	require.Empty(t, k.Listeners("t2", "p", "session.idled"), "another tenant")

	disabled := subscription.StatusDisabled
	_, err := k.Change(t.Context(), subscription.Project("t", "p"), exact.GetId(), subscription.Change{Status: &disabled})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{whole.GetId()}, k.Listeners("t", "p", "session.idled"))
}

func TestReach(t *testing.T) {
	k := newKit(t)
	whole := k.create(t, mine, subscription.Input{URL: "https://b.example", Events: []string{"*"}, Whole: true})
	own := k.create(t, mine, subscription.Input{URL: "https://b.example", Events: []string{"*"}})
	for _, reach := range []subscription.Reach{subscription.Project("t", "p2"), subscription.Project("t2", "p"), subscription.Project("t", "")} {
		all, err := k.List(reach)
		require.NoError(t, err)
		require.Empty(t, all)
		for _, id := range []string{own.GetId(), whole.GetId(), "wh_", "", "nonsense"} {
			_, err = k.Get(t.Context(), reach, id)
			require.Equal(t, failurepb.Code_NOT_FOUND, refusal(t, err).Code)
			require.Equal(t, failurepb.Code_NOT_FOUND, refusal(t, k.Delete(t.Context(), reach, id)).Code)
			_, err = k.Rotate(t.Context(), reach, id)
			require.Equal(t, failurepb.Code_NOT_FOUND, refusal(t, err).Code)
			_, err = k.Redeliver(t.Context(), reach, subscription.DeliveryID(id, 1))
			require.Equal(t, failurepb.Code_NOT_FOUND, refusal(t, err).Code)
		}
	}
	_, err := k.Get(t.Context(), subscription.Project("t", "p"), whole.GetId())
	require.Equal(t, failurepb.Code_NOT_FOUND, refusal(t, err).Code, "a token never reaches one that hears every project")
	require.Empty(t, k.commands)
}

func TestLifeOfAnEndpoint(t *testing.T) {
	k := newKit(t)
	reach := subscription.Project("t", "p")
	made := k.create(t, mine, subscription.Input{URL: "https://me:pw@a.example/x?key=1", Events: []string{"*"}, Description: "d"})
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(made.Secret, "whsec_"))
	require.NoError(t, err)
	require.Len(t, key, 32)
	shown, redacted := made.Redacted()
	require.True(t, redacted)
	require.Equal(t, "https://a.example/x", shown)

	again, err := k.Get(t.Context(), reach, made.GetId())
	require.NoError(t, err)
	require.Empty(t, again.Secret)
	require.Equal(t, made.URL, again.URL)

	rotated, err := k.Rotate(t.Context(), reach, made.GetId())
	require.NoError(t, err)
	require.NotEqual(t, made.Secret, rotated.Secret)
	opened, err := k.Open(t.Context(), made.GetId())
	require.NoError(t, err)
	require.Equal(t, rotated.Secret, opened.Secret)

	// What was found out before a person changed the endpoint does not count.
	require.NoError(t, k.Settle(t.Context(), made.GetId(), &webhookpb.Wish{Generation: 1, DisabledReason: subscription.Redirect}))
	again, err = k.Get(t.Context(), reach, made.GetId())
	require.NoError(t, err)
	require.Equal(t, subscription.StatusActive, again.Status())
	require.NoError(t, k.Settle(t.Context(), made.GetId(), &webhookpb.Wish{Generation: 2, DisabledReason: subscription.Redirect, FailingSince: 7}))
	again, err = k.Get(t.Context(), reach, made.GetId())
	require.NoError(t, err)
	require.Equal(t, subscription.StatusDisabled, again.Status())
	require.Equal(t, subscription.Redirect, again.GetDisabledReason())

	k.private.Store(true)
	active, empty := subscription.StatusActive, ""
	_, err = k.Change(t.Context(), reach, made.GetId(), subscription.Change{Status: &active})
	require.Equal(t, failure.URLNotPublic, refusal(t, err).Reason, "judged again")
	k.private.Store(false)
	changed, err := k.Change(t.Context(), reach, made.GetId(), subscription.Change{Status: &active, Description: &empty})
	require.NoError(t, err)
	require.Empty(t, changed.GetDisabledReason())
	require.Zero(t, changed.GetFailingSince())
	require.Empty(t, changed.GetDescription())
	require.EqualValues(t, 3, changed.GetGeneration())

	delivery, err := k.Test(t.Context(), reach, made.GetId())
	require.NoError(t, err)
	require.Equal(t, webhookpb.Status_DELIVERED, delivery.GetStatus())
	require.EqualValues(t, 1, subscription.Attempts(delivery))
	require.JSONEq(t, `{"id":"`+delivery.GetCall().GetId()+`","type":"webhook.test","createdAt":"2023-11-14T22:13:20.000Z","projectId":"p","data":{}}`,
		string(delivery.GetBody()))

	k.unreadable.Store(true)
	_, err = k.Test(t.Context(), reach, made.GetId())
	require.ErrorContains(t, err, "sealed for something else")
	_, missing := errors.AsType[*machine.Failure](err)
	require.False(t, missing, "a record that cannot be read is there")
	k.unreadable.Store(false)

	require.NoError(t, k.Delete(t.Context(), reach, made.GetId()))
	require.NotNil(t, k.commands[len(k.commands)-1].GetRemove())
	require.NoError(t, k.Settle(t.Context(), made.GetId(), &webhookpb.Wish{Generation: 3}), "nothing is left to write to")
}

func TestDeliveryIDs(t *testing.T) {
	endpoint := "wh_AB" + strings.Repeat("_", 19)
	for _, number := range []uint64{1, 15, 16, 1 << 40, 1<<64 - 1} {
		id := subscription.DeliveryID(endpoint, number)
		of, got, ok := subscription.DeliveryOf(id)
		require.True(t, ok)
		require.Equal(t, endpoint, of)
		require.Equal(t, number, got)
	}
	for _, none := range []string{"", "whd_", "whd_short1", endpoint, "whd_" + strings.Repeat("x", 21), "whd_" + strings.Repeat("x", 21) + "0a", "whd_" + strings.Repeat("x", 21) + "G"} {
		_, _, ok := subscription.DeliveryOf(none)
		require.Falsef(t, ok, "%q", none)
	}
}

func TestRedeliverIsTriedAgainAfterAChange(t *testing.T) {
	k := newKit(t)
	made := k.create(t, mine, subscription.Input{URL: "https://a.example", Events: []string{"*"}})
	id := subscription.DeliveryID(made.GetId(), 7)
	k.read = &webhookpb.DeliveryReply{}
	_, err := k.Redeliver(t.Context(), subscription.Project("t", "p"), id)
	require.Equal(t, failure.DeliveryNotFound, refusal(t, err).Reason)
	k.read = &webhookpb.DeliveryReply{Delivery: &webhookpb.Delivery{Number: 7}, Revision: 3}
	_, err = k.Redeliver(t.Context(), subscription.Project("t", "p"), id)
	require.NoError(t, err)
	require.EqualValues(t, 3, k.commands[0].GetRedeliver().GetRevision())
	disabled := subscription.StatusDisabled
	_, err = k.Change(t.Context(), subscription.Project("t", "p"), made.GetId(), subscription.Change{Status: &disabled})
	require.NoError(t, err)
	_, err = k.Redeliver(t.Context(), subscription.Project("t", "p"), id)
	require.Equal(t, failurepb.Code_ENDPOINT_DISABLED, refusal(t, err).Code)
}
