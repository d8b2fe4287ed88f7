package placement

import (
	"sync"
	"sync/atomic"
	"time"

	"parley/proto/nodepb"
)

// pump sends the news of all follows of one other node: one batch at a time, and only as much as that node keeps up
// with, so that nothing piles up on the way.
type pump struct {
	link    *link
	poked   chan struct{} // capacity 1: there is news, or room for it
	waiting atomic.Int64  // bytes that wait in all publications

	mu    sync.Mutex
	list  []*publication // that have news, in the order in which they had it
	sent  uint64         // bytes on the current connection
	taken uint64         // of those, what the other side has acknowledged
	on    *session       // the current connection
}

// batchBytes is about how large a batch gets.
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

// reset forgets who has news: those publications are over.
func (p *pump) reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = nil
}

// acked takes the word that news has arrived.
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
		// The first news after a pause goes at once; what comes soon after waits for company.
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

// send sends one batch, false when there is nothing to send or no room.
func (p *pump) send() bool {
	on := p.link.connected()
	if on == nil {
		return false // what waits is over with the connection
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

// collect takes from who has news. Who has more than fits goes to the end of the list.
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
