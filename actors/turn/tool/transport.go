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
)

// Limits of what an MCP server may say.
const (
	maxMessage  = 16 << 20 // one message
	maxResponse = 64 << 20 // one HTTP response: the messages about one call
	maxLogLine  = 1 << 10
	maxDepth    = 200     // of the JSON of a message
	maxValues   = 250_000 // in it: decoded, one of two bytes takes a hundred
)

// terminate is how long a process has to end after its input was closed, and again after it was asked to.
const terminate = 2 * time.Second

// transport makes the way to a server, for one session.
func (s *server) transport() (mcp.Transport, error) {
	if s.spec.GetUrl() != "" {
		return s.overHTTP()
	}
	command := exec.Command(s.spec.GetCommand(), s.spec.GetArgs()...) //nolint:noctx // its session ends it, in good order
	command.Env = append(ownEnv(), sortedEnv(s.spec.GetEnv())...)
	command.Stderr = &lines{logger: s.logger()}
	command.WaitDelay = terminate
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a signal to this process is not meant for it
	return &mcp.CommandTransport{Command: command, TerminateDuration: terminate}, nil
}

// ownEnv is what a process inherits: the little that programs need to run at all. The rest of this process's environment
// may hold keys.
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
	_ = session.Close() // there is nobody to tell
	sweep(transport)
}

// sweep ends what the process of a closed session may have left behind in its group; most often that is nothing.
func sweep(transport mcp.Transport) {
	if process, ok := transport.(*mcp.CommandTransport); ok && process.Command.Process != nil {
		_ = syscall.Kill(-process.Command.Process.Pid, syscall.SIGKILL)
	}
}

func (s *server) overHTTP() (mcp.Transport, error) {
	home, err := url.Parse(s.spec.GetUrl())
	if err != nil {
		return nil, errors.New("its URL cannot be read")
	}
	header, err := headers(s.spec.GetHeaders())
	if err != nil {
		return nil, err
	}
	client := s.pool.config.Guard.Client(0)
	client.Transport = &courier{next: client.Transport, home: home.Host, scheme: home.Scheme, header: header}
	return &mcp.StreamableClientTransport{
		Endpoint: s.spec.GetUrl(), HTTPClient: client, MaxEventSize: maxMessage,
		// What it would tell, a change of the list, is learnt by asking again; a connection for it is not worth while.
		DisableStandaloneSSE: true,
	}, nil
}

// courier adds the configured headers to requests to the configured host, over them those of a call's runtime context, and
// bounds the answers. A session is shared by many users: what is one's own goes with the call and never with the session.
type courier struct {
	next         http.RoundTripper
	home, scheme string
	header       http.Header
}

// RoundTrip implements http.RoundTripper.
func (c *courier) RoundTrip(request *http.Request) (*http.Response, error) {
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
	way, _ := request.Context().Value(wayKey{}).(*way)
	if request.Method != http.MethodPost {
		way = nil // it only asks what became of the call
	}
	way.goes()
	response, err := c.next.RoundTrip(request)
	if err == nil {
		way.answered(response.StatusCode)
		kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")) // an unreadable one is no event stream
		response.Body = &capped{ReadCloser: response.Body, left: maxResponse, gauge: rawjson.Gauge{
			MaxDepth: maxDepth, MaxValues: maxValues, Events: kind == "text/event-stream",
		}}
	}
	return response, err
}

type headerKey struct{}

// withHeader makes a context whose requests are sent header fields of their own.
func withHeader(ctx context.Context, header http.Header) context.Context {
	if len(header) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headerKey{}, header)
}

// ofProtocol says whether a field is the protocol's own: with another's session id a caller could speak in its place.
func ofProtocol(name string) bool {
	return strings.HasPrefix(name, "Mcp-") || name == "Accept" || name == "Last-Event-Id"
}

// way is how far the request of a call has come. A nil one is nobody's.
type way struct{ sent, refused atomic.Bool }

type wayKey struct{}

// withWay makes a context whose request tells how far it came.
func withWay(ctx context.Context) (context.Context, *way) {
	made := new(way)
	return context.WithValue(ctx, wayKey{}, made), made
}

func (w *way) goes() {
	if w != nil {
		w.sent.Store(true)
		w.refused.Store(false)
	}
}

// answered notes an answer: 404 is that of a server that does not know the session and has not looked at the call.
func (w *way) answered(status int) {
	if w != nil && status == http.StatusNotFound {
		w.refused.Store(true)
	}
}

// unseen says that the server has not looked at the call.
func (w *way) unseen() bool { return !w.sent.Load() || w.refused.Load() }

var errTooLong = errors.New("the answer is too long")

// capped fails a body that is longer than it may be, or more than a decoder should be given.
type capped struct {
	io.ReadCloser
	left  int
	gauge rawjson.Gauge
}

// Read implements io.Reader.
func (c *capped) Read(buffer []byte) (int, error) {
	if c.left <= 0 {
		return 0, errTooLong
	}
	count, err := c.ReadCloser.Read(buffer[:min(len(buffer), c.left)])
	c.left -= count
	if wrong := c.gauge.Take(buffer[:count]); wrong != nil {
		c.left = 0
		return 0, wrong
	}
	return count, err
}

// lines logs what a process says on its standard error, cut to lines of bounded length.
type lines struct {
	logger *slog.Logger
	line   []byte
}

// Write implements io.Writer. It is called by one goroutine.
func (l *lines) Write(said []byte) (int, error) {
	total := len(said)
	for {
		line, rest, whole := bytes.Cut(said, []byte("\n"))
		l.line = append(l.line, line[:min(len(line), maxLogLine-len(l.line))]...)
		if !whole {
			return total, nil
		}
		l.logger.Debug("an MCP server says", slog.String("line", string(bytes.ToValidUTF8(l.line, nil))))
		l.line, said = l.line[:0], rest
	}
}
