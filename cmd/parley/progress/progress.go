// Package progress tells how far long work has come: on a terminal one line that is written anew, with a bar, the rate and the time
// left; elsewhere, in logs and pipes, a line now and then.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// How often a line is written, and how long the time is over which the rate is measured.
const (
	redraw   = 200 * time.Millisecond
	newLine  = 10 * time.Second
	averaged = 5 * time.Second
)

// Unit is what is counted.
type Unit uint8

// Units.
const (
	Things Unit = iota
	Bytes
)

// Phase is a part of the work: its end is known by what is to be counted, or by the time that it takes, or not at all.
type Phase struct {
	Name  string
	Total int64
	Takes time.Duration
}

// Bar shows the progress of one piece of work. Its methods may be called from several goroutines, and on a nil Bar, which shows nothing.
type Bar struct {
	w        io.Writer
	terminal bool
	unit     Unit
	done     atomic.Int64 // in this phase
	failed   atomic.Int64
	stop     chan struct{}
	once     sync.Once
	loop     sync.WaitGroup

	mu     sync.Mutex // also held while a line is written
	phase  Phase
	began  time.Time
	before int64     // that were done
	at     time.Time // when the rate was last measured
	rate   float64   // per second
}

// New shows progress on w until Close.
func New(w io.Writer, unit Unit) *Bar { return start(w, IsTerminal(w), unit) }

func start(w io.Writer, terminal bool, unit Unit) *Bar {
	b := &Bar{w: w, terminal: terminal, unit: unit, stop: make(chan struct{})}
	b.Begin(Phase{Name: "starting"})
	every := newLine
	if terminal {
		every = redraw
	}
	b.loop.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-ticker.C:
				b.show()
			}
		}
	})
	return b
}

// IsTerminal says whether lines can be written anew: w is a device of characters, and nobody says that it cannot.
func IsTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Begin begins the next phase.
func (b *Bar) Begin(phase Phase) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done.Store(0)
	b.phase, b.before, b.rate = phase, 0, 0
	b.began = time.Now()
	b.at = b.began
}

// Add counts what was done.
func (b *Bar) Add(n int64) {
	if b != nil {
		b.done.Add(n)
	}
}

// Fail counts what has failed.
func (b *Bar) Fail() {
	if b != nil {
		b.failed.Add(1)
	}
}

// Reader counts the bytes that are read.
func (b *Bar) Reader(r io.Reader) io.Reader { return &reader{r, b} }

type reader struct {
	from  io.Reader
	shown *Bar
}

func (r *reader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.shown.Add(int64(n))
	return n, err
}

// Close ends it, and leaves the terminal's line empty.
func (b *Bar) Close() {
	if b == nil {
		return
	}
	b.once.Do(func() {
		close(b.stop)
		b.loop.Wait()
		if b.terminal {
			fmt.Fprint(b.w, "\r\x1b[K")
		}
	})
}

func (b *Bar) show() {
	b.mu.Lock()
	defer b.mu.Unlock()
	line := b.line(time.Now())
	if b.terminal {
		fmt.Fprint(b.w, "\r"+line+"\x1b[K")
	} else {
		fmt.Fprintln(b.w, line)
	}
}

// line is what is shown at a time.
func (b *Bar) line(now time.Time) string {
	done, elapsed := b.done.Load(), now.Sub(b.began)
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		latest := float64(done-b.before) / passed
		weight := min(1, passed/min(averaged.Seconds(), elapsed.Seconds()))
		b.rate += weight * (latest - b.rate)
		b.before, b.at = done, now
	}
	parts := []string{fmt.Sprintf("%-20s", b.phase.Name)}
	share, left := b.share(done, elapsed)
	if share >= 0 {
		if b.terminal {
			const width = 20
			full := int(share * width)
			parts = append(parts, "["+strings.Repeat("#", full)+strings.Repeat("-", width-full)+"]")
		}
		parts = append(parts, fmt.Sprintf("%3.0f%%", share*100))
	}
	amount := b.amount(float64(done))
	if b.phase.Total >= max(done, 1) {
		amount += " of " + b.amount(float64(b.phase.Total))
	}
	parts = append(parts, amount, b.amount(b.rate)+"/s")
	if n := b.failed.Load(); n > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", n))
	}
	if left >= 0 {
		parts = append(parts, left.Round(time.Second).String()+" left")
	}
	return strings.Join(parts, "  ")
}

// share is how much of the phase is done, and how long the rest will take; negative = nobody knows. A total that turns out to be too
// small says nothing any more.
func (b *Bar) share(done int64, elapsed time.Duration) (share float64, left time.Duration) {
	switch {
	case b.phase.Takes > 0:
		return min(1, float64(elapsed)/float64(b.phase.Takes)), max(0, b.phase.Takes-elapsed)
	case b.phase.Total == 0 || done > b.phase.Total:
		return -1, -1
	case b.rate <= 0:
		return float64(done) / float64(b.phase.Total), -1
	}
	const longest = 1e9 // seconds
	seconds := min(longest, float64(b.phase.Total-done)/b.rate)
	return float64(done) / float64(b.phase.Total), time.Duration(seconds * float64(time.Second))
}

func (b *Bar) amount(n float64) string {
	if b.unit == Things {
		return fmt.Sprintf("%.0f", n)
	}
	const kilo = 1 << 10
	unit := 0
	for n >= kilo && unit < len("KMGT") {
		n /= kilo
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%.0f B", n)
	}
	return fmt.Sprintf("%.1f %ciB", n, "KMGT"[unit-1])
}
