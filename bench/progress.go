package bench

import (
	"io"

	bar "parley/cmd/parley/progress"
)

// progress tells about the run on standard error.
type progress struct{ bar *bar.Bar }

func newProgress(w io.Writer, quiet bool) *progress {
	if quiet {
		return &progress{}
	}
	return &progress{bar.New(w, bar.Things)}
}

func (p *progress) phase(name string) { p.bar.Begin(bar.Phase{Name: name}) }

// measuring is the phase that the options describe.
func (p *progress) measuring(o *Options) {
	phase := bar.Phase{Name: "measuring", Total: int64(o.Count)}
	if o.Count == 0 {
		phase.Takes = o.Duration
	}
	p.bar.Begin(phase)
}

func (p *progress) warmUp(o *Options) { p.bar.Begin(bar.Phase{Name: "warm-up", Takes: o.WarmUp}) }

// preparing is a phase of n preparations.
func (p *progress) preparing(name string, n int) { p.bar.Begin(bar.Phase{Name: name, Total: int64(n)}) }

func (p *progress) count(err error) {
	if err != nil {
		p.bar.Fail()
		return
	}
	p.bar.Add(1)
}

func (p *progress) done() { p.bar.Close() }
