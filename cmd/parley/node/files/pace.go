package files

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

// Pace makes the garbage collector run more often while bytes of files flow. Usually the heap may grow to several times its
// live size, since both that and the garbage of conversations are small; a file of 100 MB makes seven times its size of garbage
// and would fill that room.
type Pace struct {
	mu     sync.Mutex
	usual  int // the percentage to restore; 0 = it is in force
	last   time.Time
	timer  *time.Timer
	closed bool
}

const (
	// filePercent is the GC percentage while files flow. Lower takes less memory and more CPU.
	filePercent = 30
	// filePause is how long no chunk must have passed for the flow to be over.
	filePause = 2 * time.Second
)

// Flow reports bytes of files in transit. It is cheap and does not block.
func (p *Pace) Flow(int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if p.usual != 0 || p.closed {
		return
	}
	usual := debug.SetGCPercent(filePercent)
	if usual >= 0 && usual <= filePercent { // the configured percentage is lower already
		debug.SetGCPercent(usual)
		p.closed = true
		return
	}
	p.usual = usual
	p.timer = time.AfterFunc(filePause, p.look)
}

// look restores the usual percentage when nothing has passed for a while.
func (p *Pace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := filePause - time.Since(p.last); left > 0 && !p.closed {
		p.timer.Reset(left)
		return
	}
	p.restoreLocked()
}

func (p *Pace) restoreLocked() {
	if p.usual != 0 {
		debug.SetGCPercent(p.usual)
		p.usual = 0
	}
}

// Stop restores the usual percentage for good.
func (p *Pace) Stop(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.restoreLocked()
}
