package node

import (
	"context"
	"time"

	"parley/actors"
	"parley/actors/core/collection"
	"parley/actors/core/feature"
	"parley/actors/core/subscription"
	"parley/actors/courier"
	"parley/actors/deliver"
	"parley/actors/webhook"
	"parley/cmd/parley/node/ids"
)

// newWebhookKind makes the kind of webhook endpoints' deliveries, and what makes their attempts.
func (n *Node) newWebhookKind() (actors.Kind, error) {
	settings := n.config.Webhook
	waits, err := settings.Waits()
	if err != nil {
		return actors.Kind{}, err
	}
	const hoursOfDay = 24
	limits := webhook.DefaultLimits()
	limits.Waits = waits
	limits.FailAfter = time.Duration(settings.AutoDisableHours) * time.Hour
	limits.Keep = time.Duration(settings.DeliveryRetentionDays) * hoursOfDay * time.Hour
	limits.Pending = uint64(settings.MaxPending)
	if err = limits.Validate(); err != nil {
		return actors.Kind{}, err
	}
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: n.outbound.guard, Timeout: settings.Timeout(), Stay: true, HeadOnly: true})
	if err != nil {
		return actors.Kind{}, err
	}
	n.outbound.couriers, err = courier.New(courier.Config{
		Records: n.courierRecords, Client: &client{n}, Try: courier.Attempts{Poster: poster, Timeout: settings.Timeout()}.Try, Places: settings.Concurrency, Keep: limits.Keep,
		Logger: n.log, Registerer: n.metrics,
	})
	if err != nil {
		return actors.Kind{}, err
	}
	return webhook.New(limits, n.outbound.couriers), nil
}

// newWebhooks makes what manages webhook endpoints.
func (n *Node) newWebhooks(records collection.Store) *subscription.Webhooks {
	return subscription.New(records, subscription.Env{
		NewID: ids.New(n.shards).NewID, Now: time.Now, Random: fillRandom, Seal: n.directory.seal.Seal, Open: n.directory.seal.Open,
		Public: n.outbound.guard.Public, Try: n.outbound.couriers.Test, Entities: &client{n},
		Ready:        func() bool { return n.features.On(feature.Webhooks) },
		ReadyForMany: func() bool { return n.features.On(feature.Console) },
	})
}

// courierRecords is the endpoints for couriers, nil while the directory is not open.
func (n *Node) courierRecords() courier.Records {
	if endpoints := n.directory.webhooks.Load(); endpoints != nil {
		return endpointRecords{Webhooks: endpoints, node: n}
	}
	return nil
}

// endpointRecords implements courier.Records.
type endpointRecords struct {
	*subscription.Webhooks

	node *Node
}

// CatchUp implements courier.Records.
func (r endpointRecords) CatchUp(ctx context.Context) error {
	return r.node.directory.records.CatchUp(ctx)
}

// listeners says who is told of what. Nothing is appended before the directory is open.
type listeners struct{ *Node }

// Listening implements actors.Listeners.
func (l listeners) Listening(tenantID string) bool {
	endpoints := l.directory.webhooks.Load()
	return endpoints != nil && endpoints.Listening(tenantID)
}

// Listeners implements actors.Listeners.
func (l listeners) Listeners(tenantID, projectID, kind string) []string {
	if endpoints := l.directory.webhooks.Load(); endpoints != nil {
		return endpoints.Listeners(tenantID, projectID, kind)
	}
	return nil
}

// CatchUp implements actors.Listeners.
func (l listeners) CatchUp(ctx context.Context) error { return l.directory.records.CatchUp(ctx) }
