package sse

// frameQueue holds the frames that wait for one client, under the connection's lock.
type frameQueue struct {
	first  Frame // nil when the queue is empty
	rest   []Frame
	sent   int32 // bytes of first that have been written
	queued int32 // bytes that have not been written
}

func (q *frameQueue) empty() bool { return q.first == nil }

// frames is the number of frames that wait.
func (q *frameQueue) frames() int {
	if q.first == nil {
		return 0
	}
	return 1 + len(q.rest)
}

// push appends a frame.
func (q *frameQueue) push(f Frame) {
	q.queued += int32(len(f))
	if q.first == nil {
		q.first = f
		return
	}
	q.rest = append(q.rest, f)
}

// exceeds reports whether the queue with one more frame would hold more than limit bytes, not counting its largest frame: a message, or the
// text that a slow client gets in one piece, can be larger than the limit by itself.
func (q *frameQueue) exceeds(f Frame, limit int) bool {
	bytes := int(q.queued) + len(f)
	if bytes <= limit {
		return false
	}
	largest := max(len(f), len(q.first)-int(q.sent))
	for _, waits := range q.rest {
		largest = max(largest, len(waits))
	}
	return bytes-largest > limit
}

// next returns the bytes to write next: one frame as it is, or several copied into scratch.
func (q *frameQueue) next(scratch []byte) []byte {
	head := q.first[q.sent:]
	if len(q.rest) == 0 || len(head) >= len(scratch) {
		return head
	}
	n := copy(scratch, head)
	for _, f := range q.rest {
		m := copy(scratch[n:], f)
		n += m
		if m < len(f) {
			break
		}
	}
	return scratch[:n]
}

// consume removes n written bytes from the front, and frames that are empty.
func (q *frameQueue) consume(n int32) {
	q.queued -= n
	n += q.sent
	for q.first != nil && n >= int32(len(q.first)) {
		n -= int32(len(q.first))
		if len(q.rest) == 0 {
			q.first, q.rest = nil, nil
			break
		}
		q.first = q.rest[0]
		q.rest[0] = nil
		q.rest = q.rest[1:]
	}
	q.sent = n
}
