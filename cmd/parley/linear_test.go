package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"parley/bench/nodes"
)

// roundLength is how long conversations are disturbed before what was told of them is checked, and new ones are made:
// the checker's work grows faster than a history.
const roundLength = 15 * time.Second

// TestLinearizability has clients send, cancel, read and list a few conversations through all nodes while owners are
// killed, frozen and cut off, and followers watch on every node. Then what all of them were told must be linearizable.
//
// PARLEY_CHAOS_SEED repeats a run's faults, PARLEY_CHAOS_DURATION makes it longer (default one round), PARLEY_HISTORIES
// names a directory for the drawings of histories that failed.
func TestLinearizability(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("-short: runs several real processes")
	}
	seed := chaosSeed(t)
	length := roundLength
	if text := os.Getenv("PARLEY_CHAOS_DURATION"); text != "" {
		var err error
		length, err = time.ParseDuration(text)
		require.NoError(t, err)
	}
	partitions := nodes.Permitted(t.Context())
	if partitions != nil {
		t.Logf("no partitions: %v", partitions)
	}
	c := newCluster(t, 3, partitions == nil)
	require.NoError(t, c.Start(t.Context()))
	for end := time.Now().Add(length); ; seed++ {
		require.NoError(t, c.awaitSettled(t.Context(), 3))
		linearRound(t, c, min(roundLength, length), seed, partitions == nil)
		if !time.Now().Before(end) {
			return
		}
	}
}

func linearRound(t *testing.T, c *cluster, length time.Duration, seed uint64, partitions bool) {
	t.Helper()
	h := &histories{cluster: c, began: time.Now()}
	const conversations = 3
	for range conversations {
		id, err := create(t.Context(), c.Nodes()[0], "brisk")
		require.NoError(t, err)
		h.talks = append(h.talks, newExchanges(t.Context(), h, id))
	}
	work, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var clients sync.WaitGroup
	for i, talk := range h.talks {
		for client := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(i*100+client+1)))
			clients.Go(func() { talk.chat(work, client, random) })
		}
	}
	faults, err := h.harass(work, rand.New(rand.NewPCG(seed, 0)), partitions)
	clients.Wait()
	t.Logf("round %d, faults: %s", seed, strings.Join(faults, "; "))
	require.NoError(t, err)
	for _, talk := range h.talks {
		told, err := talk.verify(t.Context())
		require.NoErrorf(t, err, "%s in round %d, with faults %s", talk.id, seed, strings.Join(faults, "; "))
		t.Logf("%s: %s", talk.id, told)
	}
}

func chaosSeed(t *testing.T) uint64 {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PARLEY_CHAOS_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err)
	}
	t.Logf("PARLEY_CHAOS_SEED=%d", seed)
	return seed
}

// histories is some conversations under faults.
type histories struct {
	*cluster
	began time.Time
	talks []*exchanges
}

// exchanges is one conversation with its clients and followers.
type exchanges struct {
	*histories
	id       string
	watchers []*watcher

	mu    sync.Mutex
	deeds []deed
	fault error // an answer that no conversation gives
}

func newExchanges(ctx context.Context, h *histories, id string) *exchanges {
	k := &exchanges{histories: h, id: id}
	for _, n := range h.Nodes() {
		k.watchers = append(k.watchers, watch(ctx, id, 0, h.began, n))
	}
	return k
}

// chat does one thing after another until ctx ends.
func (k *exchanges) chat(ctx context.Context, client int, random *rand.Rand) {
	for turn := 0; ctx.Err() == nil; turn++ {
		n := k.Nodes()[random.IntN(len(k.Nodes()))]
		d := deed{client: client, node: n.Name, began: time.Since(k.began), ended: never}
		// The request outlives the end of the test's work: its answer is wanted.
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 15*time.Second)
		var err error
		switch dice := random.IntN(100); {
		case dice < 40:
			d.what, d.text = sent, fmt.Sprintf("message %d of client %d", turn, client)
			err = k.send(asking, n, &d, random.IntN(2) == 0)
		case dice < 55:
			err = k.cancel(asking, n, &d)
		case dice < 85:
			err = k.read(asking, n, &d)
		default:
			err = k.list(asking, n, &d)
		}
		cancel()
		k.note(d, err)
		if wait(ctx, time.Duration(random.IntN(60))*time.Millisecond) != nil {
			return
		}
	}
}

// note keeps a deed: done, refused without a word on the conversation, or of unknown outcome (an error that is none of
// errOdd).
func (k *exchanges) note(d deed, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err == nil {
		d.ended = time.Since(k.began)
	}
	if errors.Is(err, errOdd) && k.fault == nil {
		k.fault = err
	}
	k.deeds = append(k.deeds, d)
}

var (
	errOdd     = errors.New("odd answer")
	errUnknown = errors.New("no answer")
)

// other is what an answer means that is not the wanted one.
func other(r reply, err error) error {
	if err != nil {
		return fmt.Errorf("%w: %w", errUnknown, err)
	}
	if r.status == http.StatusServiceUnavailable && r.header.Get("Retry-After") != "" {
		return errUnknown
	}
	return fmt.Errorf("%w: %d %s", errOdd, r.status, r.text)
}

func (k *exchanges) path(rest string) string { return "/conversations/" + k.id + rest }

func (k *exchanges) send(ctx context.Context, n *nodes.Node, d *deed, stream bool) error {
	body := map[string]any{"message": d.text, "stream": stream}
	if stream {
		return k.sendStream(ctx, n, d, body)
	}
	r, err := ask(ctx, n, "POST", k.path("/messages"), body)
	d.by = r.by
	if err == nil && r.status == http.StatusOK {
		return nil
	}
	return k.refused(r, err, d)
}

// refused is a send that was not accepted, if it was because a turn runs.
func (k *exchanges) refused(r reply, err error, d *deed) error {
	if err != nil || r.status != http.StatusConflict {
		return other(r, err)
	}
	var problem struct {
		Details struct{ ActiveRunID string } `json:"details"`
	}
	if err := r.decode(&problem); err != nil || problem.Details.ActiveRunID == "" {
		return fmt.Errorf("%w: %s", errOdd, r.text)
	}
	d.what, d.run = busy, problem.Details.ActiveRunID
	return nil
}

// sendStream goes when the message is accepted.
func (k *exchanges) sendStream(ctx context.Context, n *nodes.Node, d *deed, body any) error {
	encoded, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, n.URL()+"/api/agents"+k.path("/messages"), strings.NewReader(string(encoded)))
	if err != nil {
		return err
	}
	response, err := plainClient.Do(request)
	if err != nil {
		return other(reply{}, err)
	}
	defer func() { _ = response.Body.Close() }() // left early
	d.by = response.Header.Get("X-Served-By")
	line, err := bufio.NewReader(response.Body).ReadString('\n')
	if response.StatusCode == http.StatusOK && err == nil {
		return nil
	}
	return k.refused(reply{status: response.StatusCode, by: d.by, header: response.Header, text: line}, nil, d)
}

func (k *exchanges) cancel(ctx context.Context, n *nodes.Node, d *deed) error {
	r, err := ask(ctx, n, "POST", k.path("/cancel"), nil)
	d.by = r.by
	if err != nil || r.status != http.StatusOK && r.status != http.StatusAccepted {
		return other(r, err)
	}
	var result struct {
		Cancelled, Settled bool
		RunID              string
	}
	if err := r.decode(&result); err != nil {
		return fmt.Errorf("%w: %w", errOdd, err)
	}
	d.run = result.RunID
	switch {
	case result.Settled != (r.status == http.StatusOK):
		return fmt.Errorf("%w: %d %s", errOdd, r.status, r.text)
	case !result.Settled && result.RunID == "":
		return errUnknown // a former owner may not be silent yet: it says nothing of this one
	case !result.Settled:
		d.what = winding
	case result.RunID == "":
		d.what = nothing
	default:
		d.what = settled
	}
	return nil
}

func (k *exchanges) read(ctx context.Context, n *nodes.Node, d *deed) error {
	r, err := ask(ctx, n, "GET", k.path("?limit=2"), nil)
	d.what, d.by = read, r.by
	if err != nil || r.status != http.StatusOK {
		return other(r, err)
	}
	var h head
	if err := r.decode(&h); err != nil {
		return fmt.Errorf("%w: %w", errOdd, err)
	}
	d.seq = h.Conversation.Runtime.LastEventSeq
	if h.Conversation.Runtime.Status != "idle" {
		d.run = h.Conversation.Runtime.Status
	}
	return nil
}

// list reads the log to its end, if it fits one page: that is one moment.
func (k *exchanges) list(ctx context.Context, n *nodes.Node, d *deed) error {
	r, err := ask(ctx, n, "GET", k.path("/events?limit=1000"), nil)
	d.what, d.by = listed, r.by
	if err != nil || r.status != http.StatusOK {
		return other(r, err)
	}
	var page eventPage
	if err := r.decode(&page); err != nil {
		return fmt.Errorf("%w: %w", errOdd, err)
	}
	if page.HasMore {
		return errUnknown
	}
	d.seq = uint64(len(page.Events))
	return nil
}

// verify checks what everybody was told against the log.
func (k *exchanges) verify(ctx context.Context) (string, error) {
	if err := k.idle(ctx, k.id); err != nil {
		return "", err
	}
	events, err := k.sameLog(ctx, k.id)
	if err != nil {
		return "", err
	}
	k.mu.Lock()
	deeds, fault := k.deeds, k.fault
	k.mu.Unlock()
	if fault != nil {
		return "", fault
	}
	for i, w := range k.watchers {
		err := w.await(ctx, time.Minute, "end of the log", func(w *watcher) bool { return len(w.seen) >= len(events) })
		if err = errors.Join(err, w.end()); err != nil {
			return "", err
		}
		if err := w.silentAfter(deeds, events); err != nil {
			return "", err
		}
		for _, s := range w.seen {
			// Positions never go back: that the event was there when it came says all.
			deeds = append(deeds, deed{client: 10 + i, node: s.node, began: s.at, ended: s.at, what: seen, seq: s.event.Seq})
		}
	}
	picture := filepath.Join(os.TempDir(), "parley-"+k.id+".html")
	if dir := os.Getenv("PARLEY_HISTORIES"); dir != "" {
		picture = filepath.Join(dir, k.id+".html")
	}
	counts := map[verdict]int{}
	unknown := 0
	for _, d := range deeds {
		if d.ended == never {
			unknown++
			continue
		}
		counts[d.what]++
	}
	var told []string
	for what, name := range verdictNames {
		told = append(told, fmt.Sprintf("%d %s", counts[verdict(what)], name))
	}
	return fmt.Sprintf("%d events; %s, %d without an answer", len(events), strings.Join(told, ", "), unknown), linearize(events, deeds, picture)
}

// silentAfter: once a cancel was answered as settled, nothing is heard of the run that is not in its answer. What was
// said before may come late, over a link that was cut; what was on its way to the client may still be read for a moment.
func (w *watcher) silentAfter(deeds []deed, events []wireEvent) error {
	const onItsWay = 1500 * time.Millisecond // on a loaded machine; what goes on comes for 3 s
	answers := map[string]int{}
	for _, event := range events {
		var data struct{ Content string }
		if event.Type == "agent.message" && json.Unmarshal(event.Data, &data) == nil {
			answers[event.RunID] = len(data.Content)
		}
	}
	for _, d := range deeds {
		last, ok := w.heard[d.run]
		if ok && d.what == settled && d.ended != never && last.at > d.ended+onItsWay && last.bytes > answers[d.run] {
			return fmt.Errorf("%s: cancel of %s was settled by %s at %s, and %s heard more of it at %s", w.id, d.run, d.by, d.ended, w.nodes[0].Name, last.at)
		}
	}
	return nil
}

// harass does to owners what happens to nodes, one thing at a time, until ctx ends; then everything is as before.
func (h *histories) harass(ctx context.Context, random *rand.Rand, partitions bool) ([]string, error) {
	var done []string
	for wait(ctx, time.Duration(500+random.IntN(1500))*time.Millisecond) == nil {
		victim := h.Nodes()[random.IntN(len(h.Nodes()))]
		if random.IntN(3) > 0 { // mostly an owner
			if owner, err := h.owner(ctx, h.talks[random.IntN(len(h.talks))].id); err == nil {
				victim = owner
			}
		}
		faults := h.faults()
		if !partitions {
			faults = faults[:2]
		}
		f := faults[random.IntN(len(faults))]
		pause := time.Duration(300+random.IntN(3500)) * time.Millisecond
		done = append(done, fmt.Sprintf("%s %s at %.1fs for %.1fs", f.name, victim.Name, time.Since(h.began).Seconds(), pause.Seconds()))
		// What is done must be undone, also when time is over.
		whole := context.WithoutCancel(ctx)
		if err := f.do(whole, victim); err != nil {
			return done, err
		}
		_ = wait(ctx, pause) // or less, at the end
		if err := f.undo(whole, victim); err != nil {
			return done, err
		}
	}
	return done, nil
}

// disturbance is something that happens to a node and ends.
type disturbance struct {
	name     string
	do, undo func(ctx context.Context, n *nodes.Node) error
}

func (h *histories) faults() []disturbance {
	heal := func(ctx context.Context, _ *nodes.Node) error { return h.Heal(ctx) }
	oneWay := func(cut func(ctx context.Context, n, other *nodes.Node) error) func(ctx context.Context, n *nodes.Node) error {
		return func(ctx context.Context, n *nodes.Node) error {
			var err error
			for _, o := range h.Nodes() {
				if o != n {
					err = errors.Join(err, cut(ctx, n, o))
				}
			}
			return err
		}
	}
	return []disturbance{
		{"kill", func(_ context.Context, n *nodes.Node) error { return n.Kill() }, func(ctx context.Context, n *nodes.Node) error { return n.Start(ctx) }},
		{"freeze", func(_ context.Context, n *nodes.Node) error { return n.Pause() }, func(_ context.Context, n *nodes.Node) error { return n.Resume() }},
		{"isolate", h.Isolate, heal},
		{"mute", oneWay(h.Cut), heal},
		{"deafen", oneWay(func(ctx context.Context, n, o *nodes.Node) error { return h.Cut(ctx, o, n) }), heal},
	}
}
