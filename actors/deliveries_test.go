package actors

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"parley/actors/delivery"
	"parley/actors/kit"
	"parley/proto/deliverypb"
	"parley/proto/mailpb"
)

// refusing answers all commands with an error.
type refusing struct{ err error }

func (r refusing) AskInside(context.Context, uint32, string, proto.Message) (proto.Message, error) {
	return nil, r.err
}

func (r refusing) AskOutside(context.Context, uint32, string, proto.Message) (proto.Message, error) {
	return nil, r.err
}

// TestShardMovesDuringAnAttempt: what came of it is told the node that owns the shard by then, which would make it again.
func TestShardMovesDuringAnAttempt(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		moved bool
	}{
		"moved":  {&NotOwnerError{Shard: 3, Epoch: 8}, true},
		"broken": {errors.New("the disk is full"), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := map[string]*deliverypb.Report{}
				deliveries, err := NewDeliveries(DeliveriesConfig{Elsewhere: func(_ context.Context, id string, command proto.Message) error {
					posted, is := command.(*mailpb.Command)
					require.True(t, is)
					told[id] = posted.GetPosted()
					return nil
				}})
				require.NoError(t, err)
				mails := deliveries.Callbacks(CallbacksConfig{Name: "mails"})
				defer mails.Stop()
				mails.Send(kit.NewRef(3, 7, "mail_a", refusing{c.err}), delivery.Attempt{
					Delivery: &deliverypb.Delivery{Id: "evt", Attempt: 2}, URL: "mail",
					Do: func(context.Context) (*deliverypb.Report, string) {
						mails.Release(3, 7)
						return &deliverypb.Report{Ok: true}, "sent"
					},
					Report: func(report *deliverypb.Report) proto.Message {
						return &mailpb.Command{Body: &mailpb.Command_Posted{Posted: report}}
					},
				})
				synctest.Wait()
				if !c.moved {
					require.Empty(t, told)
					return
				}
				require.Len(t, told, 1)
				require.True(t, proto.Equal(&deliverypb.Report{Id: "evt", Attempt: 2, Ok: true}, told["mail_a"]), told["mail_a"])
			})
		})
	}
}
