package bench

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	// The harness shares the cores with the server: a client that takes 30 us a request would measure itself.
	"github.com/valyala/fasthttp"
)

// client calls the conversation server, spreading requests over the base URLs.
type client struct {
	options *Options
	hosts   []*fasthttp.HostClient
	next    atomic.Uint64
	retries atomic.Int64
	dark    *blackouts
}

// callError is a response that is not a success.
type callError struct {
	Status int // 0 = no answer
	Code   string
	Wait   time.Duration // until the server takes another one; 0 = it did not say
}

func (e *callError) Error() string { return e.Code }

func newClient(o *Options) (*client, error) {
	c := &client{options: o, dark: newBlackouts(o.URLs)}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("bad base URL %q", raw)
		}
		c.hosts = append(c.hosts, &fasthttp.HostClient{
			Addr: u.Host, IsTLS: u.Scheme == "https", MaxConns: max(o.Concurrency, preparers) + 16,
			MaxIdleConnDuration: time.Minute, ReadTimeout: o.AttemptTimeout, WriteTimeout: o.AttemptTimeout,
			MaxIdemponentCallAttempts: 1, MaxResponseBodySize: 64 << 20, NoDefaultUserAgentHeader: true,
		})
	}
	return c, nil
}

func (c *client) close() {
	for _, h := range c.hosts {
		h.CloseIdleConnections()
	}
}

// call sends one request and passes the body to read, if the status is want. The body is valid only during read. A
// request that a node could not answer is repeated at the next one, for as long as -retry-for.
func (c *client) call(method, path string, body []byte, want int, read func([]byte) error) error {
	host := int(c.next.Add(1) % uint64(len(c.hosts)))
	r := newRetry(c.options.RetryFor)
	for {
		_, err := c.attempt(host, &request{method: method, path: path, body: body, want: want, read: read})
		if err == nil || !r.again(err) {
			rest(err)
			return err
		}
		c.retries.Add(1)
		r.pause(len(c.hosts))
		host = (host + 1) % len(c.hosts)
	}
}

// rest waits as long as the server asks for, so that what is refused is not asked for again at once.
func rest(err error) {
	if failed := (*callError)(nil); errors.As(err, &failed) {
		time.Sleep(failed.Wait)
	}
}

// request is one request to a server.
type request struct {
	method, path string
	body         []byte
	key          string // Idempotency-Key; empty = none
	want         int    // status of a success
	read         func([]byte) error
}

// attempt sends a request once, to one host, and returns the name of the node that served it.
func (c *client) attempt(host int, r *request) (servedBy string, err error) {
	wire, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(wire)
	defer fasthttp.ReleaseResponse(response)
	to := c.hosts[host]
	wire.Header.SetMethod(r.method)
	wire.SetRequestURI(c.options.BasePath + r.path)
	wire.Header.SetHost(to.Addr)
	if c.options.Token != "" {
		wire.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	if r.key != "" {
		wire.Header.Set("Idempotency-Key", r.key)
	}
	if r.body != nil {
		wire.Header.SetContentType("application/json")
		wire.SetBodyRaw(r.body)
	}
	if err := to.Do(wire, response); err != nil {
		return "", &callError{Code: transportCode(err)}
	}
	servedBy = string(response.Header.Peek("X-Served-By"))
	if response.StatusCode() != r.want {
		return servedBy, refusal(response.StatusCode(), response.Body())
	}
	c.dark.success(host, time.Now())
	if r.read == nil {
		return servedBy, nil
	}
	return servedBy, r.read(response.Body())
}

func refusal(status int, body []byte) *callError {
	return &callError{Status: status, Code: errorCode(status, body), Wait: limitOf(status, body).wait}
}

func transportCode(err error) string {
	switch {
	case errors.Is(err, fasthttp.ErrTimeout):
		return "timeout"
	case errors.Is(err, fasthttp.ErrNoFreeConns):
		return "no_free_connection"
	case errors.Is(err, syscall.ECONNREFUSED):
		return codeRefused
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE), errors.Is(err, io.EOF), errors.Is(err, fasthttp.ErrConnectionClosed):
		return "connection lost"
	default:
		return "connection: " + err.Error()
	}
}

func errorCode(status int, body []byte) string {
	var flat struct {
		Code string `json:"code"`
	}
	var nested struct { // in the gateway's form
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	_, _ = json.Unmarshal(body, &flat), json.Unmarshal(body, &nested) // other bodies have no code
	code := strings.TrimSpace(strconv.Itoa(status) + " " + cmp.Or(flat.Code, nested.Error.Code))
	if met := limitOf(status, body).setting; met != "" {
		code += ": the server's " + met
	}
	return code
}

// begin starts the measured time.
func (c *client) begin(now time.Time) {
	c.retries.Store(0)
	c.dark.begin(now)
}

// report adds the effects of failovers on the measured time.
func (c *client) report(r *Report, now time.Time) {
	if c.options.RetryFor > 0 {
		r.Numbers["repeated attempts"] = float64(c.retries.Load())
	}
	c.dark.report(r, now)
}

func (c *client) createBody() []byte { return c.createBodyFor(c.options.Agent) }

func (c *client) createBodyFor(agent string) []byte {
	body := map[string]string{"agentId": agent}
	if c.options.Token == "" {
		body["userId"] = c.options.User
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil // a map of strings always marshals
	}
	return encoded
}

// create creates a conversation and returns its id.
func (c *client) create(body []byte) (string, error) {
	var id string
	err := c.call("POST", "/conversations", body, 201, func(answer []byte) error {
		var created struct {
			Conversation struct {
				ID string `json:"id"`
			} `json:"conversation"`
		}
		if err := json.Unmarshal(answer, &created); err != nil || created.Conversation.ID == "" {
			return &callError{Status: 201, Code: "bad answer"}
		}
		id = created.Conversation.ID
		return nil
	})
	return id, err
}
