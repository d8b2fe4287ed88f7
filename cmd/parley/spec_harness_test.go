package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/actors/turn/document"
	"parley/httpedge/password"
)

// The tests of TestSpec* hold a whole node against document 2, section A, as a new user with a command-line client
// would. httpedge/SPEC.md says which of them covers which sentence.

// shared is the nodes that many tests use at once, each with users and conversations of its own. TestMain ends them.
var shared = &sharedNodes{running: map[string]*sharedNode{}} // outlives the test that needs it first

type sharedNodes struct {
	mu      sync.Mutex
	dir     string
	running map[string]*sharedNode
}

// sharedNode is started by whoever needs it first; the others wait for it.
type sharedNode struct {
	once sync.Once
	*process
	node *inProcess // nil = it did not start
}

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{document.WorkerArgument, password.WorkerArgument}, os.Args[1]) {
		main() // a node in this process starts its workers by this binary
	}
	becomeBrowser()
	code := m.Run()
	shared.end(code != 0)
	removeBuilt()
	os.Exit(code)
}

// of returns the node with a configuration, in this process.
func (s *sharedNodes) of(t *testing.T, config string) *process {
	t.Helper()
	n := s.entry(t, config)
	n.once.Do(func() { n.node = n.startWithin() })
	require.NotNil(t, n.node, "a test before this one could not start the node")
	return n.process
}

func (s *sharedNodes) entry(t *testing.T, config string) *sharedNode {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.running[config]; n != nil {
		return n
	}
	if s.dir == "" {
		var err error
		s.dir, err = os.MkdirTemp("", "parley-spec-") //nolint:usetesting // outlives the test
		require.NoError(t, err)
	}
	home := filepath.Join(s.dir, fmt.Sprintf("node-%d", len(s.running)))
	require.NoError(t, os.MkdirAll(home, 0o700))
	n := &sharedNode{process: &process{t: t, dir: filepath.Join(home, "data"), config: filepath.Join(home, "parley.yaml")}}
	require.NoError(t, os.WriteFile(n.config, []byte(config), 0o600))
	s.running[config] = n
	return n
}

// end stops all of them at the same time.
func (s *sharedNodes) end(failed bool) {
	for _, n := range s.running {
		if n.node != nil {
			n.node.stop()
		}
	}
	for _, n := range s.running {
		if n.node != nil {
			<-n.node.ended //nolint:errcheck // what it says is in its log
		}
		if failed {
			where, _, _ := strings.Cut(keptLog(filepath.Base(filepath.Dir(n.config)), n.log.String()), "\n") // which of them failed, nobody knows
			fmt.Fprintf(os.Stderr, "log of %s: %s\n", n.config, where)
		}
	}
	_ = os.RemoveAll(s.dir) // of a temporary directory
}

// answer is what came back for a request.
type answer struct {
	t      *testing.T
	what   string
	status int
	header http.Header
	text   string
}

// ask sends a request and takes the whole answer. path is relative to the base path unless it is a whole URL. A body
// that is a string goes out as it is, anything else as JSON. headers are names and values in turn.
func (p *process) ask(t *testing.T, method, path string, body any, headers ...string) answer {
	t.Helper()
	return p.asking(t, method, path, body, headers...)()
}

// asking sends a request in the background; the result waits for its answer.
func (p *process) asking(t *testing.T, method, path string, body any, headers ...string) func() answer {
	t.Helper()
	request := p.newRequest(t, method, path, body, headers)
	what := method + " " + path
	came := make(chan answer, 1)
	failed := make(chan error, 1)
	go func() {
		response, err := client().Do(request)
		if err != nil {
			failed <- err
			return
		}
		text, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			failed <- err
			return
		}
		came <- answer{t: t, what: what, status: response.StatusCode, header: response.Header, text: string(text)}
	}()
	return func() answer {
		t.Helper()
		select {
		case err := <-failed:
			require.NoError(t, err, what)
			return answer{}
		case a := <-came:
			a.sane()
			return a
		}
	}
}

// sane checks what is true of every answer.
func (a answer) sane() {
	a.t.Helper()
	require.NotEqualf(a.t, http.StatusInternalServerError, a.status, "%s: %s", a.what, a.text)
	require.Regexp(a.t, `^[\w.:/+=@-]{1,128}$`, a.header.Get("X-Request-Id"), a.what)
	require.NotEmpty(a.t, a.header.Get("X-Served-By"), a.what)
	require.Equal(a.t, "nosniff", a.header.Get("X-Content-Type-Options"), a.what)
}

func readAll(t *testing.T, response *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(text)
}

// client follows no redirect: there should be none.
func client() *http.Client {
	return &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (p *process) newRequest(t *testing.T, method, path string, body any, headers []string) *http.Request {
	t.Helper()
	url := path
	if !strings.HasPrefix(path, "http") {
		url = p.url(path)
	}
	var reader io.Reader
	switch b := body.(type) {
	case nil:
	case string:
		reader = strings.NewReader(b)
	default:
		encoded, err := json.Marshal(b)
		require.NoError(t, err)
		reader = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(t.Context(), method, url, reader)
	require.NoError(t, err)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	return request
}

// fits checks the status and the whole body, and returns the body.
func (a answer) fits(status int, body shape) tree {
	a.t.Helper()
	require.Equalf(a.t, status, a.status, "%s: %s", a.what, a.text)
	require.Equal(a.t, "application/json", a.header.Get("Content-Type"), a.what)
	require.Equal(a.t, "no-store", a.header.Get("Cache-Control"), a.what)
	value := decode(a.t, a.text)
	require.NoErrorf(a.t, body(value.v), "%s: %s", a.what, a.text)
	return value
}

// refused checks the status and the whole body of a refusal: {error, code, message, details?}, error and message alike.
// It returns the details.
func (a answer) refused(status int, code string) tree {
	a.t.Helper()
	body := a.fits(status, object(fields{"error": nonEmpty, "code": exactly(code), "message": nonEmpty, "details?": anyObject}))
	require.Equal(a.t, body.text("error"), body.text("message"), a.what)
	require.Equal(a.t, status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests, a.header.Get("Retry-After") != "", a.what)
	return body.at("details")
}

// said is the text of a refusal.
func (a answer) said() string { return decode(a.t, a.text).text("error") }

// empty checks the status and that there is no body.
func (a answer) empty(status int) {
	a.t.Helper()
	require.Equalf(a.t, status, a.status, "%s: %s", a.what, a.text)
	require.Empty(a.t, a.text, a.what)
}

// tree is decoded JSON to walk through.
type tree struct {
	t *testing.T
	v any
}

func decode(t *testing.T, text string) tree {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	require.NoErrorf(t, decoder.Decode(&value), "not JSON: %s", text)
	_, err := decoder.Token()
	require.ErrorIsf(t, err, io.EOF, "more than one JSON value: %s", text)
	return tree{t, value}
}

// at goes down by member names; what is not there is nil.
func (n tree) at(names ...string) tree {
	for _, name := range names {
		members, _ := n.v.(map[string]any) // nil has no members
		n.v = members[name]
	}
	return n
}

func (n tree) list() []tree {
	n.t.Helper()
	values, ok := n.v.([]any)
	require.Truef(n.t, ok, "not a list: %v", n.v)
	items := make([]tree, len(values))
	for i, value := range values {
		items[i] = tree{n.t, value}
	}
	return items
}

func (n tree) text(names ...string) string {
	n.t.Helper()
	text, ok := n.at(names...).v.(string)
	require.Truef(n.t, ok, "%v is not text: %v", names, n.at(names...).v)
	return text
}

func (n tree) number(names ...string) float64 {
	n.t.Helper()
	number, ok := n.at(names...).v.(json.Number)
	require.Truef(n.t, ok, "%v is not a number: %v", names, n.at(names...).v)
	value, err := number.Float64()
	require.NoError(n.t, err)
	return value
}

func (n tree) flag(names ...string) bool {
	n.t.Helper()
	value, ok := n.at(names...).v.(bool)
	require.Truef(n.t, ok, "%v is neither true nor false: %v", names, n.at(names...).v)
	return value
}

// texts is one text member of each item of a list.
func texts(items []tree, names ...string) []string {
	all := make([]string, len(items))
	for i, item := range items {
		all[i] = item.text(names...)
	}
	return all
}

// newConversation creates a conversation and returns its id. headers as in ask.
func (p *process) newConversation(t *testing.T, agent, user string, headers ...string) string {
	t.Helper()
	body := map[string]string{"agentId": agent}
	if user != "" {
		body["userId"] = user
	}
	return p.ask(t, "POST", "/conversations", body, headers...).fits(201, anyObject).text("conversation", "id")
}

// say sends a message and waits for its turn. headers as in ask.
func (p *process) say(t *testing.T, id, text string, headers ...string) tree {
	t.Helper()
	return p.ask(t, "POST", "/conversations/"+id+"/messages", map[string]string{"message": text}, headers...).fits(200, anyObject)
}

// running waits until a turn is running in a conversation, and returns its run.
func (p *process) running(t *testing.T, id string) string {
	t.Helper()
	var run string
	require.Eventually(t, func() bool {
		for _, event := range p.ask(t, "GET", "/conversations/"+id+"/events?types=session.status_running", nil).fits(200, anyObject).at("events").list() {
			run = event.text("run_id")
		}
		return run != ""
	}, 30*time.Second, 5*time.Millisecond)
	return run
}

// idle waits until no turn is running in a conversation.
func (p *process) idle(t *testing.T, id string) {
	t.Helper()
	require.Eventually(t, func() bool {
		return p.ask(t, "GET", "/conversations/"+id, nil).fits(200, anyObject).text("conversation", "runtime", "status") == "idle"
	}, 30*time.Second, 5*time.Millisecond)
}
