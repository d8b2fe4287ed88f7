package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	// The harness shares the cores with the server it measures: a client of 30 us a request would measure itself.
	"github.com/valyala/fasthttp"
)

// client calls the conversation server, spreading requests over the base URLs.
type client struct {
	options *Options
	hosts   []*fasthttp.HostClient
	next    atomic.Uint64
}

// callError is an answer that is not a success.
type callError struct {
	Status int
	Code   string
}

func (e *callError) Error() string { return e.Code }

func newClient(o *Options) (*client, error) {
	c := &client{options: o}
	for _, raw := range o.URLs {
		u, err := url.Parse(raw)
		if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			return nil, fmt.Errorf("bad base URL %q", raw)
		}
		c.hosts = append(c.hosts, &fasthttp.HostClient{
			Addr: u.Host, IsTLS: u.Scheme == "https", MaxConns: max(o.Concurrency, preparers) + 16,
			MaxIdleConnDuration: time.Minute, ReadTimeout: o.Timeout, WriteTimeout: o.Timeout,
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

// call sends one request and hands the body to read, if the status is want. The body is valid only during read.
func (c *client) call(method, path string, body []byte, want int, read func([]byte) error) error {
	request, response := fasthttp.AcquireRequest(), fasthttp.AcquireResponse()
	defer fasthttp.ReleaseRequest(request)
	defer fasthttp.ReleaseResponse(response)
	host := c.hosts[c.next.Add(1)%uint64(len(c.hosts))]
	request.Header.SetMethod(method)
	request.SetRequestURI(c.options.BasePath + path)
	request.Header.SetHost(host.Addr)
	if c.options.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.options.Token)
	}
	if body != nil {
		request.Header.SetContentType("application/json")
		request.SetBodyRaw(body)
	}
	if err := host.Do(request, response); err != nil {
		return &callError{Code: transportCode(err)}
	}
	if response.StatusCode() != want {
		return &callError{Status: response.StatusCode(), Code: errorCode(response.StatusCode(), response.Body())}
	}
	if read == nil {
		return nil
	}
	return read(response.Body())
}

func transportCode(err error) string {
	switch {
	case errors.Is(err, fasthttp.ErrTimeout):
		return "timeout"
	case errors.Is(err, fasthttp.ErrNoFreeConns):
		return "no_free_connection"
	default:
		return "connection: " + err.Error()
	}
}

func errorCode(status int, body []byte) string {
	var answer struct {
		Code string `json:"code"`
	}
	if json.Unmarshal(body, &answer) == nil && answer.Code != "" {
		return strconv.Itoa(status) + " " + answer.Code
	}
	return strconv.Itoa(status)
}

func (c *client) createBody() []byte {
	body := map[string]string{"agentId": c.options.Agent}
	if c.options.Token == "" {
		body["userId"] = c.options.User
	}
	encoded, err := json.Marshal(body)
	if err != nil {
		return nil // a map of strings always marshals
	}
	return encoded
}

// create makes a conversation and returns its id.
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
