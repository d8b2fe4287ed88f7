package node

import (
	"context"
	"runtime/debug"
	"sync"
	"time"
)

// filePace has the collector keep a close pace while bytes of files flow. A process may let its heap grow to several
// times of what lives in it, because little does and the garbage of conversations is little too; a file of 100 MB makes
// seven times as much garbage, and would fill that room.
type filePace struct {
	mu     sync.Mutex
	usual  int // the percentage to go back to; 0 = it is in force
	last   time.Time
	timer  *time.Timer
	closed bool
}

const (
	// filePercent is by how much of what lives the heap may grow while files flow. Lower needs less memory, and more of
	// the processor.
	filePercent = 30
	// filePause without a piece is the end of the flow.
	filePause = 2 * time.Second
)

// flow says that bytes of files are on their way. It is cheap and does not block.
func (p *filePace) flow(int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if p.usual != 0 || p.closed {
		return
	}
	usual := debug.SetGCPercent(filePercent)
	if usual >= 0 && usual <= filePercent { // it is paced closer already
		debug.SetGCPercent(usual)
		p.closed = true
		return
	}
	p.usual = usual
	p.timer = time.AfterFunc(filePause, p.look)
}

// look goes back to the usual pace when nothing has come for a while.
func (p *filePace) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if left := filePause - time.Since(p.last); left > 0 && !p.closed {
		p.timer.Reset(left)
		return
	}
	p.restoreLocked()
}

func (p *filePace) restoreLocked() {
	if p.usual != 0 {
		debug.SetGCPercent(p.usual)
		p.usual = 0
	}
}

// stop goes back to the usual pace for good.
func (p *filePace) stop(context.Context) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.restoreLocked()
}
