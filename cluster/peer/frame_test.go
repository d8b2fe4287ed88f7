package peer

import (
	"bufio"
	"bytes"
	"io"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const testLimit = 4 << 20

// TestBatchesRoundTrip: whatever is sent arrives as it was, in order, through as many batches as it takes.
func TestBatchesRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, batchBytes+100)), 1, 20).Draw(t, "sizes")
		var frames [][]byte
		for i, size := range sizes {
			frames = append(frames, bytes.Repeat([]byte{byte(i)}, size))
		}
		for range rapid.IntRange(0, 2*batchFrames).Draw(t, "small") {
			frames = append(frames, []byte{1})
		}
		var wire []byte
		for rest := frames; len(rest) > 0; {
			wire, rest = appendBatch(wire, KindRaft, rest)
		}
		require.Equal(t, frames, readBatches(t, wire))
	})
}

func readBatches(t require.TestingT, wire []byte) (frames [][]byte) {
	r := bufio.NewReader(bytes.NewReader(wire))
	for {
		kind, payload, err := readFrame(r, testLimit, nil)
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			return frames
		}
		require.Equal(t, KindRaft, kind)
		batch, err := parseBatch(payload)
		require.NoError(t, err)
		require.LessOrEqual(t, len(batch), batchFrames)
		frames = append(frames, batch...)
	}
}

// TestDamageIsFound: any single changed byte, and any end in the middle, is an error.
func TestDamageIsFound(t *testing.T) {
	good, _ := appendBatch(nil, KindReport, [][]byte{[]byte("one"), {}, []byte("three")})
	for i := range good {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			bad := slices.Clone(good)
			bad[i] ^= flip
			_, _, err := readFrame(bufio.NewReader(bytes.NewReader(bad)), testLimit, nil)
			require.Errorf(t, err, "byte %d ^ %x", i, flip)
		}
		_, _, err := readFrame(bufio.NewReader(bytes.NewReader(good[:i])), testLimit, nil)
		require.Errorf(t, err, "cut at %d", i)
		require.Equal(t, i == 0, err == io.EOF, "cut at %d", i) //nolint:errorlint // exactly io.EOF is a clean end
	}
}

// TestLengthIsNotBelieved: a header alone allocates no more than a step.
func TestLengthIsNotBelieved(t *testing.T) {
	_, _, err := readFrame(bufio.NewReader(bytes.NewReader([]byte{0x10, 0, 0, 0, 16, 0, 0, 0, 0})), testLimit, nil)
	require.ErrorIs(t, err, errBadFrame)
	wire := []byte{0x03, 0xff, 0, 0, 16, 0, 0, 0, 0, 1, 2, 3}
	r := bufio.NewReader(bytes.NewReader(wire)) // 64 MiB are announced
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err = readFrame(r, 100<<20, nil)
	runtime.ReadMemStats(&after)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(4*readStep))
}

func TestBadBatches(t *testing.T) {
	for name, payload := range map[string][]byte{
		"frame longer than the batch": {5, 1, 2},
		"unfinished length":           {0x80},
		"length of 2^64":              {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02},
		"too many frames":             make([]byte, batchFrames+1),
	} {
		_, err := parseBatch(payload)
		require.ErrorIs(t, err, errBadFrame, name)
	}
}

// FuzzFrames feeds a connection's bytes to the parser: it must not panic, and what it accepts it must have been able to write.
func FuzzFrames(f *testing.F) {
	batch, _ := appendBatch(nil, KindRaft, [][]byte{[]byte("frame"), {}, bytes.Repeat([]byte{7}, 300)})
	f.Add(batch)
	f.Add(appendFrame(appendFrame(nil, kindPing, nil), kindHello, []byte{1, 2, 3}))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{22, 3, 1, 2, 0, 1, 0, 1, 252})
	f.Fuzz(func(t *testing.T, wire []byte) {
		r := bufio.NewReader(bytes.NewReader(wire))
		for at := 0; ; {
			kind, payload, err := readFrame(r, 1<<16, nil)
			if err != nil {
				return
			}
			require.Equal(t, wire[at:at+headerSize+len(payload)], appendFrame(nil, kind, payload))
			at += headerSize + len(payload)
			frames, err := parseBatch(payload)
			if err != nil || len(frames) == 0 {
				continue
			}
			again, rest := appendBatch(nil, kind, frames)
			require.Empty(t, rest)
			parsed, err := parseBatch(again[headerSize:])
			require.NoError(t, err)
			require.Equal(t, frames, parsed)
		}
	})
}
