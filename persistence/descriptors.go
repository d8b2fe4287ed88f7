package persistence

import (
	"os"
	"sync"
)

// descriptorReserve holds file descriptors in reserve, so that the engine gets one when the process has run out: a log or manifest
// that cannot be opened is the failure of the store.
type descriptorReserve struct {
	mu   sync.Mutex
	size int // how many to hold
	held []*os.File
}

func newDescriptorReserve(size int) *descriptorReserve {
	s := &descriptorReserve{size: size}
	s.fill()
	return s
}

// give frees a descriptor, if there is one. Another goroutine may take it first; the caller then tries again.
func (s *descriptorReserve) give() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := len(s.held) - 1
	if last < 0 {
		return false
	}
	_ = s.held[last].Close() // nothing was written to it
	s.held = s.held[:last]
	return true
}

// fill takes descriptors back into the reserve, as far as the process has any left.
func (s *descriptorReserve) fill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.held) < s.size {
		file, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		s.held = append(s.held, file)
	}
}

// end releases the reserve for good.
func (s *descriptorReserve) end() {
	s.mu.Lock()
	s.size = 0
	s.mu.Unlock()
	for s.give() {
	}
}
