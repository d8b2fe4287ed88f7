package replica

import (
	"context"
	"io"
	"time"
)

// pacer limits the rate of a snapshot, so that it leaves disk and network bandwidth to others.
type pacer struct {
	stop  <-chan struct{}
	rate  float64
	begin time.Time
	bytes float64
}

func newPacer(ctx context.Context, bytesPerSecond int) *pacer {
	return &pacer{stop: ctx.Done(), rate: float64(bytesPerSecond), begin: time.Now()}
}

// wait returns when the rate permits n more bytes, or when the context ends.
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
	case <-p.stop: // the caller checks the context
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
