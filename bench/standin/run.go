package standin

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// Run is the result of all requests with one idempotency key.
type Run struct {
	Tool, Case, Call string // from the arguments
	Requests         int
	Effects          int // how often the work was done
}

// Tools counts its runs. It is safe for concurrent use.
type Tools struct {
	pace time.Duration
	mu   struct {
		sync.Mutex
		runs map[string]*Run // by idempotency key
	}
}

func newTools(pace time.Duration) *Tools {
	t := &Tools{pace: pace}
	t.mu.runs = map[string]*Run{}
	return t
}

// Runs returns the runs so far, by idempotency key.
func (t *Tools) Runs() map[string]Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	runs := make(map[string]Run, len(t.mu.runs))
	for key, run := range t.mu.runs {
		runs[key] = *run
	}
	return runs
}

// serve does its work even if the caller does not wait: that is how the outcome of a call becomes unknown to its
// caller.
func (t *Tools) serve(w http.ResponseWriter, r *http.Request) {
	var args struct {
		Case string `json:"case"`
		Call string `json:"call"`
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(&args); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if key == "" {
		http.Error(w, "no Idempotency-Key", http.StatusBadRequest)
		return
	}
	run := t.run(key, &Run{Tool: r.PathValue("name"), Case: args.Case, Call: args.Call})
	time.Sleep(t.pace) // the caller may die before the work is done
	n := t.effect(run)
	time.Sleep(t.pace) // or after it, before it gets the response
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"done":%d}`, n) // the client may have left
}

func (t *Tools) run(key string, fresh *Run) *Run {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.runs[key] == nil {
		t.mu.runs[key] = fresh
	}
	t.mu.runs[key].Requests++
	return t.mu.runs[key]
}

func (t *Tools) effect(run *Run) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	run.Effects++
	return run.Effects
}
