package persistence

import (
	"os"
	"sync"
)

// spare is file descriptors that are held open on nothing, so that the engine gets one when the rest of the process has
// taken all: a log or manifest that cannot be opened is the end of the store.
type spare struct {
	mu   sync.Mutex
	size int // that are to be held
	held []*os.File
}

func newSpare(size int) *spare {
	s := &spare{size: size}
	s.fill()
	return s
}

// give frees one, if there is one. Whoever is quicker may take it: then the caller asks again.
func (s *spare) give() bool {
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

// fill takes back what was given, as far as the process has any left.
func (s *spare) fill() {
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

// end gives all back for good.
func (s *spare) end() {
	s.mu.Lock()
	s.size = 0
	s.mu.Unlock()
	for s.give() {
	}
}
