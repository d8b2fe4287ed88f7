package subscription

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"parley/actors/core/entity"
	"parley/actors/core/failure"
	"parley/actors/machine"
	"parley/proto/deliverypb"
	"parley/proto/failurepb"
	"parley/proto/webhookpb"
)

// Page selects deliveries of an endpoint, newest first.
type Page struct {
	Status webhookpb.Status // unspecified = all
	Limit  int              // 0 = DefaultPage
	Skip   int
}

// MaxSkip bounds how many deliveries a page may skip: they are read.
const MaxSkip = 10_000

// Deliveries returns a page of what an endpoint was told.
func (d *Webhooks) Deliveries(ctx context.Context, reach Reach, id string, page Page) (deliveries []*webhookpb.Delivery, more bool, err error) {
	if _, err = d.record(ctx, reach, id); err != nil {
		return nil, false, err
	}
	if page.Limit == 0 {
		page.Limit = DefaultPage
	}
	if page.Limit < 0 || page.Limit > MaxPage || page.Skip < 0 {
		return nil, false, invalid(failure.BadDeliveriesRequest).Param("most", MaxPage)
	}
	if page.Skip > MaxSkip {
		return nil, false, invalid(failure.TooManySkipped).In("skip").Param("most", MaxSkip)
	}
	reply, err := entity.Read[*webhookpb.DeliveriesReply](ctx, d.env.Entities, &webhookpb.DeliveriesQuery{
		Id: id, Status: page.Status, Limit: uint32(page.Limit), Skip: uint32(page.Skip),
	})
	if isMissing(err) {
		return nil, false, nil // it was told nothing yet
	}
	return reply.GetDeliveries(), reply.GetHasMore(), err
}

func isMissing(err error) bool {
	refused, ok := errors.AsType[*machine.Failure](err)
	return ok && refused.Code == failurepb.Code_NOT_FOUND
}

// Test tells an endpoint of an event that did not happen, waits for its answer, and keeps what came of it.
func (d *Webhooks) Test(ctx context.Context, reach Reach, id string) (*webhookpb.Delivery, error) {
	if _, err := d.record(ctx, reach, id); err != nil {
		return nil, err
	}
	endpoint, err := d.Open(ctx, id)
	switch {
	case err != nil:
		return nil, err
	case endpoint == nil:
		return nil, noEndpoint()
	}
	now := d.env.Now()
	message := NewMessage(d.newEventID(), Event{Type: TestType, ProjectID: endpoint.GetProjectId(), At: now, Data: struct{}{}})
	report := d.env.Try(ctx, endpoint, message)
	if report == nil {
		return nil, ctx.Err()
	}
	delivery := &webhookpb.Delivery{
		Call: &deliverypb.Delivery{Id: message.GetId(), Event: TestType, At: now.UnixMilli(), Attempt: 2}, // the first is made
		Body: message.GetBody(), CreatedAt: now.UnixMilli(), Status: webhookpb.Status_FAILED,
		Tried: true, LastStatus: report.GetStatus(), LastError: report.GetError(), LastTook: report.GetTook(), LastHead: report.GetHead(),
	}
	if report.GetOk() {
		delivery.Status = webhookpb.Status_DELIVERED
	}
	reply, err := entity.Ask[*webhookpb.Reply](ctx, d.env.Entities, id, &webhookpb.Command{
		Id: id, Body: &webhookpb.Command_Record{Record: &webhookpb.Record{Delivery: delivery}},
	})
	if err != nil {
		return nil, errors.Join(failure.New(failurepb.Code_INTERNAL, failure.TestNotRecorded), err)
	}
	return reply.GetDelivery(), nil
}

// redeliverTries bounds how often a delivery that changes at the same time is read again.
const redeliverTries = 5

// Redeliver has a delivery that is settled made again.
func (d *Webhooks) Redeliver(ctx context.Context, reach Reach, deliveryID string) (*webhookpb.Delivery, error) {
	id, number, ok := DeliveryOf(deliveryID)
	if !ok {
		return nil, noDelivery()
	}
	record, err := d.record(ctx, reach, id)
	switch {
	case isMissing(err):
		return nil, noDelivery()
	case err != nil:
		return nil, err
	}
	for try := 1; ; try++ {
		read, failed := entity.Read[*webhookpb.DeliveryReply](ctx, d.env.Entities, &webhookpb.DeliveryQuery{Id: id, Number: number})
		switch {
		case isMissing(failed) || failed == nil && read.GetDelivery() == nil:
			return nil, noDelivery()
		case failed != nil:
			return nil, failed
		case !Active(record):
			return nil, failure.New(failurepb.Code_ENDPOINT_DISABLED, failure.EndpointDisabled)
		}
		reply, failed := entity.Ask[*webhookpb.Reply](ctx, d.env.Entities, id, &webhookpb.Command{
			Id: id, Body: &webhookpb.Command_Redeliver{Redeliver: &webhookpb.Redeliver{Delivery: read.GetDelivery(), Revision: read.GetRevision()}},
		})
		if refused, is := errors.AsType[*machine.Failure](failed); is && refused.Code == failurepb.Code_CONFLICT && try < redeliverTries {
			continue
		}
		return reply.GetDelivery(), failed
	}
}

func noDelivery() error { return failure.New(failurepb.Code_NOT_FOUND, failure.DeliveryNotFound) }

// Event is what endpoints are told of.
type Event struct {
	Type, ProjectID string
	At              time.Time
	Data            any // small: ids, names and numbers
}

// envelope is the body that is posted.
type envelope struct {
	ID        string  `json:"id"`
	Type      string  `json:"type"`
	CreatedAt string  `json:"createdAt"`
	ProjectID *string `json:"projectId"`
	Data      any     `json:"data"`
}

// timeFormat is how bodies write times.
const timeFormat = "2006-01-02T15:04:05.000Z"

// NewMessage makes the message of an event under an id.
func NewMessage(id string, event Event) *webhookpb.Message {
	body := envelope{ID: id, Type: event.Type, CreatedAt: event.At.UTC().Format(timeFormat), Data: event.Data}
	if event.ProjectID != "" {
		body.ProjectID = &event.ProjectID
	}
	text, _ := json.Marshal(body) // strings, numbers and flags: it cannot fail
	return &webhookpb.Message{Id: id, Type: event.Type, Body: text}
}

// newEventID names an event: evt_ and 32 hexadecimal digits.
func (d *Webhooks) newEventID() string {
	const size = 16
	random := make([]byte, size)
	d.env.Random(random)
	return "evt_" + hex.EncodeToString(random)
}
