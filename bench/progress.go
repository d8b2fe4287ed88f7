package bench

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// progress prints a line a second about the run to standard error.
type progress struct {
	w      io.Writer
	ok     atomic.Int64
	failed atomic.Int64
	name   atomic.Value
	stop   chan struct{}
	once   sync.Once
	ended  sync.WaitGroup
}

func newProgress(w io.Writer, quiet bool) *progress {
	p := &progress{w: w, stop: make(chan struct{})}
	p.name.Store("starting")
	if !quiet {
		p.ended.Go(p.loop)
	}
	return p
}

func (p *progress) loop() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var before int64
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			now := p.ok.Load()
			fmt.Fprintf(p.w, "%-28s %8d/s  %10d ok  %6d failed\n", p.name.Load(), now-before, now, p.failed.Load())
			before = now
		}
	}
}

func (p *progress) phase(name string) { p.name.Store(name) }

func (p *progress) count(err error) {
	if err != nil {
		p.failed.Add(1)
		return
	}
	p.ok.Add(1)
}

func (p *progress) done() {
	p.once.Do(func() { close(p.stop) })
	p.ended.Wait()
}
