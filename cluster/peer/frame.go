package peer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
)

// Kind says what the frames of a batch are.
type Kind uint8

// Kinds of batches. Others are skipped by a node that does not know them.
const (
	KindRaft   Kind = 16 // replica messages
	KindReport Kind = 17 // nodepb.Report
)

// Kinds below firstBatch belong to the transport itself.
const (
	kindHello  Kind = 1
	kindPing   Kind = 2
	kindPong   Kind = 3
	kindHead   Kind = 4 // opens a stream: the header of a snapshot, the request of a fetch
	kindData   Kind = 5
	kindEnd    Kind = 6 // ends a stream: an error text, or nothing
	firstBatch Kind = 16
)

const (
	headerSize = 9
	// batchBytes and batchFrames end a batch; one frame that is larger travels alone.
	batchBytes  = 1 << 20
	batchFrames = 4096
	// readStep is how much is allocated on the word of a header, before its bytes are there.
	readStep = 1 << 20
	// frameCost bounds what a frame adds to a queue beside its bytes.
	frameCost = binary.MaxVarintLen32
)

var errBadFrame = errors.New("malformed frame")

// castagnoli returns the table the crc32 package keeps for this polynomial.
func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// appendFrame appends a frame with this payload.
func appendFrame(b []byte, kind Kind, payload []byte) []byte {
	start := len(b)
	b = append(b, make([]byte, headerSize)...)
	b = append(b, payload...)
	seal(b[start:], kind)
	return b
}

// appendBatch appends one frame with as many of frames as belong into a batch, and returns the others.
func appendBatch(b []byte, kind Kind, frames [][]byte) (batch []byte, rest [][]byte) {
	start := len(b)
	b = append(b, make([]byte, headerSize)...)
	n := 0
	for ; n < len(frames) && n < batchFrames; n++ {
		if n > 0 && len(b)-start+frameCost+len(frames[n]) > batchBytes {
			break
		}
		b = binary.AppendUvarint(b, uint64(len(frames[n])))
		b = append(b, frames[n]...)
	}
	seal(b[start:], kind)
	return b, frames[n:]
}

// seal fills the header of frame, whose payload is in place.
func seal(frame []byte, kind Kind) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-headerSize)) //nolint:gosec // bounded by the queue
	frame[4] = byte(kind)
	binary.BigEndian.PutUint32(frame[5:], checksum(frame[:5], frame[headerSize:]))
}

func checksum(head, payload []byte) uint32 {
	return crc32.Update(crc32.Checksum(head, castagnoli()), castagnoli(), payload)
}

// readFrame reads one frame with a payload of at most limit bytes into buf, which it grows. At a clean end it returns io.EOF.
func readFrame(r *bufio.Reader, limit int, buf []byte) (kind Kind, payload []byte, err error) {
	head, err := r.Peek(headerSize)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head)
	kind = Kind(head[4])
	check := binary.BigEndian.Uint32(head[5:])
	sum := crc32.Checksum(head[:5], castagnoli())
	if uint64(size) > uint64(limit) {
		return 0, nil, fmt.Errorf("%w: kind %d with %d bytes, at most %d are allowed", errBadFrame, kind, size, limit)
	}
	if _, err = r.Discard(headerSize); err != nil {
		return 0, nil, err
	}
	payload = buf[:0]
	for left := int(size); left > 0; {
		at, step := len(payload), min(left, readStep)
		payload = slices.Grow(payload, step)[:at+step]
		if _, err = io.ReadFull(r, payload[at:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return 0, nil, err
		}
		left -= step
	}
	if crc32.Update(sum, castagnoli(), payload) != check {
		return 0, nil, fmt.Errorf("%w: checksum of kind %d with %d bytes", errBadFrame, kind, size)
	}
	return kind, payload, nil
}

// parseBatch returns the frames of a batch; they are parts of payload.
func parseBatch(payload []byte) ([][]byte, error) {
	count := 0
	for b := payload; len(b) > 0; count++ {
		n, used := binary.Uvarint(b)
		if used <= 0 || n > uint64(len(b)-used) {
			return nil, fmt.Errorf("%w: frame %d of a batch", errBadFrame, count)
		}
		b = b[used+int(n):] //nolint:gosec // checked above
	}
	if count > batchFrames {
		return nil, fmt.Errorf("%w: batch of %d frames", errBadFrame, count)
	}
	frames := make([][]byte, count)
	for i := range frames {
		n, used := binary.Uvarint(payload)
		end := used + int(n) //nolint:gosec // checked above
		frames[i], payload = payload[used:end:end], payload[end:]
	}
	return frames, nil
}
