package node

import (
	"context"
	"sync"
)

// leaderChange is a change of the leadership of one shard's log.
type leaderChange struct {
	group  uint32
	epoch  uint64
	leader bool
}

// changes queues leadership changes from the log, which must not block, for a goroutine that acts on them in order and may
// block. The queue is short: a group adds one entry for each change of its leader, which takes an election.
type changes struct {
	mu     sync.Mutex
	queue  []leaderChange
	wake   chan struct{}
	closed bool
	ended  sync.WaitGroup
}

func newChanges() *changes {
	return &changes{wake: make(chan struct{}, 1)}
}

func (c *changes) add(group uint32, epoch uint64, leader bool) {
	c.mu.Lock()
	c.queue = append(c.queue, leaderChange{group, epoch, leader})
	c.mu.Unlock()
	c.poke()
}

func (c *changes) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// follow calls act for each change until the returned function is called.
func (c *changes) follow(act func(leaderChange)) (stop func(context.Context)) {
	c.ended.Go(func() {
		for range c.wake {
			for {
				next, ok, closed := c.next()
				if closed {
					return
				}
				if !ok {
					break
				}
				act(next)
			}
		}
	})
	return func(context.Context) {
		c.mu.Lock()
		c.closed = true
		c.mu.Unlock()
		c.poke()
		c.ended.Wait()
	}
}

func (c *changes) next() (change leaderChange, ok, closed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.queue) == 0 {
		return change, false, c.closed
	}
	change = c.queue[0]
	c.queue = c.queue[1:]
	return change, true, false
}
