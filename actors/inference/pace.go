package inference

import (
	"sync"
	"time"
)

const (
	// maxPaces bounds the models whose latency is known.
	maxPaces = 4096
	// paceLasts is for how long a latency is believed: then the model is tried again, else a slow moment would count for ever.
	paceLasts = 5 * time.Minute
	// paceWeight is the share of the newest latency in the mean.
	paceWeight = 0.3
)

// paces are the latencies that this node has measured: of whole answers, of streams until the first chunk. They are means in which
// what is newer counts more. The zero value is ready; it is safe for concurrent use.
type paces struct {
	mu    sync.Mutex
	known map[string]pace
}

type pace struct {
	mean time.Duration
	at   time.Time
}

func paceKey(projectID, model, kind string) string { return projectID + "\x00" + model + "\x00" + kind }

// note takes a latency into account.
func (p *paces) note(key string, took time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before, known := p.known[key]
	if p.known == nil {
		p.known = map[string]pace{}
	}
	if !known && len(p.known) >= maxPaces {
		for other := range p.known { // any: it is measured again
			delete(p.known, other)
			break
		}
	}
	if known && now.Sub(before.at) < paceLasts {
		took = before.mean + time.Duration(paceWeight*float64(took-before.mean))
	}
	p.known[key] = pace{took, now}
}

// of is a model's latency, false = it is not known, or not any more.
func (p *paces) of(key string) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, known := p.known[key]
	return one.mean, known && time.Since(one.at) < paceLasts
}
