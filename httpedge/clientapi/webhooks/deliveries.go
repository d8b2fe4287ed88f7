package webhooks

import (
	"context"
	"encoding/json"

	"parley/actors/core/access"
	"parley/actors/core/subscription"
	"parley/httpedge/clientapi/render"
	"parley/httpedge/endpoint"
	"parley/proto/webhookpb"
)

// deliverySchema is what an endpoint was told, or is to be told.
type deliverySchema struct {
	ID             string          `json:"id"`
	EndpointID     string          `json:"endpointId"`
	EventID        string          `json:"eventId"`
	EventType      string          `json:"eventType"`
	Payload        json.RawMessage `json:"payload"`
	Status         string          `json:"status"`
	Attempts       uint32          `json:"attempts"`
	NextAttemptAt  *string         `json:"nextAttemptAt"`
	LastStatusCode *int32          `json:"lastStatusCode"`
	LastError      *string         `json:"lastError"`
	LastDurationMS *int64          `json:"lastDurationMs"`
	LastHead       *string         `json:"lastResponseHead,omitempty" doc:"Status line and header fields of the newest answer, without secrets, for those who may change the endpoint"`
	CreatedAt      string          `json:"createdAt"`
	DeliveredAt    *string         `json:"deliveredAt"`
}

type deliveryOut struct {
	Delivery *deliverySchema `json:"delivery"`
}

type deliveryListOut struct {
	Deliveries []*deliverySchema `json:"deliveries"`
	HasMore    bool              `json:"hasMore"`
}

// Status of a delivery on the wire.
const (
	pending   = "pending"
	delivered = "delivered"
	failed    = "failed"
)

func statusText(status webhookpb.Status) string {
	switch status {
	case webhookpb.Status_DELIVERED:
		return delivered
	case webhookpb.Status_FAILED:
		return failed
	default:
		return pending
	}
}

// statusOf reads a filter; the route has refused all other texts.
func statusOf(text string) webhookpb.Status {
	switch text {
	case pending:
		return webhookpb.Status_PENDING
	case delivered:
		return webhookpb.Status_DELIVERED
	case failed:
		return webhookpb.Status_FAILED
	default:
		return webhookpb.Status_STATUS_UNSPECIFIED
	}
}

func deliveryView(d *webhookpb.Delivery, endpointID string) *deliverySchema {
	view := &deliverySchema{
		ID: d.GetId(), EndpointID: endpointID, EventID: d.GetCall().GetId(), EventType: d.GetCall().GetEvent(),
		Payload: render.Object(d.GetBody()), Status: statusText(d.GetStatus()), Attempts: subscription.Attempts(d),
		CreatedAt: render.Time(d.GetCreatedAt()),
	}
	switch d.GetStatus() {
	case webhookpb.Status_PENDING:
		view.NextAttemptAt = render.NullableTime(d.GetCall().GetNextAt())
	case webhookpb.Status_DELIVERED:
		view.DeliveredAt = render.NullableTime(d.GetSettledAt())
	default:
	}
	view.LastError, view.LastHead = render.Nullable(d.GetLastError()), render.Nullable(d.GetLastHead())
	if d.GetTried() {
		took := d.GetLastTook()
		view.LastDurationMS = &took
		if status := d.GetLastStatus(); status != 0 {
			view.LastStatusCode = &status
		}
	}
	return view
}

func (a *api) testWebhook(ctx context.Context, in *endpointInput) (*deliveryOut, error) {
	d, err := a.Webhooks.Test(ctx, a.reach(ctx), in.ID)
	if err != nil {
		return nil, err
	}
	return &deliveryOut{Delivery: deliveryView(d, in.ID)}, nil
}

type deliveryListInput struct {
	ID     string `path:"id"`
	Status string `query:"status" enum:"pending,delivered,failed"`
	Limit  int    `query:"limit"`
	Skip   int    `query:"skip"`
}

func (a *api) listWebhookDeliveries(ctx context.Context, in *deliveryListInput) (*deliveryListOut, error) {
	whole, err := a.Permissions.Allows(ctx, endpoint.CallerFrom(ctx), access.Webhooks, access.Admin)
	if err != nil {
		return nil, err
	}
	page, more, err := a.Webhooks.Deliveries(ctx, a.reach(ctx), in.ID, subscription.Page{
		Status: statusOf(in.Status), Limit: in.Limit, Skip: in.Skip,
	})
	if err != nil {
		return nil, err
	}
	out := &deliveryListOut{Deliveries: []*deliverySchema{}, HasMore: more}
	for _, d := range page {
		view := deliveryView(d, in.ID)
		if !whole {
			view.LastHead = nil
		}
		out.Deliveries = append(out.Deliveries, view)
	}
	return out, nil
}

type redeliverInput struct {
	DeliveryID string `path:"deliveryId"`
}

func (a *api) redeliverWebhook(ctx context.Context, in *redeliverInput) (*deliveryOut, error) {
	d, err := a.Webhooks.Redeliver(ctx, a.reach(ctx), in.DeliveryID)
	if err != nil {
		return nil, err
	}
	endpointID, _, _ := subscription.DeliveryOf(in.DeliveryID)
	return &deliveryOut{Delivery: deliveryView(d, endpointID)}, nil
}
