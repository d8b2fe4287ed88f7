package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"parley/actors/deliver"
	"parley/actors/machine/rawjson"
	"parley/actors/provider"
	"parley/actors/stranger"
	"parley/actors/turn/runtimecontext"
	"parley/proto/agentpb"
)

const (
	// connectedTime bounds a call of a connected agent that does not say otherwise (document 3, 7.11).
	connectedTime = 2 * time.Minute
	// maxReply bounds the reply of a connected agent, which is held in memory whole.
	maxReply = 4 << 20
	// maxReplyValues bounds the values of a reply, which is decoded: one of two bytes takes more than a hundred then.
	maxReplyValues = 50_000
	// byteCost and valueCost are what of an answer's memory a byte of it takes at most, and a value.
	byteCost  = 4
	valueCost = 128
	// maxErrorBody is how much of a refusal is read, drainBytes how much of an answer that is not needed any more: its connection
	// can serve again then.
	maxErrorBody = 64 << 10
	drainBytes   = 4 << 10
	// maxComplaint is how many characters of a refusal an error repeats.
	maxComplaint = 500
)

// connected asks agents that run elsewhere, as their tenants have recorded them (document 3, 7.11): one POST of JSON, one
// JSON document in reply, so their text comes all at once. Nothing is asked again: the other side may have begun to work.
type connected struct {
	caller *caller
	client *http.Client                                           // shows redirects
	follow func(next *http.Request, before []*http.Request) error // judges them
	newer  provider.Learned                                       // agents that know only the next version of their protocol
}

func newConnected(calls *caller, guard *deliver.Guard) *connected {
	client := guard.Client(0)
	made := &connected{caller: calls, client: client, follow: client.CheckRedirect}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return made
}

// NeedsHistory is true: no protocol is told which conversation a message belongs to.
func (c *connected) NeedsHistory() bool { return true }

// Generate asks the agent once.
func (c *connected) Generate(ctx context.Context, request *Request, stream Stream) (*Answer, error) {
	model := request.Agent.GetModel()
	this := &call{
		provider: providerName(agentpb.Provider_CONNECTED), request: request, limits: c.caller.limits(model),
		secrets: connectionSecrets(model.GetConnection(), request.Header),
	}
	this.limits.retries = 0
	if model.GetTotalTimeoutMs() <= 0 {
		this.limits.total = connectedTime
	}
	return c.caller.run(ctx, this, stream, func(ctx context.Context, _ int, out *recorder) error {
		return c.told(c.ask(ctx, request, this.secrets, out), this.secrets)
	})
}

// ask has the agent answer. One that does not know the method has done nothing: it is asked by that of its protocol's other
// version, and from then on by that first.
func (c *connected) ask(ctx context.Context, request *Request, secrets provider.Redactor, out *recorder) error {
	connection := request.Agent.GetModel().GetConnection()
	speak, known := protocols[connection.GetProtocol()]
	if !known {
		return invalid("Unsupported connected agent protocol: %s", connection.GetProtocol())
	}
	if speak.next == nil {
		return c.askIn(ctx, speak, request, secrets, out)
	}
	versions := []protocol{speak, *speak.next}
	newer := c.newer.Has(connection.GetUrl())
	if newer {
		slices.Reverse(versions)
	}
	err := c.askIn(ctx, versions[0], request, secrets, out)
	if !errors.Is(err, errOtherVersion) {
		return err
	}
	if err = c.askIn(ctx, versions[1], request, secrets, out); err == nil {
		c.newer.Note(connection.GetUrl(), !newer)
	}
	return err
}

// askIn has the agent answer in one version of its protocol.
func (c *connected) askIn(ctx context.Context, speak protocol, request *Request, secrets provider.Redactor, out *recorder) error {
	asked, err := newInquiry(ctx, request, speak)
	if err != nil {
		return err
	}
	body, err := c.exchange(ctx, asked, secrets)
	if err != nil {
		return err
	}
	return readReply(body, request.Agent.GetModel().GetConnection(), speak, secrets, out)
}

// told is why a reply is no whole answer, in the words of document 3. The class that the agent's own words have stays.
func (c *connected) told(err error, secrets provider.Redactor) error {
	if _, worded := errors.AsType[*Error](err); worded {
		return err
	}
	failed, ok := errors.AsType[*provider.Failure](err)
	if !ok {
		return err
	}
	words := c.caller.worded(failed, &call{})
	switch failed.Class {
	case provider.Unreadable:
		words.Message = strings.TrimSuffix("the connected agent's reply cannot be understood: "+firstOf(failed.Message, secrets), ": ")
	case provider.Cut:
		words.Message = "the connected agent's reply is not whole"
	default:
		words.Message = fmt.Sprintf("External agent returned %d: %s", http.StatusOK, firstOf(failed.Message, secrets))
	}
	return words
}

// connectionSecrets is a redactor of all that is secret of a connection and of one call of it.
func connectionSecrets(connection *agentpb.Connection, runtime http.Header) provider.Redactor {
	own := http.Header{}
	for name, value := range connection.GetHeaders() {
		own.Add(name, value)
	}
	return provider.NewRedactor(connection.GetApiKey(), connection.GetUrl(),
		append(runtimecontext.Secrets(own), runtimecontext.Secrets(runtime)...)...)
}

// inquiry is the request of a call, and its body, which a redirect repeats.
type inquiry struct {
	*http.Request
	body []byte
}

func newInquiry(ctx context.Context, asked *Request, speak protocol) (*inquiry, error) {
	connection := asked.Agent.GetModel().GetConnection()
	if deliver.CheckURL(connection.GetUrl()) != nil {
		return nil, invalid("the connected agent's URL is not a usable http or https URL")
	}
	said := turnsOf(asked)
	if len(said) == 0 {
		return nil, invalid("there is no message to answer")
	}
	body, err := json.Marshal(speak.body(connection, said))
	if err != nil {
		return nil, err
	}
	address, err := speak.address(connection.GetUrl())
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, invalid("the connected agent's URL is not a usable http or https URL")
	}
	if err = setHeaders(request, connection, asked.Header); err != nil {
		return nil, err
	}
	if name, value := speak.header[0], speak.header[1]; name != "" {
		request.Header.Set(name, value)
	}
	return &inquiry{Request: request, body: body}, nil
}

// setHeaders sets the agent's own fields, its credential unless one of them is that, and over them the turn's.
func setHeaders(request *http.Request, connection *agentpb.Connection, runtime http.Header) error {
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "parley")
	for name, value := range connection.GetHeaders() {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
			return invalid("a header field of the connected agent cannot be sent")
		}
		request.Header.Set(name, value)
	}
	if key := connection.GetApiKey(); key != "" && request.Header.Get("Authorization") == "" {
		if !httpguts.ValidHeaderFieldValue(key) {
			return &Error{Code: CodeAuthentication, Message: "the connected agent's credential cannot be sent"}
		}
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for name, values := range runtime {
		request.Header[name] = values
	}
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	request.Header.Set("Content-Type", "application/json")
	return nil
}

// exchange sends the inquiry, follows redirects as far as the guard allows, and gives the document in reply.
func (c *connected) exchange(ctx context.Context, asked *inquiry, secrets provider.Redactor) ([]byte, error) {
	response, err := c.send(asked, secrets)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	answer := stranger.From(ctx)
	answer.Reset() // of the version that was tried before
	if response.StatusCode < http.StatusOK || response.StatusCode >= http.StatusMultipleChoices {
		document, _ := io.ReadAll(io.LimitReader(answer.Reader(response.Body, byteCost), maxErrorBody)) // as much as came
		return nil, c.refused(response, document, secrets)
	}
	document, err := io.ReadAll(io.LimitReader(answer.Reader(response.Body, byteCost), maxReply+1))
	switch {
	case err != nil:
		return nil, unreachable(err, asked.URL, secrets)
	case len(document) > maxReply:
		return nil, &Error{Code: CodeProviderError, Message: "the connected agent's reply is too long"}
	}
	gauge := rawjson.Gauge{MaxDepth: maxDepth, MaxValues: maxReplyValues}
	_ = gauge.Take(document) // readReply says what is wrong
	return document, answer.Take(int64(gauge.Values()) * valueCost)
}

func (c *connected) send(asked *inquiry, secrets provider.Redactor) (*http.Response, error) {
	var before []*http.Request
	request := asked.Request
	for {
		response, err := c.client.Do(request)
		if err != nil {
			return nil, unreachable(err, request.URL, secrets)
		}
		next, err := asked.redirected(request, response)
		if err != nil {
			_ = response.Body.Close() // where it leads is what counts
			return nil, unreachable(err, request.URL, secrets)
		}
		if next == nil {
			return response, nil
		}
		_, _ = io.CopyN(io.Discard, response.Body, drainBytes) // so that the connection can serve again
		_ = response.Body.Close()
		before = append(before, request)
		if err = c.follow(next, before); err != nil {
			return nil, unreachable(err, request.URL, secrets)
		}
		request = next
	}
}

// redirected is the request that an answer asks for in place of the last one, nil = the answer is the answer. A POST stays
// one, with its body, unless it is to see another document (document 3, 14.1).
func (i *inquiry) redirected(last *http.Request, response *http.Response) (*http.Request, error) {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil, nil //nolint:nilnil // no redirect, no error
	}
	if response.Header.Get("Location") == "" {
		return nil, nil //nolint:nilnil // as above
	}
	address, err := response.Location()
	if err != nil {
		return nil, fmt.Errorf("%w: it leads nowhere", deliver.ErrRedirect)
	}
	method, body := last.Method, io.Reader(nil)
	if response.StatusCode == http.StatusSeeOther {
		method = http.MethodGet
	}
	if method == http.MethodPost {
		body = bytes.NewReader(i.body)
	}
	next, err := http.NewRequestWithContext(last.Context(), method, address.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%w: it leads nowhere", deliver.ErrRedirect)
	}
	next.Header = last.Header.Clone()
	if body == nil {
		next.Header.Del("Content-Type")
	}
	return next, nil
}

// unreachable is a request that got no answer, or none to its end.
func unreachable(err error, asked *url.URL, secrets provider.Redactor) *Error {
	cause := errors.New(secrets.Clean(deliver.WithoutURL(err).Error(), maxShownText))
	switch {
	case errors.Is(err, deliver.ErrForbiddenAddress):
		return &Error{Code: CodeInvalidRequest, Message: wording(&provider.Failure{Class: provider.ForbiddenAddress}, asked.Hostname()), Err: cause}
	case errors.Is(err, deliver.ErrRedirect):
		return &Error{Code: CodeProviderError, Message: "the connected agent answered with a redirect that is not followed", Err: cause}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &Error{Code: CodeCut, Message: "the connected agent closed the connection without a whole answer", Retryable: true, Err: cause}
	default:
		return &Error{Code: CodeProviderError, Message: "the connected agent could not be reached", Retryable: true, Err: cause}
	}
}

// refused is an answer with another status than 2xx, in the words of document 3.
func (c *connected) refused(response *http.Response, document []byte, secrets provider.Redactor) *Error {
	failed := c.caller.worded(provider.Complaint(response.StatusCode, nil, secrets), &call{})
	failed.Message = fmt.Sprintf("External agent returned %d: %s", response.StatusCode, firstOf(string(document), secrets))
	if isOtherVersion(document) {
		failed.Err = errOtherVersion
	}
	return failed
}

// firstOf is the beginning of a foreign text, without secrets.
func firstOf(text string, secrets provider.Redactor) string {
	text = secrets.Clean(text, maxErrorBody)
	if runes := []rune(text); len(runes) > maxComplaint {
		text = string(runes[:maxComplaint])
	}
	return text
}
