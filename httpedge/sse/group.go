package sse

import "sync"

// taskGroup waits for goroutines and calls in progress. Unlike a bare sync.WaitGroup it can be closed against new ones.
type taskGroup struct {
	mu     sync.Mutex
	closed bool
	tasks  sync.WaitGroup
}

// enter adds a task, which ends with leave. It is false once the group is closed.
func (g *taskGroup) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.tasks.Add(1)
	return true
}

func (g *taskGroup) leave() { g.tasks.Done() }

// spawn runs f as a task on its own goroutine. It is false once the group is closed.
func (g *taskGroup) spawn(f func()) bool {
	if !g.enter() {
		return false
	}
	go func() {
		defer g.leave()
		f()
	}()
	return true
}

// close admits no further tasks. The present ones go on; wait waits for them.
func (g *taskGroup) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.closed = true
}

func (g *taskGroup) wait() { g.tasks.Wait() }
