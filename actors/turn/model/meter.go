package model

import "unicode/utf8"

// Meter counts what a call costs while it is under way, in tokens, before the provider says so. One goroutine uses it.
type Meter interface {
	// Input is the size of the prompt.
	Input() int64
	// Text adds a piece of the answer.
	Text(piece string)
	// Unsaid adds what Overhearer hears.
	Unsaid(piece string)
	// Output is the size of all that was added.
	Output() int64
}

// NewMeter is the meter of a call that is about to be made. The scripted provider's counts exactly what its usage will
// say; for the others tokens are estimated, and rather too many than too few (see EstimateTokens).
func NewMeter(provider Provider, request *Request) Meter {
	if own, ok := provider.(interface{ meter(request *Request) Meter }); ok {
		return own.meter(request)
	}
	return &estimate{request: request}
}

// estimate adds up bytes and runes, not pieces: rounding each of them would double the count.
type estimate struct {
	request      *Request
	ascii, other int64
}

// Input implements Meter.
func (e *estimate) Input() int64 {
	return int64(messageOverhead + estimateFrame(e.request.Agent, e.request.Tools) + estimateAll(history(e.request)))
}

// Text implements Meter.
func (e *estimate) Text(piece string) {
	for i := range len(piece) {
		if b := piece[i]; b < utf8.RuneSelf {
			e.ascii++
		} else if utf8.RuneStart(b) {
			e.other++
		}
	}
}

// Unsaid implements Meter.
func (e *estimate) Unsaid(piece string) { e.Text(piece) }

// Output implements Meter.
func (e *estimate) Output() int64 { return (2*e.ascii+6)/7 + e.other }
