package courier_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/core/subscription"
	"parley/actors/courier"
	"parley/proto/deliverypb"
	"parley/proto/webhookpb"
)

// noEntities has none.
type noEntities struct{}

func (noEntities) Ask(context.Context, string, proto.Message) (proto.Message, error) {
	return nil, context.Canceled
}

func (noEntities) Read(context.Context, proto.Message) (proto.Message, error) {
	return nil, context.Canceled
}

// TestTestsTakePlaces: those who test have half of a node's places, and wait no longer for one than their requests last.
func TestTestsTakePlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under, most := 0, 0
		add := func(number int) {
			mu.Lock()
			defer mu.Unlock()
			under += number
			most = max(most, under)
		}
		couriers, err := courier.New(courier.Config{
			Records: func() courier.Records { return nil }, Client: noEntities{}, Places: 4, Keep: time.Hour,
			Try: func(context.Context, *subscription.Endpoint, *webhookpb.Message) *deliverypb.Report {
				add(1)
				time.Sleep(10 * time.Second)
				add(-1)
				return &deliverypb.Report{Ok: true}
			},
		})
		require.NoError(t, err)
		reports := make(chan *deliverypb.Report, 10)
		for range cap(reports) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				reports <- couriers.Test(ctx, &subscription.Endpoint{}, &webhookpb.Message{})
			}()
		}
		made := 0
		for range cap(reports) {
			if report := <-reports; report.GetOk() {
				made++
			}
		}
		require.Equal(t, []int{2, 4}, []int{most, made}, "two at a time, and the others give up")
	})
}
