package placement

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/proto/nodepb"
)

// pump sends the changes of all follows of one other node, one batch at a time and only as much as that node acknowledges, so that
// nothing accumulates in the connection.
type pump struct {
	link    *link
	poked   chan struct{} // capacity 1: there is news, or room for it
	waiting atomic.Int64  // bytes that wait in all publications

	mu    sync.Mutex
	list  []*publication // those with news, in order of arrival
	sent  uint64         // bytes on the current connection
	taken uint64         // of sent, what the other side has acknowledged
	on    *session       // the current connection
}

// batchBytes is the approximate size at which a batch is sent.
const batchBytes = 128 << 10

func newPump(l *link) *pump { return &pump{link: l, poked: make(chan struct{}, 1)} }

func (p *pump) poke() {
	select {
	case p.poked <- struct{}{}:
	default:
	}
}

func (p *pump) add(news *publication) {
	p.mu.Lock()
	p.list = append(p.list, news)
	p.mu.Unlock()
	p.poke()
}

// reset empties the list: its publications have ended.
func (p *pump) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = nil
}

// acked handles an acknowledgement.
func (p *pump) acked(received uint64) {
	p.mu.Lock()
	p.taken = max(p.taken, min(received, p.sent))
	p.mu.Unlock()
	p.poke()
}

func (p *pump) run() {
	l := p.link
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-p.poked:
		case <-l.life.Done():
			return
		}
		// The first news after a pause is sent at once; what follows is batched.
		for p.send() {
			timer.Reset(l.system.config.NewsPause)
			select {
			case <-timer.C:
			case <-l.life.Done():
				return
			}
		}
	}
}

// send sends one batch; false if there is nothing to send or the window is full.
func (p *pump) send() bool {
	on := p.link.connected()
	if on == nil {
		return false // the waiting changes ended with the connection
	}
	p.mu.Lock()
	if p.on != on {
		p.on, p.sent, p.taken = on, 0, 0
	}
	room := p.sent-p.taken < uint64(p.link.system.config.NewsWindow)
	p.mu.Unlock()
	if !room {
		return false
	}
	batch, size, ended := p.collect()
	if batch == nil {
		return false
	}
	p.mu.Lock()
	p.sent += uint64(size)
	batch.Sent = p.sent
	p.mu.Unlock()
	if !on.send(nodeTarget, &nodepb.Envelope{Body: &nodepb.Envelope_Batch{Batch: batch}}, size) {
		p.link.disconnect(on, "too much waits to be sent to it") // a follow must not have a gap
		return false
	}
	p.link.system.metrics.batches.Inc()
	for _, id := range ended {
		p.link.abandoned(id)
	}
	return true
}

// collect fills a batch from the publications on the list. One with more than fits goes to the end of the list.
func (p *pump) collect() (batch *nodepb.Batch, size int, ended []uint64) {
	for size < batchBytes {
		next := p.next()
		if next == nil {
			break
		}
		took := next.take(batchBytes - size)
		if took.news == nil {
			continue
		}
		if batch == nil {
			batch = &nodepb.Batch{}
		}
		batch.News = append(batch.News, took.news)
		size += took.size
		if took.more {
			p.mu.Lock()
			p.list = append(p.list, next)
			p.mu.Unlock()
		}
		if took.news.GetClosed() != nil {
			ended = append(ended, next.id)
		}
	}
	return batch, size, ended
}

func (p *pump) next() *publication {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.list) == 0 {
		p.list = nil
		return nil
	}
	next := p.list[0]
	p.list[0] = nil
	p.list = p.list[1:]
	return next
}
