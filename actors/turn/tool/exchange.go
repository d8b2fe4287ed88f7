package tool

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"parley/actors/deliver"
	"parley/actors/stranger"
	"parley/actors/turn/runtimecontext"
)

// IdempotencyHeader carries Call.IdempotencyKey to HTTP tools.
const IdempotencyHeader = "Idempotency-Key"

// exchange is one request of an HTTP tool.
type exchange struct {
	method, url string
	header      http.Header
	runtime     http.Header // of the call's runtime context; overrides header
	hidden      []string    // the values of header that an error must not contain
	body        []byte      // JSON, nil = none
}

// secrets returns what an error must not contain: tools often quote their requests.
func (e *exchange) secrets() []string {
	return append(runtimecontext.Secrets(e.runtime), e.hidden...)
}

// do makes the request and returns the response's text. A status other than 2xx is an error with the beginning of the
// response, which often tells the model how to correct its call.
func (b *Toolbox) do(ctx context.Context, asked *exchange, call *Call) (string, error) {
	var body io.Reader
	if asked.body != nil {
		body = bytes.NewReader(asked.body)
	}
	request, err := http.NewRequestWithContext(ctx, asked.method, asked.url, body)
	if err != nil {
		return "", failure("the arguments make no valid URL")
	}
	request.Header = asked.header
	maps.Copy(request.Header, asked.runtime)
	if host := request.Header.Get("Host"); host != "" {
		request.Host = host
		request.Header.Del("Host")
	}
	setDefault(request.Header, "User-Agent", "parley")
	setDefault(request.Header, "Accept", "application/json, text/*;q=0.9, */*;q=0.5")
	if asked.body != nil {
		setDefault(request.Header, "Content-Type", "application/json")
	}
	setKey(request.Header, call)
	response, err := b.client.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	// One byte more than the limit, to detect that the result is cut.
	read, err := io.ReadAll(io.LimitReader(stranger.From(ctx).Reader(response.Body, byteCost), int64(call.limit)+1))
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	text := answerText(response, read)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return "", failure("the tool answered with status %d: %s", response.StatusCode, runtimecontext.Redact(text, asked.secrets()))
	}
	return text, nil
}

// sameMethod refuses a redirect that would silently change the request: a POST that is moved (301, 302) becomes a GET
// without its body, whose response would look like the tool's. With 303 that is intended.
func sameMethod(follow func(next *http.Request, before []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, before []*http.Request) error {
		if next.Method != before[len(before)-1].Method && next.Response.StatusCode != http.StatusSeeOther {
			return fmt.Errorf("%w: it turns a %s into a %s", deliver.ErrRedirect, before[len(before)-1].Method, next.Method)
		}
		return follow(next, before)
	}
}

// setKey sets the idempotency key. If net/http finds the header under its canonical name, it may resend the request
// after a connection has broken. Where the tool does not promise to run once per key, the name is written in another
// case.
func setKey(header http.Header, call *Call) {
	if call.IdempotencyKey == "" {
		return
	}
	header.Del(IdempotencyHeader)
	if call.idempotent {
		header.Set(IdempotencyHeader, call.IdempotencyKey)
		return
	}
	header[strings.ToLower(IdempotencyHeader)] = []string{call.IdempotencyKey}
}

func setDefault(header http.Header, name, value string) {
	if header.Get(name) == "" {
		header.Set(name, value)
	}
}

// answerText returns a response as text for a model.
func answerText(response *http.Response, body []byte) string {
	if len(body) == 0 {
		return fmt.Sprintf("(status %d, no content)", response.StatusCode)
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if textual(kind) || kind == "" && utf8.Valid(body) {
		return string(body)
	}
	return fmt.Sprintf("(status %d, content of type %q, which is not text)", response.StatusCode, clean(kind, 100))
}

func textual(kind string) bool {
	switch {
	case strings.HasPrefix(kind, "text/"), strings.HasSuffix(kind, "+json"), strings.HasSuffix(kind, "+xml"):
		return true
	}
	switch kind {
	case "application/json", "application/xml", "application/x-ndjson", "application/jsonl", "application/javascript",
		"application/x-yaml", "application/yaml", "application/graphql", "application/x-www-form-urlencoded", "application/sql":
		return true
	}
	return false
}
