package actors

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/asynkron/protoactor-go/actor"
)

const (
	// maxIdleWorkers bounds the goroutines that are kept for the next mailbox to run.
	maxIdleWorkers = 512
	// registryBuckets of 32 maps each hold the engine's processes. A power of two.
	registryBuckets = 64
	// mailboxThroughput is how many messages a mailbox handles before it lets others run.
	mailboxThroughput = 300
)

// workers is a worker pool that runs mailboxes on reused goroutines. The engine's default, a new goroutine for each run,
// grows a new stack down to the encoder each time, which took a quarter of the shell's time. There are as many workers as
// mailboxes running at the same time, which the limits on commands bound.
type workers struct {
	mu struct {
		sync.Mutex
		idle   []chan func() // last in, first out: the warmest stack
		closed bool
	}
	running sync.WaitGroup
	count   atomic.Int64 // of workers
}

var _ actor.Dispatcher = (*workers)(nil)

// Throughput is part of actor.Dispatcher.
func (*workers) Throughput() int { return mailboxThroughput }

// Schedule runs a mailbox, at once.
func (w *workers) Schedule(run func()) {
	w.mu.Lock()
	if last := len(w.mu.idle) - 1; last >= 0 {
		worker := w.mu.idle[last]
		w.mu.idle = w.mu.idle[:last]
		w.mu.Unlock()
		worker <- run // never blocks: only the goroutine that took it out of the list sends
		return
	}
	if w.mu.closed {
		w.mu.Unlock()
		go run() // a late command, which its host refuses
		return
	}
	w.running.Add(1)
	w.mu.Unlock()
	go w.work(run)
}

func (w *workers) work(run func()) {
	defer w.running.Done()
	w.count.Add(1)
	defer w.count.Add(-1)
	next := make(chan func(), 1)
	for run != nil {
		run()
		if !w.park(next) {
			return
		}
		run = <-next // nil when the workers are stopped
	}
}

func (w *workers) park(worker chan func()) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.closed || len(w.mu.idle) >= maxIdleWorkers {
		return false
	}
	w.mu.idle = append(w.mu.idle, worker)
	return true
}

// stop ends the idle workers, and waits for all.
func (w *workers) stop() {
	w.mu.Lock()
	w.mu.closed = true
	for _, worker := range w.mu.idle {
		close(worker)
	}
	w.mu.idle = nil
	w.mu.Unlock()
	w.running.Wait()
}

// shrink reduces the engine's process registry to as many maps as keep lock contention low. It starts with 32,768, each of
// which keeps room for eight processes for good once it has held one: 10 MB, and as much again in fragmentation.
func shrink(registry *actor.ProcessRegistryValue) {
	all := registry.LocalPIDs.LocalPIDs
	registry.LocalPIDs.LocalPIDs = slices.Clone(all[:registryBuckets])
	for _, bucket := range all[registryBuckets:] { // what lies in the others is found where it was
		bucket.IterCb(func(id string, process any) { registry.LocalPIDs.GetBucket(id).SetIfAbsent(id, process) })
	}
}
