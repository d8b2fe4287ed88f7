package replica

import (
	"context"
	"io"
	"time"
)

// pacer spreads the bytes of a snapshot over time, so that it leaves the disks and the network to others.
type pacer struct {
	stop  <-chan struct{}
	rate  float64
	begin time.Time
	bytes float64
}

func newPacer(ctx context.Context, bytesPerSecond int) *pacer {
	return &pacer{stop: ctx.Done(), rate: float64(bytesPerSecond), begin: time.Now()}
}

// wait returns when n more bytes are due, or when the context is over.
func (p *pacer) wait(n int) {
	p.bytes += float64(n)
	early := time.Duration(p.bytes/p.rate*float64(time.Second)) - time.Since(p.begin)
	if early < time.Millisecond {
		return
	}
	timer := time.NewTimer(early)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.stop: // who goes on finds out why
	}
}

type pacedWriter struct {
	w    io.Writer
	pace *pacer
}

func (p *pacedWriter) Write(b []byte) (int, error) {
	p.pace.wait(len(b))
	return p.w.Write(b)
}
