package provider

import (
	"encoding/binary"
	"hash/maphash"
	"sync"
	"time"

	"parley/proto/agentpb"
)

// maxCircuits bounds how many services are watched: only those that failed lately are.
const maxCircuits = 4096

// Circuits keep calls away from services that failed too often in a row. They are safe for concurrent use.
type Circuits struct {
	threshold int
	reset     time.Duration

	mu   sync.Mutex
	byID map[string]*circuit
}

// circuit watches one service and kind of call. It is open from its threshold on.
type circuit struct {
	failures int
	until    time.Time     // open until then
	trial    chan struct{} // a call finds out whether the service works again; closed when it has
}

// NewCircuits returns circuits that open after so many failures in a row (0 = never), for so long.
func NewCircuits(threshold int, reset time.Duration) *Circuits {
	return &Circuits{threshold: threshold, reset: reset, byID: make(map[string]*circuit)}
}

// Kinds of calls, as circuits tell them apart.
const (
	Streamed   = "chat-stream"
	Whole      = "chat"
	Embedding  = "embedding"
	Moderation = "moderation"
	Hearing    = "stt"
	Speech     = "tts"
)

// keySeed hashes keys: circuits live as long as the process.
//
//nolint:gochecknoglobals // drawn once
var keySeed = maphash.MakeSeed()

// CircuitID names the circuit of a kind of call to the service of a model, as one account there. Projects do not share circuits:
// nobody can open one for others.
func CircuitID(kind, projectID string, model *agentpb.Model) string {
	id := make([]byte, 0, len(kind)+len(projectID)+len(model.GetBaseUrl())+2*binary.MaxVarintLen64)
	id = append(append(id, kind...), 0)
	id = append(append(id, projectID...), 0)
	id = append(append(id, model.GetBaseUrl()...), 0)
	id = binary.AppendUvarint(id, uint64(model.GetProvider()))
	return string(binary.LittleEndian.AppendUint64(id, maphash.String(keySeed, model.GetApiKey())))
}

// enter says whether a call may be made; if so it must be reported. Otherwise wait is how long the circuit stays open, or trial
// is closed when the call that is trying has found out.
func (c *Circuits) enter(id string) (wait time.Duration, trial <-chan struct{}, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.byID[id]
	if one == nil || one.failures < c.threshold {
		return 0, nil, true
	}
	if one.trial != nil {
		return 0, one.trial, false
	}
	if wait = time.Until(one.until); wait > 0 {
		return wait, nil, false
	}
	one.trial = make(chan struct{})
	return 0, nil, true
}

// Open says whether a call to a service would be refused now.
func (c *Circuits) Open(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.byID[id]
	return one != nil && one.failures >= c.threshold && (one.trial != nil || time.Until(one.until) > 0)
}

// health is what a call says about its service.
type health int

const (
	unknown health = iota // the call was ended by its caller
	healthy
	failing
)

func (c *Circuits) report(id string, found health) {
	if c.threshold == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	one := c.byID[id]
	if one != nil && one.trial != nil {
		close(one.trial)
		one.trial = nil
	}
	switch {
	case found == healthy:
		delete(c.byID, id)
		return
	case found == unknown:
		return
	case one == nil:
		c.makeRoom()
		one = &circuit{}
		c.byID[id] = one
	}
	if one.failures++; one.failures >= c.threshold {
		one.until = time.Now().Add(c.reset)
	}
}

// makeRoom forgets one circuit when there are too many: its service gets a new chance.
func (c *Circuits) makeRoom() {
	if len(c.byID) < maxCircuits {
		return
	}
	for id, one := range c.byID {
		if one.trial == nil {
			delete(c.byID, id)
			return
		}
	}
}
