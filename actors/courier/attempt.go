package courier

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/actors/core/subscription"
	"parley/actors/deliver"
	"parley/proto/deliverypb"
	"parley/proto/webhookpb"
)

// userAgent is the User-Agent of deliveries (document 1, "Events").
const userAgent = "service-webhooks/1.0"

// Attempts makes single attempts. Poster must not follow redirects.
type Attempts struct {
	Poster  *deliver.Poster
	Timeout time.Duration // of the poster, for the words
}

// Try makes one attempt to tell an endpoint of an event.
func (a Attempts) Try(ctx context.Context, to *subscription.Endpoint, message *webhookpb.Message) *deliverypb.Report {
	target, user, err := split(to.URL)
	if err != nil {
		return &deliverypb.Report{Error: "The URL cannot be used", Hopeless: true}
	}
	header := map[string]string{
		"User-Agent": userAgent, "X-Service-Event": message.GetType(), "X-Service-Event-Id": message.GetId(), "webhook-id": message.GetId(),
	}
	if user != "" {
		header["Authorization"] = user
	}
	begun := time.Now()
	if stamp, signature := standard(to.Secret, message, begun); signature != "" {
		header["webhook-timestamp"], header["webhook-signature"] = stamp, signature
	}
	answer, err := a.Poster.Post(ctx, deliver.Post{URL: target, Body: message.GetBody(), Secret: to.Secret, Header: header})
	report := a.word(answer, err)
	if err == nil {
		report.Head = answer.Head
	}
	report.Took = time.Since(begun).Milliseconds()
	return report
}

// split takes what authenticates from a URL: it is sent as Basic.
func split(text string) (target, authorization string, err error) {
	parsed, err := url.Parse(text)
	if err != nil {
		return "", "", err
	}
	if parsed.User == nil {
		return text, "", nil
	}
	password, _ := parsed.User.Password()
	plain := parsed.User.Username() + ":" + password
	parsed.User = nil
	return parsed.String(), "Basic " + base64.StdEncoding.EncodeToString([]byte(plain)), nil
}

// standard signs as Standard Webhooks says: HMAC-SHA256 of "<id>.<seconds>.<body>" under the bytes that the secret stands for.
func standard(secret string, message *webhookpb.Message, at time.Time) (stamp, signature string) {
	_, encoded, _ := strings.Cut(secret, "_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(key) == 0 {
		return "", ""
	}
	stamp = strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(message.GetId() + "." + stamp + "."))
	mac.Write(message.GetBody())
	return stamp, "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// word says what came of an attempt. An error's own text may name hosts behind the address.
func (a Attempts) word(answer *deliver.Answer, err error) *deliverypb.Report {
	switch {
	case err == nil && answer.OK():
		return &deliverypb.Report{Ok: true, Status: int32(answer.Status)}
	case err == nil:
		report := &deliverypb.Report{
			Status: int32(answer.Status), Error: fmt.Sprintf("Endpoint answered HTTP %d", answer.Status),
			Hopeless: answer.Status == http.StatusGone, RetryAfter: answer.RetryAfter.Milliseconds(),
		}
		if answer.Status >= 300 && answer.Status < 400 {
			report.Fault = deliverypb.Fault_REDIRECTED
		}
		return report
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return &deliverypb.Report{Error: "The URL leads to an address that is not public", Fault: deliverypb.Fault_BLOCKED}
	case errors.Is(err, context.DeadlineExceeded):
		return &deliverypb.Report{Error: fmt.Sprintf("Timed out after %d ms", a.Timeout.Milliseconds())}
	}
	return &deliverypb.Report{Error: "Endpoint could not be reached"}
}
