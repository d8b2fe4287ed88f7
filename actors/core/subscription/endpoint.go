package subscription

import (
	"net/url"
	"strconv"
	"strings"

	"parley/proto/directorypb"
	"parley/proto/webhookpb"
)

// Collection is the directory's collection of endpoints.
const Collection = "webhooks"

// Limits of document 1.
const (
	MaxEndpoints   = 50   // of a tenant
	MaxURL         = 2048 // characters
	MaxDescription = 500  // characters
	MaxPage        = 200  // deliveries
	DefaultPage    = 50
)

// Reasons for which an endpoint is disabled.
const (
	Manual           = "manual"
	Redirect         = "redirect"
	BlockedAddress   = "blocked_address"
	SustainedFailure = "sustained_failure"
)

// Values of the status of an endpoint.
const (
	StatusActive   = "active"
	StatusDisabled = "disabled"
)

// Endpoint is a webhook endpoint with its URL in the open.
type Endpoint struct {
	*directorypb.Webhook

	URL    string
	Secret string // whsec_...; see Webhooks.Create, Webhooks.Rotate and Webhooks.Open, else empty
}

// Status is active or disabled.
func (e *Endpoint) Status() string {
	if Active(e.Webhook) {
		return StatusActive
	}
	return StatusDisabled
}

// Active says that events are told to an endpoint.
func Active(record *directorypb.Webhook) bool { return record.GetDisabledReason() == "" }

// Redacted is the URL without what may be secret in it, and whether anything was taken away.
func (e *Endpoint) Redacted() (text string, redacted bool) {
	parsed, err := url.Parse(e.URL)
	if err != nil {
		return "", true
	}
	if parsed.User == nil && parsed.RawQuery == "" && !parsed.ForceQuery {
		return e.URL, false
	}
	parsed.User, parsed.RawQuery, parsed.ForceQuery = nil, "", false
	return parsed.String(), true
}

func urlAbout(id string) string    { return "webhook_url/" + id }
func secretAbout(id string) string { return "webhook_secret/" + id }

// Kinds of ids.
const (
	endpointKind = "wh"
	deliveryKind = "whd_"
	idLength     = 21 // of what follows the kind
	numberBase   = 16
)

// DeliveryID names a delivery of an endpoint: whd_, what follows in the endpoint's id, and the delivery's number in hexadecimal. So it
// leads to its endpoint.
func DeliveryID(endpointID string, number uint64) string {
	_, tail, _ := strings.Cut(endpointID, "_")
	return deliveryKind + tail + strconv.FormatUint(number, numberBase)
}

// DeliveryOf is what a delivery's id says. false: it is none.
func DeliveryOf(id string) (endpointID string, number uint64, ok bool) {
	rest, ok := strings.CutPrefix(id, deliveryKind)
	if !ok || len(rest) <= idLength {
		return "", 0, false
	}
	number, err := strconv.ParseUint(rest[idLength:], numberBase, 64)
	endpointID = endpointKind + "_" + rest[:idLength]
	return endpointID, number, err == nil && DeliveryID(endpointID, number) == id
}

// Attempts is how many attempts of a delivery were made since it was asked for.
func Attempts(d *webhookpb.Delivery) uint32 { return max(d.GetCall().GetAttempt(), 1) - 1 }
