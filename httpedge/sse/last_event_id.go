package sse

import (
	"fmt"
	"strconv"
)

// ParseCursor parses a Last-Event-ID header or an "after" parameter: the decimal seq of the last event seen. Empty
// means from the beginning.
func ParseCursor(s string) (uint64, error) {
	if s == "" {
		return 0, nil
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, fmt.Errorf("cursor %.40q is not a non-negative integer", s)
		}
	}
	n, err := strconv.ParseUint(s, 10, 63)
	if err != nil {
		return 0, fmt.Errorf("cursor %.40q is too large", s)
	}
	return n, nil
}
