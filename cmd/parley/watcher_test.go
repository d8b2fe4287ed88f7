package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/bench/nodes"
)

// watcher follows a conversation as a browser does: a lost stream is opened anew from the last event seen, at the same
// node or the next. It checks all it sees: every event once and in order, and running text without a hole.
type watcher struct {
	id    string
	nodes []*nodes.Node
	epoch time.Time // of its clock
	stop  context.CancelFunc
	done  chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed at the next change
	seen    []sighting
	run     string // whose text it holds
	text    string
	former  bool                 // that of an attempt before the last recovery, perhaps
	heard   map[string]utterance // run -> the last that was heard of it
	over    map[string]bool      // runs whose end was seen
	pieces  int                  // of text, on any stream
	opened  int                  // streams
	fault   error
}

// utterance is a piece of running text: up to where, and when it came.
type utterance struct {
	bytes int
	at    time.Duration
}

// sighting is an event of the log as it came.
type sighting struct {
	event  wireEvent
	opened time.Duration // when its stream was opened
	at     time.Duration
	node   string
}

// watch begins to follow from an event on, until its end is called; ctx does not end it. The nodes are tried in turn.
func watch(ctx context.Context, id string, after uint64, epoch time.Time, from ...*nodes.Node) *watcher {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	w := &watcher{id: id, nodes: from, epoch: epoch, stop: stop, done: make(chan struct{}), changed: make(chan struct{}), heard: map[string]utterance{}, over: map[string]bool{}}
	go func() {
		defer close(w.done)
		last := after
		for turn := 0; ctx.Err() == nil; turn++ {
			last = w.stream(ctx, w.nodes[turn%len(w.nodes)], last)
			if wait(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
	}()
	return w
}

// end stops following and returns what was wrong, if anything was.
func (w *watcher) end() error {
	w.stop()
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fault
}

// stream follows one stream to its end and returns the last event seen.
func (w *watcher) stream(ctx context.Context, n *nodes.Node, last uint64) uint64 {
	opened := time.Since(w.epoch)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.URL()+"/api/agents/conversations/"+w.id+"/events/stream", nil)
	if err != nil {
		return last
	}
	request.Header.Set("Last-Event-ID", strconv.FormatUint(last, 10))
	response, err := plainClient.Do(request)
	if err != nil {
		return last
	}
	defer func() { _ = response.Body.Close() }() // read to its end, or given up
	if response.StatusCode != http.StatusOK {
		return last
	}
	w.mu.Lock()
	w.run, w.text = "", ""
	w.opened++
	w.mu.Unlock()
	lines := bufio.NewReader(response.Body)
	var data string
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return last
		}
		line = strings.TrimSuffix(line, "\n")
		if value, ok := strings.CutPrefix(line, "data: "); ok {
			data = value
		}
		if line != "" || data == "" {
			continue
		}
		var event wireEvent
		if err := json.Unmarshal([]byte(data), &event); err != nil {
			w.blame(fmt.Errorf("frame %q: %w", data, err))
			return last
		}
		data = ""
		last = w.take(event, last, sighting{event: event, opened: opened, at: time.Since(w.epoch), node: n.Name})
	}
}

func (w *watcher) blame(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.blameLocked(err)
}

func (w *watcher) blameLocked(err error) {
	if w.fault == nil {
		w.fault = fmt.Errorf("%s at %s: %w", w.id, time.Since(w.epoch).Round(time.Millisecond), err)
	}
}

// take looks at one frame and returns the last event seen.
func (w *watcher) take(event wireEvent, last uint64, s sighting) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
	var data struct {
		Text, Content string
		Offset        int
	}
	if err := json.Unmarshal(event.Data, &data); err != nil {
		w.blameLocked(fmt.Errorf("data of %s: %w", event.Type, err))
	}
	switch event.Type {
	case "agent.message.snapshot":
		w.run, w.text, w.former = event.RunID, data.Text, false
		w.pieces++
		return last
	case "agent.message.delta":
		if event.RunID != w.run {
			w.run, w.text = event.RunID, ""
		}
		if data.Offset != len(w.text) {
			w.blameLocked(fmt.Errorf("text of %s goes on at %d, %d bytes were said", event.RunID, data.Offset, len(w.text)))
		}
		w.text += data.Text
		w.former = false
		w.heard[event.RunID] = utterance{len(w.text), s.at}
		if w.over[event.RunID] {
			w.blameLocked(fmt.Errorf("%s says %q after its end", event.RunID, data.Text))
		}
		w.pieces++
		return last
	case "session.recovered":
		w.former = true // until the next attempt says something
	case "session.status_idle":
		w.over[event.RunID] = true
	case "agent.message":
		// Scripted answers are the same in every attempt.
		if event.RunID != w.run { // replayed; the text is of the run that is active now
			break
		}
		if !w.former && !strings.HasPrefix(data.Content, w.text) {
			w.blameLocked(fmt.Errorf("answer of %s is %q, said was %q", event.RunID, data.Content, w.text))
		}
		w.run, w.text = "", ""
	}
	if event.Seq != last+1 {
		w.blameLocked(fmt.Errorf("event %d (%s) after %d, at %s", event.Seq, event.Type, last, s.node))
	}
	w.seen = append(w.seen, s)
	return event.Seq
}

// await waits until the watcher's state is as wanted.
func (w *watcher) await(ctx context.Context, limit time.Duration, what string, wanted func(w *watcher) bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		w.mu.Lock()
		fault, ok, changed := w.fault, wanted(w), w.changed
		var last wireEvent
		if len(w.seen) > 0 {
			last = w.seen[len(w.seen)-1].event
		}
		w.mu.Unlock()
		switch {
		case fault != nil:
			return fault
		case ok:
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("no %s within %s; last event is %d %s", what, limit, last.Seq, last.Type), ctx.Err())
		}
	}
}

// awaitEvent waits for the nth event of a type, counted from 1 over all that was seen.
func (w *watcher) awaitEvent(ctx context.Context, kind string, nth int) error {
	return w.await(ctx, time.Minute, fmt.Sprintf("%s number %d", kind, nth), func(w *watcher) bool {
		n := 0
		for i := range w.seen {
			if w.seen[i].event.Type == kind {
				n++
			}
		}
		return n >= nth
	})
}

// awaitText waits until so much of a running answer was seen.
func (w *watcher) awaitText(ctx context.Context, bytes int) error {
	return w.await(ctx, time.Minute, "text", func(w *watcher) bool { return len(w.text) >= bytes })
}

// events are those of the log that were seen.
func (w *watcher) events() []wireEvent {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []wireEvent
	for _, s := range w.seen {
		all = append(all, s.event)
	}
	return all
}
