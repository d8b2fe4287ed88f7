package tool

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/actors/machine/rawjson"
	"parley/actors/stranger"
)

// Limits of an MCP server's messages.
const (
	maxMessage  = 16 << 20 // one message
	maxResponse = 64 << 20 // one HTTP response: the messages about one call
	maxLogLine  = 1 << 10
	maxDepth    = 200     // of the JSON of a message
	maxValues   = 250_000 // in a message: a value of two bytes takes a hundred when decoded
)

// What of an answer's memory a byte and a value take at most: buffers, the message, its text; a value that is decoded.
const (
	byteCost  = 4
	valueCost = 256
)

// terminate is how long a process has to exit after its input is closed, and again after SIGTERM.
const terminate = 2 * time.Second

// transport returns a transport to the server, for one session.
func (s *server) transport() (mcp.Transport, *headerTransport, error) {
	if s.spec.GetUrl() != "" {
		return s.overHTTP()
	}
	command := exec.Command(s.spec.GetCommand(), s.spec.GetArgs()...) //nolint:noctx // its session ends it cleanly
	command.Env = append(ownEnv(), sortedEnv(s.spec.GetEnv())...)
	command.Stderr = &lines{logger: s.logger()}
	command.WaitDelay = terminate
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // signals to this process must not reach it
	return &mcp.CommandTransport{Command: command, TerminateDuration: terminate}, nil, nil
}

// ownEnv is the environment that a process inherits: only what programs need to run. The rest of this process's
// environment may contain keys.
func ownEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "TZ"} {
		if value, set := os.LookupEnv(name); set {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// end closes a session.
func end(session *mcp.ClientSession, transport mcp.Transport) {
	_ = session.Close() // nothing depends on it
	sweep(transport)
}

// sweep kills processes that the process of a closed session may have left in its group.
func sweep(transport mcp.Transport) {
	if process, ok := transport.(*mcp.CommandTransport); ok && process.Command.Process != nil {
		_ = syscall.Kill(-process.Command.Process.Pid, syscall.SIGKILL)
	}
}

func (s *server) overHTTP() (mcp.Transport, *headerTransport, error) {
	home, err := url.Parse(s.spec.GetUrl())
	if err != nil {
		return nil, nil, errors.New("its URL cannot be read")
	}
	header, err := headers(s.spec.GetHeaders())
	if err != nil {
		return nil, nil, err
	}
	client := s.pool.config.Guard.Client(0)
	over := &headerTransport{next: client.Transport, home: home.Host, scheme: home.Scheme, header: header}
	client.Transport = over
	return &mcp.StreamableClientTransport{
		Endpoint: s.spec.GetUrl(), HTTPClient: client, MaxEventSize: maxMessage,
		// See listen.
		DisableStandaloneSSE: true,
	}, over, nil
}

// headerTransport adds the configured headers to requests to the configured host, then those of a call's runtime
// context, and bounds the responses. A session is shared by many users: a user's headers belong to the call, never to
// the session.
type headerTransport struct {
	next         http.RoundTripper
	home, scheme string
	header       http.Header
	version      atomic.Pointer[string] // of the protocol, once it is agreed upon
}

const (
	eventStream   = "text/event-stream"
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
)

// speaks says which version of the protocol was agreed upon, "" = none yet. A nil transport has no use for it.
func (c *headerTransport) speaks(version string) {
	if c != nil {
		c.version.Store(&version)
	}
}

// RoundTrip implements http.RoundTripper.
func (c *headerTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Host == c.home && request.URL.Scheme == c.scheme {
		request = request.Clone(request.Context())
		for name, values := range c.header {
			request.Header[name] = values
		}
		own, _ := request.Context().Value(headerKey{}).(http.Header)
		for name, values := range own {
			if !ofProtocol(name) {
				request.Header[name] = values
			}
		}
	}
	if version := c.version.Load(); version != nil && *version != "" && request.Header.Get(headerVersion) == "" {
		request = request.Clone(request.Context())
		request.Header.Set(headerVersion, *version)
	}
	progress, _ := request.Context().Value(progressKey{}).(*callProgress)
	if request.Method != http.MethodPost {
		progress = nil // it only asks for the outcome of the call
	}
	progress.markSent()
	response, err := c.next.RoundTrip(request)
	if err == nil {
		if request.Header.Get(headerSession) != "" {
			response.Header.Del(headerSession) // one that differs is of no use
			forgotten(response)
		}
		progress.answered(response.StatusCode)
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // an invalid type is no event stream
		listing, _ := request.Context().Value(listingKey{}).(*listing)
		body := &capped{
			ReadCloser: response.Body, left: maxResponse, listing: listing, answer: stranger.From(request.Context()),
			gauge: rawjson.Gauge{MaxDepth: maxDepth, MaxValues: maxValues, Events: kind == eventStream},
		}
		if response.Body = body; !body.gauge.Events {
			err = wholly(response)
		}
	}
	if err != nil {
		return nil, err
	}
	return response, nil
}

// maxRefusal bounds what is read of a refusal.
const maxRefusal = 64 << 10

// forgotten makes every answer that says that the server does not know the session the one of the protocol: 404, whose body does
// not matter. Many servers say 400 with words about the session. Neither has looked at the request.
func forgotten(response *http.Response) {
	switch response.StatusCode {
	case http.StatusNotFound:
	case http.StatusBadRequest:
		head, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
		if words := strings.ToLower(string(head)); err != nil || !strings.Contains(words, "session") && !strings.Contains(words, "not initialized") {
			response.Body = struct {
				io.Reader
				io.Closer
			}{io.MultiReader(bytes.NewReader(head), response.Body), response.Body}
			return
		}
	default:
		return
	}
	_ = response.Body.Close() // it is of no use
	response.StatusCode, response.Body = http.StatusNotFound, http.NoBody
	response.Header.Del("Content-Type")
}

// wholly reads a response to its end. One that cannot be read fails its call that way; where the client library read it, all
// calls of the session would fail.
func wholly(response *http.Response) error {
	raw, err := io.ReadAll(response.Body)
	_ = response.Body.Close() // it was read, or is of no use
	response.Body = io.NopCloser(bytes.NewReader(raw))
	return err
}

type headerKey struct{}

// withHeader returns a context whose requests carry additional header fields.
func withHeader(ctx context.Context, header http.Header) context.Context {
	if len(header) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headerKey{}, header)
}

// ofProtocol reports whether a field belongs to the protocol: with another's session id a caller could impersonate it.
func ofProtocol(name string) bool {
	return strings.HasPrefix(name, "Mcp-") || name == "Accept" || name == "Last-Event-Id"
}

// callProgress is how far the request of a call has come. A nil one may be used and records nothing.
type callProgress struct{ sent, refused atomic.Bool }

type progressKey struct{}

// withProgress returns a context whose request records its progress.
func withProgress(ctx context.Context) (context.Context, *callProgress) {
	made := new(callProgress)
	return context.WithValue(ctx, progressKey{}, made), made
}

func (w *callProgress) markSent() {
	if w != nil {
		w.sent.Store(true)
		w.refused.Store(false)
	}
}

// answered records a response. 404 means that the server does not know the session and has not processed the call.
func (w *callProgress) answered(status int) {
	if w != nil && status == http.StatusNotFound {
		w.refused.Store(true)
	}
}

// unseen reports whether the server has certainly not processed the call.
func (w *callProgress) unseen() bool { return !w.sent.Load() || w.refused.Load() }

var errTooLong = errors.New("the answer is too long")

// capped fails a body that is too long, or too complex to decode.
type capped struct {
	io.ReadCloser
	left    int
	gauge   rawjson.Gauge
	listing *listing // nil = it is of no list
	answer  *stranger.Answer
}

// Read implements io.Reader.
func (c *capped) Read(buffer []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	count, err := c.ReadCloser.Read(buffer[:min(len(buffer), c.left)])
	c.left -= count
	before := c.gauge.Values()
	wrong := c.gauge.Take(buffer[:count])
	if wrong == nil {
		wrong = c.listing.take(count, c.gauge.Values()-before)
	}
	if wrong == nil {
		wrong = c.answer.Take(int64(count)*byteCost + int64(c.gauge.Values()-before)*valueCost)
	}
	if wrong != nil {
		c.left = 0
		return 0, wrong
	}
	return count, err
}

// lines logs a process's standard error, in lines of bounded length.
type lines struct {
	logger *slog.Logger
	line   []byte
}

// Write implements io.Writer. It is called by one goroutine.
func (l *lines) Write(text []byte) (int, error) {
	total := len(text)
	for {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		l.line = append(l.line, line[:min(len(line), maxLogLine-len(l.line))]...)
		if !whole {
			return total, nil
		}
		l.logger.Debug("an MCP server says", slog.String("line", string(bytes.ToValidUTF8(l.line, nil))))
		l.line, text = l.line[:0], rest
	}
}
