package sse

import (
	"runtime"
	"sync"
)

// loop writes to many connections, one after the other, urgent ones first.
type loop struct {
	wire *wire
	wake chan struct{}

	mu      sync.Mutex
	waiting [2][]*conn // by lane; a connection is in at most one, once
	asleep  bool
	stopped bool

	scratch []byte
}

// bulkTurn is how many bulk streams are served before the urgent ones are checked again. fairTurn is how many of any
// kind are served before the loop yields to other goroutines: those that produce the text must not wait until the loop
// is preempted.
const (
	bulkTurn = 32
	fairTurn = 64
)

// scratchSize bounds the frames that are joined into one write.
const scratchSize = 32 << 10

func newLoop(w *wire) *loop {
	return &loop{wire: w, wake: make(chan struct{}, 1), scratch: make([]byte, scratchSize)}
}

// schedule adds a connection to the list. The caller has set its scheduled mark, which prevents adding it twice.
func (l *loop) schedule(c *conn, on lane) {
	l.mu.Lock()
	l.waiting[on] = append(l.waiting[on], c)
	asleep := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if asleep {
		l.wake <- struct{}{}
	}
}

func (l *loop) stop() {
	l.mu.Lock()
	l.stopped = true
	asleep := l.asleep
	l.asleep = false
	l.mu.Unlock()
	if asleep {
		l.wake <- struct{}{}
	}
}

func (l *loop) run() {
	var now, later []*conn // urgent streams of this turn; bulk streams of several
	served := 0            // of later
	for {
		l.mu.Lock()
		now, l.waiting[urgent] = l.waiting[urgent], now[:0]
		if served == len(later) {
			later, l.waiting[bulk] = l.waiting[bulk], later[:0]
			served = 0
		}
		if len(now) == 0 && len(later) == 0 {
			if l.stopped {
				l.mu.Unlock()
				return
			}
			l.asleep = true
			l.mu.Unlock()
			<-l.wake
			continue
		}
		l.mu.Unlock()
		l.serve(now)
		turn := min(bulkTurn, len(later)-served)
		l.serve(later[served : served+turn])
		served += turn
	}
}

func (l *loop) serve(conns []*conn) {
	var writes, bytes int
	for i, c := range conns {
		if i%fairTurn == fairTurn-1 {
			runtime.Gosched()
		}
		w, b := l.wire.flush(c, l.scratch)
		writes += w
		bytes += b
		conns[i] = nil
	}
	if writes > 0 {
		l.wire.metrics.writes.Add(float64(writes))
		l.wire.metrics.bytes.Add(float64(bytes))
	}
}
