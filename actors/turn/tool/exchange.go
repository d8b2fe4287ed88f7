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
	"parley/actors/turn/runtimecontext"
)

// IdempotencyHeader carries Call.IdempotencyKey to HTTP tools.
const IdempotencyHeader = "Idempotency-Key"

// exchange is one request of an HTTP tool.
type exchange struct {
	method, url string
	header      http.Header
	runtime     http.Header // of the call's runtime context, over header
	hidden      []string    // what of header an error must not repeat
	body        []byte      // JSON, nil = none
}

// secrets are what an error must not repeat: tools like to quote what they were sent.
func (e *exchange) secrets() []string {
	return append(runtimecontext.Secrets(e.runtime), e.hidden...)
}

// do makes the request and gives the answer's text. A status that is not 2xx is an error that holds the beginning of the
// answer: it is often what tells the model how to do better.
func (b *Box) do(ctx context.Context, asked *exchange, call *Call) (string, error) {
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
	// One byte more than any limit: the result is then known to be cut.
	read, err := io.ReadAll(io.LimitReader(response.Body, int64(call.limit)+1))
	if err != nil {
		return "", fmt.Errorf("read answer: %w", err)
	}
	text := answerText(response, read)
	if response.StatusCode < 200 || response.StatusCode > 299 {
		return "", failure("the tool answered with status %d: %s", response.StatusCode, runtimecontext.Redact(text, asked.secrets()))
	}
	return text, nil
}

// sameMethod refuses a redirect that would quietly make another request of a call: a POST that is moved (301, 302) becomes a
// GET without its body, whose answer would look like the tool's. See other (303) means just that.
func sameMethod(follow func(next *http.Request, before []*http.Request) error) func(*http.Request, []*http.Request) error {
	return func(next *http.Request, before []*http.Request) error {
		if next.Method != before[len(before)-1].Method && next.Response.StatusCode != http.StatusSeeOther {
			return fmt.Errorf("%w: it turns a %s into a %s", deliver.ErrRedirect, before[len(before)-1].Method, next.Method)
		}
		return follow(next, before)
	}
}

// setKey sets the idempotency key. net/http takes the header, when it finds it, for leave to send the request again by
// itself after a connection broke; where the tool does not promise to run once for a key, it must not find it. Names of
// headers are the same in any case.
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

// answerText is an answer as a model can read it.
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
