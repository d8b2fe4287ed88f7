package replica

import (
	"sync"
	"time"
)

const (
	// delayWindow is how long commits of the log count: one window that is full, and the one that fills.
	delayWindow = 5 * time.Second
	// fewCommits say nothing about a disk: any has a slow moment.
	fewCommits = 4
)

// delays is how long the commits of the log took of late.
type delays struct {
	mu        sync.Mutex
	began     time.Time // of the window that fills
	full, now commits
}

type commits struct {
	n    int
	took time.Duration
}

// turn begins a new window when the present one is full.
func (d *delays) turn(at time.Time) {
	switch age := at.Sub(d.began); {
	case age < delayWindow:
		return
	case age < 2*delayWindow:
		d.full = d.now
	default:
		d.full = commits{}
	}
	d.now, d.began = commits{}, at
}

func (d *delays) add(took time.Duration, at time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(at)
	d.now.n++
	d.now.took += took
}

func (d *delays) mean(at time.Time) time.Duration {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turn(at)
	n := d.full.n + d.now.n
	if n < fewCommits {
		return 0
	}
	return (d.full.took + d.now.took) / time.Duration(n)
}

// LogDelay is how long it took, in the mean of the last five to ten seconds, until entries of the log were durable on this node's
// disk. 0 = too little was written to say. A commit that hangs is leaveStuckDisk's business.
func (d *Driver) LogDelay() time.Duration { return d.delays.mean(time.Now()) }
