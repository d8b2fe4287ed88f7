package courier_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/core/subscription"
	"parley/actors/courier"
	"parley/actors/deliver"
	"parley/proto/deliverypb"
	"parley/proto/webhookpb"
)

// attempts are attempts that may reach this machine, or nothing but public addresses.
func attempts(t *testing.T, timeout time.Duration, local bool) courier.Attempts {
	t.Helper()
	config := deliver.GuardConfig{}
	if local {
		config.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	}
	guard := deliver.NewGuard(config)
	t.Cleanup(guard.Close)
	poster, err := deliver.NewPoster(deliver.PosterConfig{Guard: guard, Timeout: timeout, Stay: true, HeadOnly: true})
	require.NoError(t, err)
	return courier.Attempts{Poster: poster, Timeout: timeout}
}

func serve(t *testing.T, handle http.HandlerFunc) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handle)
	t.Cleanup(server.Close)
	return server
}

var (
	key     = []byte("0123456789abcdef0123456789abcdef")
	secret  = "whsec_" + base64.StdEncoding.EncodeToString(key)
	message = &webhookpb.Message{Id: "evt_1", Type: "session.idled", Body: []byte(`{"id":"evt_1"}`)}
)

// TestWhatAReceiverGets: the headers of document 1, the signature of Standard Webhooks, and what authenticates only as a header.
func TestWhatAReceiverGets(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	server := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	})
	to := "http" + "://ann:p%40w@" + strings.TrimPrefix(server.URL, "http://") + "/in?k=1"
	report := attempts(t, time.Minute, true).Try(t.Context(), &subscription.Endpoint{URL: to, Secret: secret}, message)
	require.True(t, report.GetOk(), report)
	require.EqualValues(t, 200, report.GetStatus())
	require.Equal(t, "/in?k=1", got.RequestURI)
	user, password, _ := got.BasicAuth()
	require.Equal(t, "ann p@w", user+" "+password)
	for name, value := range map[string]string{
		"Content-Type": "application/json", "User-Agent": "service-webhooks/1.0", "X-Service-Event": "session.idled",
		"X-Service-Event-Id": "evt_1", "Webhook-Id": "evt_1",
	} {
		require.Equal(t, value, got.Header.Get(name), name)
	}
	require.Equal(t, string(message.GetBody()), string(body))
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("evt_1." + got.Header.Get("Webhook-Timestamp") + "." + string(body)))
	require.Equal(t, "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), got.Header.Get("Webhook-Signature"))
	require.Regexp(t, `^t=\d+,v1=[0-9a-f]{64}$`, got.Header.Get(deliver.SignatureHeader))
}

// TestWhatAnAttemptSays: the words for what a receiver answers, or does not.
func TestWhatAnAttemptSays(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	elsewhere := serve(t, func(http.ResponseWriter, *http.Request) { asked.Add(1) })
	t.Cleanup(func() { require.Zero(t, asked.Load(), "a redirect is not followed") })
	hangs := make(chan struct{})
	silent := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hangs:
		case <-r.Context().Done():
		}
	})
	t.Cleanup(func() { close(hangs) })
	answers := func(status int, header ...string) string {
		return serve(t, func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(header); i += 2 {
				w.Header().Set(header[i], header[i+1])
			}
			w.WriteHeader(status)
		}).URL
	}
	body := func(handle http.HandlerFunc) string { return serve(t, handle).URL }
	for _, c := range []struct {
		name, url string
		timeout   time.Duration
		foreign   bool // nothing but public addresses
		want      *deliverypb.Report
	}{
		{name: "moved_for_good", url: answers(308, "Location", elsewhere.URL), want: &deliverypb.Report{
			Status: 308, Error: "Endpoint answered HTTP 308", Fault: deliverypb.Fault_REDIRECTED,
		}},
		{name: "moved", url: answers(302, "Location", elsewhere.URL), want: &deliverypb.Report{
			Status: 302, Error: "Endpoint answered HTTP 302", Fault: deliverypb.Fault_REDIRECTED,
		}},
		{name: "redirect_to_no_url", url: answers(302, "Location", "http://[::1"), want: &deliverypb.Report{
			Status: 302, Error: "Endpoint answered HTTP 302", Fault: deliverypb.Fault_REDIRECTED,
		}},
		{name: "slow_body", url: body(func(w http.ResponseWriter, r *http.Request) {
			_ = http.NewResponseController(w).Flush()
			select {
			case <-hangs:
			case <-r.Context().Done():
			}
		}), timeout: 10 * time.Second, want: &deliverypb.Report{Ok: true, Status: 200}},
		{name: "broken_body", url: body(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			w.WriteHeader(http.StatusAccepted)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}), want: &deliverypb.Report{Ok: true, Status: 202}},
		{name: "endless_body", url: body(func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = w.Write(make([]byte, 1<<10))
			}
		}), want: &deliverypb.Report{Ok: true, Status: 200}},
		{name: "redirect_to_nowhere", url: answers(301), want: &deliverypb.Report{
			Status: 301, Error: "Endpoint answered HTTP 301", Fault: deliverypb.Fault_REDIRECTED,
		}},
		{name: "gone", url: answers(410), want: &deliverypb.Report{Status: 410, Error: "Endpoint answered HTTP 410", Hopeless: true}},
		{name: "busy", url: answers(429, "Retry-After", "120"), want: &deliverypb.Report{
			Status: 429, Error: "Endpoint answered HTTP 429", RetryAfter: 120_000,
		}},
		{name: "broken", url: answers(500), want: &deliverypb.Report{Status: 500, Error: "Endpoint answered HTTP 500"}},
		{name: "silent", url: silent.URL, timeout: 50 * time.Millisecond, want: &deliverypb.Report{Error: "Timed out after 50 ms"}},
		{name: "nobody_there", url: "http://127.0.0.1:1", want: &deliverypb.Report{Error: "Endpoint could not be reached"}},
		{name: "private", url: elsewhere.URL, foreign: true, want: &deliverypb.Report{
			Error: "The URL leads to an address that is not public", Fault: deliverypb.Fault_BLOCKED,
		}},
		{name: "name_of_private", url: strings.Replace(elsewhere.URL, "127.0.0.1", "localhost", 1), foreign: true, want: &deliverypb.Report{
			Error: "The URL leads to an address that is not public", Fault: deliverypb.Fault_BLOCKED,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			timeout := c.timeout
			if timeout == 0 {
				timeout = time.Minute
			}
			report := attempts(t, timeout, !c.foreign).Try(t.Context(), &subscription.Endpoint{URL: c.url, Secret: secret}, message)
			require.Less(t, report.GetTook(), int64(5000), "no body is waited for")
			if report.GetStatus() != 0 {
				require.True(t, strings.HasPrefix(report.GetHead(), fmt.Sprintf("HTTP/1.1 %d ", report.GetStatus())), report.GetHead())
			}
			report.Took, report.Head = 0, ""
			require.Equal(t, c.want.String(), report.String())
		})
	}
}
