package model

import "unicode/utf8"

// Meter counts the tokens of a call while it runs, before the provider reports its usage. It is used by one goroutine.
type Meter interface {
	// Input is the size of the prompt.
	Input() int64
	// Text adds a chunk of the answer.
	Text(piece string)
	// Unsaid adds output that is not streamed, see Overhearer.
	Unsaid(piece string)
	// Output is the size of everything added so far.
	Output() int64
}

// NewMeter returns the meter for a new call. For the scripted provider it counts exactly; for the others it estimates tokens, and
// rather too many than too few (see EstimateTokens).
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
