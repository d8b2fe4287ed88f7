// Package subscription is webhook endpoints: the records of the directory, the events they may ask for, and who is told of what. The
// surfaces manage endpoints and their deliveries through Webhooks, which all of them share; the deliveries themselves are entities
// (package actors/webhook) of the same id.
//
// # How a surface serves its routes
//
// The surface authenticates, decides whether the caller may manage webhooks at all, and says by a Reach which endpoints it sees; the
// Webhooks refuses everything else with EndpointNotFound. Each route is one call:
//
//	GET    /webhooks/events                    Catalogue()
//	GET    /webhooks                           Webhooks.List(reach)
//	POST   /webhooks                           Webhooks.Create(ctx, creator, input)   input.Whole for projectId null or *
//	GET    /webhooks/{id}                      Webhooks.Get(ctx, reach, id)
//	PATCH  /webhooks/{id}                      Webhooks.Change(ctx, reach, id, change)
//	DELETE /webhooks/{id}                      Webhooks.Delete(ctx, reach, id)
//	POST   /webhooks/{id}/rotate-secret        Webhooks.Rotate(ctx, reach, id)
//	POST   /webhooks/{id}/test                 Webhooks.Test(ctx, reach, id)
//	GET    /webhooks/{id}/deliveries           Webhooks.Deliveries(ctx, reach, id, page)
//	POST   /webhooks/deliveries/{id}/redeliver Webhooks.Redeliver(ctx, reach, deliveryID)
//	POST   /webhooks/{id}/redeliver            Webhooks.RedeliverFailed(ctx, reach, id, span)
//
// Endpoint.Secret is set by Create and Rotate only; Endpoint.Redacted is the URL for readers. A delivery is shown from
// webhookpb.Delivery: attempts = Attempts(d), nextAttemptAt = d.call.next_at while pending, eventId and eventType = d.call.id and
// d.call.event, payload = d.body. Test waits for a place (WEBHOOK_CONCURRENCY), then for the
// receiver, at most WEBHOOK_TIMEOUT_MS.
//
// Refusals carry the codes and words of document 1: INVALID_REQUEST, NOT_FOUND, LIMIT_REACHED, ENDPOINT_DISABLED, DELIVERY_PENDING,
// INTERNAL (TestNotRecorded).
//
// # Rules
//
// A tenant has at most MaxEndpoints, however many are created at once. What a person changes of an endpoint (where it leads, its
// secret, its status) raises its generation; what the server finds out about it (Settle: that it fails, that it must be disabled) is
// refused when it was found of an older generation. URL and secret are sealed at rest.
//
// An endpoint is told of what happens once the owner of what it happens to knows of the endpoint: Create waits until the other nodes
// do, but not long for one that does not answer. A new owner of a shard catches up before its first event; when the directory does not
// answer within a second, it tells those it knows.
package subscription
