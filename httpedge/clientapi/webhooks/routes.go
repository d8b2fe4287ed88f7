// Package webhooks is the routes of webhook endpoints and their deliveries (document 1, "Webhooks"). They are mounted twice with the
// same handlers: for API tokens on the Client API, and for signed-in users on the dashboard's surface. Both differ in their Side.
package webhooks

import (
	"time"

	"parley/actors/core/subscription"
	"parley/httpedge/clientapi/handler"
	"parley/httpedge/endpoint"
	"parley/proto/failurepb"
)

const (
	// testTimeout bounds the request for a test delivery: the receiver has at most WEBHOOK_TIMEOUT_MS.
	testTimeout = 5 * time.Minute
	// maxBody bounds a body, in bytes: a URL, a description and some types of events.
	maxBody = 64 << 10
)

// Parts is what the routes need of the rest of the node.
type Parts struct {
	Webhooks *subscription.Webhooks
	// Permissions says whether a caller may see whole URLs, which takes more than the routes that show them.
	Permissions handler.Permissions
	// Side is who calls.
	Side Side
}

// Side is which endpoints a caller may manage, and for what they may create some.
type Side interface {
	Reach(caller endpoint.Caller) subscription.Reach
	// Creator is on whose behalf an endpoint is made that is to hear a project; whole asks for one that hears every project. It
	// refuses what is not within reach.
	Creator(caller endpoint.Caller, project string, whole bool) (subscription.Creator, error)
}

// api is the handlers.
type api struct{ Parts }

// Routes returns the routes, relative to a surface.
func Routes(parts Parts) []endpoint.Route {
	a := &api{parts}
	const (
		read, admin = "webhooks:read", "webhooks:admin"
		invalid     = failurepb.Code_INVALID_REQUEST
		forbidden   = failurepb.Code_FORBIDDEN
		undecided   = failurepb.Code_AUTHORIZATION_UNAVAILABLE
		notFound    = failurepb.Code_NOT_FOUND
		full        = failurepb.Code_LIMIT_REACHED
		disabled    = failurepb.Code_ENDPOINT_DISABLED
		pending     = failurepb.Code_DELIVERY_PENDING
		noSecrets   = failurepb.Code_SECRETS_UNAVAILABLE
		internal    = failurepb.Code_INTERNAL
	)
	tag, body, refused := endpoint.Tag("Webhooks"), endpoint.MaxBody(maxBody), endpoint.Errors(forbidden, undecided)
	return []endpoint.Route{
		endpoint.On("GET /webhooks/events", read, a.listWebhookEvents, tag, refused,
			endpoint.Summary("List the types of events that an endpoint may ask for")),
		endpoint.On("GET /webhooks", read, a.listWebhooks, tag, refused, endpoint.Summary("List the webhook endpoints, newest first")),
		endpoint.On("POST /webhooks", admin, a.createWebhook, endpoint.Once(), tag, refused, body, endpoint.Status(201),
			endpoint.Summary("Create a webhook endpoint; the answer shows its secret"), endpoint.Errors(invalid, full, noSecrets)),
		endpoint.On("GET /webhooks/{id}", read, a.getWebhook, tag, refused,
			endpoint.Summary("Read a webhook endpoint"), endpoint.Errors(notFound)),
		endpoint.On("PATCH /webhooks/{id}", admin, a.updateWebhook, tag, refused, body,
			endpoint.Summary("Change a webhook endpoint; status active has its address judged anew"), endpoint.Errors(invalid, notFound, noSecrets)),
		endpoint.On("DELETE /webhooks/{id}", admin, a.deleteWebhook, tag, refused,
			endpoint.Summary("Delete a webhook endpoint and its deliveries"), endpoint.Errors(notFound)),
		endpoint.On("POST /webhooks/{id}/rotate-secret", admin, a.rotateWebhookSecret, endpoint.Once(), tag, refused,
			endpoint.Summary("Give a webhook endpoint a new secret; the old one is of no use from then on"), endpoint.Errors(notFound, noSecrets)),
		endpoint.On("POST /webhooks/{id}/test", admin, a.testWebhook, endpoint.Once(), tag, refused, endpoint.Timeout(testTimeout),
			endpoint.Summary("Send a webhook.test event now and wait for the receiver"), endpoint.Errors(notFound, internal)),
		endpoint.On("GET /webhooks/{id}/deliveries", read, a.listWebhookDeliveries, tag, refused,
			endpoint.Page("limit", subscription.DefaultPage, subscription.MaxPage),
			endpoint.Summary("List the deliveries of a webhook endpoint, newest first"), endpoint.Errors(invalid, notFound)),
		endpoint.On("POST /webhooks/{id}/redeliver", admin, a.redeliverFailed, endpoint.Once(), tag, refused, body, endpoint.Status(202),
			endpoint.Summary("Send the deliveries again that failed within a span of time, at most 1000 at once; repeat it while hasMore"),
			endpoint.Errors(invalid, notFound, disabled, failurepb.Code_CONFLICT, failurepb.Code_UNAVAILABLE)),
		endpoint.On("POST /webhooks/deliveries/{deliveryId}/redeliver", admin, a.redeliverWebhook, endpoint.Once(), tag, refused,
			endpoint.Status(202), endpoint.Summary("Send a settled delivery again, as the same event"),
			endpoint.Errors(notFound, disabled, pending)),
	}
}
