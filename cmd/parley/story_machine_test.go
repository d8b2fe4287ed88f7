package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// TestStories plays what happens to clusters, told in testdata/stories: one script each, real processes. What the words
// of a script do stands beside them, in storyWords. Run one: go test ./cmd/parley -run TestStories/kill_an_owner -v
func TestStories(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	binary, err := builtBinary()
	require.NoError(t, err)
	scripts, err := filepath.Glob("testdata/stories/*.txtar")
	require.NoError(t, err)
	require.NotEmpty(t, scripts)
	// Parallel tests go on from the last to the first: the longest are first, so that none is left alone at the end.
	longest := []string{"frozen_owner", "two_of_three_gone", "cut_off_owner"}
	slices.SortStableFunc(scripts, func(a, b string) int {
		return slices.Index(longest, storyName(a)) - slices.Index(longest, storyName(b))
	})
	for _, script := range scripts {
		t.Run(storyName(script), func(t *testing.T) {
			text, err := os.ReadFile(script)
			require.NoError(t, err)
			t.Parallel() // each runs three nodes, and mostly waits
			if strings.Contains(string(text), "\ncluster 3 partitions") {
				if err := nodes.Permitted(t.Context()); err != nil {
					t.Skip(err)
				}
			}
			testscript.Run(t, testscript.Params{Files: []string{script}, Cmds: storyCommands(), Setup: func(env *testscript.Env) error {
				env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+env.Getenv("PATH"))
				told := &story{
					dir: t.TempDir(), began: time.Now(), conversations: map[string]string{},
					watchers: map[string]*watcher{}, streams: map[string]chan error{},
				}
				env.Values[storyKey{}] = told
				env.Defer(func() {
					if told.cluster == nil {
						return
					}
					if t.Failed() {
						t.Log(told.Logs(40))
					}
					for _, w := range told.watchers {
						w.stop()
					}
					if err := told.Stop(); err != nil {
						t.Errorf("stop: %v", err)
					}
				})
				return nil
			}})
		})
	}
}

func storyName(script string) string { return strings.TrimSuffix(filepath.Base(script), ".txtar") }

type storyKey struct{}

// story is what a script has at hand.
type story struct {
	*cluster
	dir           string
	began         time.Time
	conversations map[string]string // name -> id
	watchers      map[string]*watcher
	streams       map[string]chan error
}

// word is a command of the scripts. stdout is what the script can look at afterwards.
type word struct {
	usage string
	least int // arguments
	do    func(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (stdout string, err error)
}

// storyLimit bounds one command.
const storyLimit = 2 * time.Minute

func storyCommands() map[string]func(*testscript.TestScript, bool, []string) {
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, w := range storyWords() {
		commands[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if len(args) < w.least {
				ts.Fatalf("usage: %s %s", name, w.usage)
			}
			s, ok := ts.Value(storyKey{}).(*story)
			if !ok {
				ts.Fatalf("no story")
			}
			ctx, cancel := context.WithTimeout(context.Background(), storyLimit)
			defer cancel()
			began := time.Now()
			stdout, err := w.do(ctx, s, ts, args)
			ts.Logf("[%s] %s", time.Since(began).Round(time.Millisecond), stdout)
			switch {
			case err != nil && !neg:
				ts.Fatalf("%s: %v", name, err)
			case err == nil && neg:
				ts.Fatalf("%s: should have failed", name)
			}
			_, _ = ts.Stdout().Write([]byte(stdout + "\n")) // a buffer
		}
	}
	return commands
}

// each makes a word of what is done to every named node, or to all.
func each(do func(ctx context.Context, s *story, n *nodes.Node) error) word {
	return word{"NODE...|all", 1, func(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
		if args[0] == "all" {
			args = nil
			for _, n := range s.Nodes() {
				args = append(args, n.Name)
			}
		}
		for _, name := range args {
			n, err := s.node(name)
			if err != nil {
				return "", err
			}
			if err := do(ctx, s, n); err != nil {
				return "", err
			}
		}
		return "", nil
	}}
}

func (s *story) node(name string) (*nodes.Node, error) {
	if s.cluster == nil || s.Node(name) == nil {
		return nil, fmt.Errorf("no node %q", name)
	}
	return s.Node(name), nil
}

func (s *story) at(name, conversation string) (*nodes.Node, string, error) {
	n, err := s.node(name)
	id, ok := s.conversations[conversation]
	if !ok {
		err = errors.Join(err, fmt.Errorf("no conversation %q", conversation))
	}
	return n, id, err
}

// storyWords is the language of the scripts.
func storyWords() map[string]word {
	return map[string]word{
		// What there is, and what happens to it.
		"cluster":   {"COUNT [partitions] [FLAG...]", 1, wordCluster},
		"add":       {"", 0, wordAdd},
		"start":     {"NODE...|all", 1, wordStart},
		"launch":    each(launch),
		"revive":    {": starts all that do not run", 0, wordRevive},
		"ready":     each(ready),
		"crash":     each(func(_ context.Context, _ *story, n *nodes.Node) error { return n.Kill() }),
		"terminate": each(func(ctx context.Context, _ *story, n *nodes.Node) error { return n.Terminate(ctx) }),
		"pause":     each(func(_ context.Context, _ *story, n *nodes.Node) error { return n.Pause() }),
		"resume":    each(func(_ context.Context, _ *story, n *nodes.Node) error { return n.Resume() }),
		"wipe":      each(func(_ context.Context, _ *story, n *nodes.Node) error { return n.Wipe() }),
		"isolate":   each(func(ctx context.Context, s *story, n *nodes.Node) error { return s.Isolate(ctx, n) }),
		"unready":   each(unready),
		"refused":   {"NODE TEXT: its log says TEXT soon", 2, wordRefused},
		"mute":      {"NODE: what it sends to others vanishes", 1, wordMute},
		"deafen":    {"NODE: what others send to it vanishes", 1, wordDeafen},
		"heal":      {"", 0, wordHeal},
		"settled":   {"VOTERS: wait until every shard has so many, on running nodes, and owners are spread", 1, wordSettled},
		// What clients do.
		"create":      {"CONVERSATION AGENT NODE", 3, wordCreate},
		"owner":       {"CONVERSATION: sets $owner, and $other and $third to the others that run", 1, wordOwner},
		"elsewhere":   {"CONVERSATION NODE: wait until others than NODE have another owner; then as owner", 2, wordElsewhere},
		"served":      {"NODE CONVERSATION OWNER: a read at NODE is answered by OWNER", 3, wordServed},
		"knows":       {"NODE CONVERSATION TEXT: a read at NODE holds a message TEXT", 3, wordKnows},
		"say":         {"NODE CONVERSATION TEXT: a whole turn; fails unless it ends well", 3, wordSay},
		"begin":       {"NODE CONVERSATION TEXT: begins a turn", 3, wordBegin},
		"stream":      {"NAME NODE CONVERSATION TEXT: begins a turn and listens to its stream", 4, wordStream},
		"streamed":    {"NAME: the stream ended well, and said all of the answer", 1, wordStreamed},
		"cancel":      {"NODE CONVERSATION: prints status and body", 2, wordCancel},
		"watch":       {"NAME CONVERSATION NODE...: follows the event log, at the next node when one is gone", 3, wordWatch},
		"await":       {"NAME EVENT [NTH]", 2, wordAwait},
		"text":        {"NAME BYTES: so much of the running answer was seen", 2, wordText},
		"unwatch":     {"NAME: all it saw was right, and is the log", 1, wordUnwatch},
		"idle":        {"CONVERSATION", 1, wordIdle},
		"log":         {"CONVERSATION: prints its events' types, after checking that all running nodes tell the same", 1, wordLog},
		"unavailable": {"NODE CONVERSATION: reads and writes are 503 with Retry-After, and soon", 2, wordUnavailable},
		"stale":       {"NODE CONVERSATION: an old read is answered by the node itself, and says so", 2, wordStale},
	}
}

func wordCluster(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (string, error) {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	partitions := len(args) > 1 && args[1] == "partitions"
	flags := args[1:]
	if partitions {
		flags = flags[1:]
	}
	binary, err := builtBinary()
	if err != nil {
		return "", err
	}
	s.cluster, err = launchable(ctx, nodes.Config{Binary: binary, Dir: s.dir, Count: count, Network: partitions, Flags: flags})
	if err != nil {
		return "", err
	}
	ts.Setenv("DATA", s.dir)
	s.name(ts)
	return "", nil
}

// name lets the script speak of the nodes' addresses: $n1_url, $n1_ops, $n1_data.
func (s *story) name(ts *testscript.TestScript) {
	for _, n := range s.Nodes() {
		ts.Setenv(n.Name+"_url", n.URL())
		ts.Setenv(n.Name+"_ops", n.OpsURL())
		ts.Setenv(n.Name+"_data", n.Dir)
		ts.Setenv(n.Name+"_cluster", n.Cluster)
	}
}

func wordAdd(ctx context.Context, s *story, ts *testscript.TestScript, _ []string) (string, error) {
	n, err := s.Add(ctx)
	if err != nil {
		return "", err
	}
	s.name(ts)
	return n.Name, nil
}

// wordStart starts nodes together: the first of a cluster may not get ready alone.
func wordStart(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (string, error) {
	if _, err := each(launch).do(ctx, s, ts, args); err != nil {
		return "", err
	}
	return each(ready).do(ctx, s, ts, args)
}

func launch(_ context.Context, _ *story, n *nodes.Node) error {
	return n.Launch() //nolint:contextcheck // its process outlives the command
}

func ready(ctx context.Context, _ *story, n *nodes.Node) error { return n.AwaitReady(ctx) }

func wordRevive(ctx context.Context, s *story, _ *testscript.TestScript, _ []string) (string, error) {
	return "", s.Start(ctx)
}

func wordRefused(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, err := s.node(args[0])
	if err != nil {
		return "", err
	}
	return "", until(ctx, time.Minute, func(context.Context) error {
		text, err := os.ReadFile(n.Log)
		if err != nil {
			return err
		}
		last := text[max(0, bytes.LastIndex(text, []byte("--- "))):] // of its present start
		if !bytes.Contains(last, []byte(args[1])) {
			return fmt.Errorf("its log says nothing of %q", args[1])
		}
		return nil
	})
}

// wordElsewhere asks those on the other side of a cut.
func wordElsewhere(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (string, error) {
	id := s.conversations[args[0]]
	was, err := s.node(args[1])
	if err != nil {
		return "", err
	}
	found := ""
	err = until(ctx, time.Minute, func(ctx context.Context) error {
		for _, n := range s.others(was) {
			r, wrong := glance(ctx, n, id)
			if wrong != nil || r.status != http.StatusOK || r.by == was.Name {
				return r.wrong(n.Name, wrong)
			}
			found = r.by
		}
		return nil
	})
	ts.Setenv("owner", found)
	return found, err
}

func unready(ctx context.Context, _ *story, n *nodes.Node) error {
	return until(ctx, time.Minute, func(ctx context.Context) error {
		if n.Ready(ctx) {
			return fmt.Errorf("%s is ready", n.Name)
		}
		return nil
	})
}

func wordMute(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	return "", s.oneWay(ctx, args[0], func(n, other *nodes.Node) error { return s.Cut(ctx, n, other) })
}

func wordDeafen(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	return "", s.oneWay(ctx, args[0], func(n, other *nodes.Node) error { return s.Cut(ctx, other, n) })
}

func (s *story) oneWay(_ context.Context, name string, cut func(n, other *nodes.Node) error) error {
	n, err := s.node(name)
	if err != nil {
		return err
	}
	for _, other := range s.Nodes() {
		if other != n {
			err = errors.Join(err, cut(n, other))
		}
	}
	return err
}

func wordHeal(ctx context.Context, s *story, _ *testscript.TestScript, _ []string) (string, error) {
	return "", s.Heal(ctx)
}

func wordSettled(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	voters, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	return "", s.awaitSettled(ctx, voters)
}

func wordCreate(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, err := s.node(args[2])
	if err != nil {
		return "", err
	}
	id, err := create(ctx, n, args[1])
	s.conversations[args[0]] = id
	return id, err
}

func wordOwner(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (string, error) {
	n, err := s.owner(ctx, s.conversations[args[0]])
	if err != nil {
		return "", err
	}
	ts.Setenv("owner", n.Name)
	others := s.others(n)
	for i, name := range []string{"other", "third"} {
		if i < len(others) {
			ts.Setenv(name, others[i].Name)
		}
	}
	return n.Name, nil
}

func wordServed(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	for _, path := range []string{"?limit=1", "/messages", "/events"} {
		r, err := ask(ctx, n, "GET", "/conversations/"+id+path, nil)
		if err != nil || r.status != http.StatusOK || r.by != args[2] {
			return "", r.wrong(path, err)
		}
	}
	return "", nil
}

// wordKnows fails at once: a read that is answered must hold all that was acknowledged before it, whoever owns the conversation now.
func wordKnows(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	r, err := ask(ctx, n, "GET", "/conversations/"+id+"/messages", nil)
	if err != nil || r.status != http.StatusOK || !strings.Contains(r.text, strconv.Quote(args[2])) {
		return "", r.wrong("messages with "+args[2], err)
	}
	return "served by " + r.by, nil
}

func wordSay(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	r, err := ask(ctx, n, "POST", "/conversations/"+id+"/messages", map[string]any{"message": args[2]})
	if err != nil {
		return "", err
	}
	var result turnResult
	if r.status != http.StatusOK {
		return "", r.wrong("say", nil)
	}
	if err := r.decode(&result); err != nil {
		return "", err
	}
	if result.StopReason != "end_turn" || result.Message.Content != args[2] || result.Response == nil {
		return "", fmt.Errorf("turn: %s", r.text)
	}
	return "served by " + r.by, nil
}

func wordBegin(ctx context.Context, s *story, ts *testscript.TestScript, args []string) (string, error) {
	return wordStream(ctx, s, ts, append([]string{"begun " + args[2]}, args...))
}

// messageStream is the frames of an answer, as far as they came.
type messageStream struct {
	accepted chan struct{} // closed at stream.start
	ended    chan error
}

// wordStream returns when the message is accepted; the rest of the stream is read in the background.
func wordStream(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[1], args[2])
	if err != nil {
		return "", err
	}
	m, err := openMessageStream(ctx, n, id, args[3])
	if err != nil {
		return "", err
	}
	select {
	case <-m.accepted:
	case err := <-m.ended:
		return "", cmp.Or(err, errors.New("ended at once"))
	case <-ctx.Done():
		return "", ctx.Err()
	}
	s.streams[args[0]] = m.ended
	return "", nil
}

func openMessageStream(ctx context.Context, n *nodes.Node, id, text string) (*messageStream, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storyLimit)
	body := strings.NewReader(fmt.Sprintf(`{"message":%q,"stream":true}`, text))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL()+"/api/agents/conversations/"+id+"/messages", body)
	if err != nil {
		cancel()
		return nil, err
	}
	m := &messageStream{accepted: make(chan struct{}), ended: make(chan error, 1)}
	go func() { // ends with the stream, or its time
		defer cancel()
		m.ended <- m.read(request)
	}()
	return m, nil
}

// read checks that the pieces are numbered without a hole and add up to the answer.
func (m *messageStream) read(request *http.Request) error {
	response, err := plainClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or given up
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("stream answers %s", response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	said, seq := "", 0
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var f struct {
			Type, Text, Content, StopReason string
			Seq                             int
		}
		if err := json.Unmarshal([]byte(data), &f); err != nil {
			return err
		}
		if seq++; f.Seq != seq {
			return fmt.Errorf("frame %d is numbered %d", seq, f.Seq)
		}
		switch f.Type {
		case "stream.start":
			close(m.accepted)
		case "stream.text":
			said += f.Text
		case "stream.done":
			if said != f.Content || f.StopReason != "end_turn" {
				return fmt.Errorf("said %q, answer is %q, %s", said, f.Content, f.StopReason)
			}
			return nil
		default:
			return fmt.Errorf("%s", data)
		}
	}
	return fmt.Errorf("stream ended after %q: %w", said, errors.Join(lines.Err()))
}

func wordStreamed(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	select {
	case err := <-s.streams[args[0]]:
		return "", err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func wordCancel(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	r, err := ask(ctx, n, "POST", "/conversations/"+id+"/cancel", nil)
	return fmt.Sprint(r.status, " ", r.text), err
}

func wordWatch(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	var from []*nodes.Node
	id := ""
	for _, name := range args[2:] {
		n, found, err := s.at(name, args[1])
		if err != nil {
			return "", err
		}
		from, id = append(from, n), found
	}
	s.watchers[args[0]] = watch(ctx, id, 0, s.began, from...)
	return "", nil
}

func (s *story) watcher(name string) (*watcher, error) {
	w, ok := s.watchers[name]
	if !ok {
		return nil, fmt.Errorf("no watcher %q", name)
	}
	return w, nil
}

func wordAwait(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	w, err := s.watcher(args[0])
	if err != nil {
		return "", err
	}
	nth := 1
	if len(args) > 2 {
		if nth, err = strconv.Atoi(args[2]); err != nil {
			return "", err
		}
	}
	return "", w.awaitEvent(ctx, args[1], nth)
}

func wordText(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	w, err := s.watcher(args[0])
	if err != nil {
		return "", err
	}
	bytes, err := strconv.Atoi(args[1])
	if err != nil {
		return "", err
	}
	return "", w.awaitText(ctx, bytes)
}

// wordUnwatch lets a watcher see the log's end, as it is now, and compares.
func wordUnwatch(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	w, err := s.watcher(args[0])
	if err != nil {
		return "", err
	}
	events, err := s.sameLog(ctx, w.id)
	if err != nil {
		return "", err
	}
	err = w.await(ctx, time.Minute, fmt.Sprintf("end of the log, %d events", len(events)), func(w *watcher) bool { return len(w.seen) >= len(events) })
	if err = errors.Join(err, w.end()); err != nil {
		return "", err
	}
	if got := w.events()[:len(events)]; fmt.Sprint(got) != fmt.Sprint(events) {
		return "", fmt.Errorf("saw %v\nlog is %v", got, events)
	}
	return fmt.Sprintf("%d events and %d pieces of text on %d streams", len(events), w.pieces, w.opened), nil
}

func wordIdle(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	return "", s.idle(ctx, s.conversations[args[0]])
}

func wordLog(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	events, err := s.sameLog(ctx, s.conversations[args[0]])
	if err != nil {
		return "", err
	}
	if _, err := newLedger(events); err != nil {
		return "", err
	}
	var types []string
	for _, event := range events {
		types = append(types, event.Type)
	}
	return strings.Join(types, " "), nil
}

func wordUnavailable(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	const soon = 20 * time.Second // of the 5 s that a node looks for an owner, and what a loaded machine adds
	var times []string
	for _, request := range [][2]string{
		{"GET", ""}, {"GET", "/messages"}, {"GET", "/events"}, {"GET", "/events/stream"}, {"PATCH", ""}, {"POST", "/messages"}, {"POST", "/cancel"}, {"DELETE", ""},
	} {
		var body any
		switch request[0] + request[1] {
		case "PATCH":
			body = map[string]string{"title": "not to be"}
		case "POST/messages":
			body = map[string]string{"message": "not to be heard " + strconv.Itoa(len(request[1]))}
		}
		began := time.Now()
		r, err := ask(ctx, n, request[0], "/conversations/"+id+request[1], body)
		if err != nil {
			return "", err
		}
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" || !strings.Contains(r.text, "unavailable") {
			return "", r.wrong(fmt.Sprint(request), nil)
		}
		took := time.Since(began).Round(time.Millisecond)
		times = append(times, fmt.Sprintf("%s%s %s", request[0], request[1], took))
		if took > soon {
			return "", fmt.Errorf("took too long: %v", times)
		}
	}
	return strings.Join(times, ", "), nil
}

func wordStale(ctx context.Context, s *story, _ *testscript.TestScript, args []string) (string, error) {
	n, id, err := s.at(args[0], args[1])
	if err != nil {
		return "", err
	}
	var said []string
	for _, path := range []string{"?limit=1", "/messages", "/events"} {
		r, err := ask(ctx, n, "GET", "/conversations/"+id+path, nil, "X-Read-Consistency", "stale")
		if err != nil || r.status != http.StatusOK || r.header.Get("X-Read-Stale") != "true" || r.by != n.Name {
			return "", r.wrong(path, err)
		}
		said = append(said, r.text)
	}
	return strings.Join(said, "\n"), nil
}

// TestStoryWordsAreUsed: a word that no script says is not tested.
func TestStoryWordsAreUsed(t *testing.T) {
	scripts, err := filepath.Glob("testdata/stories/*.txtar")
	require.NoError(t, err)
	var said []string
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(strings.TrimPrefix(line, "! ")); len(fields) > 0 {
				said = append(said, fields[0])
			}
		}
	}
	for name := range storyWords() {
		require.Truef(t, slices.Contains(said, name), "no story says %q", name)
	}
}
